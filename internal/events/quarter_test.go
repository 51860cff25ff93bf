package events_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/events"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// The quarter is seen every ten minutes.
const (
	step   = 10 * time.Minute
	steps  = 90 * 24 * 6
	notice = 6 * time.Hour
	noShow = 2 * time.Hour
)

var begin = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

func at(i int) time.Time { return begin.Add(time.Duration(i) * step) }

// How much is known of a GPU at a step.
const (
	whole  = iota
	blind  // its processes are not known
	gap    // nothing: the host is silent, or its driver does not answer
	paused // there is no board
)

// A moment is the truth about a GPU at one step.
type moment struct {
	who     string // whose program runs; "" for nobody
	certain bool   // it is certainly theirs
	from    int    // the step at which it began
	works   bool
	booker  string // who has booked it
	booking string // the ID of the booking
	hot     bool
	xid     bool
	known   int
	dies    bool // the generation of this step
}

func (m *moment) contested() bool { return m.certain && m.booker != "" && m.booker != m.who }

// A truth is what happens to one GPU in a quarter.
type truth struct {
	name    string
	moments []moment
	booked  []booking.Booking
}

// live makes up the quarter of a GPU.
func live(r *rand.Rand, name string) *truth {
	tr := &truth{name: name, moments: make([]moment, steps)}
	people := strings.Fields("ada kai mia eva jun lou sam tom")
	person := func() string { return people[r.IntN(len(people))] }
	span := func(from, least, most int, do func(*moment)) int {
		to := min(steps, from+least+r.IntN(most-least+1))
		for i := from; i < to; i++ {
			do(&tr.moments[i])
		}
		return to
	}
	for i := 6; i < steps; {
		who, certain, from := person(), r.IntN(5) > 0, i
		for range 1 + r.IntN(4) { // it works for a while, and idles for a while
			works := r.IntN(2) == 0
			i = span(i, 1, 90, func(m *moment) { m.who, m.certain, m.from, m.works = who, certain, from, works })
		}
		i = span(i, 0, 120, func(*moment) {})
	}
	for i := 6; i < steps; {
		b := booking.Booking{ID: fmt.Sprintf("%s-%d", name, i), Host: name,
			Target: booking.Target{Index: 0, UUID: "GPU-" + name},
			Name:   person(), From: at(i), Kind: booking.Reserved}
		i = span(i, 6, 200, func(m *moment) { m.booker, m.booking = b.Name, b.ID })
		b.Until = at(i)
		tr.booked = append(tr.booked, b)
		i = span(i, 0, 300, func(*moment) {})
	}
	for range 25 {
		span(r.IntN(steps), 1, 20, func(m *moment) { m.hot = true })
		span(r.IntN(steps), 1, 60, func(m *moment) { m.known = gap })
		span(r.IntN(steps), 1, 6, func(m *moment) { m.known = blind })
	}
	for range 4 {
		span(r.IntN(steps), 144, 144, func(m *moment) { m.xid = true })
	}
	return tr
}

// snapshot is what the node of a GPU sends at a step.
func (tr *truth) snapshot(i int) *snapshot.Snapshot {
	m := &tr.moments[i]
	g := snapshot.GPU{Index: 0, UUID: "GPU-" + tr.name, Name: "NVIDIA A100", Health: snapshot.HealthOK,
		MemoryTotal: new(int64(40960)), MemoryUsed: new(int64(4)), Readings: snapshot.Readings{UtilizationGPU: new(0)}}
	s := &snapshot.Snapshot{Host: tr.name, CollectedAt: snapshot.TimeOf(at(i)), IntervalSeconds: 60, GPUsComplete: true,
		Processes: []snapshot.Process{}}
	if m.who != "" {
		g.MemoryUsed = new(int64(9000))
		p := snapshot.Process{GPU: 0, GPUUUID: g.UUID, PID: 4000 + m.from, Type: snapshot.Compute, User: m.who,
			UID:     new(int64(1001)),
			Program: "train.py", UsedMemory: new(int64(9000)), Alive: new(true),
			StartedAt: new(snapshot.TimeOf(at(m.from)))}
		if !m.certain {
			p.Container = "a1b2c3d4e5f6"
		}
		s.Processes = append(s.Processes, p)
		if m.works {
			g.UtilizationGPU = new(80)
		}
	}
	if m.hot {
		g.ThrottleReasons = []string{"hw_thermal_slowdown"}
	}
	if m.xid {
		s.Errors = append(s.Errors,
			snapshot.Problem{Code: "gpu:xid", Message: "the driver reported XID 79", GPU: new(0)})
	}
	if m.known == blind {
		g.ProcessesUnknown, s.Processes = "smi:processes", []snapshot.Process{}
	}
	s.GPUs = []snapshot.GPU{g}
	return s
}

