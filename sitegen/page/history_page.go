package page

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/sitegen/render"
)

const (
	maxPastUsers = 200 // on the page; the files have all
	maxPastHosts = 300
	maxNowRows   = 100
)

// A historyPage is history/index.html.
type historyPage struct {
	page
	Kept    bool // there is a history at all
	Known   bool // and it knows something
	Since   *moment
	AsOf    *moment
	Week    *windowView // the headline's
	Tabs    []fleetTab
	Windows []windowView
	Money   bool
	CO2     bool
	Coin    string
	Heat    *heatView
	Idle    []nowView
	NoShows []nowView
	Stuck   []nowView
	Unused  []unusedView
	NowMore int
}

// A fleetTab is the fleet over one length of time.
type fleetTab struct {
	ID, Name, Coverage string
	From               int64
	Step               int
	Until              *moment
	Ticks              []tick
	Rows               []fleetRow
	Heads              []string
	Lines              []pastLine
}

type fleetRow struct {
	Name  string
	Chart chartView
	Now   string // the newest value that is known
	Title string // the whole name of a model
}

// A windowView is who used how much.
type windowView struct {
	ID, Name, Coverage string
	Since              *moment
	Users, Teams       []useView
	UsersMore          int
	Hosts              []useView
	HostsMore          int
	Hours, Share, Idle string // of all
}

// A useView is one line of who used how much.
type useView struct {
	Name, Href         string
	Hours, Share, Util string
	Idle, Energy       string
	Cost, CO2          string
	Free, Coverage     string
	Width              string // of a bar, in units of which the longest has 100
	Unknown            bool   // nobody known
}

// A nowView is a GPU that somebody should look at.
type nowView struct {
	Where, Href string
	Who         []personView
	For         string
	Memory      string
	Since       *moment
}

type unusedView struct {
	Where, Href          string
	Name, NameHref       string
	From, Until          *moment
	Booked, Unused, Part string // hours; of those known, per cent
	Unknown              string
}

func (v *view) historyPage() *historyPage {
	p := &historyPage{page: v.page("history", "../", time.Time{}, v.interval())}
	h := v.in.History
	if h == nil {
		return p
	}
	p.Kept = true
	energy := v.in.Site.Energy
	p.Money, p.CO2, p.Coin = energy.Price > 0, energy.CO2Grams > 0, render.Clean(energy.Currency)
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
	p.Heat = v.heatView(f)
	p.Week = &p.Windows[1]
	p.Unused = v.unused()
	return p
}

// fleetDue is how long the view of the fleet may stay as it is.
const fleetDue = 15 * time.Minute

