package board_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// When a GPU that somebody uses without a booking becomes free is not known.
func TestABusyGPUHasNoFreeFrom(t *testing.T) {
	next := booking.Booking{
		Host: "gpu01", Name: "eva", Kind: booking.Reserved, From: now.Add(time.Hour), Until: now.Add(2 * time.Hour),
	}
	gpu, memory := a100(), int64(9000)
	gpu.MemoryUsed = &memory
	_, g := scene{
		gpu: gpu, procs: []snapshot.Process{proc("lea", snapshot.Compute, 9000)}, booked: []booking.Booking{next},
	}.row(t)
	if g.State != board.Busy || g.Next == nil || !g.FreeFrom.IsZero() {
		t.Errorf("%s, next %v, free from %v", g.State, g.Next, g.FreeFrom)
	}
}

func TestFreeFromAndUntil(t *testing.T) {
	at := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	book := func(from, until int) booking.Booking {
		b := booking.Booking{Host: "gpu01", Name: "eva", Kind: booking.Reserved, From: at(from)}
		if until != 0 {
			b.Until = at(until)
		}
		return b
	}
	for _, tt := range []struct {
		name            string
		booked          []booking.Booking
		from, until     time.Time
		next, nextEmpty bool
	}{
		{"one", []booking.Booking{book(-1, 2)}, at(2), time.Time{}, false, true},
		{"touching ones are one", []booking.Booking{book(-1, 2), book(2, 5)}, at(5), time.Time{}, true, false},
		{"overlapping ones are one", []booking.Booking{book(-1, 4), book(2, 3), book(4, 6)}, at(6), time.Time{}, true,
			false},
		{"a gap ends it", []booking.Booking{book(-1, 2), book(3, 5)}, at(2), time.Time{}, true, false},
		{"open-ended never ends", []booking.Booking{book(-1, 0)}, time.Time{}, time.Time{}, false, true},
		{"open-ended follows", []booking.Booking{book(-1, 2), book(1, 0)}, time.Time{}, time.Time{}, true, false},
		{"free until the next", []booking.Booking{book(3, 5)}, time.Time{}, at(3), true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, g := scene{gpu: a100(), booked: tt.booked}.row(t)
			if !g.FreeFrom.Equal(tt.from) || !g.FreeUntil.Equal(tt.until) {
				t.Errorf("free from %v until %v, want %v and %v", g.FreeFrom, g.FreeUntil, tt.from, tt.until)
			}
			b, _ := scene{gpu: a100(), booked: tt.booked}.merge()
			if len(b.FreeNow) == 1 != (g.State == board.Free) ||
				len(b.FreeNow) == 1 && !b.FreeNow[0].GPU.FreeUntil.Equal(tt.until) {
				t.Errorf("free now %+v", b.FreeNow)
			}
			if (g.Next != nil) != tt.next {
				t.Errorf("next booking %v", g.Next)
			}
		})
	}
}

func TestUsersShareByMemory(t *testing.T) {
	s := scene{gpu: a100(), procs: []snapshot.Process{
		proc("mira", snapshot.Compute, 30000), proc("tom", snapshot.Compute, 10000),
		proc("root", snapshot.Graphics, 50),
		gone(10),
	}, booked: []booking.Booking{by("mira", booking.Reserved)}}
	s.procs[1].PID = 9
	b, _ := s.merge()
	if len(b.Users) != 2 {
		t.Fatalf("users %+v, want mira and tom", b.Users)
	}
	mira, tom := b.Users[0], b.Users[1]
	if mira.Name != "mira" || mira.Used != 0.75 || mira.Reserved != 1 || mira.Memory != 30000 {
		t.Errorf("mira %+v", mira)
	}
	if tom.Used != 0.25 || tom.Reserved != 0 || len(tom.Where) != 1 || tom.Where[0].GPUs[0] != 0 {
		t.Errorf("tom %+v", tom)
	}
}

// A process of an unknown user takes no share from the people who are known.
func TestUsersShareWhatUnknownOnesLeave(t *testing.T) {
	b, _ := scene{gpu: a100(), procs: []snapshot.Process{proc("mira", snapshot.Compute, 30000),
		proc("", snapshot.Compute, 10000)}}.merge()
	if len(b.Users) != 1 || b.Users[0].Used != 1 || b.Users[0].Memory != 30000 || b.Users[0].Processes != 1 {
		t.Errorf("users %+v, want all of the GPU for mira", b.Users)
	}
}

