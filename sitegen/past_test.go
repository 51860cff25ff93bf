package sitegen_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// TestPublishedHistoryMatchesTheSimulation runs two days of three hosts through drops and
// generations: one falls silent for good for four hours, one is cut off for
// three and delivers later, the clock of one is wrong for an hour, and for one
// hour nobody says anything. Everything that the site publishes is held against
// the simulation. Tolerances: 1 % of hours, and what one sample stands for
// beyond the end of an outage.
func TestPublishedHistoryMatchesTheSimulation(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes two days of samples")
	from := time.Date(2026, 10, 24, 10, 0, 0, 0, time.UTC)
	end := from.Add(48 * time.Hour)
	l := newPastLab(t, "Europe/Paris", from, end, "atlas", "boreas", "dione")
	g := l.generator()
	hours := func(a, b int) (time.Time, time.Time) {
		return from.Add(time.Duration(a) * time.Hour), from.Add(time.Duration(b) * time.Hour)
	}
	in := func(at time.Time, a, b int) bool {
		x, y := hours(a, b)
		return !at.Before(x) && at.Before(y)
	}
	const round = 2 * time.Hour
	for at := from; at.Before(end); at = at.Add(round) {
		for _, h := range l.hosts {
			if h.Name == "boreas" && in(at, 10, 14) || in(at, 30, 32) {
				continue // the silence of one, and of all
			}
			wrong := time.Duration(0)
			if h.Name == "atlas" && in(at, 20, 22) {
				wrong = -40 * time.Minute // over what it has said already
			}
			if h.Name == "dione" && in(at, 36, 40) {
				for part := at; part.Before(at.Add(round)); part = part.Add(time.Hour) {
					samples, _ := l.collect(h.Name, part, part.Add(time.Hour), 0)
					raw, err := snapshot.EncodeHour(
						&snapshot.Hour{Host: h.Name, BootID: l.boot, Start: part, Samples: samples})
					l.write("late/hour-"+part.Format("20060102T15")+"-"+l.boot[:8]+".jsonl.gz", raw, err)
				}
				continue
			}
			samples, last := l.collect(h.Name, at, at.Add(round), wrong)
			l.push(h.Name, samples, last)
		}
		if at.Equal(from.Add(40 * time.Hour)) { // the link is back
			files, err := filepath.Glob(filepath.Join(l.dir, "late", "*"))
			if err != nil || len(files) != 4 {
				t.Fatal(files, err)
			}
			for _, f := range files {
				if err := os.Rename(f, filepath.Join(l.dir, "data", "drop", "dione", filepath.Base(f))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if at.Equal(from.Add(24 * time.Hour)) {
			g = l.generator() // another process goes on
		}
		l.generate(g, at.Add(round))
	}
	l.generate(g, end.Add(6*time.Minute)) // the turn of every host has come

	var users, hosts windowsJSON
	l.read("api/v1/history/users.json", &users)
	l.read("api/v1/history/hosts.json", &hosts)
	var week = users.Windows[1]
	if week.Name != "7d" {
		t.Fatalf("windows are %+v", users.Windows)
	}
	seen := map[string]bool{}
	for _, u := range week.Users {
		seen[u.Name] = true
		l.near("GPU-hours of "+u.Name, u.GPUHours, l.users[u.Name], 0.01*l.users[u.Name]+0.3)
		l.near("cost of "+u.Name, u.Cost, 0.25*u.Energy, 0.001)
		l.near("CO2 of "+u.Name, u.CO2, 0.06*u.Energy, 0.001)
	}
	for name, hours := range l.users {
		if hours > 0.5 && !seen[name] {
			t.Errorf("%q used %.1f GPU-hours and is not listed", name, hours)
		}
	}
	gpus := map[string]float64{"atlas": 8, "boreas": 4, "dione": 8}
	unknown := map[string]float64{"dione": 1} // of one, the driver does not tell the processes
	length := end.Add(6 * time.Minute).Sub(week.From).Hours()
	known := 0.0
	for _, h := range hosts.Windows[1].Hosts {
		truth := l.host[h.Name]
		slack := 0.01 * truth.known
		l.near("hours known of "+h.Name, h.Known/gpus[h.Name], truth.known, slack)
		l.near("energy of "+h.Name, h.Energy, truth.energy, 0.01*truth.energy+slack*gpus[h.Name]*0.7)
		told := h.Known * (gpus[h.Name] - unknown[h.Name]) / gpus[h.Name]
		l.near("held and free of "+h.Name, h.GPUHours+h.Free, told, 0.02*h.Known)
		l.near("coverage of "+h.Name, h.Coverage, truth.known/length, slack/length+0.01)
		known += truth.known
	}
	l.near("coverage of all", week.Coverage, known/3/length, 0.03)

	var fleet fleetJSON
	l.read("api/v1/history/fleet.json", &fleet)
	span := fleet.Spans[1]
	checked, gaps := 0, 0
	for i := range span.Held {
		hour := l.hours[span.Bounds[i].UTC()]
		switch {
		case hour == nil:
			if span.Held[i] != nil || span.Utilization[i] != nil || span.Free[i] != nil {
				t.Errorf("%v: nobody said anything, and it is shown as %v held", span.Bounds[i], *span.Held[i])
			}
			gaps++
		case in(span.Bounds[i], 19, 23) || span.Held[i] == nil:
			// the clock of atlas is wrong
			if span.Held[i] == nil {
				t.Errorf("%v is unknown", span.Bounds[i])
			}
		default:
			checked++
			l.near(fmt.Sprint("utilization at ", span.Bounds[i]), *span.Utilization[i], hour.util/hour.utilN, 1)
			reported := hour.heldN / 60
			l.near(fmt.Sprint("GPUs that reported at ", span.Bounds[i]), *span.Reported[i], reported, 0.5)
			l.near(fmt.Sprint("GPUs held at ", span.Bounds[i]), *span.Held[i], hour.held/hour.heldN*reported, 0.6)
			sum := 0.0
			for _, m := range span.Models {
				if m.Free[i] != nil {
					sum += *m.Free[i]
				}
			}
			l.near(fmt.Sprint("free GPUs by model at ", span.Bounds[i]), sum, *span.Free[i], 0.3)
		}
	}
	if checked < 40 || gaps < 2 {
		t.Errorf("%d hours are compared and %d are unknown", checked, gaps)
	}
	year := fleet.Spans[3]
	long := false
	for i := range year.Held {
		long = long || year.Bounds[i+1].Sub(year.Bounds[i]) == 25*time.Hour
	}
	if !long {
		t.Error("the day on which summer time ended does not have 25 hours")
	}

	var boreas struct {
		Spans []struct {
			Name string
			From time.Time
			Step int `json:"step_seconds"`
			Host struct {
				Load   []*int `json:"load_percent"`
				Memory []*int `json:"memory_used_mib"`
			}
			GPUs []struct {
				Utilization []*int `json:"utilization_percent"`
				Held        []*int `json:"held_percent"`
			}
		}
	}
	l.read("api/v1/hosts/boreas/history.json", &boreas)
	if len(boreas.Spans) != 4 || len(boreas.Spans[1].GPUs) != 4 {
		t.Fatalf("boreas has %+v", boreas)
	}
	for i, v := range boreas.Spans[1].GPUs[0].Utilization {
		at := boreas.Spans[1].From.Add(time.Duration(i*boreas.Spans[1].Step) * time.Second)
		silent := at.Before(from) || in(at, 10, 14) || in(at, 30, 32) || !at.Before(end)
		if at.Truncate(2*time.Hour).Equal(at) && silent != (v == nil) {
			t.Errorf("boreas at %v is %v, and silent: %v", at, v, silent)
		}
		load, memory := boreas.Spans[1].Host.Load[i], boreas.Spans[1].Host.Memory[i]
		if (load == nil) != (v == nil) || (memory == nil) != (v == nil) ||
			v != nil && (*load < 1 || *load > 100 || *memory < 30<<10 || *memory > 500<<10) { // of 512 GiB
			t.Errorf("boreas at %v has a load or a memory that cannot be", at)
		}
	}
}

// TestDaysOfTheSite counts a GPU that somebody holds without a break on the days
// on which summer time begins and ends.
func TestDaysOfTheSite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		day   time.Time // midnight in Paris
		hours float64
		hour  int // that is missing, or there twice
	}{
		{time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC), 23, 2},
		{time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), 25, 2},
		{time.Date(2026, 6, 10, 22, 0, 0, 0, time.UTC), 24, 2},
	} {
		t.Run(c.day.Format("2006-01-02"), func(t *testing.T) {
			from, end := c.day.Add(-30*time.Hour), c.day.Add(30*time.Hour)
			l := newPastLab(t, "Europe/Paris", from, end, "gaia")
			busy, watts, memory := 60, 300.0, int64(20000)
			batch := history.Batch{Host: "gaia", Boot: l.boot}
			for at := from; at.Before(end); at = at.Add(2 * time.Minute) {
				l.seq++
				batch.Samples = append(batch.Samples, snapshot.Sample{Seq: l.seq, At: at, GPUs: []snapshot.GPUSample{{
					Index: 0, UUID: "GPU-1", Utilization: &busy, Power: &watts, MemoryUsed: &memory,
					Users: []snapshot.UserMemory{{User: "ada", Memory: memory}},
				}}})
			}
			if err := l.store.IngestAll(t.Context(), end, []history.Batch{batch}); err != nil {
				t.Fatal(err)
			}
			l.push("gaia", nil, l.fleet.Collected("gaia", end))
			l.generate(l.generator(), end)
			var fleet fleetJSON
			l.read("api/v1/history/fleet.json", &fleet)
			found := false
			for i, s := range fleet.Spans[3].Held {
				if fleet.Spans[3].Bounds[i].Equal(c.day) {
					found = true
					l.near("length of the day", fleet.Spans[3].Bounds[i+1].Sub(c.day).Hours(), c.hours, 0)
					l.near("held", *s, 1, 0.001)
				}
			}
			if !found {
				t.Errorf("no day begins at %v: %v", c.day, fleet.Spans[3].Bounds)
			}
			known := 0.0
			for _, w := range fleet.Week {
				if at := c.day.In(l.zone); w.Weekday == int(at.Weekday()) {
					known += w.Known
					if w.Hour == c.hour {
						l.near("hours from two to three o'clock", w.Known, c.hours-23, 0.01)
					}
				}
			}
			l.near("hours of the day in the week", known, c.hours, 0.01)
			var users windowsJSON
			l.read("api/v1/history/users.json", &users)
			l.near("today", users.Windows[0].Users[0].GPUHours, end.Sub(c.day).Hours()-c.hours, 0.05)
			l.near("energy", users.Windows[1].Users[0].Energy, 60*0.3, 0.1)
			l.near("utilization", *users.Windows[1].Users[0].Utilization, 60, 0.1)
		})
	}
}