func (v *view) fleetTab(i int, s *render.FleetSpan) fleetTab {
	t := fleetTab{ID: render.SpanNames()[i], Name: v.words.list["past.span."+render.SpanNames()[i]], Coverage: partOf(s.Coverage)}
	if len(s.Steps) == 0 {
		return t
	}
	from, to := s.At[0], s.At[len(s.At)-1]
	t.From, t.Step = from.Unix(), int(to.Sub(from)/time.Duration(len(s.Steps))/time.Second)
	t.Until, t.Ticks = v.words.near(to, to), v.words.ticks(from, to)
	column := func(get func(*render.FleetStep) *float64) (values []float64, top float64) {
		values = make([]float64, len(s.Steps))
		for i := range s.Steps {
			values[i] = known(get(&s.Steps[i]))
			top = math.Max(top, zeroed(values[i]))
		}
		return values, top
	}
	row := func(name, unit string, values []float64, top float64) {
		c := chart(values, top, unit)
		c.Class = "wide"
		c.Text = name + ", " + t.Name + ": ⌀ " + cmp.Or(c.Mean, "–") + " " + unit + ", ≤ " + cmp.Or(c.Most, "–") + " " + unit
		r := fleetRow{Name: name, Chart: c}
		for i := len(values) - 1; i >= 0 && r.Now == ""; i-- {
			if !math.IsNaN(values[i]) {
				r.Now = digits(values[i])
			}
		}
		t.Rows = append(t.Rows, r)
	}
	say := func(key string) string { return v.words.list[key] }
	held, _ := column(func(f *render.FleetStep) *float64 { return f.Held })
	_, all := column(func(f *render.FleetStep) *float64 { return f.Reported })
	row(say("past.inuse"), say("sign.gpus"), held, all)
	util, _ := column(func(f *render.FleetStep) *float64 { return f.Utilization })
	row(say("past.utilization"), say("sign.percent"), util, 100)
	watts, most := column(func(f *render.FleetStep) *float64 { return f.Watts })
	for j := range watts {
		watts[j] /= 1000
	}
	row(say("past.power"), say("sign.kilowatt"), watts, most/1000)
	columns := [][]float64{held, util, watts}
	t.Heads = []string{say("past.inuse"), say("past.utilization") + ", " + say("sign.percent"), say("past.power") + ", " + say("sign.kilowatt")}
	total, called := map[string]int{}, map[string]string{}
	for _, m := range v.in.Board.Models {
		total[m.Name] += m.Total
		called[m.Name] = render.Clean(m.Name)
		if total[m.Name] == m.Total { // else the same name stands for two sizes
			called[m.Name] = v.words.model(m.Name, m.MemoryTotal)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Free)) {
		values, top := make([]float64, len(s.Free[name])), float64(total[name])
		for j, x := range s.Free[name] {
			values[j] = known(x)
			top = math.Max(top, zeroed(values[j]))
		}
		label := strings.Replace(say("past.free"), "%s", cmp.Or(called[name], render.Clean(name)), 1)
		row(label, say("sign.gpus"), values, top)
		columns, t.Heads = append(columns, values), append(t.Heads, label)
	}
	for j := len(s.Steps) - 1; j >= 0; j-- {
		line := pastLine{}
		some := false
		for _, c := range columns {
			some = some || !math.IsNaN(c[j])
			line.Cells = append(line.Cells, digits(c[j]))
		}
		if !some && len(t.Lines) > 0 && onlyGapsBefore(columns, j) {
			break
		}
		at := s.At[j].In(v.words.zone)
		line.Text = v.words.date(at) + " " + at.Format("15:04")
		t.Lines = append(t.Lines, line)
	}
	return t
}

func onlyGapsBefore(columns [][]float64, end int) bool {
	for _, c := range columns {
		for _, x := range c[:end] {
			if !math.IsNaN(x) {
				return false
			}
		}
	}
	return true
}