// The means of several Unix users of one person are added up, and a person is named once
// for each host and GPU.
func TestUsersAreAddedUp(t *testing.T) {
	second := a100()
	second.Index, second.UUID = 1, "GPU-2"
	on := func(gpu int, user string) snapshot.Process {
		p := proc(user, snapshot.Compute, 0)
		p.GPU, p.UsedMemory = gpu, nil
		return p
	}
	b, _ := board.Merge(board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}},
		Person: func(name string) string { return strings.TrimSuffix(name, "2") },
		Recent: &history.Recent{Users: []history.User{
			{Name: ""},
			{Name: "tom", Mean2h: new(1.0)},
			{Name: "tom2", Mean2h: new(2.0), Mean24h: new(3.0)},
			{Name: "eva", Mean1w: new(4.0)},
		}},
		Reports: map[string]board.Report{"gpu01": {Snapshot: &snapshot.Snapshot{CollectedAt: snapshot.Time{Time: now},
			GPUs:      []snapshot.GPU{a100(), second},
			Processes: []snapshot.Process{on(0, "tom"), on(0, "eva"), on(1, "tom2"), on(1, "tom")}}}}})
	if len(b.Users) != 2 {
		t.Fatalf("users %+v", b.Users)
	}
	tom, eva := b.Users[0], b.Users[1]
	if tom.Name != "tom" || tom.Used != 1.5 || tom.Processes != 3 || len(tom.Where) != 1 ||
		!slices.Equal(tom.Where[0].GPUs, []int{0, 1}) || *tom.Mean2h != 3 || *tom.Mean24h != 3 || tom.Mean1w != nil {
		t.Errorf("tom %+v", tom)
	}
	if eva.Used != 0.5 || !slices.Equal(eva.Where[0].GPUs, []int{0}) || eva.Mean2h != nil || *eva.Mean1w != 4 {
		t.Errorf("eva %+v", eva)
	}
}

func TestPeopleOfAHostAreBounded(t *testing.T) {
	// somebody unknown is not one of them
	s := scene{gpu: a100(), procs: []snapshot.Process{proc("", snapshot.Compute, 9)}}
	for i := range 257 {
		p := proc(fmt.Sprintf("u%d", i), snapshot.Compute, 1)
		p.PID = 1000 + i
		s.procs = append(s.procs, p)
		if b, _ := s.merge(); i >= 255 && (len(b.Users) != 256 || hasCode(b.Problems, "host:limit") != (i == 256)) {
			t.Errorf("%d people compute: %d are named, problems %v", i+1, len(b.Users), b.Problems)
		}
	}
	again := proc("u0", snapshot.Compute, 0) // the last of all, by memory
	again.PID = 9999
	s.procs = append(s.procs, again)
	b, _ := s.merge()
	if i := slices.IndexFunc(b.Users, func(u board.User) bool { return u.Name == "u0" }); i < 0 ||
		b.Users[i].Processes != 2 {
		t.Error("one who was named before is not named again")
	}
}

// Those who book a GPU after 256 others are not named, and those who were named before
// go on to be counted.
func TestBookersOfAHostAreBounded(t *testing.T) {
	all := by("eva", booking.Reserved)
	all.Target = booking.Target{All: true, Index: -1}
	calendar := &booking.Calendar{Bookings: []booking.Booking{all}}
	snap := &snapshot.Snapshot{CollectedAt: snapshot.Time{Time: now}}
	for i := range 20 {
		g := a100()
		g.Index, g.UUID = i, fmt.Sprint("GPU-", i)
		snap.GPUs = append(snap.GPUs, g)
		for j := range 16 {
			b := by(fmt.Sprint("u", i, "-", j), booking.Reserved)
			b.Target.Index = i
			calendar.Bookings = append(calendar.Bookings, b)
		}
	}
	b, _ := board.Merge(board.Input{
		Now: now, Hosts: []inventory.Host{{Name: "gpu01"}}, Calendar: calendar,
		Reports: map[string]board.Report{"gpu01": {Snapshot: snap}},
	})
	if len(b.Users) != 256 || b.Users[0].Name != "eva" || b.Users[0].Reserved != 20 {
		t.Errorf("%d people are named, the first is %+v", len(b.Users), b.Users[0])
	}
}

// A GPU lists 17 bookings in force and counts the others, but maintenance is never left out.
func TestBookingsOfAGPUAreBounded(t *testing.T) {
	var s scene
	s.gpu = a100()
	for i := range 22 {
		s.booked = append(s.booked, by(fmt.Sprint("u", i), booking.Reserved))
	}
	if _, g := s.row(t); g.Booking.Name != "u0" || len(g.Others) != 16 || g.MoreOthers != 5 {
		t.Errorf("booked by %s, %d others, and %d more", g.Booking.Name, len(g.Others), g.MoreOthers)
	}
	s.booked = append(s.booked, by("ops", booking.Maintenance))
	if _, g := s.row(t); g.State != board.Drained || g.Booking.Name != "ops" || len(g.Others) != 16 ||
		g.MoreOthers != 6 {
		t.Errorf("%s, booked by %s, %d others, and %d more", g.State, g.Booking.Name, len(g.Others), g.MoreOthers)
	}
}

