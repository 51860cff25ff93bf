package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// What one GPU may take of a page. A node decides how many processes it has, so
// without bounds it would decide how large the site is. The JSON of the host has all.
const (
	maxNames        = 12  // people beside the first one in a row
	maxProcesses    = 32  // in a row of the front page
	maxOwnProcesses = 512 // on the host's own page
)

// detail is how much of a GPU a page shows.
type detail int

const (
	line  detail = iota // a host without rows
	brief               // a row on a person's page
	usual               // a row with its chart and its processes
	whole               // a host's own page
)

// row makes one row. It shows the model of a slice always, and that of a GPU if named is
// set. Times are named relative to ref; root leads to the site's root.
func (v *view) row(h *board.Host, g *board.GPU, named bool, d detail, ref time.Time, root string) templates.Row {
	r := templates.Row{
		ID: v.gpuID(h.Name, g), Index: g.Label(), State: string(g.State), Sign: v.signName(g),
	}
	if named || g.Slice != nil {
		r.Model = v.words.model(g.ShortName, g.MemoryTotal)
	}
	r.Class = "row " + string(g.State)
	if g.Slice != nil {
		r.Class += " slice"
		r.UUID, r.Of = render.Clean(g.UUID), v.rowID(h.Name, g.Index, nil)
		r.Part = cmp.Or(render.Clean(g.Slice.Profile), v.words.T("slice"))
	}
	if free := g.FreeSlices(); len(g.Slices) > 0 {
		if r.Class = "row mig"; free > 0 {
			r.Class += " open"
		}
		if !g.OwnState() {
			r.Slices = v.words.Count(free, "index.free", free, len(g.Slices))
		}
	}
	v.readings(&r, g, d)
	if g.Reason != "" && r.Slices == "" {
		r.Reason = v.words.or("reason."+g.Reason, render.Clean(g.Reason))
	}
	if g.CountedAt != "" {
		r.Reason = v.words.T("reason."+g.Reason, render.Clean(g.CountedAt))
	}
	if left := g.Left(); len(left) > 0 {
		var names []string
		for _, owner := range left[:min(len(left), maxNames)] {
			names = append(names, v.words.owner(owner))
		}
		r.Reason += " · " + v.words.T("row.left", strings.Join(names, ", "))
	}
	if g.State == board.Lost {
		r.Driver = render.Clean(g.HealthReason)
	}
	if idle := g.IdleFor(v.in.Board.GeneratedAt); idle > 0 && d == brief {
		r.Idle = v.words.length(idle)
		r.NoShow = g.NoShow
	}
	if g.Last != nil {
		r.Last = &templates.Last{Text: v.words.T(string(g.Last.State)), At: v.words.near(g.Last.At, ref)}
		if users := render.Clean(strings.Join(g.Last.Users, ", ")); users != "" {
			r.Last.Text += ", " + users
		}
		if g.Reason == board.ReasonStale {
			r.Reason = "" // the card says it already
		}
	}
	on := *g
	if len(g.Slices) > 0 {
		on.Processes = g.Unplaced()
	}
	v.whoIsOn(&r, &on, d, ref, root)
	if r.Who == nil && r.Reason == "" && r.Slices == "" && (g.State == board.Busy || g.State == board.InUse) {
		r.Reason = v.words.T("reason.user")
	}
	v.bookings(&r, g, ref, root)
	if d != brief {
		v.howLong(&r, g, ref)
		due := v.due(h, g)
		r.Strip = v.strip(h, g, due, d == usual)
		r.Panel = v.panel(h, g, due, ref, root)
		if r.Panel != nil && d != whole {
			r.Panel.JSON = "" // many rows share the page
		}
	}
	if d == whole && g.Slice == nil {
		r.Facts = v.facts(g)
	}
	return r
}

