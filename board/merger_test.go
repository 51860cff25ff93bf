package board_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/board"
	"gpuboard/booking"
	"gpuboard/history"
	"gpuboard/inventory"
	"gpuboard/snapshot"
)

// A world is everything that boards are made from, and changes at random. What it
// hands out is never changed: a change makes a new one.
type world struct {
	*rand.Rand
	in      board.Input
	aliases map[string]string
	old     []board.Marks
}

func pick[T any](w *world, from ...T) T { return from[w.IntN(len(from))] }

// near is a moment about now, and often the same one.
func (w *world) near() time.Time {
	return w.in.Now.Add(time.Duration(w.IntN(400)-200) * pick(w, time.Second, time.Minute, 10*time.Minute))
}

func (w *world) snapshot() *snapshot.Snapshot {
	s := &snapshot.Snapshot{
		CollectedAt:     snapshot.Time{Time: w.in.Now.Add(-pick(w, 0, 5*time.Second, 50*time.Second, time.Minute, 3*time.Hour, 24*time.Hour-time.Second, -30*time.Second, -70*time.Second))},
		IntervalSeconds: pick(w, 0, 20, 300), DriverVersion: pick(w, "1", "2"),
	}
	if w.IntN(5) == 0 {
		s.Errors = []snapshot.Problem{{Code: "smi:partial", Message: "some"}}
	}
	for i := range w.IntN(4) {
		g := snapshot.GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: pick(w, "NVIDIA A100", "Tesla T4"), Health: pick(w, snapshot.HealthOK, snapshot.HealthOK, snapshot.HealthOK, snapshot.HealthLost, snapshot.HealthUnknown)}
		if w.IntN(4) == 0 {
			g.UUID = pick(w, "", "GPU-0")
		}
		if w.IntN(8) > 0 {
			g.MemoryTotal, g.MemoryUsed, g.UtilizationGPU = new(int64(40960)), new(pick(w, int64(4), 4, 600, 30000)), new(pick(w, 0, 50))
		}
		s.GPUs = append(s.GPUs, g)
		for range w.IntN(3) {
			p := snapshot.Process{GPU: i, PID: w.IntN(9), User: pick(w, "", "eva", "jun", "Kai"), Type: pick(w, snapshot.Compute, snapshot.Compute, snapshot.Graphics), Program: pick(w, "a", "nv-hostengine"), UsedMemory: new(int64(w.IntN(4) * 7000))}
			if w.IntN(3) > 0 {
				p.StartedAt = &snapshot.Time{Time: w.near()}
			}
			if w.IntN(4) == 0 {
				p.Alive = new(w.IntN(2) == 0)
			}
			s.Processes = append(s.Processes, p)
		}
	}
	return s
}

func (w *world) booking(host string) booking.Booking {
	b := booking.Booking{
		ID: fmt.Sprint(w.IntN(1000)), Host: host, Name: pick(w, "eva", "jun"), Kind: pick(w, booking.Reserved, booking.Reserved, booking.Maintenance),
		Target: pick(w, booking.Target{All: true, Index: -1}, booking.Target{Index: w.IntN(3)}, booking.Target{UUID: "GPU-1", Index: -1}), From: w.near(), Line: w.IntN(9),
	}
	if w.IntN(3) > 0 {
		b.Until = b.From.Add(time.Duration(w.IntN(90)) * time.Minute)
	}
	return b
}

func (w *world) past() history.GPU {
	g := history.GPU{Utilization: []*float64{nil, new(w.Float64())}}
	if w.IntN(2) == 0 {
		g.IdleSince = w.near()
	}
	return g
}

// host returns one of the hosts, and replaces the list by another that may be changed.
func (w *world) host() *inventory.Host {
	w.in.Hosts = slices.Clone(w.in.Hosts)
	return &w.in.Hosts[w.IntN(len(w.in.Hosts))]
}

