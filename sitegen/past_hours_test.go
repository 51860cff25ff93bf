package sitegen

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/board"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/sitegen/render"
)

// A finished hour that cannot be read at the moment is read later; one with invalid
// content is reported once.
func TestFinishedHourThatCannotBeReadYet(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	drop := filepath.Join(dir, "drop", "gpu01")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	const boot = "aaaaaaaa-1111-4222-8333-444455556666"
	start := now.Add(-2 * time.Hour)
	raw, err := snapshot.EncodeHour(&snapshot.Hour{
		Host: "gpu01", BootID: boot, Start: start, Samples: []snapshot.Sample{{Seq: 1, At: start}},
	})
	if err != nil {
		t.Fatal(err)
	}
	good, bad, second := filepath.Join(drop, "hour-20261120T10-aaaaaaaa.jsonl.gz"),
		filepath.Join(drop, "hour-20261120T09-aaaaaaaa.jsonl.gz"), filepath.Join(dir, "second name")
	for name, content := range map[string][]byte{good: raw, bad: []byte("broken")} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(good, second); err != nil {
		t.Fatal(err)
	}
	drops, err := spool.OpenDrops(dir)
	if err != nil {
		t.Fatal(err)
	}
	g, mem := &Generator{drops: drops}, &memory{Hours: map[string]*hours{}}
	for _, want := range []struct{ batches, taken, problems int }{
		{0, 1, 2}, // the good one has two names for now
		{0, 0, 1},
		{1, 1, 0},
		{0, 0, 0},
	} {
		if want.batches == 1 {
			if err := os.Remove(second); err != nil {
				t.Fatal(err)
			}
		}
		batches, taken := 0, 0
		problems := g.finishedHours("gpu01", now, mem, func(name string, hour *snapshot.Hour) {
			if taken++; hour != nil {
				batches++
			}
			mem.Hours["gpu01"].Taken[name] = true
		})
		if batches != want.batches || taken != want.taken || len(problems) != want.problems {
			t.Errorf("%v: %d hours, %d taken, problems %v; want %+v", now, batches, taken, problems, want)
		}
		now = now.Add(lookEvery)
	}
}

// TestManyFinishedHours: history gets them before too many are in memory.
func TestManyFinishedHours(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	store, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), now, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mem := &memory{Hours: map[string]*hours{"gpu01": {Taken: map[string]bool{}}}}
	in := intake{history: store, mem: mem}
	hour := &snapshot.Hour{Samples: make([]snapshot.Sample, snapshot.MaxSamples)}
	for i := range hour.Samples {
		hour.Samples[i].GPUs = make([]snapshot.GPUSample, snapshot.MaxGPUs)
	}
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		in.add(t.Context(), now, "gpu01", name, hour)
		if waiting := len(in.batches); waiting*snapshot.MaxSamples*snapshot.MaxGPUs >= maxReadings {
			t.Fatalf("%d hours wait", waiting)
		}
	}
	if taken := mem.Hours["gpu01"].Taken; len(taken) != 4 || taken["5"] {
		t.Errorf("taken in: %v", taken)
	}
}

// What is remembered of the hours of hosts that are not in the list any more goes.
func TestHoursOfFormerHostsAreForgotten(t *testing.T) {
	g, now := &Generator{opt: Options{State: t.TempDir()}}, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	mem := g.recall()
	mem.Hours["here"], mem.Hours["gone"] = &hours{Looked: now.Add(
		-forgetHours)}, &hours{Looked: now.Add(-forgetHours - 1)}
	if err := g.remember(mem, now); err != nil {
		t.Fatal(err)
	}
	if again := g.recall().Hours; len(again) != 1 || again["here"] == nil {
		t.Errorf("remembered are %v", again)
	}
}

// When a snapshot was first seen outlives the process: a host whose clock is wrong is old by it alone.
func TestWhatWasSeenIsRemembered(t *testing.T) {
	g, now := &Generator{opt: Options{State: t.TempDir()}}, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s := &snapshot.Snapshot{Host: "gpu01", Seq: 7, BootID: "aaaaaaaa-1111-4222-8333-444455556666"}
	mem := g.recall()
	mem.see("gpu01", &snapshot.Snapshot{Host: "gpu01", Seq: 6, BootID: s.BootID}, now.Add(-time.Minute))
	mem.see("gpu01", s, now)
	mem.keep("gpu01", &snapshot.Bundle{Host: "gpu01", BootID: s.BootID, Snapshot: s}, nil)
	if err := g.remember(mem, now); err != nil {
		t.Fatal(err)
	}
	if got := g.recall().see("gpu01", s, now.Add(time.Hour)); !got.Equal(now) {
		t.Errorf("it was first seen at %v, want %v", got, now)
	}
}

