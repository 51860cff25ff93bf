package board_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// secretive is a board with a person in every place that can name one.
func secretive(t *testing.T) *board.Board {
	t.Helper()
	dead := gone(9000)
	dead.User, dead.Program = "zoe-secret", "hidden-secret.py"
	dead.Children = []snapshot.Child{{PID: 4, User: "child-secret", Program: "child-secret.py"}}
	p := proc("eva-secret", snapshot.Compute, 9000)
	p.Program, p.Container, p.UID, p.OwnUserNamespace = "model-secret.py", "c0ffee-secret", new(int64(4242)), true
	likely := proc("likely-secret", snapshot.Compute, 10)
	likely.Container = "c0ffee-secret"
	other := by("jun-secret", booking.Reserved)
	other.Comment, other.By = "call eva-secret", "by-secret"
	next := other
	next.From, next.Until, next.Name = now.Add(2*time.Hour), now.Add(3*time.Hour), "next-secret"
	stray := other
	stray.Host = "gpu77"
	s := scene{
		gpu: a100(), procs: []snapshot.Process{p, likely, dead},
		booked: []booking.Booking{other, by("two-secret", booking.Reserved), next, stray},
	}
	held := history.GPU{Holders: []string{"", "held-secret", "held-secret"}}
	s.recent = &history.Recent{
		Users: []history.User{{Name: "past-secret", Mean2h: new(1.0)}},
		GPUs:  map[history.Key]history.GPU{{Host: "gpu01", GPU: a100().UUID}: held},
	}
	b, _ := s.merge()
	b.Colors = map[string]int{"held-secret": 1}
	s.age = time.Hour
	old, _ := s.merge()
	b.Hosts = append(b.Hosts, old.Hosts...)
	s.age, s.gpu = 0, sliced(1)
	s.procs = []snapshot.Process{on(p, 1, 0)}
	s.recent.GPUs[history.Key{Host: "gpu01", GPU: s.gpu.MIGDevices[0].UUID}] = held
	parts, _ := s.merge()
	if len(parts.Hosts[0].GPUs[0].Slices[0].Processes) != 1 {
		t.Fatal("the scene has no slice with a process")
	}
	b.Hosts = append(b.Hosts, parts.Hosts...)
	b.Hosts[0].Node.Interfaces = []snapshot.Interface{{Name: "eno1", Addrs: []string{"10.0.0.1-secret"}}}
	b.Hosts[0].Node.DiskUsers = []snapshot.DiskUser{{Path: "/home", User: "disk-secret"}}
	unused, _ := (scene{gpu: a100(), booked: []booking.Booking{other}}).merge()
	b.Hosts = append(b.Hosts, unused.Hosts...)
	if b.Count(); b.NextFree == nil {
		t.Fatal("the scene has nothing that comes free")
	}
	return b
}

// walk calls f for every string in a value.
func walk(v reflect.Value, path string, f func(path, s string)) {
	switch v.Kind() {
	case reflect.String:
		f(path, v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), path, f)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			walk(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), f)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			walk(it.Key(), path, f)
			walk(it.Value(), path, f)
		}
	}
}

func TestMaskReachesEveryName(t *testing.T) {
	for _, users := range []board.UserPrivacy{board.UsersInitials, board.UsersHash, board.UsersNone} {
		b := secretive(t)
		before := fmt.Sprintf("%+v", b.Hosts)
		masked := b.Mask(board.Privacy{Users: users, Programs: board.ProgramsHidden, Salt: []byte("salt")})
		walk(reflect.ValueOf(*masked), "Board", func(path, s string) {
			if strings.Contains(s, "secret") {
				t.Errorf("users %s: %s still says %q", users, path, s)
			}
		})
		if fmt.Sprintf("%+v", b.Hosts) != before {
			t.Errorf("users %s: masking changed the board itself", users)
		}
		if masked.Hosts[0].GPUs[0].State != board.Contested {
			t.Errorf("users %s: the state became %s", users, masked.Hosts[0].GPUs[0].State)
		}
	}
}