// howLong fills in since when a GPU has been idle or in use, for how long that is, and the colour of who uses it.
func (v *view) howLong(r *templates.Row, g *board.GPU, ref time.Time) {
	var since time.Time
	if on := g.Computing(); len(on) > 0 && r.Who != nil {
		r.Color = v.colorOf(on[0].Owner().Person)
		for _, p := range on {
			if p.StartedAt != nil && (since.IsZero() || p.StartedAt.Before(since)) {
				since = p.StartedAt.Time
			}
		}
	}
	idle := g.IdleFor(v.in.Board.GeneratedAt)
	switch {
	case idle > 0:
		words := "row.idle"
		if g.NoShow {
			words = "row.no-show"
		}
		r.Idles, r.For = true, v.words.moment(g.IdleSince, v.words.T(words, v.words.length(idle)))
		return
	case since.IsZero() && r.Who != nil:
		since = g.Since
	}
	if !since.IsZero() {
		r.For = v.words.moment(since, v.words.length(max(0, ref.Sub(since))))
	}
}

// readings fills in the numbers and their charts.
func (v *view) readings(r *templates.Row, g *board.GPU, d detail) {
	if g.MemoryTotal != nil {
		r.Total = strconv.Itoa(board.WholeGiB(g.MemoryTotal))
	}
	r.Used = v.words.used(g.MemoryUsed, d)
	if total := g.MemoryTotal; g.MemoryUsed != nil && total != nil && *total > 0 {
		share := float64(*g.MemoryUsed) / float64(*total)
		if d == brief {
			r.Bars = segments(share, nil)
		} else {
			r.Bars, r.BarText = v.memoryBar(g, share)
			if d != whole {
				r.BarText = "" // the numbers and the people stand beside it
			}
		}
	}
	if g.UtilizationGPU != nil {
		r.Util = strconv.Itoa(*g.UtilizationGPU)
	}
	heat := make([]string, 0, 2)
	if g.Temperature != nil {
		heat = append(heat, v.words.quantity(strconv.Itoa(*g.Temperature), "celsius"))
	}
	if g.PowerDraw != nil {
		heat = append(heat, v.words.quantity(strconv.FormatFloat(math.Round(*g.PowerDraw), 'f', 0, 64), "watt"))
	}
	r.Heat = strings.Join(heat, " · ")
}

// memoryBar divides the used memory among its owners, the largest first.
func (v *view) memoryBar(g *board.GPU, share float64) ([]templates.Segment, string) {
	var owners []snapshot.Owner
	part := map[snapshot.Owner]float64{}
	for _, p := range g.Computing() {
		if p.Share == nil {
			continue
		}
		owner := p.Owner()
		if _, known := part[owner]; !known {
			owners = append(owners, owner)
		}
		part[owner] += *p.Share
	}
	slices.SortStableFunc(owners, func(x, y snapshot.Owner) int { return cmp.Compare(part[y], part[x]) })

	text := fmt.Sprintf("%.0f %%", 100*share)
	var shares []float64
	for i, owner := range owners {
		shares = append(shares, part[owner])
		if i < maxNames {
			text += fmt.Sprintf(", %s %.0f %%", v.words.owner(owner), 100*part[owner])
		}
	}
	bars := segments(share, shares)
	if last := len(bars) - 1; last >= 0 && bars[last].Shade == "unowned" && g.MemoryShared {
		bars[last].Shade = "share3" // the system itself and other programs use the node's memory
	}
	return bars, text
}

// gib says MiB in GiB, with one decimal.
func (w *words) gib(mib int64) string { return w.float(float64(mib)/1024, 1) }

// used is the memory in use as a row says it, "" where it is not known: in whole GiB where two columns of rows share
// the page and 0.1 GiB would be a hundredth of it or less.
func (w *words) used(mib *int64, d detail) string {
	switch {
	case mib == nil:
		return ""
	case d == usual && *mib >= 10*1024:
		return w.float(float64(*mib)/1024, 0)
	}
	return w.gib(*mib)
}