// change changes one thing.
func (w *world) change() {
	h := w.host()
	switch w.IntN(21) {
	case 0, 1, 2:
		w.in.Reports = maps.Clone(w.in.Reports)
		r := board.Report{Snapshot: w.snapshot(), SeenAt: pick(w, time.Time{}, w.in.Now, w.near())}
		if w.IntN(6) == 0 {
			r.Snapshot = nil
		}
		w.in.Reports[h.Name] = r
	case 3:
		w.in.Reports = maps.Clone(w.in.Reports)
		r := w.in.Reports[h.Name]
		r.Problems = pick(w, nil, []snapshot.Problem{}, []snapshot.Problem{{Code: "bad:parse", Message: "that"}}, []snapshot.Problem{{Code: "bad:parse", Message: "this"}})
		w.in.Reports[h.Name] = r
	case 4:
		w.in.Reports = maps.Clone(w.in.Reports)
		r := w.in.Reports[h.Name]
		r.SeenAt = w.near()
		w.in.Reports[h.Name] = r
	case 5, 6:
		cal := *w.in.Calendar
		cal.Bookings = append(slices.Clone(cal.Bookings), w.booking(h.Name))
		w.in.Calendar = &cal
	case 7:
		cal := *w.in.Calendar
		if len(cal.Bookings) > 0 {
			i := w.IntN(len(cal.Bookings))
			cal.Bookings = slices.Delete(slices.Clone(cal.Bookings), i, i+1)
		}
		w.in.Calendar = &cal
	case 8:
		cal := *w.in.Calendar
		cal.Bookings = slices.Clone(cal.Bookings) // read again, and maybe other in one thing
		if len(cal.Bookings) > 0 {
			b := &cal.Bookings[w.IntN(len(cal.Bookings))]
			switch w.IntN(5) {
			case 0:
				b.Kind = pick(w, booking.Reserved, booking.Maintenance)
			case 1:
				b.Comment += "x"
			case 2:
				b.Line++
			case 3:
				b.Until = w.near()
			}
		}
		w.in.Calendar = &cal
	case 9:
		w.aliases = maps.Clone(w.aliases)
		w.aliases[pick(w, "eva", "jun", "Kai", "other")] = pick(w, "jun", "kai")
		if w.IntN(3) == 0 {
			w.aliases = map[string]string{}
		}
	case 10, 18, 19, 20:
		recent := history.Recent{GPUs: map[history.Key]history.GPU{}, Users: []history.User{{Name: pick(w, "eva", "ina"), Mean2h: new(float64(w.IntN(2)))}}}
		if w.in.Recent != nil {
			maps.Copy(recent.GPUs, w.in.Recent.GPUs)
		}
		key := history.Key{Host: h.Name, GPU: pick(w, "GPU-0", "GPU-0", "GPU-1", "GPU-2", "index:1")}
		switch past, there := recent.GPUs[key]; {
		case there && w.IntN(4) > 0:
			past.IdleSince = w.near() // with the same series
			recent.GPUs[key] = past
		case w.IntN(4) == 0:
			delete(recent.GPUs, key)
		default:
			recent.GPUs[key] = w.past()
		}
		w.in.Recent = &recent
		if w.IntN(9) == 0 {
			w.in.Recent = nil
		}
	case 11:
		v := reflect.ValueOf(h).Elem()
		f := 1 + w.IntN(v.NumField()-1)
		set(v.Field(f), w.IntN(3))
	case 12:
		w.in.Hosts = append(w.in.Hosts, inventory.Host{Name: fmt.Sprintf("gpu%d", w.IntN(12)), Group: pick(w, "", "b", "A")})
	case 13:
		if len(w.in.Hosts) > 1 {
			w.in.Hosts = w.in.Hosts[1:]
		}
	case 14:
		w.Shuffle(len(w.in.Hosts), reflect.Swapper(w.in.Hosts))
	case 15:
		v := reflect.ValueOf(&w.in.Settings).Elem()
		set(v.Field(w.IntN(v.NumField())), w.IntN(3))
	case 16:
		switch w.IntN(4) {
		case 0:
			w.in.Marks = nil
		case 1:
			w.in.Marks = maps.Clone(w.in.Marks)
		case 2:
			w.in.Marks = maps.Clone(w.in.Marks)
			for key, mark := range w.in.Marks {
				mark.Seen, mark.Since = w.near(), w.near()
				w.in.Marks[key] = mark
				break
			}
		case 3:
			if len(w.old) > 0 {
				w.in.Marks = pick(w, w.old...)
			}
		}
	case 17:
		cal := *w.in.Calendar
		cal.File, cal.Broken = pick(w, "comments.json", "other.json"), w.IntN(2) == 0
		w.in.Calendar, w.in.Demo, w.in.Interval = &cal, w.IntN(2) == 0, time.Duration(w.IntN(2))*time.Minute
	}
}