// TestQuarterOfTellings lives through a quarter whose truth is known, with crashes and restarts: nobody is told twice
// of one occasion, nobody who is not certain and nobody during a gap, and everybody else is told once.
func TestQuarterOfTellings(t *testing.T) {
	need.Time(t, "it merges 13,000 boards for each seed")
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 44))
			fleet := []*truth{live(r, "atlas"), live(r, "borea"), live(r, "ceres")}
			for range 100 { // the web host is off
				from, n := 6+r.IntN(steps-60), 2+r.IntN(12)
				for _, tr := range fleet {
					for i := from; i < from+n; i++ {
						tr.moments[i].known = paused
					}
				}
			}
			for i := range steps {
				dies := r.IntN(40) == 0
				for _, tr := range fleet {
					tr.moments[i].dies = dies
				}
			}
			said := watch(t, fleet)
			for _, tr := range fleet {
				tr.check(t, said[tr.name])
			}
		})
	}
}

// watch makes a board at each step, and returns by host what was said. A generation that dies does so after what it
// found was accepted and before it was remembered.
func watch(t *testing.T, fleet []*truth) map[string][]events.Event {
	var memory events.Memory
	var marks board.Marks
	said, accepted := map[string][]events.Event{}, map[string]bool{}
	last, idle := map[string]*snapshot.Snapshot{}, map[string]time.Time{}
	in := board.Input{Interval: step, Calendar: &booking.Calendar{File: "comments.json"}}
	for _, tr := range fleet {
		in.Hosts = append(in.Hosts, inventory.Host{Name: tr.name, Address: tr.name + ".lab"})
		in.Calendar.Bookings = append(in.Calendar.Bookings, tr.booked...)
	}
	for i := range steps {
		in.Now, in.Marks, in.Reports = at(i), marks, map[string]board.Report{}
		in.Recent = &history.Recent{GPUs: map[history.Key]history.GPU{}}
		for _, tr := range fleet {
			m := &tr.moments[i]
			switch {
			case m.known >= gap || m.works:
				delete(idle, tr.name)
			case idle[tr.name].IsZero():
				idle[tr.name] = at(i)
			}
			if m.known < gap {
				last[tr.name] = tr.snapshot(i)
			}
			in.Reports[tr.name] = board.Report{Snapshot: last[tr.name]}
			if since := idle[tr.name]; at(i).Sub(since) >= 30*time.Minute {
				in.Recent.GPUs[history.Key{Host: tr.name, GPU: "GPU-" + tr.name}] = history.GPU{IdleSince: since}
			}
		}
		if fleet[0].moments[i].known == paused {
			continue
		}
		b, nextMarks := board.Merge(in)
		found, next := events.Diff(memory, b)
		for _, e := range found {
			if !accepted[e.ID] {
				accepted[e.ID] = true
				said[e.Host] = append(said[e.Host], e)
			}
		}
		if fleet[0].moments[i].dies {
			continue
		}
		raw, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		memory, marks = events.Memory{}, nextMarks
		if err := json.Unmarshal(raw, &memory); err != nil {
			t.Fatal(err)
		}
	}
	return said
}

// A telling is who is told of what, and at which step.
type telling struct {
	kind events.Kind
	who  string
	at   int
}

// check compares what was said of a GPU with the truth.
func (tr *truth) check(t *testing.T, said []events.Event) {
	var got []telling
	for _, e := range said {
		i := int(e.At.Sub(begin) / step)
		m := tr.moments[i]
		switch e.Kind {
		case events.GPUIdle, events.GPUContested:
			if m.known != whole || !m.certain || len(e.Users) != 1 || e.Users[0] != m.who && e.Users[0] != m.booker {
				t.Errorf("%s was said, and the truth is %+v", e.ID, m)
			}
			got = append(got, telling{e.Kind, e.Users[0], i})
		case events.GPUXID, events.GPUHot:
			if m.known >= gap || (m.known == blind || !m.certain) && len(e.Users) > 0 {
				t.Errorf("%s was said to %v, and the truth is %+v", e.ID, e.Users, m)
			}
			got = append(got, telling{e.Kind, "", i})
		case events.GPUContestedEnd, events.GPUHotEnd:
			got = append(got, telling{e.Kind, "", i})
		case events.BookingUnused:
			tr.checkUnused(t, e, i)
		}
	}
	want := slices.Concat(tr.idle(), tr.contested(), tr.faults(events.GPUHot), tr.faults(events.GPUXID))
	for _, w := range want {
		n := 0
		for j := range got {
			if got[j].kind == w.kind && got[j].who == w.who && got[j].at == w.at {
				n++
				got[j].kind = ""
			}
		}
		if n != 1 {
			t.Errorf("%s: %s was told %d times of %s at %v", tr.name, w.who, n, w.kind, at(w.at))
		}
	}
	for _, g := range got {
		if g.kind != "" {
			t.Errorf("%s: %s was told of %s at %v, and that was not so", tr.name, g.who, g.kind, at(g.at))
		}
	}
	tr.checkEveryUnused(t, said)
	for _, kind := range []events.Kind{events.GPUIdle, events.GPUContested, events.GPUHot, events.GPUXID} {
		if !slices.ContainsFunc(want, func(w telling) bool { return w.kind == kind }) {
			t.Errorf("%s: the quarter has no %s", tr.name, kind)
		}
	}
}

