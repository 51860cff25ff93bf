package page

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

const (
	maxPastUsers = 200 // on the page; the files have all
	maxPastHosts = 300
	maxNowRows   = 100
	// idleMuch is the part of somebody's use from which on its being idle is marked.
	idleMuch = 0.1
)

func (v *view) historyPage() *templates.HistoryPage {
	p := &templates.HistoryPage{Frame: v.frame("history", "history/index.html", time.Time{}, v.in.Board.Every())}
	h := v.in.History
	if h == nil {
		return p
	}
	p.Kept, p.Costs, p.Happened = true, v.costs(), v.fleetHappened()
	v.nowRows(p)
	f := h.Fleet
	if f == nil || f.Since.IsZero() {
		return p
	}
	p.Known = true
	p.Built, p.Interval = v.words.full(f.AsOf), int(fleetDue/time.Second)
	p.Since = v.words.near(f.Since, f.AsOf.AddDate(0, 0, -20))
	for i := range f.Spans {
		p.Tabs = append(p.Tabs, v.fleetTab(i, &f.Spans[i]))
	}
	for i := range f.Windows {
		p.Windows = append(p.Windows, v.window(i, &f.Windows[i]))
	}
	p.Heat = v.heat(f)
	if share := p.Windows[1].Share; share != "" {
		p.Week = v.words.T("past.week", share)
	}
	p.Unused = v.unused()
	return p
}

// costs says which columns of costs there are.
func (v *view) costs() templates.Costs {
	e := v.in.Site.Energy
	return templates.Costs{Money: e.Price > 0, CO2: e.CO2Grams > 0, Currency: render.Clean(e.Currency)}
}

// fleetDue is how long the view of the fleet may stay as it is.
const fleetDue = 15 * time.Minute

func (v *view) fleetTab(i int, s *render.FleetSpan) templates.FleetTab {
	t := templates.FleetTab{Name: v.words.T("past.span." + render.SpanNames()[i]), Coverage: partOf(s.Coverage)}
	if len(s.Steps) == 0 {
		return t
	}
	from, to := s.At[0], s.At[len(s.At)-1]
	t.From, t.Step = from.Unix(), int(to.Sub(from)/time.Duration(len(s.Steps))/time.Second)
	t.Ticks = v.words.ticks(from, to)
	column := func(of func(step int) *float64) []float64 {
		values := slices.Repeat([]float64{math.NaN()}, len(s.Steps))
		for i := range values {
			if known := of(i); known != nil {
				values[i] = *known
			}
		}
		return values
	}
	row := func(name, unit string, values []float64, top float64) {
		c := v.words.chart(values, top, unit)
		c.Class = "wide"
		c.Text = name + ", " + t.Name + ": ⌀ " + cmp.Or(c.Mean, "–") + " " + unit + ", ≤ " + cmp.Or(c.Most, "–") + " " +
			unit
		r := templates.NamedChart{Name: name, Chart: c}
		for i := len(values) - 1; i >= 0 && r.Now == ""; i-- {
			if !math.IsNaN(values[i]) {
				r.Now = v.words.digits(values[i])
			}
		}
		t.Rows = append(t.Rows, r)
	}
	say := func(key string) string { return v.words.T(key) }
	held := column(func(i int) *float64 { return s.Steps[i].Held })
	all := column(func(i int) *float64 { return s.Steps[i].Reported })
	t.Stack = v.stack(s, held, highest(0, all), t.Name)
	util := column(func(i int) *float64 { return s.Steps[i].Utilization })
	row(say("past.utilization"), say("sign.percent"), util, 100)
	watts := column(func(i int) *float64 { return s.Steps[i].Watts })
	for j := range watts {
		watts[j] /= 1000
	}
	row(say("past.power"), say("sign.kilowatt"), watts, highest(0, watts))
	columns := [][]float64{held, util, watts}
	t.Heads = []string{say("past.inuse"), say("past.utilization") + ", " + say("sign.percent"),
		say("past.power") + ", " + say("sign.kilowatt")}
	for _, m := range v.models(s) {
		used := column(func(i int) *float64 { return s.Held[m.short][i] })
		free := column(func(i int) *float64 { return s.Free[m.short][i] })
		t.Models = append(t.Models, v.modelUse(&m, used, free, t.Name))
		columns, t.Heads = append(columns, free), append(t.Heads, v.words.T("past.free", m.called))
	}
	t.Lines = v.lines(func(i int) time.Time { return s.At[i] }, columns, func(x float64) float64 { return x })
	return t
}