func TestMaskLevels(t *testing.T) {
	b := secretive(t)
	if b.Mask(board.Privacy{}) != b ||
		b.Mask(board.Privacy{Users: board.UsersFull, Programs: board.ProgramsShown}) != b {
		t.Error("full is not the board itself")
	}
	name := func(p board.Privacy) string { return b.Mask(p).Hosts[0].GPUs[0].Booking.Name }
	if got := name(board.Privacy{Users: board.UsersInitials}); got != "j.s." {
		t.Errorf("initials %q", got)
	}
	one, two := name(board.Privacy{Users: board.UsersHash, Salt: []byte("a")}),
		name(board.Privacy{Users: board.UsersHash, Salt: []byte("b")})
	if one == two || !strings.HasPrefix(one, "user-") {
		t.Errorf("hashes %q and %q of two sites", one, two)
	}
	m := b.Mask(board.Privacy{Users: board.UsersNone})
	if len(m.Users) != 1 || m.Users[0].Name != board.Someone || m.Users[0].Reserved != 2 {
		t.Errorf("users %+v, want one for all, who has two bookings", m.Users)
	}
	if g := m.Hosts[0].GPUs[0]; g.Holders != nil || m.Colors != nil {
		t.Errorf("holders %q and colors %v, want none where all have one name", g.Holders, m.Colors)
	}
	g := b.Mask(board.Privacy{Users: board.UsersInitials})
	for _, g := range []board.GPU{g.Hosts[0].GPUs[0], g.Hosts[2].GPUs[0].Slices[0]} {
		if !slices.Equal(g.Holders, []string{"", "h.s.", "h.s."}) {
			t.Errorf("holders %q, want initials", g.Holders)
		}
	}
	if p := m.Hosts[0].GPUs[0].Processes[0].Program; p == "" {
		t.Error("programs are hidden, and only people were to be")
	}
	if p := b.Mask(board.Privacy{Programs: board.ProgramsHidden}).Hosts[0].GPUs[0].Processes[0]; p.Program != "" ||
		p.Person == board.Someone {
		t.Errorf("process %+v, want its person and no program", p)
	}
}

// Those who have one name after masking are one, and the list is sorted anew.
func TestMaskedUsersAreAddedUp(t *testing.T) {
	one := board.User{Name: "ann lee", Holding: board.Holding{Reserved: 1, Used: 2, Idle: 5},
		Slices: board.Holding{Reserved: 2, Used: 3, Idle: 1}, Memory: 3, Processes: 4,
		Mean2h: new(6.0), Where: []board.UserHost{{Host: "b", GPUs: []int{1}, Slices: []string{"2:1"}}}}
	two := board.User{Name: "al li", Holding: board.Holding{Reserved: 1, Used: 1, Idle: 1},
		Slices: board.Holding{Used: 1},
		Memory: 1, Processes: 1,
		Mean2h: new(1.0),
		Where:  []board.UserHost{{Host: "a", GPUs: []int{2}}, {Host: "b", GPUs: []int{0, 1}, Slices: []string{"2:0"}}}}
	b := &board.Board{Users: []board.User{{Name: "zoe", Holding: board.Holding{Reserved: 3}}, one, two}}
	m := b.Mask(board.Privacy{Users: board.UsersInitials}).Users
	if len(m) != 2 || m[0].Name != "a.l." || m[1].Name != "z." {
		t.Fatalf("users %+v", m)
	}
	if u := m[0]; u.Holding != (board.Holding{
		Reserved: 2, Used: 3, Idle: 6,
	}) || u.Slices != (board.Holding{Reserved: 2, Used: 4, Idle: 1}) ||
		u.Memory != 4 || u.Processes != 5 || *u.Mean2h != 7 ||
		fmt.Sprint(u.Where) != "[{a [2] []} {b [0 1] [2:0 2:1]}]" {
		t.Errorf("%+v", u)
	}
	b.Hosts = []board.Host{{GPUs: []board.GPU{{Last: &board.LastSeen{Users: []string{"eva", "emil", "jun"}}}}}}
	if last := b.Mask(board.Privacy{
		Users: board.UsersInitials,
	}).Hosts[0].GPUs[0].Last.Users; fmt.Sprint(last) != "[e. j.]" {
		t.Errorf("last were %v", last)
	}
	if fmt.Sprint(one.Where, two.Where) != "[{b [1] [2:1]}] [{a [2] []} {b [0 1] [2:0]}]" {
		t.Error("masking changed the board itself")
	}
	for _, users := range []board.UserPrivacy{board.UsersInitials, board.UsersHash, board.UsersNone} {
		if name := (board.Privacy{Users: users}).Name(""); name != "" {
			t.Errorf("%s: nobody is called %q", users, name)
		}
	}
	long := board.Privacy{Users: board.UsersInitials}
	if got := long.Name("a b c d e f g h i j"); got != "a.b.c.d.e.f.g." {
		t.Errorf("initials of many words: %q", got)
	}
}

