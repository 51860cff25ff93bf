package sitegen

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// How much of each thing a daily summary names.
const (
	summaryHosts  = 20
	summaryPeople = 5
	summaryIll    = 10
	reportLines   = 40
)

// summary is the state of the whole board in a few lines, for the daily
// message: what is free, who uses most, what is not well, what happened.
func summary(b *board.Board, log []events.Event, zone *time.Location) string {
	t := b.Totals
	are := "are"
	if t.GPUs.All+t.Slices.All == 1 {
		are = "is"
	}
	first := fmt.Sprintf("%s %s free on %s", t.FreeOf(), are, board.Number(t.Hosts, "host"))
	for _, s := range []board.State{board.Booked, board.Stuck, board.Lost} {
		if n := render.WithSlices(t.GPUs.ByState[s], t.Slices.ByState[s], strconv.Itoa); n != "" {
			first += fmt.Sprintf(", %s %s", n, s)
		}
	}
	if n := render.WithSlices(t.GPUs.HeldIdle, t.Slices.HeldIdle, strconv.Itoa); n != "" {
		first += fmt.Sprintf(", %s held and idle", n)
	}
	lines := []string{first}
	add := func(name string, items []string, most int, sep string) {
		if len(items) == 0 {
			return
		}
		if more := len(items) - most; more > 0 {
			items = append(items[:most:most], fmt.Sprintf("and %d more", more))
		}
		lines = append(lines, name+": "+strings.Join(items, sep))
	}

	var models, free, people, ill, happened []string
	for _, m := range b.Models {
		models = append(models, fmt.Sprintf("%s %d of %d", cmp.Or(m.Name, "unknown"), m.Free, m.Total))
	}
	add("Free by model", models, summaryHosts, ", ")
	for i := range b.Hosts {
		h := &b.Hosts[i]
		var list []string
		lost := 0
		for g := range h.Units() {
			switch g.State {
			case board.Free:
				list = append(list, g.Label())
			case board.Lost:
				lost++
			}
		}
		if len(list) > 0 {
			free = append(free, h.Name+" "+strings.Join(list, ","))
		}
		switch {
		case (h.State == board.Stale || h.State == board.Down) && !h.SnapshotAt.IsZero():
			ill = append(ill, fmt.Sprintf("%s is %s since %s",
				h.Name, h.State, h.SnapshotAt.In(zone).Format("2006-01-02 15:04 MST")))
		case h.State == board.Down || h.State == board.Never:
			ill = append(ill, h.Name+" has sent nothing yet")
		case lost > 0:
			ill = append(ill, h.Name+" has lost "+board.Number(lost, "GPU"))
		}
	}
	add("Free now", free, summaryHosts, "; ")
	users := slices.Clone(b.Users)
	slices.SortStableFunc(users, func(x, y board.User) int {
		return cmp.Or(cmp.Compare(y.Used, x.Used), cmp.Compare(y.Slices.Used, x.Slices.Used))
	})
	tenths := func(n float64) string { return fmt.Sprintf("%.1f", n) }
	for _, u := range users {
		if text := render.WithSlices(u.Used, u.Slices.Used, tenths); text != "" {
			people = append(people, u.Name+" "+text)
		}
	}
	add("GPUs in use by", people, summaryPeople, ", ")
	add("Not well", ill, summaryIll, "; ")
	kinds := map[events.Kind]int{}
	for _, e := range log {
		if b.GeneratedAt.Sub(e.At) < 24*time.Hour {
			kinds[e.Kind]++
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		happened = append(happened, fmt.Sprintf("%d %s", kinds[k], k))
	}
	add("In the last 24 h", happened, summaryHosts, ", ")
	for i := range lines {
		lines[i] = snapshot.Text(lines[i], 2*snapshot.MaxTextBytes)
	}
	return strings.Join(lines, "\n")
}

// usage is who used how much in the last week or month: teams, or people where there are no teams.
func (g *Generator) usage(of string, privacy board.Privacy) string {
	g.loadFleet()
	if g.fleet == nil {
		return "There is no history to report."
	}
	past := &render.History{Fleet: g.fleet.Past}
	if privacy.MasksPeople() {
		past = past.Mask(privacy.Name)
	}
	window := past.Fleet.Windows[1] // as render.WindowNames has them
	if of == "monthly" {
		window = past.Fleet.Windows[2]
	}
	who, list := "by team", window.Teams
	if len(list) == 0 {
		who, list = "by person", window.Users
	}
	stamp := func(t time.Time) string { return t.In(g.opt.About.Zone).Format("2006-01-02 15:04") }
	lines := []string{fmt.Sprintf("Usage from %s to %s, %s", stamp(window.From), stamp(window.To), who)}
	for i, u := range list {
		if i == reportLines {
			lines = append(lines, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		line := fmt.Sprintf("%s: %.0f GPU-hours", cmp.Or(u.Name, "unknown"), u.GPUHours)
		if known := window.KnownHours(); known > 0 {
			line += fmt.Sprintf(" (%.0f %%)", 100*min(1, u.GPUHours/known))
		}
		line += fmt.Sprintf(", %.0f idle", u.IdleHours)
		if cost, _ := g.opt.About.Energy.Of(u.EnergyKWh); cost != nil {
			line += fmt.Sprintf(", %.2f %s", *cost, g.opt.About.Energy.Currency)
		}
		lines = append(lines, snapshot.Text(line, snapshot.MaxTextBytes))
	}
	return strings.Join(lines, "\n")
}