// A fleetModel is a model of which something is known over time: all GPUs of one short name.
type fleetModel struct {
	short, called string
	all, free     int // now
}

// models are those of a span, the most GPUs first.
func (v *view) models(s *render.FleetSpan) (list []fleetModel) {
	for _, short := range slices.Sorted(maps.Keys(s.Free)) {
		m := fleetModel{short: short, called: render.Clean(short)}
		for _, b := range v.in.Board.Models {
			if b.Name != short {
				continue
			}
			if m.called = render.Clean(short); m.all == 0 { // else the same name stands for two sizes
				m.called = v.words.model(b.Name, b.MemoryTotal)
			}
			m.all, m.free = m.all+b.Total, m.free+b.Free
		}
		list = append(list, m)
	}
	slices.SortStableFunc(list, func(x, y fleetModel) int { return cmp.Compare(y.all, x.all) })
	return list
}

// modelUse is one model against its capacity.
func (v *view) modelUse(m *fleetModel, used, free []float64, span string) templates.ModelUse {
	top, sum, all, full, n := float64(m.all), 0.0, 0.0, 0, 0
	for i, x := range used {
		if math.IsNaN(x) || math.IsNaN(free[i]) {
			continue
		}
		top, sum, all, n = max(top, x+free[i]), sum+x, all+x+free[i], n+1
		if free[i] < 0.5 {
			full++
		}
	}
	out := templates.ModelUse{Name: m.called, All: v.words.digits(top), Free: m.free}
	out.Chart = v.words.chart(used, top, v.words.T("sign.gpus"))
	out.Chart.Text = m.called + ", " + span + ": ⌀ " + cmp.Or(out.Chart.Mean, "–") + " / " + out.All + " " +
		out.Chart.Unit
	if n > 0 && all > 0 {
		out.Share, out.Full = partOf(sum/all), partOf(float64(full)/float64(n))
	}
	return out
}

// stackSteps is about how many steps a stack has.
const stackSteps = 130

// stackHeight is its height in pixels, nameHeight that of a line beside it.
const stackHeight, nameHeight = 200, 16

// shownName is for how many letters of a name there is room beside a stack.
const shownName = 15