func known(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

func zeroed(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func (v *view) window(i int, w *render.Window) windowView {
	out := windowView{ID: render.WindowNames()[i], Name: v.words.list["past.window."+render.WindowNames()[i]], Coverage: partOf(w.Coverage), Since: v.words.near(w.From, w.To)}
	var all render.Use
	knownHours := 0.0
	most := 0.0
	for j := range w.Users {
		all = all.Add(w.Users[j].Use)
		most = max(most, w.Users[j].GPUHours)
	}
	for j := range w.Hosts {
		knownHours += w.Hosts[j].KnownHours
	}
	out.Hours, out.Idle = digits(all.GPUHours), digits(all.IdleHours)
	if knownHours > 0 {
		out.Share = partOf(min(1, all.GPUHours/knownHours))
	}
	for j := range w.Users {
		if j == maxPastUsers {
			out.UsersMore = len(w.Users) - j
			break
		}
		u := v.useView(w.Users[j].Name, v.userHref("../", w.Users[j].Name), w.Users[j].Use, most)
		u.Unknown = w.Users[j].Name == ""
		if knownHours > 0 {
			u.Share = partOf(w.Users[j].GPUHours / knownHours)
		}
		out.Users = append(out.Users, u)
	}
	most = 0
	for j := range w.Teams {
		most = max(most, w.Teams[j].GPUHours)
	}
	for j := range w.Teams {
		line := v.useView(w.Teams[j].Name, "", w.Teams[j].Use, most)
		if knownHours > 0 {
			line.Share = partOf(min(1, w.Teams[j].GPUHours/knownHours))
		}
		out.Teams = append(out.Teams, line)
	}
	for j := range w.Hosts {
		if j == maxPastHosts {
			out.HostsMore = len(w.Hosts) - j
			break
		}
		h := &w.Hosts[j]
		href := ""
		if v.hosts[h.Name] {
			href = "../hosts/" + h.Name + "/index.html"
		}
		line := v.useView(h.Name, href, h.Use, 0)
		line.Free, line.Coverage = digits(h.FreeHours), partOf(h.Coverage)
		if h.KnownHours > 0 {
			line.Share = partOf(min(1, h.GPUHours/h.KnownHours))
		}
		out.Hosts = append(out.Hosts, line)
	}
	return out
}

func (v *view) useView(name, href string, u render.Use, most float64) useView {
	e := v.in.Site.Energy
	out := useView{Name: render.Clean(name), Href: href, Hours: digits(u.GPUHours), Idle: digits(u.IdleHours), Energy: digits(u.EnergyKWh), Util: "–"}
	if u.Utilization != nil {
		out.Util = digits(math.Round(*u.Utilization)) + " %"
	}
	if e.Price > 0 {
		out.Cost = strconv.FormatFloat(u.EnergyKWh*e.Price, 'f', 2, 64)
	}
	if e.CO2Grams > 0 {
		out.CO2 = digits(u.EnergyKWh * e.CO2Grams / 1000)
	}
	if most > 0 {
		out.Width = percent(u.GPUHours / most)
	}
	return out
}

// pastUse is what each person used, for the person's page.
func (v *view) pastUse(f *render.FleetPast) map[string][]windowView {
	if f == nil {
		return nil
	}
	uses := map[string][]windowView{}
	for i := range f.Windows {
		w := &f.Windows[i]
		known := 0.0
		for j := range w.Hosts {
			known += w.Hosts[j].KnownHours
		}
		frame := windowView{ID: render.WindowNames()[i], Name: v.words.list["past.window."+render.WindowNames()[i]], Coverage: partOf(w.Coverage), Since: v.words.near(w.From, w.To)}
		for j := range w.Users {
			line, use := frame, v.useView(w.Users[j].Name, "", w.Users[j].Use, 0)
			if known > 0 {
				use.Share = partOf(w.Users[j].GPUHours / known)
			}
			line.Users = []useView{use}
			uses[w.Users[j].Name] = append(uses[w.Users[j].Name], line)
		}
	}
	return uses
}

// A heatView is the week by the hour.
type heatView struct {
	Days     []heatDay // from Monday
	Coverage string
	Zone     string
}

type heatDay struct {
	Name  string
	Y     int
	Cells []heatCell
}

type heatCell struct {
	Hour  int
	X     int
	Shade int    // 0 to 9; -1 when it is not known
	Value string // % of the GPUs in use
}

func (v *view) heatView(f *render.FleetPast) *heatView {
	out := &heatView{Zone: v.words.zoneName(f.AsOf), Coverage: partOf(f.Spans[2].Coverage)}
	for i := range 7 {
		wd := time.Weekday((i + 1) % 7)
		d := heatDay{Name: v.words.weekdays[wd], Y: i * 18}
		for hour := range 24 {
			c := heatCell{Hour: hour, X: hour * 18, Shade: -1, Value: "–"}
			if held := f.Heat[wd][hour].Held; held != nil {
				c.Shade, c.Value = int(min(9, *held/10)), digits(math.Round(*held))
			}
			d.Cells = append(d.Cells, c)
		}
		out.Days = append(out.Days, d)
	}
	return out
}