// idle is who must be told when that they idle: once for each program, and again after they are seen to work.
func (tr *truth) idle() (want []telling) {
	quiet, told := -1, -1 // since when nobody is known to have worked; the program whose user was told
	for i, m := range tr.moments {
		if m.known >= gap || m.works {
			quiet = -1
		} else if quiet < 0 {
			quiet = i
		}
		switch {
		case m.known != whole || !m.certain:
		case m.works && !m.dies:
			told = -1
		case quiet >= 0 && told != m.from && at(i).Sub(at(max(quiet, m.from))) >= notice:
			want, told = append(want, telling{events.GPUIdle, m.who, i}), m.from
		}
	}
	return want
}

// contested is who must be told when that a GPU is contested, at the second board that shows it, and when that it ends.
func (tr *truth) contested() (want []telling) {
	type state struct{ seen, told, kept bool }
	people, over := map[string]state{}, false
	for i, m := range tr.moments {
		switch {
		case m.known != whole:
		case !m.contested():
			for _, p := range people {
				if p.kept && !over {
					want, over = append(want, telling{events.GPUContestedEnd, "", i}), true
				}
			}
			if !m.dies {
				clear(people)
			}
		default:
			over = over && m.dies
			for _, who := range []string{m.who, m.booker} {
				p := people[who]
				if p.seen && !p.told {
					p.told = true
					want = append(want, telling{events.GPUContested, who, i})
				}
				p.kept = p.kept || p.told && !m.dies
				p.seen = p.seen || !m.dies
				people[who] = p
			}
		}
	}
	return want
}

// faults are when it must be said that a card is ill, at the second board that shows it, and that it is well.
func (tr *truth) faults(kind events.Kind) (want []telling) {
	seen, told, kept, over, last := false, false, false, false, 0
	for i, m := range tr.moments {
		ill := m.hot
		if kind == events.GPUXID {
			ill = m.xid
		}
		switch {
		case m.known >= gap:
		case ill:
			if seen && !told {
				told = true
				want = append(want, telling{kind, "", i})
			}
			if !m.dies {
				seen, kept, over, last = true, told, false, i
			}
		case at(i).Sub(at(last)) >= events.Settled:
			if kept && !over && kind == events.GPUHot {
				want, over = append(want, telling{events.GPUHotEnd, "", i}), true
			}
			if !m.dies {
				seen, told, kept = false, false, false
			}
		}
	}
	return want
}

// checkUnused checks that a booking of which it is said was unused for as long as the board takes for long.
func (tr *truth) checkUnused(t *testing.T, e events.Event, i int) {
	for j := i; at(i).Sub(at(j)) < noShow; j-- {
		if m := tr.moments[j]; m.booking != e.Booking || m.works || m.known >= gap {
			t.Errorf("%s: it was said to be unused, and at %v the truth is %+v", e.Booking, at(j), m)
			return
		}
	}
}

// checkEveryUnused checks that of each booking that nobody used it was said once, and of no other twice.
func (tr *truth) checkEveryUnused(t *testing.T, said []events.Event) {
	count := map[string]int{}
	for _, e := range said {
		if e.Kind == events.BookingUnused {
			count[e.Booking]++
		}
	}
	unused := 0
	for _, b := range tr.booked {
		alone, most := 0, 0
		for i := int(b.From.Sub(begin) / step); i < int(b.Until.Sub(begin)/step); i++ {
			if m := tr.moments[i]; m.known == whole && m.who == "" && !m.dies {
				alone++
			} else {
				alone = 0
			}
			most = max(most, alone)
		}
		must := time.Duration(most-1)*step >= noShow
		if must {
			unused++
		}
		if n := count[b.ID]; n > 1 || must && n == 0 {
			t.Errorf("%s: %d times it was said to be unused, and it was for %d steps", b.ID, n, most)
		}
	}
	if unused == 0 {
		t.Errorf("%s: no booking of the quarter is unused", tr.name)
	}
}