// Days of a window are added up.
func TestHoursOfDaysAreAddedUp(t *testing.T) {
	from := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	var days []*dayPast
	for i := range 3 {
		day := history.HostTotal{
			Host: "gpu01", FreeHours: float64(i + 1), KnownHours: float64(10 * (i + 1)), Covered: 12 * 3600,
		}
		days = append(days,
			&dayPast{Start: from.AddDate(0, 0, i-1), Fleet: history.Fleet{Hosts: []history.HostTotal{day}}})
	}
	b := &board.Board{Hosts: []board.Host{{Name: "gpu02"}}} // which has sent nothing yet; gpu01 is gone
	w := window(days, from, from.AddDate(0, 0, 2), b, func(name string) string { return name }, nil)
	if len(w.Hosts) != 1 || w.Hosts[0].FreeHours != 2+3 || w.Hosts[0].KnownHours != 20+30 {
		t.Errorf("%+v, want 5 free of 50 known hours", w.Hosts)
	}
	if w.Coverage != 0.25 || w.Hosts[0].Coverage != 0.5 {
		t.Errorf("seen are %v of all and %v of gpu01, want a quarter and half", w.Coverage, w.Hosts[0].Coverage)
	}
}

// TestWindow: hosts and teams are in order, and a team has what its members have.
func TestWindow(t *testing.T) {
	from := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	var hosts, people []string
	d := &dayPast{Start: from}
	for i := range 9 {
		name := fmt.Sprint("x", 8-i)
		d.Hosts = append(d.Hosts, history.HostTotal{Host: name})
		d.Users = append(d.Users, history.UserTotal{Name: strings.ToUpper(name), Use: history.Use{GPUHours: 1}})
		hosts, people = append(hosts, fmt.Sprint("x", i)), append(people, name)
	}
	w := window([]*dayPast{d}, from, from.AddDate(0, 0, 1), &board.Board{}, strings.ToLower,
		map[string][]string{"b": people, "a": people[:2], "c": nil})
	if !slices.EqualFunc(w.Hosts, hosts, func(h render.PastHost, name string) bool { return h.Name == name }) {
		t.Errorf("hosts %+v", w.Hosts)
	}
	if len(w.Users) != 9 || len(w.Teams) != 3 || w.Teams[0].Name != "a" || w.Teams[0].GPUHours != 2 ||
		w.Teams[1].GPUHours != 9 || w.Teams[2].GPUHours != 0 {
		t.Errorf("%d users, teams %+v", len(w.Users), w.Teams)
	}
}

