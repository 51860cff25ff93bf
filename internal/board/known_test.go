package board_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// facts are what decides a state, each with "not known" among its values.
type facts struct {
	fresh, invMaint, bookMaint bool
	health                     snapshot.Health
	booker                     string // "" for no booking
	memory                     string // unknown, small, some, large, or a pair of readings that cannot be
	procs                      string // see procsOf
	utilization                int    // -1 where it is not known
}

func (f facts) String() string {
	return fmt.Sprintf("fresh %v, maintenance %v %v, health %q, booked by %q, memory %s, processes %s, utilization %d",
		f.fresh, f.invMaint, f.bookMaint, f.health, f.booker, f.memory, f.procs, f.utilization)
}

// A cast is a list of processes, and what is to be read out of it.
type cast struct {
	list   []snapshot.Process
	hidden bool     // there may be more
	users  []string // who computes; "" for somebody unknown
	busy   []string // who computes besides, from 30 % on
	owner  bool     // one that does not compute may live and own all the memory
}

func casts() map[string]cast {
	service := proc("root", snapshot.Compute, 30)
	service.Program = "nvidia-cuda-mps-server"
	silent := proc("root", snapshot.Graphics, 0)
	silent.UsedMemory = nil
	nobody := proc("", snapshot.Compute, 9000)
	nobody.Alive = nil // ps could not be asked
	odd := proc("eva", "", 9000)
	broker := proc("root", snapshot.Compute, 8900) // of clients that compute through it
	broker.Program = service.Program
	forged := proc("eva", snapshot.Compute, 30)
	forged.Program = service.Program
	return map[string]cast{
		"unknown": {hidden: true},
		"unknown but eva": {
			hidden: true, list: []snapshot.Process{proc("eva", snapshot.Compute, 9000)}, users: []string{"eva"},
		},
		"unknown but dead": {hidden: true, list: []snapshot.Process{gone(9000)}},
		"none":             {},
		"graphics":         {list: []snapshot.Process{proc("root", snapshot.Graphics, 30)}, busy: []string{""}},
		"graphics, silent": {list: []snapshot.Process{silent}, owner: true, busy: []string{""}},
		"a desktop": {
			list: []snapshot.Process{proc("root", snapshot.Graphics, 30), proc("eva", snapshot.Graphics, 60)},
			busy: []string{"eva"},
		},
		"two desktops": {list: []snapshot.Process{proc("juno", snapshot.Graphics, 30),
			proc("eva", snapshot.Graphics, 30)}},
		"a game": {
			list:  []snapshot.Process{proc("root", snapshot.Graphics, 30), proc("eva", snapshot.Graphics, 8900)},
			users: []string{"eva"},
		},
		"service":        {list: []snapshot.Process{service}, busy: []string{""}},
		"large service":  {list: []snapshot.Process{broker}, users: []string{""}},
		"forged service": {list: []snapshot.Process{forged}, users: []string{"eva"}},
		"eva":            {list: []snapshot.Process{proc("eva", snapshot.Compute, 9000)}, users: []string{"eva"}},
		"jun":            {list: []snapshot.Process{proc("jun", snapshot.Compute, 9000)}, users: []string{"jun"}},
		"eva and jun": {
			list:  []snapshot.Process{proc("eva", snapshot.Compute, 9000), proc("juno", snapshot.Compute, 9000)},
			users: []string{"eva", "juno"},
		},
		"somebody":       {list: []snapshot.Process{nobody}, users: []string{""}},
		"unknown letter": {list: []snapshot.Process{odd}, users: []string{"eva"}},
		"dead":           {list: []snapshot.Process{gone(9000)}},
		"dead and eva": {list: []snapshot.Process{gone(9000), proc("eva", snapshot.Compute, 9000)},
			users: []string{"eva"}},
	}
}

// gpu is a card on which the memory reads as f says.
func (f facts) gpu() snapshot.GPU {
	g := a100()
	g.Health = f.health
	switch f.memory {
	case "unknown":
		g.MemoryUsed = nil
	case "small":
	case "some": // more than a driver holds, less than the limit
		g.MemoryUsed = new(int64(400))
	case "large":
		g.MemoryUsed = new(int64(20000))
	case "negative":
		g.MemoryUsed = new(int64(-1))
	case "beyond the total":
		g.MemoryUsed = new(int64(40961))
	case "of nothing":
		g.MemoryUsed, g.MemoryTotal = new(int64(0)), new(int64(0))
	case "without a total":
		g.MemoryTotal = nil
	case "the node's":
		g.MemoryShared, g.MemoryUsed = true, new(int64(20000))
	case "the node's, unknown":
		g.MemoryShared, g.MemoryUsed, g.MemoryTotal = true, nil, nil
	case "small, beside the node's":
		g.Name = "NVIDIA GH200 480GB"
	}
	if g.UtilizationGPU = nil; f.utilization >= 0 {
		g.UtilizationGPU = new(f.utilization)
	}
	return g
}