func TestStrayBookingsAreNamed(t *testing.T) {
	elsewhere := by("eva", booking.Reserved)
	elsewhere.Host = "gpu99"
	ninth := by("eva", booking.Reserved)
	ninth.Target.Index = 9
	past := elsewhere
	past.Until = now.Add(-time.Hour)
	b, _ := scene{gpu: a100(), booked: []booking.Booking{elsewhere, ninth, past}}.merge()
	if len(b.Problems) != 2 || b.Problems[0].Code != "booking:unknown-host" ||
		b.Problems[1].Code != "booking:unknown-gpu" {
		t.Fatalf("problems %+v", b.Problems)
	}
	if b.Problems[0].Where() != "comments.json:3:7" {
		t.Errorf("where %q", b.Problems[0].Where())
	}
	if len(b.Bookings) != 3 {
		t.Errorf("%d bookings are shown, want all three: none is dropped silently", len(b.Bookings))
	}
}

// A host with or without its domain is one that the board has, and a range of names holds each.
func TestBookingsForANameThatMeansAHost(t *testing.T) {
	for name, whose := range map[string]string{"gpu01.example.org": "eva", "gpu01-gpu04": booking.Unreadable} {
		meant := by("eva", booking.Reserved)
		meant.Host = name
		b, _ := scene{gpu: a100(), booked: []booking.Booking{meant}}.merge()
		g := b.Hosts[0].GPUs[0]
		if g.State != board.Booked || g.Booking.Name != whose || len(b.Problems) != 1 ||
			b.Problems[0].Code != "booking:host" || b.Problems[0].Where() != "comments.json:3:7" {
			t.Errorf("%s: %s, %+v, problems %+v", name, g.State, g.Booking, b.Problems)
		}
	}
}

// Until the driver has answered in full, nobody knows which GPUs there are not.
func TestNoBookingIsStrayWhereTheAnswerWasCut(t *testing.T) {
	ninth := by("eva", booking.Reserved)
	ninth.Target.Index = 9
	for _, full := range []bool{false, true} {
		snap := &snapshot.Snapshot{CollectedAt: snapshot.Time{Time: now}, GPUs: []snapshot.GPU{a100()},
			GPUsComplete: full}
		b, _ := board.Merge(board.Input{
			Now: now, Hosts: []inventory.Host{{Name: "gpu01"}},
			Calendar: &booking.Calendar{Bookings: []booking.Booking{ninth}},
			Reports:  map[string]board.Report{"gpu01": {Snapshot: snap}},
		})
		if hasCode(b.Problems, "booking:unknown-gpu") != full {
			t.Errorf("answered in full %v: problems %+v", full, b.Problems)
		}
	}
}

func TestBookingsAreSorted(t *testing.T) {
	var list []booking.Booking
	for _, one := range []struct {
		host, uuid string
		hours      int
	}{{"gpu01", "", -1}, {"gpu99", "", -2}, {"gpu10", "", -2}, {"gpu01", "GPU-9", -3}, {"gpu2", "", -2}} {
		b := by("eva", booking.Reserved)
		b.Host, b.From = one.host, now.Add(time.Duration(one.hours)*time.Hour)
		if one.uuid != "" {
			b.Target = booking.Target{UUID: one.uuid, Index: -1}
		}
		list = append(list, b)
	}
	b, _ := scene{gpu: a100(), booked: list}.merge()
	got := ""
	for _, bk := range b.Bookings {
		got += fmt.Sprint(" ", bk.Host, bk.GPUs)
	}
	if got != " gpu01[] gpu2[0] gpu10[0] gpu99[0] gpu01[0]" {
		t.Errorf("bookings%s", got)
	}
}