// TestCoverage: of all hosts, those that are expected and those that were there, since a moment.
func TestCoverage(t *testing.T) {
	from := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	day := func(start time.Time, seconds ...float64) *dayPast {
		d := &dayPast{Start: start}
		for i, s := range seconds {
			d.Hosts = append(d.Hosts, history.HostTotal{Host: fmt.Sprint("gpu", i), Covered: s})
		}
		return d
	}
	for name, tt := range map[string]struct {
		days   []*dayPast
		hosts  []board.Host
		length time.Duration
		want   float64
	}{
		"one host": {[]*dayPast{day(from, 43200)}, nil, 24 * time.Hour, 0.5},
		"two":      {[]*dayPast{day(from, 43200, 0)}, nil, 24 * time.Hour, 0.25},
		"one that sent nothing": {[]*dayPast{day(from, 43200)}, []board.Host{{Name: "gpu0"}, {Name: "new"}},
			24 * time.Hour, 0.25},
		"days before": {[]*dayPast{day(from.Add(-1), 86400), day(from, 21600)}, nil, 24 * time.Hour,
			0.25},
		"more than there was":       {[]*dayPast{day(from, 86400)}, nil, 12 * time.Hour, 1},
		"no host":                   {nil, nil, 24 * time.Hour, 0},
		"no time":                   {[]*dayPast{day(from, 1)}, nil, 0, 0},
		"a clock that was set back": {[]*dayPast{day(from, 1)}, nil, -time.Hour, 0},
	} {
		if got := coverageOf(tt.days, from, from.Add(tt.length), &board.Board{Hosts: tt.hosts}); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestDaysThatCannotChangeAreKept: the last three days can, and are added up each time.
func TestDaysThatCannotChangeAreKept(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	store, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), now, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, ago := range []time.Duration{6 * 24 * time.Hour, 0} {
		at := now.Add(-ago)
		sample := snapshot.Sample{Seq: 1, At: at, GPUs: []snapshot.GPUSample{{UUID: "GPU-1", Utilization: new(50)}}}
		if err := store.IngestAll(t.Context(), at, []history.Batch{{
			Host: "gpu01", Boot: ago.String(), Samples: []snapshot.Sample{sample},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	g := &Generator{opt: Options{State: t.TempDir(), History: store, About: render.Site{Zone: time.UTC}}}
	for i := range 2 {
		days, err := g.readDays(t.Context(), now.Add(time.Duration(i)*time.Second), &board.Board{})
		if err != nil || len(days) != 7 {
			t.Fatalf("generation %d: %d days, %v", i, len(days), err)
		}
		for j := range days {
			if start := now.Truncate(24*time.Hour).AddDate(0, 0, j-6); !days[j].Start.Equal(start) {
				t.Errorf("day %d begins at %s", j, days[j].Start)
			}
			_, kept, err := store.KeptFleet(t.Context(), hoursOf(days[j].Start, days[j].End))
			if err != nil || kept != (j < 4) {
				t.Errorf("day %d is kept: %v, %v", j, kept, err)
			}
		}
	}
}

func TestHoursOfADay(t *testing.T) {
	start := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	for length, last := range map[time.Duration]time.Duration{
		24 * time.Hour:                time.Hour,
		23*time.Hour + 30*time.Minute: 30 * time.Minute,
		25 * time.Hour:                time.Hour,
	} {
		at := hoursOf(start, start.Add(length))
		n := len(at) - 1
		if !at[0].Equal(start) || !at[n].Equal(start.Add(length)) || at[n].Sub(at[n-1]) != last ||
			at[1].Sub(at[0]) != time.Hour {
			t.Errorf("a day of %v: %v", length, at)
		}
	}
}

// TestHeat: two Wednesdays, the second of which is not over, and one that is too long ago.
func TestHeat(t *testing.T) {
	from := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	day := func(days int, held, free, utilization float64) *dayPast {
		d := &dayPast{Start: from.AddDate(0, 0, days), End: from.AddDate(0, 0, days+1)}
		for range 24 {
			d.Steps = append(d.Steps, render.FleetStep{
				Reported: new(held + free), Held: &held, Free: &free, Utilization: &utilization,
			})
		}
		d.Steps[7] = render.FleetStep{} // nobody has seen it
		return d
	}
	days := []*dayPast{day(-7, 9, 9, 9), day(0, 3, 1, 50), day(7, 1, 1, 20)}
	cells := heat(days, from, from.AddDate(0, 0, 7).Add(12*time.Hour), time.UTC)
	both, one := render.HeatHour{KnownHours: 6, Held: new(100 * 4.0 / 6), Utilization: new(240.0 / 6)},
		render.HeatHour{KnownHours: 4, Held: new(75.0), Utilization: new(50.0)}
	for hour, want := range map[int]render.HeatHour{0: both, 7: {}, 11: both, 12: one, 23: one} {
		if d := cmp.Diff(want, cells[time.Wednesday][hour]); d != "" {
			t.Errorf("hour %d (-want +got):\n%s", hour, d)
		}
	}
	if d := cmp.Diff(render.HeatHour{}, cells[time.Thursday][0]); d != "" {
		t.Errorf("a day that nobody has seen (-want +got):\n%s", d)
	}
}

// TestPeopleOverTime: two names of one person are one, who is not known is nobody, and a step that nobody has seen
// does not count. Somebody who came later used nothing before.
func TestPeopleOverTime(t *testing.T) {
	from := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	day := func(days int, people map[string]float64) *dayPast {
		d := &dayPast{Start: from.AddDate(0, 0, days), End: from.AddDate(0, 0, days+1)}
		d.People = map[string][]float64{}
		for hour := range 24 {
			d.Steps = append(d.Steps, render.FleetStep{Held: new(9.0)})
			for name, held := range people {
				if hour == 7 {
					held = 0
				}
				d.People[name] = append(d.People[name], held)
			}
		}
		d.Steps[7] = render.FleetStep{}
		return d
	}
	days := []*dayPast{day(0, map[string]float64{"mira": 1, "mm": 2, "": 5}),
		day(1, map[string]float64{"mira": 1, "kai": 8})}
	midnights := []time.Time{from, from.AddDate(0, 0, 1), from.AddDate(0, 0, 2)}
	span := foldDays(days, midnights, from, from.AddDate(0, 0, 2), 12, func(name string) string {
		if name == "mm" {
			return "mira"
		}
		return name
	})
	want := []render.PersonSteps{
		{Name: "kai", Held: []float64{0, 0, 8, 8}}, {Name: "mira", Held: []float64{3, 3, 1, 1}},
	}
	if d := cmp.Diff(want, span.People); d != "" {
		t.Error(d)
	}
}

// TestChartsThatCannotBeRead: it is said once, and what was added up before stays.
func TestChartsThatCannotBeRead(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	store, err := history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), now, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	b := &board.Board{Hosts: []board.Host{{Name: "gpu01"}}}
	for name, fleet := range map[string]*fleetFile{
		"nothing known":   nil,
		"the fleet known": {Past: &render.FleetPast{}, Done: now},
	} {
		g := &Generator{opt: Options{State: t.TempDir(), History: store, About: render.Site{Zone: time.UTC}},
			fleet: fleet}
		past, problems := g.pageHistory(t.Context(), now, b, func(name string) string { return name }, &memory{})
		if len(problems) != 1 || problems[0].Code != "history:unreadable" || (past.Fleet != nil) != (fleet != nil) {
			t.Errorf("%s: problems %+v, the fleet is known: %t", name, problems, past.Fleet != nil)
		}
	}
}