// allFacts calls f with every combination.
func allFacts(f func(facts)) {
	bools := []bool{false, true}
	for _, fresh := range bools {
		for _, invMaint := range bools {
			for _, bookMaint := range bools {
				for _, health := range []snapshot.Health{snapshot.HealthOK, snapshot.HealthLost, snapshot.HealthError,
					snapshot.HealthUnknown, ""} {
					for _, booker := range []string{"", "eva"} {
						for _, memory := range []string{"unknown", "small", "some", "large", "negative",
							"beyond the total", "of nothing",
							"without a total", "the node's", "the node's, unknown",
							"small, beside the node's"} {
							for _, procs := range slices.Sorted(maps.Keys(casts())) {
								for _, utilization := range []int{-1, 4, 5, 29, 30} {
									f(facts{fresh, invMaint, bookMaint, health, booker, memory, procs, utilization})
								}
							}
						}
					}
				}
			}
		}
	}
}

// TestEveryCombination walks through every combination of the facts that decide
// a state, and holds the answer against the sentence that defines that state.
// The sentences are written here anew, so that the code is not its own judge;
// of the nine, one and no more may hold for each combination.
func TestEveryCombination(t *testing.T) {
	known := casts()
	asked := func(f facts) bool { // the rest of the readings speaks about now, and about a GPU that works
		return f.fresh && !f.invMaint && !f.bookMaint && f.health == snapshot.HealthOK
	}
	users := func(f facts) []string {
		if c := known[f.procs]; f.utilization < 30 || len(c.users) > 0 {
			return c.users
		}
		return known[f.procs].busy
	}
	computes := func(f facts) bool { return len(users(f)) > 0 }
	byAnother := func(f facts) bool {
		return slices.ContainsFunc(users(f), func(u string) bool { return u != "" && u != f.booker })
	}
	ofNode := map[string]bool{"the node's": true, "the node's, unknown": true, "small, beside the node's": true}
	// "known not to be used: memory known and small, nobody computes, and utilization says nothing else.
	// Where memory is the node's own, processes must be known." Up to what a driver holds by itself, utilization
	// proves nothing; above it, 5 % or more is use.
	notUsed := func(f facts) bool {
		idle := f.utilization >= 0 && f.utilization < 5
		switch {
		case computes(f):
			return false
		case known[f.procs].hidden:
			return (f.memory == "small" || f.memory == "some") && idle
		case f.memory == "small":
			return true
		}
		return (f.memory == "some" || ofNode[f.memory] && !known[f.procs].owner) && f.utilization < 5
	}
	// "memory above the threshold, the processes of this GPU are known, no living
	// one owns it, and utilization is below 5 % or unknown"
	stuck := func(f facts) bool {
		c := known[f.procs]
		return f.memory == "large" && !c.hidden && !computes(f) && !c.owner && f.utilization < 5
	}
	// A process, or a sign of use where the processes do not tell.
	used := func(f facts) bool {
		return computes(f) || !notUsed(f) && !stuck(f) && (f.utilization >= 5 || f.memory == "large")
	}
	sentence := map[board.State]func(facts) bool{
		board.Drained: func(f facts) bool { return f.invMaint || f.bookMaint },
		board.Lost: func(f facts) bool {
			return f.fresh && !f.invMaint && !f.bookMaint &&
				(f.health == snapshot.HealthLost || f.health == snapshot.HealthError)
		},
		board.Free:      func(f facts) bool { return asked(f) && f.booker == "" && notUsed(f) },
		board.Booked:    func(f facts) bool { return asked(f) && f.booker != "" && notUsed(f) },
		board.Stuck:     func(f facts) bool { return asked(f) && stuck(f) },
		board.Busy:      func(f facts) bool { return asked(f) && f.booker == "" && used(f) },
		board.InUse:     func(f facts) bool { return asked(f) && f.booker != "" && used(f) && !byAnother(f) },
		board.Contested: func(f facts) bool { return asked(f) && f.booker != "" && used(f) && byAnother(f) },
		board.Unknown: func(f facts) bool {
			if f.invMaint || f.bookMaint {
				return false
			}
			noNews := !f.fresh || f.health == snapshot.HealthUnknown || f.health == ""
			return noNews || asked(f) && !notUsed(f) && !stuck(f) && !used(f)
		},
	}
	seen := map[board.State]int{}
	allFacts(func(f facts) {
		c := known[f.procs]
		s := scene{gpu: f.gpu(), inv: inventory.Host{Maintenance: f.invMaint}, procs: c.list}
		if c.hidden {
			s.gpu.ProcessesUnknown = "Insufficient Permissions"
		}
		if !f.fresh {
			s.age = time.Hour
		}
		if f.bookMaint {
			s.booked = append(s.booked, by("ops", booking.Maintenance))
		}
		if f.booker != "" {
			s.booked = append(s.booked, by(f.booker, booking.Reserved))
		}
		_, g := s.row(t)
		seen[g.State]++
		var holds []board.State
		for state, is := range sentence {
			if is(f) {
				holds = append(holds, state)
			}
		}
		if len(holds) != 1 || holds[0] != g.State {
			t.Fatalf("%s:\nstate %s (%s), and the sentences say %s", f, g.State, g.Reason, holds)
		}
		if unsaid := !computes(f) && g.Reason == ""; unsaid &&
			(g.State == board.Busy || g.State == board.InUse || g.State == board.Unknown) {
			t.Fatalf("%s: %s without a reason", f, g.State)
		}
	})
	for _, s := range board.States() {
		if seen[s] == 0 {
			t.Errorf("no combination gives state %s", s)
		}
	}
}