func TestOneBadHostLeavesTheOthersAlone(t *testing.T) {
	in := board.Input{Now: now, Hosts: []inventory.Host{{Name: "good"}, {Name: "bad"}},
		Reports: map[string]board.Report{
			"good": {Snapshot: &snapshot.Snapshot{CollectedAt: snapshot.Time{Time: now}, GPUs: []snapshot.GPU{a100()}}},
			"bad":  {Problems: []snapshot.Problem{{Code: "bad:parse", Message: "cut off"}}},
		}}
	b, _ := board.Merge(in)
	alone, _ := board.Merge(board.Input{Now: now, Hosts: in.Hosts[:1], Reports: in.Reports})
	if got, want := fmt.Sprintf("%+v", b.Hosts[1]), fmt.Sprintf("%+v", alone.Hosts[0]); b.Hosts[1].Name != "good" ||
		b.Hosts[1].State != board.Up || len(got) == 0 || len(got) != len(want) {
		t.Errorf("the good host differs beside a bad one:\n%s\n%s", got, want)
	}
	if !hasCode(b.Problems, "bad:parse") || b.Hosts[0].State != board.Never {
		t.Errorf("bad host: %s, problems %v", b.Hosts[0].State, b.Problems)
	}
}

func TestTotalsCountEveryGPUOnce(t *testing.T) {
	b, _ := scene{gpu: a100(), inv: inventory.Host{ExpectedGPUs: 4}}.merge()
	sum := 0
	for _, n := range b.Totals.GPUs.ByState {
		sum += n
	}
	if sum != b.Totals.GPUs.All || b.Totals.GPUs.All != 4 || b.Totals.GPUs.Free() != 1 {
		t.Errorf("totals %+v", b.Totals)
	}
	if len(b.FreeNow) != 1 || len(b.Models) != 1 || b.Models[0].Name != "A100-SXM4-40GB" || b.Models[0].Free != 1 {
		t.Errorf("free %+v, models %+v", b.FreeNow, b.Models)
	}
}

func TestLostCardIsNoModelOfItsOwn(t *testing.T) {
	lost := a100()
	lost.Index, lost.UUID, lost.Health, lost.MemoryTotal = 1, "GPU-2", snapshot.HealthLost, nil
	b, _ := board.Merge(
		board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}}, Reports: map[string]board.Report{
			"gpu01": {Snapshot: &snapshot.Snapshot{CollectedAt: snapshot.Time{Time: now},
				GPUs: []snapshot.GPU{a100(), lost}}},
		}})
	if m := b.Hosts[0].Models; len(m) != 1 || m[0].Total != 2 || m[0].Free != 1 || m[0].MemoryTotal == nil {
		t.Errorf("models %+v, want one of two cards", m)
	}
	b.Hosts[0].GPUs[1].State = board.Free
	if b.Count(); b.Models[0].Free != 2 || b.Hosts[0].Totals.GPUs.Free() != 2 {
		t.Errorf("models %+v, %d free on the host, want two free cards", b.Models, b.Hosts[0].Totals.GPUs.Free())
	}
}

// Drivers report the memory of one model differently by some MiB.
func TestMemoryOfOneModelIsRounded(t *testing.T) {
	gpu := func(mib int64) board.GPU {
		return board.GPU{State: board.Free, ShortName: "A100", GPU: snapshot.GPU{Name: "A100", MemoryTotal: &mib}}
	}
	b := board.Board{Hosts: []board.Host{
		{GPUs: []board.GPU{gpu(40960), gpu(40536)}}, {GPUs: []board.GPU{gpu(40537), gpu(81920)}},
	}}
	b.Count()
	if m := b.Models; len(m) != 2 || m[0].Free != 3 || m[1].Free != 1 {
		t.Errorf("models %+v, want three cards of 40 GiB and one of 80", m)
	}
}

// Models with most free GPUs come first, then those with the most memory.
func TestModelsAreSorted(t *testing.T) {
	gpu := func(name string, gib int64, state board.State) board.GPU {
		return board.GPU{State: state, ShortName: name, GPU: snapshot.GPU{Name: name, MemoryTotal: new(gib << 10)}}
	}
	b := board.Board{Hosts: []board.Host{{GPUs: []board.GPU{
		{State: board.Lost, Missing: true}, gpu("T4", 16, board.Busy), gpu("T4", 16, board.Free),
		gpu("L40", 48, board.Busy),
		gpu("A40", 48, board.Busy), gpu("A10", 24, board.Free), gpu("A10", 24, board.Free), gpu("H100", 80, board.Busy),
	}}}}
	b.Count()
	got := ""
	for _, m := range b.Models {
		got += fmt.Sprint(" ", m.Name, " ", m.Free, "/", m.Total)
	}
	if got != " A10 2/2 T4 1/2 H100 0/1 A40 0/1 L40 0/1" {
		t.Errorf("models%s", got)
	}
}

// A person with several bookings of a GPU has reserved one GPU, and maintenance is nobody's.
func TestReservedCountsGPUs(t *testing.T) {
	ops := by("ops", booking.Maintenance)
	b, _ := scene{gpu: a100(), booked: []booking.Booking{by("eva", booking.Reserved), by("Eva", booking.Reserved),
		by("jun", booking.Reserved), ops}}.merge()
	got := ""
	for _, u := range b.Users {
		got += fmt.Sprint(" ", u.Name, " ", u.Reserved)
	}
	if got != " eva 1 jun 1" {
		t.Errorf("reserved%s", got)
	}
}