func TestMaskedBookingsAndProblems(t *testing.T) {
	masked := board.Privacy{Users: board.UsersHash, Salt: []byte("salt")}
	if id := masked.BookingID("eva-1"); !strings.HasPrefix(id, "booking-") || id == masked.BookingID("eva-2") ||
		masked.BookingID("") != "" || (board.Privacy{}).BookingID("eva-1") != "eva-1" {
		t.Errorf("a booking is called %q", id)
	}
	known := snapshot.Problem{Code: "smi:failed", Message: "/home/eva", Host: "gpu01", GPU: new(2)}
	b := &board.Board{
		Hosts: []board.Host{{Name: "gpu01"}}, Problems: []snapshot.Problem{known, {Code: "smi:empty", Host: "eva"}},
	}
	m := b.Mask(masked).Problems
	if fmt.Sprint(m[0].Code, m[0].Message, m[0].Host, *m[0].GPU) != "smi:failedsmi:failedgpu012" ||
		m[1].Code != "smi:empty" || m[1].Host != "" {
		t.Errorf("problems %+v", m)
	}
	b.Hosts[0].Problems = []snapshot.Problem{known}
	if p := b.Mask(masked).Hosts[0].Problems; len(p) != 1 || p[0].Code != known.Code {
		t.Errorf("problems of the host %+v", p)
	}
	b.Bookings = []board.Booking{{ID: "2", Host: "eva's"}, {
		ID: "1", Host: "gpu01", Name: "eva", From: now, Comment: "call me",
	}}
	b.Hosts[0].GPUs = []board.GPU{{Others: b.Bookings[1:]}}
	if others := b.Mask(masked).Hosts[0].GPUs[0].Others; len(others) != 1 || others[0].Name != masked.Name("eva") {
		t.Errorf("further bookings %+v", others)
	}
	if list := b.Mask(masked).Bookings; len(list) != 1 || list[0].Host != "gpu01" ||
		list[0].Name != masked.Name("eva") ||
		!list[0].From.Equal(now) || list[0].Comment != "" {
		t.Errorf("bookings %+v, want the one of a host of the board", list)
	}
	if name := masked.Name("?"); name != "?" {
		t.Errorf("a booking that cannot be read is by %q", name)
	}
	// The id of a booking is made of its name, so that nobody may compare it with a guess.
	b.Hosts[0].GPUs = []board.GPU{{Booking: &b.Bookings[1], Next: &b.Bookings[1], Others: b.Bookings[1:]}}
	hidden := b.Mask(masked)
	gpu := hidden.Hosts[0].GPUs[0]
	for _, booking := range []board.Booking{*gpu.Booking, *gpu.Next, gpu.Others[0], hidden.Bookings[0]} {
		if booking.ID != masked.BookingID("1") {
			t.Errorf("a masked booking has the id %q", booking.ID)
		}
	}
	if p := b.Mask(board.Privacy{Programs: board.ProgramsHidden}).Problems[0]; p != known {
		t.Errorf("with people shown: %+v", p)
	}
}

// What the driver says in words, and where a GPU is in the machine, is left out with the people alone.
func TestMaskedGPUs(t *testing.T) {
	words := snapshot.GPU{
		PCIBusID: "00000000:01:00.0", HealthReason: "Xid 79 on /home/eva", ProcessesUnknown: "N/A for eva",
		Readings: snapshot.Readings{UtilizationGPU: new(7)},
	}
	b := &board.Board{Hosts: []board.Host{{GPUs: []board.GPU{{GPU: words, MoreOthers: 3}, {}}}}}
	if g := b.Mask(board.Privacy{Users: board.UsersNone}).Hosts[0].GPUs[1]; g.ProcessesUnknown != "" {
		t.Errorf("a GPU whose processes are known: %q", g.ProcessesUnknown)
	}
	if g := b.Mask(board.Privacy{Users: board.UsersNone}).Hosts[0].GPUs[0]; g.PCIBusID != "" || g.HealthReason != "" ||
		g.ProcessesUnknown != "not known" || *g.UtilizationGPU != 7 || g.MoreOthers != 0 {
		t.Errorf("with people masked: %+v", g)
	}
	if g := b.Mask(board.Privacy{Programs: board.ProgramsHidden}).Hosts[0].GPUs[0]; !reflect.DeepEqual(g.GPU, words) ||
		g.MoreOthers != 3 {
		t.Errorf("with people shown: %+v", g)
	}
}

// Where people are shown and programs are not, nothing but the programs is missing.
func TestMaskOfProgramsAlone(t *testing.T) {
	b := secretive(t)
	b.Hosts[0].Owner, b.Hosts[0].Note, b.Hosts[0].Address, b.Hosts[0].Tags = "eva", "no overnight jobs", "10.0.0.1",
		[]string{"a100"}
	masked := b.Mask(board.Privacy{Programs: board.ProgramsHidden})
	programs := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Program" }, cmp.Ignore())
	if diff := cmp.Diff(b, masked, programs, cmpopts.EquateEmpty(),
		cmpopts.IgnoreUnexported(board.Host{})); diff != "" {
		t.Errorf("beside the programs (-shown +masked):\n%s", diff)
	}
}