// TestMissingReadingsFreeNothing takes one thing after the other away from
// snapshots, in many orders, until nothing is left: no GPU becomes free, stuck,
// or open to the one who booked it, that was not so before. There are three exceptions.
// Little memory in use and no utilization say enough without processes, where the memory is
// the card's own. And where processes are known, neither what is free nor what is stuck needs
// utilization: one that contradicts may be taken away. So may the memory of a process that holds more than is in use.
func TestMissingReadingsFreeNothing(t *testing.T) {
	order := rand.New(rand.NewPCG(11, 20)) // the same each time
	allFacts(func(f facts) {
		if !f.fresh || f.invMaint || f.bookMaint || f.health != snapshot.HealthOK {
			return
		}
		peel(t, order, f, f.gpu(), casts()[f.procs])
		if f.utilization < 0 || f.utilization == 30 {
			peel(t, order, f, partitioned(f), casts()[f.procs])
			g := partitioned(f)
			for i := range g.MIGDevices { // two compute instances that share their memory
				d := &g.MIGDevices[i]
				d.GPUInstanceID, d.ComputeInstanceID, d.MemoryTotal, d.MemoryUsed = new(
					1), new(i), g.MemoryTotal, g.MemoryUsed
			}
			c := casts()[f.procs]
			for i := range c.list {
				c.list[i].GPUInstanceID, c.list[i].ComputeInstanceID = new(1), new(i%2)
			}
			peel(t, order, f, g, c)
		}
	})
	// What a display server holds decides whether memory is little or much.
	for _, alive := range []*bool{nil, new(false), new(true)} {
		for _, memory := range []*int64{nil, new(int64(400))} {
			for range 50 {
				g := a100()
				g.MemoryUsed, g.UtilizationGPU = new(int64(900)), nil
				p := proc("root", snapshot.Graphics, 0)
				p.Alive, p.UsedMemory = alive, memory
				peel(t, order, facts{procs: "a display server"}, g, cast{list: []snapshot.Process{p}})
			}
		}
	}
}

// partitioned is a card with two slices, the first of which holds what f says.
func partitioned(f facts) snapshot.GPU {
	g := f.gpu()
	g.MIGMode = "enabled"
	g.MIGDevices = []snapshot.MIGDevice{
		{MemoryTotal: g.MemoryTotal, MemoryUsed: g.MemoryUsed},
		{MemoryTotal: new(int64(4864)), MemoryUsed: new(int64(12))},
	}
	return g
}