// TestChartsAreNotRewrittenBeforeTheyAreDue looks at what is written when nothing is due.
func TestChartsAreNotRewrittenBeforeTheyAreDue(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	l := newPastLab(t, "UTC", from, from.Add(3*time.Hour), "atlas")
	samples, last := l.collect("atlas", from, from.Add(2*time.Hour), 0)
	l.push("atlas", samples, last)
	now := from.Add(2 * time.Hour).Add(time.Minute)
	g := l.generator()
	l.generate(g, now)
	page := filepath.Join(l.dir, "site", "hosts", "atlas", "index.html")
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	charts := filepath.Join(l.dir, "site", "hosts", "atlas", "history", "index.html")
	kept, err := os.Stat(charts)
	if err != nil {
		t.Fatal(err)
	}
	for i, other := range []*sitegen.Generator{g, l.generator()} {
		r, err := other.Generate(t.Context(), now.Add(time.Duration(i+1)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(page)
		if err != nil || string(after) != string(before) {
			t.Errorf("the page of a host without news has changed (generator %d, %d files written)", i, r.Written)
		}
	}
	if again, err := os.Stat(charts); err != nil || !os.SameFile(again, kept) {
		t.Errorf("charts were drawn again before the host's turn came (%v)", err)
	}
	// A file that was cut or forged costs its content and nothing else.
	l.write("state/fleet.json", []byte("{\"past\":{\"Spans\":[{\"At\":[],\"Steps\":[{}]}]}}"), nil)
	l.generate(l.generator(), now.Add(time.Minute))
	after, err := os.ReadFile(page)
	if err != nil || string(after) != string(before) {
		t.Error("damage in what is kept of the fleet shows on the page")
	}
	// The charts of a host that is gone go with it.
	l.hosts = []inventory.Host{{Name: "boreas"}}
	l.generate(g, now.Add(2*time.Minute))
	if _, err := os.Stat(charts); !os.IsNotExist(err) {
		t.Errorf("the charts of a host that is gone are still there: %v", err)
	}
}

// TestChartsStayOnTheSite looks at the charts of a site of many hosts: another
// process leaves those that are not due as they are, with what they refer to, and
// makes them again, some in each generation, where they are gone.
func TestChartsStayOnTheSite(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes a day of samples of 61 hosts")
	y := newYard(t, render.FullHistoryHosts+1, true)
	y.push(every, y.names)
	y.generate()
	charts := func() (pages map[string]string) {
		pages = map[string]string{}
		for _, name := range y.names {
			for _, path := range []string{render.ChartsPath("", name), render.ChartsPath("", name) + ".gz",
				"api/v1/hosts/" + name + "/history.json"} {
				if data, err := os.ReadFile(y.path("site", path)); err == nil {
					pages[path] = string(data)
				}
			}
		}
		return pages
	}
	for range 8 { // until all are drawn
		y.push(time.Second, y.names)
		y.generate()
	}
	before := charts()
	if len(before) != 3*len(y.names) {
		t.Fatalf("%d files of charts of %d hosts", len(before), len(y.names))
	}
	another := func(css string) {
		t.Helper()
		y.must(os.MkdirAll(y.path("look"), 0o755))
		y.must(os.WriteFile(y.path("look", "site.css"), []byte(css), 0o644))
		y.push(time.Second, y.names)
		g, err := sitegen.New(sitegen.Options{
			Data: y.path("data"), Site: y.path("site"), State: y.path("state"), History: y.store,
			Templates: y.path("look"),
			Inventory: func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
				return inventory.Inventory{Hosts: y.hosts, AsOf: now}
			},
			About: render.Site{Title: "GPU board", Zone: time.UTC, Interval: every},
		})
		y.must(err)
		_, err = g.Generate(t.Context(), y.at)
		y.must(err)
	}
	for _, css := range []string{"b{color:red}", "b{color:blue}"} {
		another(css)
		same, after := 0, charts()
		for path, content := range after {
			if content == before[path] {
				same++
			}
			for _, asset := range regexp.MustCompile(`assets/[a-z0-9.]+`).FindAllString(content, -1) {
				if _, err := os.Stat(y.path("site", asset)); err != nil {
					t.Errorf("%s refers to what is gone: %v", path, err)
				}
			}
		}
		if len(after) != len(before) || same < len(before)/2 {
			t.Errorf("of %d files of charts %d are there, and %d are as they were", len(before), len(after), same)
		}
	}
	y.must(os.RemoveAll(y.path("site", "hosts")))
	for range 8 { // some at a time
		another("b{color:blue}")
	}
	if after := charts(); len(after) != len(before) {
		t.Errorf("of %d files of charts %d came again", len(before), len(after))
	}
}

// TestLateSamplesReachTheirDay delivers half of a day after the day was added up.
func TestLateSamplesReachTheirDay(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{3 * time.Hour, 70 * time.Hour} {
		l := newPastLab(t, "UTC", day, day.Add(24*time.Hour), "gaia")
		memory := int64(20000)
		part := func(from, until time.Duration) history.Batch {
			batch := history.Batch{Host: "gaia", Boot: l.boot}
			for at := day.Add(from); at.Before(day.Add(until)); at = at.Add(2 * time.Minute) {
				l.seq++
				batch.Samples = append(batch.Samples, snapshot.Sample{Seq: l.seq, At: at, GPUs: []snapshot.GPUSample{{
					UUID: "GPU-1", MemoryUsed: &memory, Users: []snapshot.UserMemory{{User: "ada", Memory: memory}},
				}}})
			}
			return batch
		}
		take := func(now time.Time, b history.Batch) {
			if err := l.store.IngestAll(t.Context(), now, []history.Batch{b}); err != nil {
				t.Fatal(err)
			}
		}
		end := day.Add(24 * time.Hour)
		take(end, part(0, 12*time.Hour))
		g := l.generator()
		l.generate(g, end.Add(time.Hour))
		var users windowsJSON
		l.read("api/v1/history/users.json", &users)
		l.near("half of the day", users.Windows[1].Users[0].GPUHours, 12, 0.1)
		take(end.Add(2*time.Hour), part(12*time.Hour, 24*time.Hour))
		l.generate(g, end.Add(after))
		l.read("api/v1/history/users.json", &users)
		l.near(fmt.Sprint("all of the day, ", after, " after it"), users.Windows[1].Users[0].GPUHours, 24, 0.1)
	}
}

// TestNoRankingOfUnknownUsers has a node that names whoever it finds. What is nobody's is summed up without a name.
func TestNoRankingOfUnknownUsers(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	end := day.Add(6 * time.Hour)
	l := newPastLab(t, "UTC", day, end, "gaia")
	batch := history.Batch{Host: "gaia", Boot: l.boot}
	for at := day; at.Before(end); at = at.Add(2 * time.Minute) {
		l.seq++
		sample := snapshot.Sample{Seq: l.seq, At: at}
		for i, user := range []string{"ada", "ci", "averyver+", "root", ""} {
			memory := int64(20000)
			sample.GPUs = append(sample.GPUs, snapshot.GPUSample{
				Index: i, UUID: fmt.Sprint("GPU-", i), MemoryUsed: &memory,
				Users: []snapshot.UserMemory{{User: user, Memory: memory}},
			})
		}
		batch.Samples = append(batch.Samples, sample)
	}
	if err := l.store.IngestAll(t.Context(), end, []history.Batch{batch}); err != nil {
		t.Fatal(err)
	}
	l.generate(l.generator(), end)
	var users windowsJSON
	l.read("api/v1/history/users.json", &users)
	hours := map[string]float64{}
	for _, u := range users.Windows[1].Users {
		hours[u.Name] = u.GPUHours
	}
	if len(hours) != 2 {
		t.Errorf("users of the week: %v, want ada and nobody", hours)
	}
	l.near("GPU-hours of ada", hours["ada"], 6, 0.1)
	l.near("GPU-hours of unknown users", hours[""], 24, 0.4)
	var now struct{ Users []struct{ Name string } }
	l.read("api/v1/users.json", &now)
	if len(now.Users) != 1 || now.Users[0].Name != "ada" {
		t.Errorf("people with a past: %+v, want ada", now.Users)
	}
	var host struct {
		Holders []struct {
			GPU   int
			Steps []string
		} `json:"holders_24h"`
	}
	l.read("api/v1/hosts/gaia.json", &host)
	for _, g := range host.Holders {
		held := slices.DeleteFunc(g.Steps, func(name string) bool { return name == "" })
		if g.GPU > 0 && len(held) > 0 || g.GPU == 0 && (len(held) != 24 || held[0] != "ada" || held[23] != "ada") {
			t.Errorf("GPU %d was held by %q", g.GPU, held)
		}
	}
}

// TestUsesHaveTheirTime: a person who held a GPU from two to six is shown as from two to six, in the row and among what
// happened.
func TestUsesHaveTheirTime(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	now := day.Add(10*time.Hour + 7*time.Minute)
	l := newPastLab(t, "UTC", day, now, "gaia")
	samples, last := l.collect("gaia", day, now, 0)
	for i := range samples {
		for k := range samples[i].GPUs {
			samples[i].GPUs[k].Users = nil
		}
		if at := samples[i].At.Sub(day); 2*time.Hour <= at && at < 6*time.Hour {
			gpu := &samples[i].GPUs[0]
			gpu.Users = []snapshot.UserMemory{{User: "ada", Memory: *gpu.MemoryUsed}}
		}
	}
	l.push("gaia", samples, last)
	l.generate(l.generator(), now)
	raw, err := os.ReadFile(filepath.Join(l.dir, "site", "hosts", "gaia", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(raw)), " ")
	for _, want := range []string{
		"ada Mon 02:00 – Mon 06:00",
		`Mon 02:00</time><span>GPU 0</span> <span><b class="name">ada</b> <b>began</b>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the host does not say %s", want)
		}
	}
}