// set gives a field its nth value.
func set(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf([]time.Time{{}, now, now.Add(1)}[n]))
	case time.Duration:
		v.SetInt([]int64{0, int64(90 * time.Second), int64(40 * time.Minute)}[n])
	case []string:
		v.Set(reflect.ValueOf([][]string{nil, {}, {"a"}}[n]))
	case map[string]string:
		v.Set(reflect.ValueOf([]map[string]string{nil, {}, {"Tesla T4": "four"}}[n]))
	case inventory.Check:
		v.Set(reflect.ValueOf([]inventory.Check{"", inventory.Critical, inventory.Maintenance}[n]))
	case []inventory.Source:
		v.Set(reflect.ValueOf([][]inventory.Source{nil, {}, {inventory.FromList}}[n]))
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString([]string{"", "x", "y"}[n])
		case reflect.Bool:
			v.SetBool(n == 1)
		case reflect.Int, reflect.Int64:
			v.SetInt([]int64{0, 2, 20000}[n])
		case reflect.Float64:
			v.SetFloat([]float64{0, 3, 90}[n])
		default:
			panic("a field of a kind that this does not know: " + v.Type().String())
		}
	}
}

// wait lets time pass: a little, much, backwards, or to a moment at which
// something may become another.
func (w *world) wait() {
	switch w.IntN(8) {
	case 0:
	case 1, 2:
		w.in.Now = w.in.Now.Add(pick(w, 1, time.Second, 20*time.Second, time.Minute))
	case 3:
		w.in.Now = w.in.Now.Add(pick(w, time.Hour, 25*time.Hour, -time.Second, -10*time.Minute, -48*time.Hour))
	default:
		var moments []time.Time
		h := w.in.Hosts[w.IntN(len(w.in.Hosts))]
		r := w.in.Reports[h.Name]
		if r.Snapshot != nil {
			at := r.Snapshot.CollectedAt.Time
			moments = append(moments, at, at.Add(time.Minute), at.Add(-time.Minute), at.Add(90*time.Second), at.Add(-90*time.Second), at.Add(15*time.Minute), at.Add(24*time.Hour), r.SeenAt.Add(time.Minute), r.SeenAt.Add(90*time.Second), r.SeenAt.Add(15*time.Minute))
			for _, p := range r.Snapshot.Processes {
				if p.StartedAt != nil {
					moments = append(moments, p.StartedAt.Time)
				}
			}
		}
		for _, b := range w.in.Calendar.Bookings {
			moments = append(moments, b.From, b.From.Add(2*time.Hour), b.From.Add(90*time.Second), b.Until, b.Until.Add(90*time.Second), b.Until.Add(48*time.Hour))
		}
		if w.in.Recent != nil {
			for _, key := range slices.SortedFunc(maps.Keys(w.in.Recent.GPUs), byKey) {
				moments = append(moments, w.in.Recent.GPUs[key].IdleSince)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(w.in.Marks)) {
			mark := w.in.Marks[key]
			moments = append(moments, mark.Since, mark.Seen, mark.Since.Add(2*time.Hour), mark.Seen.Add(2*time.Hour), mark.Since.Add(90*time.Second), mark.Seen.Add(90*time.Second))
		}
		moments = slices.DeleteFunc(moments, func(t time.Time) bool { return !t.After(w.in.Now.Add(1)) || t.Sub(w.in.Now) > 72*time.Hour })
		slices.SortFunc(moments, time.Time.Compare)
		if len(moments) > 0 {
			w.in.Now = moments[min(w.IntN(3), w.IntN(3), len(moments)-1)].Add(time.Duration(w.IntN(3) - 1))
		}
	}
}

func byKey(x, y history.Key) int {
	return slices.Compare([]string{x.Host, x.GPU}, []string{y.Host, y.GPU})
}

// A Merger that goes on makes the boards that one makes which begins, whatever
// changes and however time passes. Its boards share what did not change, and the
// older ones stay what they were.
func TestMergerIsMerge(t *testing.T) {
	worlds := 100
	if testing.Short() {
		worlds = 20
	}
	shared, made := 0, 0
	for seed := range worlds {
		w := &world{Rand: rand.New(rand.NewPCG(1, uint64(seed))), aliases: map[string]string{}}
		w.in = board.Input{Now: now, Calendar: &booking.Calendar{File: "comments.json"}, Reports: map[string]board.Report{}}
		if w.IntN(2) == 0 { // where news lasts, so that other things have time to change
			w.in.Settings = board.Settings{StaleAfter: 40 * time.Minute, NoShow: 90 * time.Second, ShowExpired: 90 * time.Second}
		}
		for i := range 1 + w.IntN(4) {
			name := fmt.Sprintf("gpu%d", i*5)
			w.in.Hosts = append(w.in.Hosts, inventory.Host{Name: name, Group: pick(w, "", "b", "A"), ExpectedGPUs: w.IntN(4)})
			w.in.Reports[name] = board.Report{Snapshot: w.snapshot()}
		}
		var merger board.Merger
		var last, lastWant *board.Board
		for step := range 60 {
			for range pick(w, 0, 0, 0, 1, 1, 3) {
				w.change()
			}
			w.wait()
			aliases := w.aliases
			w.in.Person = func(name string) string {
				if other, ok := aliases[name]; ok {
					return other
				}
				return name
			}
			if len(aliases) == 0 && w.IntN(2) == 0 {
				w.in.Person = nil
			}
			got, marks := merger.Merge(w.in)
			want, wantMarks := board.Merge(w.in)
			all := cmp.AllowUnexported(board.Host{})
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d, step %d: the board differs (- as it should be):\n%s", seed, step, cmp.Diff(want, got, all))
			}
			if !reflect.DeepEqual(marks, wantMarks) {
				t.Fatalf("seed %d, step %d: the marks differ (- as they should be):\n%s", seed, step, cmp.Diff(wantMarks, marks))
			}
			if last != nil && !reflect.DeepEqual(last, lastWant) {
				t.Fatalf("seed %d, step %d changed the last board (- as it was):\n%s", seed, step, cmp.Diff(lastWant, last, all))
			}
			if last != nil && w.IntN(9) > 0 { // or that generation failed
				w.in.Marks = marks
				w.old = append(w.old, marks)
			}
			for i := range got.Hosts {
				if last != nil && len(got.Hosts[i].GPUs) > 0 {
					made++
					if i < len(last.Hosts) && len(last.Hosts[i].GPUs) > 0 && &last.Hosts[i].GPUs[0] == &got.Hosts[i].GPUs[0] {
						shared++
					}
				}
			}
			last, lastWant = got, want
		}
	}
	if shared < made/8 || shared > made-made/8 {
		t.Errorf("of %d cards %d were those of the last board: this proves too little", made, shared)
	}
}