func peel(t *testing.T, order *rand.Rand, f facts, g snapshot.GPU, c cast) {
	t.Helper()
	g.ECC, g.RemappedRows = &snapshot.ECC{UncorrectedVolatile: new(int64(0))},
		&snapshot.Remapped{Pending: new(false), Failure: new(false)}
	if c.hidden {
		g.ProcessesUnknown = "N/A"
	}
	snap := &snapshot.Snapshot{Host: "gpu01", IntervalSeconds: 20, CollectedAt: snapshot.TimeOf(now),
		GPUs: []snapshot.GPU{g}, GPUsComplete: true,
		Processes: append([]snapshot.Process{}, c.list...)}
	in := board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}}, Calendar: &booking.Calendar{}}
	if f.booker != "" {
		in.Calendar.Bookings = []booking.Booking{by(f.booker, booking.Reserved)}
	}
	look := func() (states []board.State) {
		in.Reports = map[string]board.Report{"gpu01": {Snapshot: snap}}
		b, _ := board.Merge(in)
		for g := range b.Hosts[0].Rows() {
			states = append(states, g.State)
		}
		return states
	}
	snap = copied(t, snap)
	was := look()
	for {
		things := takings(snap)
		if len(things) == 0 {
			return
		}
		taken := things[order.IntN(len(things))]
		before := copied(t, snap)
		taken.away()
		is := look()
		contradiction := contradicts(before) ||
			snap.GPUs != nil && before.GPUs[0].UtilizationGPU != nil && snap.GPUs[0].UtilizationGPU == nil
		for i, s := range is {
			free := (s == board.Free || s == board.Booked) && !quiet(&snap.GPUs[0])
			if i < len(was) && s != was[i] && (s == board.Stuck || free) && !contradiction {
				text, _ := json.Marshal(before)
				t.Fatalf("%s: row %d is %s without %s, and %s before; of\n%s", f, i, s, taken.what, was[i], text)
			}
		}
		was = is
	}
}

// contradicts reports whether a process is said to hold more memory than is in use on the GPU and each of its slices.
func contradicts(s *snapshot.Snapshot) bool {
	if s.GPUs == nil || s.GPUs[0].MemoryShared {
		return false
	}
	most := int64(-1)
	for _, used := range append(usedOnSlices(&s.GPUs[0]), s.GPUs[0].MemoryUsed) {
		if used != nil {
			most = max(most, *used)
		}
	}
	return most >= 0 && slices.ContainsFunc(s.Processes, func(p snapshot.Process) bool {
		return p.UsedMemory != nil && *p.UsedMemory > most
	})
}

func usedOnSlices(g *snapshot.GPU) (used []*int64) {
	for i := range g.MIGDevices {
		used = append(used, g.MIGDevices[i].MemoryUsed)
	}
	return used
}

// quiet reports whether a card says by itself that nobody computes on it.
func quiet(g *snapshot.GPU) bool {
	little := !g.MemoryShared && g.MemoryUsed != nil && *g.MemoryUsed <= 400
	return g.MIGMode == "" && little && g.UtilizationGPU != nil && *g.UtilizationGPU < 5
}

// copied is a snapshot of its own that says the same.
func copied(t *testing.T, s *snapshot.Snapshot) *snapshot.Snapshot {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out := &snapshot.Snapshot{}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A taking is one thing that a snapshot can do without.
type taking struct {
	what string
	away func()
}

// takings are all of them: each pointer, each list, whether the driver answered
// in full, and what is known of processes.
func takings(s *snapshot.Snapshot) []taking {
	list := pointers("snapshot", reflect.ValueOf(s).Elem())
	if s.GPUsComplete {
		list = append(list, taking{"gpus_complete", func() { s.GPUsComplete = false }})
	}
	for i := range s.GPUs {
		if g := &s.GPUs[i]; g.ProcessesUnknown == "" {
			list = append(list, taking{"knowledge of processes", func() { g.ProcessesUnknown = "N/A" }})
		}
	}
	for i := range s.Processes {
		list = append(list, taking{"a process", func() {
			for j := range s.GPUs {
				if s.GPUs[j].Index == s.Processes[i].GPU {
					s.GPUs[j].ProcessesUnknown = "damaged"
				}
			}
			s.Processes = slices.Delete(s.Processes, i, i+1)
		}})
	}
	return list
}

// pointers finds what can be nil below v, and is not.
func pointers(name string, v reflect.Value) []taking {
	var list []taking
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list = append(list, taking{name, v.SetZero})
		if v.Kind() == reflect.Pointer {
			return append(list, pointers(name, v.Elem())...)
		}
		for i := range v.Len() {
			list = append(list, pointers(fmt.Sprintf("%s[%d]", name, i), v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				list = append(list, pointers(name+"."+field.Name, v.Field(i))...)
			}
		}
	}
	return list
}