// stack is who used how many GPUs over time: those who have a colour, each, and all others.
func (v *view) stack(s *render.FleetSpan, held []float64, all float64, span string) *templates.Stack {
	n := max(1, (len(held)+stackSteps-1)/stackSteps)
	total := folded(held, n)
	unit := v.words.T("sign.gpus")
	out := &templates.Stack{
		From: s.At[0].Unix(), N: len(total), Top: v.words.digits(all), Half: v.words.float(math.Round(all)/2, -1),
		Step: n * int(s.At[len(s.At)-1].Sub(s.At[0])/time.Duration(len(held))/time.Second),
		Text: v.words.T("past.inuse") + ", " + span, Ticks: v.words.ticks(s.At[0], s.At[len(s.At)-1]),
	}
	if all <= 0 || math.IsNaN(meanOf(total)) {
		return nil
	}
	out.Unknown = spansOf(unknownRuns(total), len(total))
	people := slices.DeleteFunc(slices.Clone(s.People),
		func(p render.PersonSteps) bool { return v.in.Board.Colors[p.Name] == 0 })
	slices.SortStableFunc(people, func(x, y render.PersonSteps) int {
		return cmp.Compare(v.in.Board.Colors[x.Name], v.in.Board.Colors[y.Name])
	})
	below := make([]float64, len(total))
	layer := func(name, color string, top []float64) {
		l := templates.Layer{Name: name, Short: name, Color: color}
		if short := []rune(name); len(short) > shownName {
			l.Short = string(short[:shownName-1]) + "…"
		}
		shares := make([]float64, len(top))
		last := 0.0
		for i := range top {
			if shares[i] = top[i] / all; math.IsNaN(total[i]) {
				shares[i] = math.NaN()
			} else {
				last = min(1, (below[i]+top[i])/2/all)
			}
		}
		l.Path, l.Y = ridge(shares), int(math.Round(stackHeight*(1-last)))
		out.Layers = append(out.Layers, l)
		below = top
	}
	for _, p := range people {
		steps := folded(p.Held, n)
		top := slices.Clone(below)
		for i := range top {
			top[i] += steps[i]
		}
		out.Text += "; " + render.Clean(p.Name) + " ⌀ " + v.words.digits(meanOf(steps)) + " " + unit
		layer(render.Clean(p.Name), v.colorOf(p.Name), top)
	}
	rest, top := 0.0, slices.Clone(below)
	for i := range top {
		if !math.IsNaN(total[i]) {
			top[i] = max(below[i], total[i])
			rest += top[i] - below[i]
		}
	}
	if rest > 0.01*float64(len(total)) || len(people) == 0 {
		name := v.words.T("past.others")
		if len(people) == 0 {
			name = v.words.T("past.held")
		}
		out.Text += "; " + name + " ⌀ " + v.words.digits(rest/float64(len(total))) + " " + unit
		layer(name, "person0", top)
	}
	slices.Reverse(out.Layers)
	out.Names = slices.Clone(out.Layers)
	at := make([]float64, len(out.Names))
	for i := range at {
		at[i] = float64(out.Names[i].Y)
	}
	for i, y := range spread(at, nameHeight, nameHeight/2, stackHeight-nameHeight/2) {
		out.Names[i].Y = int(y)
	}
	return out
}

// spread moves places, which ascend, apart, as little as it takes, and keeps them between least and most.
func spread(at []float64, apart, least, most float64) []float64 {
	for i := range at {
		at[i] = max(at[i], least)
		least = at[i] + apart
	}
	for i := len(at) - 1; i >= 0; i-- {
		at[i] = min(at[i], most)
		most = at[i] - apart
	}
	return at
}

// highest is the largest of some values and top; NaN is not known.
func highest(top float64, values []float64) float64 {
	for _, x := range values {
		if x > top {
			top = x
		}
	}
	return top
}

// newWindow is a window without those who used the GPUs in it.
func (v *view) newWindow(i int, w *render.Window) templates.Window {
	return templates.Window{
		Name: v.words.T("past.window." + render.WindowNames()[i]), Coverage: partOf(w.Coverage),
		Since: v.words.near(w.From, w.To),
	}
}

// window is who used how much in some days.
func (v *view) window(i int, w *render.Window) templates.Window {
	out := v.newWindow(i, w)
	known := w.KnownHours()
	var all render.Use
	for j := range w.Users {
		all = all.Add(w.Users[j].Use)
	}
	out.Hours, out.Idle, out.Share = v.words.digits(all.GPUHours), v.words.digits(all.IdleHours),
		shareOf(all.GPUHours, known)
	out.UsersMore, out.HostsMore = max(0, len(w.Users)-maxPastUsers), max(0, len(w.Hosts)-maxPastHosts)
	out.Users = v.uses(w.Users[:len(w.Users)-out.UsersMore], known)
	for j := range out.Users {
		out.Users[j].Href, out.Users[j].Unknown = v.userHref("../", w.Users[j].Name), w.Users[j].Name == ""
		out.Users[j].Color = v.colorOf(w.Users[j].Name)
	}
	v.present(out.Users, w.Users, &v.in.History.Fleet.Spans[i])
	out.Teams = v.uses(w.Teams, known)
	for j := range w.Hosts[:len(w.Hosts)-out.HostsMore] {
		h := &w.Hosts[j]
		line := v.use(h.Name, h.Use, h.KnownHours, 0)
		if v.hosts[h.Name] != nil {
			line.Href = hostHref("../", h.Name)
		}
		line.Free, line.Coverage = v.words.digits(h.FreeHours), partOf(h.Coverage)
		out.Hosts = append(out.Hosts, line)
	}
	return out
}

