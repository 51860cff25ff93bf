package sitegen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

func TestSummary(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)
	gpu := func(index int, s board.State) board.GPU {
		g := board.GPU{State: s}
		g.Index = index
		return g
	}
	b := &board.Board{
		GeneratedAt: at,
		Hosts: []board.Host{
			{Name: "atlas", State: board.Up,
				GPUs: []board.GPU{gpu(0, board.Free), gpu(1, board.Lost), gpu(2, board.Free)}},
			{Name: "borg", State: board.Down, SnapshotAt: at.Add(-48 * time.Hour)},
			{Name: "new", State: board.Never},
			{Name: "well", State: board.Up},
		},
		Totals: board.Totals{Hosts: 3, GPUs: board.Count{
			All: 3, HeldIdle: 1, ByState: map[board.State]int{board.Free: 2, board.Lost: 1},
		}},
		Models: []board.Model{{Name: "A100", Total: 3, Free: 2}},
		Users:  []board.User{{Name: "kai", Holding: using(1)}, {Name: "mira", Holding: using(2.5)}, {Name: "eva"}},
	}
	log := []events.Event{
		{Kind: events.GPULost, At: at.Add(-time.Hour)},
		{Kind: events.HostDown, At: at.Add(-47 * time.Hour)},
		{Kind: events.GPULost, At: at.Add(-2 * time.Hour)},
	}
	want := `2 of 3 GPUs are free on 3 hosts, 1 lost, 1 held and idle
Free by model: A100 2 of 3
Free now: atlas 0,2
GPUs in use by: mira 2.5, kai 1.0
Not well: atlas has lost 1 GPU; borg is down since 2026-11-18 10:42 UTC; new has sent nothing yet
In the last 24 h: 2 gpu-lost`
	if got := summary(b, log, time.UTC); got != want {
		t.Errorf("summary\n%s\nwant\n%s", got, want)
	}

	// Slices are said apart, and whoever is on one alone uses no GPU.
	b.Totals.Slices = board.Count{All: 4, HeldIdle: 1, ByState: map[board.State]int{board.Free: 1, board.Booked: 2}}
	b.Users[0].Slices, b.Users[2].Slices = using(1), using(0.5)
	first, _, _ := strings.Cut(summary(b, log, time.UTC), "\n")
	if want := "2 of 3 GPUs and 1 of 4 MIG slices are free on 3 hosts, 2 MIG booked, 1 lost, 1 + 1 MIG " +
		"held and idle"; first != want {
		t.Errorf("with slices %s\nwant %s", first, want)
	}
	if got, want := summary(b, log,
		time.UTC), "GPUs in use by: mira 2.5, kai 1.0 + 1.0 MIG, eva 0.5 MIG\n"; !strings.Contains(got, want) {
		t.Errorf("%s\nlacks %s", got, want)
	}

	// A cluster of any size, with names of any kind, fits into a message.
	for i := range 3000 {
		b.Hosts = append(b.Hosts, board.Host{
			Name: fmt.Sprint("host", i), State: board.Down, GPUs: []board.GPU{gpu(0, board.Free)},
		})
		b.Users = append(b.Users, board.User{Name: strings.Repeat("\x1b[2J", 30), Holding: using(9)})
		b.Models = append(b.Models, board.Model{Name: strings.Repeat("A", 120)})
	}
	got := summary(b, log, time.UTC)
	if len(got) > 6500 || !strings.Contains(got, "and 2981 more") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if line != snapshot.Text(line, len(line)) {
			t.Errorf("not safe to print: %q", line)
		}
	}
	if got, want := summary(&board.Board{}, nil, time.UTC), "0 of 0 GPUs are free on 0 hosts"; got != want {
		t.Errorf("of nothing: %q, want %q", got, want)
	}
}

func using(n float64) board.Holding { return board.Holding{Used: n} }

// A report has the hours, share, idle hours and cost of the page of the past: by team, or by person where there are none.
func TestReport(t *testing.T) {
	end := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	use := func(hours, idle, kwh float64) render.Use {
		return render.Use{GPUHours: hours, IdleHours: idle, EnergyKWh: kwh}
	}
	past := &render.FleetPast{}
	for i := range past.Windows {
		past.Windows[i] = render.Window{From: end.AddDate(0, 0, -i), To: end,
			Hosts: []render.PastHost{{KnownHours: 150}, {KnownHours: 50}},
			Users: []render.UserPast{{Name: "kai", Use: use(80, 4, 30)}, {Use: use(20, 0, 10)}}}
	}
	past.Windows[1].Teams = []render.UserPast{{Name: "speech", Use: use(20, 20, 4)},
		{Name: "vision", Use: use(80, 4, 30)}}
	g := &Generator{fleet: &fleetFile{Past: past}}
	g.opt.About = render.Site{Zone: time.FixedZone("CET", 3600), Energy: render.Energy{Price: 0.3, Currency: "EUR"}}
	for _, c := range []struct {
		of, want string
		privacy  board.Privacy
	}{
		{"weekly", "Usage from 2026-11-22 08:00 to 2026-11-23 08:00, by team\n" +
			"speech: 20 GPU-hours (10 %), 20 idle, 1.20 EUR\nvision: 80 GPU-hours (40 %), 4 idle, 9.00 EUR",
			board.Privacy{Users: board.UsersFull}},
		{"monthly", "Usage from 2026-11-21 08:00 to 2026-11-23 08:00, by person\n" +
			"kai: 80 GPU-hours (40 %), 4 idle, 9.00 EUR\nunknown: 20 GPU-hours (10 %), 0 idle, 3.00 EUR",
			board.Privacy{Users: board.UsersFull}},
		{"weekly", "Usage from 2026-11-22 08:00 to 2026-11-23 08:00, by person\n" +
			"k.: 80 GPU-hours (40 %), 4 idle, 9.00 EUR\nunknown: 20 GPU-hours (10 %), 0 idle, 3.00 EUR",
			board.Privacy{Users: board.UsersInitials}},
	} {
		if got := g.usage(c.of, c.privacy); got != c.want {
			t.Errorf("%s: %q\nwant %q", c.of, got, c.want)
		}
	}
	g.opt.About.Energy = render.Energy{}
	if got := g.usage("weekly", board.Privacy{Users: board.UsersFull}); strings.Contains(got, "EUR") {
		t.Errorf("nobody said what energy costs: %q", got)
	}
}
