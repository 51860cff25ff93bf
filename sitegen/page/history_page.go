package page

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
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
)

func (v *view) historyPage() *templates.HistoryPage {
	p := &templates.HistoryPage{Frame: v.frame("history", "history/index.html", time.Time{}, v.in.Board.Every())}
	h := v.in.History
	if h == nil {
		return p
	}
	p.Kept, p.Costs = true, v.costs()
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
	p.Week = p.Windows[1].Share
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
	column := func(of func(step int) *float64) (values []float64, top float64) {
		values = make([]float64, len(s.Steps))
		for i := range values {
			values[i] = known(of(i))
			top = higher(top, values[i])
		}
		return values, top
	}
	row := func(name, unit string, values []float64, top float64) {
		c := v.words.chart(values, top, unit)
		c.Class = "wide"
		c.Text = name + ", " + t.Name + ": ⌀ " + cmp.Or(c.Mean, "–") + " " + unit + ", ≤ " + cmp.Or(c.Most, "–") + " " + unit
		r := templates.FleetRow{Name: name, Chart: c}
		for i := len(values) - 1; i >= 0 && r.Now == ""; i-- {
			if !math.IsNaN(values[i]) {
				r.Now = v.words.digits(values[i])
			}
		}
		t.Rows = append(t.Rows, r)
	}
	say := func(key string) string { return v.words.T(key) }
	held, _ := column(func(i int) *float64 { return s.Steps[i].Held })
	_, all := column(func(i int) *float64 { return s.Steps[i].Reported })
	row(say("past.inuse"), say("sign.gpus"), held, all)
	util, _ := column(func(i int) *float64 { return s.Steps[i].Utilization })
	row(say("past.utilization"), say("sign.percent"), util, 100)
	watts, most := column(func(i int) *float64 { return s.Steps[i].Watts })
	for j := range watts {
		watts[j] /= 1000
	}
	row(say("past.power"), say("sign.kilowatt"), watts, most/1000)
	columns := [][]float64{held, util, watts}
	t.Heads = []string{say("past.inuse"), say("past.utilization") + ", " + say("sign.percent"),
		say("past.power") + ", " + say("sign.kilowatt")}
	total, called := map[string]int{}, map[string]string{}
	for _, m := range v.in.Board.Models {
		total[m.Name] += m.Total
		called[m.Name] = render.Clean(m.Name)
		if total[m.Name] == m.Total { // else the same name stands for two sizes
			called[m.Name] = v.words.model(m.Name, m.MemoryTotal)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Free)) {
		values, top := column(func(i int) *float64 { return s.Free[name][i] })
		label := strings.Replace(say("past.free"), "%s", cmp.Or(called[name], render.Clean(name)), 1)
		row(label, say("sign.gpus"), values, higher(top, float64(total[name])))
		columns, t.Heads = append(columns, values), append(t.Heads, label)
	}
	t.Lines = v.lines(func(i int) time.Time { return s.At[i] }, columns, func(x float64) float64 { return x })
	return t
}

func known(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// higher is the larger of two values; NaN is not known.
func higher(top, v float64) float64 {
	if v > top {
		return v
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
	known := knownHours(w)
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
	}
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

func knownHours(w *render.Window) (hours float64) {
	for i := range w.Hosts {
		hours += w.Hosts[i].KnownHours
	}
	return hours
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
		out.Width = percent(u.GPUHours / most)
	}
	return out
}

// pastUse is what each person used, for the person's page.
func (v *view) pastUse(f *render.FleetPast) map[string][]templates.Window {
	if f == nil {
		return nil
	}
	uses := map[string][]templates.Window{}
	for i := range f.Windows {
		w := &f.Windows[i]
		known := knownHours(w)
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
		heldIdle := !g.IdleSince.IsZero() && (g.State == board.Busy || g.State == board.InUse || g.State == board.Contested)
		if g.State != board.Stuck && !(g.NoShow && g.Booking != nil) && !heldIdle {
			continue
		}
		row := templates.NowRow{Where: h.Name + " " + g.Label(), Href: hostHref("../", h.Name) + "#" + v.gpuID(h.Name, g)}
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
		for i, f := range from {
			if i == maxNowRows {
				p.NowMore += len(from) - i
				break
			}
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