// sparkMost is about how many steps a curve in a table has.
const sparkMost, sparkHigh = 45, 20

// present adds what people use now, and what they used over the time of the window.
func (v *view) present(lines []templates.Use, people []render.UserPast, span *render.FleetSpan) {
	now := map[string]string{}
	for i := range v.in.Board.Users {
		u := &v.in.Board.Users[i]
		now[u.Name] = render.WithSlices(u.Used, u.Slices.Used, v.words.digits)
	}
	steps, most := map[string][]float64{}, 0.0
	for _, p := range span.People {
		list := folded(p.Held, max(1, (len(p.Held)+sparkMost-1)/sparkMost))
		steps[p.Name], most = list, max(most, slices.Max(list))
	}
	for i := range lines {
		name := people[i].Name
		lines[i].Now = now[name]
		shares := slices.Clone(steps[name])
		for j := range shares {
			shares[j] /= most
		}
		lines[i].Spark, _ = area(shares, sparkHigh, 0)
		lines[i].Steps = len(shares)
	}
}

// uses are the lines of people or teams. known is the GPU-hours of which something is known.
func (v *view) uses(list []render.UserPast, known float64) (lines []templates.Use) {
	most := 0.0
	for i := range list {
		most = max(most, list[i].GPUHours)
	}
	for i := range list {
		lines = append(lines, v.use(list[i].Name, list[i].Use, known, most))
	}
	return lines
}

// shareOf is a part of the known hours in per cent; "" if there are none.
func shareOf(hours, known float64) string {
	if known <= 0 {
		return ""
	}
	return partOf(min(1, hours/known))
}

// use is one line of who used how much; most is what the longest bar stands for.
func (v *view) use(name string, u render.Use, known, most float64) templates.Use {
	out := templates.Use{
		Name: render.Clean(name), Share: shareOf(u.GPUHours, known), Hours: v.words.digits(u.GPUHours),
		Idle: v.words.digits(u.IdleHours), Energy: v.words.digits(u.EnergyKWh), Util: "–",
	}
	if u.Utilization != nil {
		out.Util = v.words.quantity(v.words.digits(math.Round(*u.Utilization)), "percent")
	}
	cost, co2 := v.in.Site.Energy.Of(u.EnergyKWh)
	if cost != nil {
		out.Cost = v.words.float(*cost, 2)
	}
	if co2 != nil {
		out.CO2 = v.words.digits(*co2)
	}
	if most > 0 {
		out.Width, out.IdleWidth = percent(u.GPUHours/most), percent(u.IdleHours/most)
		out.IdleAt = percent(max(0, u.GPUHours-u.IdleHours) / most)
	}
	out.Idles = u.IdleHours > idleMuch*u.GPUHours
	return out
}

// pastUse is what each person used, for the person's page.
func (v *view) pastUse() map[string][]templates.Window {
	if v.in.History == nil || v.in.History.Fleet == nil {
		return nil
	}
	uses := map[string][]templates.Window{}
	for i := range v.in.History.Fleet.Windows {
		w := &v.in.History.Fleet.Windows[i]
		known := w.KnownHours()
		for _, u := range w.Users {
			line := v.newWindow(i, w)
			line.Users = []templates.Use{v.use(u.Name, u.Use, known, 0)}
			uses[u.Name] = append(uses[u.Name], line)
		}
	}
	return uses
}