// Users come by what they have reserved and use now, and then by what they used before.
func TestUsersAreSorted(t *testing.T) {
	b, _ := scene{gpu: a100(), procs: []snapshot.Process{proc("using", snapshot.Compute, 9)},
		booked: []booking.Booking{by("booker", booking.Reserved)}, recent: &history.Recent{
			Users: []history.User{
				{Name: "little", Mean2h: new(1.0)}, {Name: "much", Mean2h: new(4.0)}, {Name: "most", Mean2h: new(8.0)},
				{Name: "booker", Mean2h: new(2.0)},
			},
		}}.merge()
	got := ""
	for _, u := range b.Users {
		got += " " + u.Name
	}
	if got != " using booker most much little" { // 1.5, 1 + 0.3, 1.2, 0.6, 0.15
		t.Errorf("users%s", got)
	}
}

// What is held and idle counts for the board and for those who hold it.
func TestHeldIdleIsCounted(t *testing.T) {
	recent := &history.Recent{GPUs: map[history.Key]history.GPU{{Host: "gpu01", GPU: "GPU-1"}: {
		IdleSince: now.Add(-5 * time.Hour),
	}}}
	procs := []snapshot.Process{proc("sam", snapshot.Compute, 9000)}
	b, _ := scene{gpu: a100(), recent: recent, procs: procs}.merge()
	if b.Totals.GPUs.HeldIdle != 1 || b.Users[0].Idle != 1 {
		t.Errorf("%d are held and idle, %d of them sam's", b.Totals.GPUs.HeldIdle, b.Users[0].Idle)
	}
	b, _ = scene{gpu: a100(), procs: procs}.merge()
	if b.Totals.GPUs.HeldIdle != 0 || b.Users[0].Idle != 0 {
		t.Errorf("%d are held and idle where nobody knows for how long, %d of them sam's",
			b.Totals.GPUs.HeldIdle, b.Users[0].Idle)
	}
}

// Free GPUs come by memory and then by model; the next one to come free is the one whose booking ends first and
// which nobody else uses.
func TestFreeNowAndNextFree(t *testing.T) {
	gpu := func(index int, model string, gib int64, state board.State) board.GPU {
		return board.GPU{State: state, ShortName: model, GPU: snapshot.GPU{Index: index, MemoryTotal: new(gib << 10)}}
	}
	until := func(index, hours int, state board.State) board.GPU {
		g := gpu(index, "T4", 16, state)
		g.Booking, g.FreeFrom = &board.Booking{Name: fmt.Sprint("by", index)}, now.Add(time.Duration(hours)*time.Hour)
		return g
	}
	open := until(12, 0, board.Booked)
	open.FreeFrom = time.Time{}
	unbooked := until(11, 1, board.InUse)
	unbooked.Booking = nil
	b := board.Board{Hosts: []board.Host{{Name: "a", GPUs: []board.GPU{
		gpu(0, "T4", 16, board.Free), gpu(1, "L40", 48, board.Free), gpu(2, "A40", 48, board.Free),
		until(10, 1, board.Busy), unbooked, open, until(13, 5, board.InUse), until(14, 3, board.Contested),
		until(15, 4, board.Booked),
	}}}}
	b.Count()
	got := ""
	for _, f := range b.FreeNow {
		got += fmt.Sprint(" ", f.GPU.ShortName, ":", f.GPU.Index)
	}
	if got != " A40:2 L40:1 T4:0" {
		t.Errorf("free now%s", got)
	}
	if n := b.NextFree; n == nil || n.GPU.Index != 15 || n.GPU.Booking.Name != "by15" ||
		!n.GPU.FreeFrom.Equal(now.Add(4*time.Hour)) {
		t.Errorf("next free %+v", n)
	}
}

// A booking that ended long ago is shown no more.
func TestBookingsThatEndedLongAgo(t *testing.T) {
	for ago, shown := range map[time.Duration]int{48 * time.Hour: 1, 48*time.Hour + time.Second: 0} {
		past := by("eva", booking.Reserved)
		past.From, past.Until = now.Add(-100*time.Hour), now.Add(-ago)
		if b, _ := (scene{gpu: a100(), booked: []booking.Booking{past}}).merge(); len(b.Bookings) != shown {
			t.Errorf("ended %v ago: %d are shown", ago, len(b.Bookings))
		}
	}
}