// whoIsOn fills in the people on the GPU, and the processes where there is room for them.
func (v *view) whoIsOn(r *templates.Row, g *board.GPU, d detail, ref time.Time, root string) {
	computing := g.Computing()
	seen := map[snapshot.Owner]bool{}
	for _, p := range computing {
		owner := p.Owner()
		if seen[owner] {
			continue
		}
		seen[owner] = true
		if len(r.More) == maxNames {
			r.MoreNames++
			continue
		}
		who := v.owner(owner, root)
		who.Program = render.Clean(p.Program)
		if d == brief && p.StartedAt != nil { // other rows say it in a column of its own
			who.Since = toMinute(v.words.near(p.StartedAt.Time, ref))
		}
		if r.Who == nil {
			if d == brief && who.Since == nil {
				who.Since = v.words.near(g.Since, ref)
			}
			r.Who = &who
		} else {
			r.More = append(r.More, who)
		}
	}
	if d == brief || len(g.Processes) == 0 {
		return
	}
	r.Details = true
	if len(g.Processes) == 1 && len(computing) == 1 && computing[0].Type == snapshot.Compute {
		r.Only = computing[0].PID
	}
	order := computing
	for i := range g.Processes {
		if p := &g.Processes[i]; !p.Computes {
			order = append(order, p)
		}
	}
	most := maxProcesses
	if d == whole {
		most = maxOwnProcesses
	}
	r.MoreProcesses = max(0, len(order)-most)
	for _, p := range order[:len(order)-r.MoreProcesses] {
		// What the row says is not said again below it.
		in := rowSays{
			person: d != whole && len(r.More) == 0 && p.Computes && (p.Person == "" || p.Person == p.User) &&
				len(p.By) == 0,
			program:  r.Only != 0 && d != whole,
			instance: g.Slice != nil,
		}
		if in.person && in.program && v.words.used(p.UsedMemory, d) == r.Used && p.Place() == (snapshot.Place{}) &&
			(in.instance || p.GPUInstanceID == nil) {
			r.Details = false
			continue
		}
		r.Processes = append(r.Processes, v.process(p, ref, in))
	}
}

// rowSays is what a row says of a process: whose it is, its pid with program and start, the MIG instance.
type rowSays struct{ person, program, instance bool }

// process says what a page says of a process, without what its row says.
func (v *view) process(p *board.Process, ref time.Time, row rowSays) templates.Process {
	w := v.words
	out := templates.Process{Dead: p.Dead()}
	text := []string{w.T("process.memory")}
	if p.UsedMemory != nil {
		text[0] = w.quantity(w.gib(*p.UsedMemory), "gib")
		if p.Share != nil {
			text[0] += ", " + w.quantity(strconv.Itoa(int(math.Round(100**p.Share))), "percent")
		}
	}
	if !row.person {
		who := w.owner(p.Owner())
		if login := render.Clean(p.User); login != "" && p.Person != "" && p.User != p.Person {
			who += " (" + login + ")"
		}
		if len(p.By) == 1 {
			who = w.claim(who, p.By[0].Source)
		}
		text = append(text, who)
	}
	if !row.program {
		out.PID = strconv.Itoa(p.PID)
		text = append(text, cmp.Or(render.Clean(p.Program), "?"))
	}
	if p.Type != snapshot.Compute {
		text = append(text, w.T("process.type", render.Clean(string(p.Type))))
	}
	out.Text = strings.Join(text, " · ")
	if p.StartedAt != nil && !row.program {
		if m := w.near(p.StartedAt.Time, ref); m != nil {
			out.Details = append(out.Details, w.T("process.since", m.Text))
		}
	}
	// The name of an unknown user has the place.
	switch place := p.Place(); {
	case place.Kind == "" || p.Owner().Name() == "":
	case place.Kind == snapshot.InUnit:
		out.Details = append(out.Details, render.Clean(place.Name))
	default:
		out.Details = append(out.Details, w.T("process."+place.Kind, render.Clean(place.Name)))
	}
	if len(p.By) == 2 {
		of := func(c snapshot.Claim) string { return w.claim(render.Clean(c.User), c.Source) }
		out.Details = append(out.Details, w.T("who.conflict", of(p.By[0]), of(p.By[1])))
	}
	if p.GPUInstanceID != nil && !row.instance {
		out.Details = append(out.Details, w.T("process.instance", strconv.Itoa(*p.GPUInstanceID)))
	}
	if !out.Dead {
		return out
	}
	out.Left = w.T("process.gone")
	var pids, names []string
	for _, c := range p.Children {
		pids = append(pids, strconv.Itoa(c.PID))
		if name := strings.TrimSpace(w.owner(c.Owner()) + " " + c.Program); name != "" &&
			!slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(pids) > 0 {
		out.Left += w.T("process.left", render.Clean(strings.Join(names, ", ")))
		out.Kill = "kill " + strings.Join(pids, " ")
	}
	return out
}