// Whatever an entry of the inventory, the settings or history say otherwise is on the
// next board, with nothing else new.
func TestMergerSeesEveryField(t *testing.T) {
	entry := inventory.Host{Name: "gpu01", ExpectedGPUs: 1, CheckOutput: "so"}
	settings := board.Settings{ServicePrograms: []string{}}
	reports := map[string]board.Report{"gpu01": {Snapshot: &snapshot.Snapshot{CollectedAt: snapshot.Time{Time: now.Add(-time.Minute)}, GPUs: []snapshot.GPU{a100()}}}}
	past := history.GPU{IdleSince: now.Add(-2 * time.Hour)}
	var merger board.Merger
	var marks board.Marks
	check := func(what string) {
		t.Helper()
		for range 3 { // after which it is taken from the last
			in := board.Input{Now: now, Hosts: []inventory.Host{entry}, Settings: settings, Reports: reports, Marks: marks,
				Recent: &history.Recent{GPUs: map[history.Key]history.GPU{{Host: "gpu01", GPU: "GPU-1"}: past}}}
			want, _ := board.Merge(in)
			var got *board.Board
			got, marks = merger.Merge(in)
			if d := cmp.Diff(want, got, cmp.AllowUnexported(board.Host{})); d != "" {
				t.Fatalf("%s (- as it should be):\n%s", what, d)
			}
		}
	}
	check("nothing")
	past.IdleSince = now.Add(-3 * time.Hour)
	check("idle for longer")
	past.Utilization = []*float64{new(3.0)}
	check("another series")
	for _, v := range []reflect.Value{reflect.ValueOf(&entry).Elem(), reflect.ValueOf(&settings).Elem()} {
		for i := range v.NumField() {
			was := reflect.ValueOf(v.Field(i).Interface())
			for n := range 3 {
				if name := v.Type().Field(i).Name; name != "Name" {
					set(v.Field(i), n)
					check(fmt.Sprint(name, " ", n))
				}
			}
			v.Field(i).Set(was)
		}
	}
}