// heat is how busy the hours of the week are.
func (v *view) heat(f *render.FleetPast) *templates.Heat {
	out := &templates.Heat{Zone: ZoneName(v.words.zone, f.AsOf), Coverage: partOf(f.Spans[2].Coverage)}
	for i := range 7 {
		wd := time.Weekday((i + 1) % 7)
		d := templates.HeatDay{Name: v.words.weekdays[wd], Y: i * 18}
		for hour := range 24 {
			c := templates.HeatCell{Hour: hour, X: hour * 18, Shade: -1, Value: "–"}
			if held := f.Heat[wd][hour].Held; held != nil {
				c.Shade, c.Value = int(min(9, *held/10)), v.words.digits(math.Round(*held))
			}
			d.Cells = append(d.Cells, c)
		}
		out.Days = append(out.Days, d)
	}
	return out
}

// nowRows lists what somebody should look at now, the longest first.
func (v *view) nowRows(p *templates.HistoryPage) {
	type found struct {
		row  templates.NowRow
		time time.Duration
	}
	var idle, noShow, stuck []found
	b := v.in.Board
	for h, g := range b.Units() {
		heldIdle := !g.IdleSince.IsZero() &&
			(g.State == board.Busy || g.State == board.InUse || g.State == board.Contested)
		if g.State != board.Stuck && !(g.NoShow && g.Booking != nil) && !heldIdle {
			continue
		}
		row := templates.NowRow{Where: h.Name + " " + g.Label(),
			Href: hostHref("../", h.Name) + "#" + v.gpuID(h.Name, g)}
		if g.MemoryUsed != nil {
			row.Memory = v.words.quantity(v.words.gib(*g.MemoryUsed), "gib")
		}
		named := func(owners ...snapshot.Owner) {
			for _, o := range owners[:min(len(owners), maxNames)] {
				row.Who = append(row.Who, v.owner(o, "../"))
			}
		}
		row.Since = v.words.near(g.Since, b.GeneratedAt)
		switch {
		case g.State == board.Stuck:
			named(g.Left()...)
			stuck = append(stuck, found{row, b.GeneratedAt.Sub(g.Since)})
		case g.NoShow && g.Booking != nil:
			named(snapshot.Owner{Person: g.Booking.Name})
			spare := g.IdleFor(b.GeneratedAt)
			if spare == 0 && !g.Since.IsZero() {
				spare = b.GeneratedAt.Sub(g.Since)
			}
			if spare > 0 {
				row.For = v.words.length(spare)
			}
			noShow = append(noShow, found{row, spare})
		default:
			named(g.Owners()...)
			spare := g.IdleFor(b.GeneratedAt)
			row.For = v.words.length(spare)
			idle = append(idle, found{row, spare})
		}
	}
	list := func(from []found) (rows []templates.NowRow) {
		slices.SortStableFunc(from, func(x, y found) int { return cmp.Compare(y.time, x.time) })
		more := max(0, len(from)-maxNowRows)
		p.NowMore += more
		for _, f := range from[:len(from)-more] {
			rows = append(rows, f.row)
		}
		return rows
	}
	p.Idle, p.NoShows, p.Stuck = list(idle), list(noShow), list(stuck)
}

func (v *view) unused() (rows []templates.UnusedRow) {
	for _, u := range render.UnusedBookings(v.in.Board, v.in.History) {
		if len(rows) == maxNowRows || u.Spare < 30*time.Minute {
			break
		}
		rows = append(rows, templates.UnusedRow{
			Where:  u.Booking.Host + " " + u.GPU.Label(),
			Href:   hostHref("../", u.Booking.Host) + "#" + v.gpuID(u.Booking.Host, u.GPU),
			Person: templates.Person{Name: render.Clean(u.Booking.Name), Href: v.userHref("../", u.Booking.Name)},
			From:   v.words.near(u.Booking.From, v.in.Board.GeneratedAt),
			Until:  v.words.near(u.Booking.Until, v.in.Board.GeneratedAt),
			Booked: v.words.digits(u.Past.Hours()), Unused: v.words.digits(u.Spare.Hours()),
			Part:    partOf(float64(u.Spare) / float64(u.Known)),
			Unknown: v.words.digits((u.Past - u.Known).Hours()),
		})
	}
	return rows
}
