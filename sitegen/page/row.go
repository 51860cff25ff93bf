package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// A rowView is one GPU as a row of a table.
type rowView struct {
	ID, Index string
	Class     string // of the row: its state, and what it is a part of
	State     board.State
	Model     string // where a card has more than one
	GiB       int    // for the filter, too
	Used      string
	Total     string
	BarText   string // the bar in words
	Bars      []segment
	Util      string
	Spark     string
	SparkText string
	SparkBox  string
	Heat      string
	Huge      bool // on a page that has no room for it
	Crowded   bool // on a page of many rows: what is said elsewhere, too, is left out
	Reason    string
	Driver    string // the driver's own words about a lost GPU
	Who       *personView
	More      []personView // the other people, by memory: the first maxNames
	MoreNames int          // how many people there are beside these
	Others    int          // processes beyond the one that is named
	Processes []processView
	// MoreProcesses is how many processes are left out of Processes.
	MoreProcesses int
	Only          int // the pid of the one process, where the row names it wholly
	Idle          string
	NoShow        bool
	Booking       *slotView
	Not           string // who is on it, though somebody else booked it
	Also          []slotView
	AlsoMore      int
	Next          *slotView
	Free          *moment // free from, where that is not the end of the booking
	Last          *lastView
	Details       bool   // processes are listed
	UUID          string // of a slice, by which it is booked; "" for a GPU
	Part          string // the profile of a slice
	Of            string // the ID of the row of the GPU that it is a part of
	Slices        string // of a GPU that is partitioned: how many are free; "" where it has a state of its own
	Panel         *panelView
	Facts         []factView
}

type personView struct {
	Name, Href, Program string
	Since               *moment
}

type processView struct {
	PID       int
	Person    string
	Href      string
	Login     string // where it is not the person
	Same      bool   // the row says whose it is
	Told      bool   // and its pid and its program
	Program   string
	Type      string
	Memory    string
	Share     string
	Since     *moment
	Container string
	Instance  string
	Dead      bool
	Kill      string // pids of the children left behind, space-separated
	Children  string
}

// A slotView is a booking as a row mentions it.
type slotView struct {
	Name, Href  string
	From, Until *moment
	Open        bool
	Comment     safeHTML
	Maintenance bool
	Soon        bool // it ends within endsSoon
}

type lastView struct {
	State board.State
	Users string
	At    *moment
}

type factView struct{ Name, Value string }

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
	brief detail = iota // thousands of rows on one page
	usual               // a row with its chart and its processes
	whole               // a host's own page
)

// crowded reports whether a page has so many rows that each must be brief.
func (v *view) crowded(d detail) bool { return d == usual && len(v.in.Board.Hosts) > panelHosts }

// row makes one row. ref is the moment beside which times are named, root leads
// to the site's root.
func (v *view) row(h *board.Host, g *board.GPU, mixed bool, d detail, ref time.Time, root string) rowView {
	r := rowView{
		ID: v.gpuID(h.Name, g), Index: g.Label(), State: g.State,
	}
	if mixed || g.Slice != nil {
		r.Model = v.words.model(g.ShortName, g.MemoryTotal)
	}
	if g.Slice != nil {
		r.UUID, r.Part, r.Of = render.Clean(g.UUID), render.Clean(g.Slice.Profile), v.rowID(h.Name, g.Index, nil)
		if r.Part == "" {
			r.Part = v.words.list["slice"]
		}
	}
	r.Class = "r " + string(g.State)
	if g.Slice != nil {
		r.Class += " slice"
	}
	if free := g.FreeSlices(); len(g.Slices) > 0 {
		if r.Class = "r mig"; free > 0 {
			r.Class += " open"
		}
		if !g.OwnState() {
			r.Slices = fmt.Sprintf(v.words.list["slices.free"], free, len(g.Slices))
		}
	}
	v.readings(&r, g, d)
	if g.Reason != "" && r.Slices == "" {
		r.Reason = v.words.or("reason."+g.Reason, render.Clean(g.Reason))
	}
	if g.State == board.Lost {
		r.Driver = render.Clean(g.HealthReason)
	}
	if d := g.IdleFor(v.in.Board.GeneratedAt); d > 0 {
		r.Idle = v.words.length(d)
		r.NoShow = g.NoShow
	}
	if g.Last != nil {
		r.Last = &lastView{State: g.Last.State, Users: render.Clean(strings.Join(g.Last.Users, ", ")), At: v.words.near(g.Last.At, ref)}
		if g.Reason == board.ReasonStale {
			r.Reason = "" // the card says it already
		}
	}
	if len(g.Slices) > 0 {
		one := *g
		one.Processes = g.Unplaced()
		v.whoIsOn(&r, &one, d, ref, root)
	} else {
		v.whoIsOn(&r, g, d, ref, root)
	}
	if r.Who == nil && r.Reason == "" && r.Slices == "" && (g.State == board.Busy || g.State == board.InUse) {
		r.Reason = v.words.or("reason.user", "")
	}
	v.bookings(&r, g, ref, root)
	if d != brief && !v.crowded(d) {
		r.Panel = v.panel(h, g, ref, root)
		if r.Panel != nil && d != whole {
			r.Panel.JSON = "" // the script puts it in
		}
	}
	if d == whole && g.Slice == nil {
		r.Facts = v.facts(g)
	}
	if r.Crowded = v.crowded(d); r.Crowded {
		r.plainTimes()
	}
	return r
}

// plainTimes leaves the times to people: for machines they cost as much as the
// bars, and board.json has them.
func (r *rowView) plainTimes() {
	slots := slices.Clone(r.Also)
	for _, s := range []*slotView{r.Booking, r.Next} {
		if s != nil {
			slots = append(slots, *s)
		}
	}
	times := []*moment{r.Free}
	for _, s := range slots {
		times = append(times, s.From, s.Until)
	}
	if r.Who != nil {
		times = append(times, r.Who.Since)
	}
	if r.Last != nil {
		times = append(times, r.Last.At)
	}
	for _, m := range times {
		if m != nil {
			m.ISO = ""
		}
	}
}

// readings fills in the numbers and their charts.
func (v *view) readings(r *rowView, g *board.GPU, d detail) {
	if g.MemoryTotal != nil {
		r.GiB = wholeGiB(g.MemoryTotal)
		r.Total = strconv.Itoa(r.GiB)
	}
	if g.MemoryUsed != nil {
		r.Used = gib(*g.MemoryUsed)
		if total := g.MemoryTotal; total != nil && *total > 0 {
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
	}
	if g.UtilizationGPU != nil {
		r.Util = strconv.Itoa(*g.UtilizationGPU)
	}
	if d != brief && g.Utilization != nil {
		grain := fineSpark()
		if v.crowded(d) {
			grain = coarseSpark()
		}
		if path, mean, highest, known := sparkline(g.Utilization, grain); known {
			r.Spark, r.SparkBox, r.SparkText = path, grain.box(), fmt.Sprintf(v.words.list["spark"], mean, highest)
		}
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

// memoryBar divides the used memory among people, the largest first.
func (v *view) memoryBar(g *board.GPU, share float64) ([]segment, string) {
	people, shares := sharesOf(g)
	text := fmt.Sprintf("%.0f %%", 100*share)
	for i, p := range people[:min(len(people), maxNames)] {
		if p != "" {
			text += fmt.Sprintf(", %s %.0f %%", render.Clean(p), 100*shares[i])
		}
	}
	return segments(share, shares), text
}

func sharesOf(g *board.GPU) (people []string, shares []float64) {
	type part struct {
		person string
		share  float64
	}
	var parts []part
	place := map[string]int{} // of each person in parts
	for i := range g.Processes {
		p := &g.Processes[i]
		if p.Share == nil {
			continue
		}
		k, known := place[p.Person]
		if !known {
			k, parts = len(parts), append(parts, part{person: p.Person})
			place[p.Person] = k
		}
		parts[k].share += *p.Share
	}
	slices.SortStableFunc(parts, func(x, y part) int { return compareFloats(y.share, x.share) })
	for _, p := range parts {
		people, shares = append(people, p.person), append(shares, p.share)
	}
	return people, shares
}

func compareFloats(x, y float64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// whoIsOn fills in who is on the GPU: the one with the most memory by name, the
// others behind "+2 more", and the processes where there is room for them.
func (v *view) whoIsOn(r *rowView, g *board.GPU, d detail, ref time.Time, root string) {
	if len(g.Processes) == 0 {
		return
	}
	order := make([]*board.Process, 0, len(g.Processes))
	for i := range g.Processes {
		order = append(order, &g.Processes[i])
	}
	slices.SortStableFunc(order, func(x, y *board.Process) int {
		if c := boolFirst(x.Type.Computes(), y.Type.Computes()); c != 0 {
			return c
		}
		return compareFloats(memory(y), memory(x))
	})
	seen := map[string]bool{}
	for _, p := range order {
		if p.Person == "" || seen[p.Person] || dead(p) && g.State == board.Stuck {
			continue
		}
		seen[p.Person] = true
		if len(r.More) == maxNames {
			r.MoreNames++
			continue
		}
		who := personView{Name: render.Clean(p.Person), Href: v.userHref(root, p.Person), Program: program(p)}
		if p.StartedAt != nil {
			who.Since = v.words.near(p.StartedAt.Time, ref).toMinute()
		}
		if r.Who == nil {
			if who.Since == nil {
				who.Since = v.words.near(g.Since, ref)
			}
			r.Who = &who
		} else {
			r.More = append(r.More, who)
		}
	}
	r.Others = len(order)
	if r.Who != nil {
		r.Others--
	}
	if d == brief {
		return
	}
	r.Details = true
	if p := order; len(p) == 1 && r.Who != nil && p[0].Type == snapshot.Compute && !dead(p[0]) {
		r.Only = p[0].PID
	}
	// What the row says is not said again below it.
	said := r.Only != 0 && d != whole
	most := maxProcesses
	if d == whole {
		most = maxOwnProcesses
	}
	for i, p := range order {
		if i == most {
			r.MoreProcesses = len(order) - most
			break
		}
		pv := v.process(p, ref, root)
		if g.Slice != nil {
			pv.Instance = "" // the row says it
		}
		pv.Same = d != whole && r.Who != nil && len(r.More) == 0 && pv.Person == r.Who.Name && pv.Login == "" && !pv.Dead
		if v.crowded(d) {
			pv.Share, pv.Since = "", nil // the host's own page has them
		}
		if said {
			if pv.Since, pv.Told = nil, true; pv.Memory == r.Used && pv.Same && pv.Container == "" && pv.Instance == "" {
				r.Details = false
				continue
			}
		}
		r.Processes = append(r.Processes, pv)
	}
}

func (v *view) process(p *board.Process, ref time.Time, root string) processView {
	pv := processView{
		PID: p.PID, Person: render.Clean(p.Person), Href: v.userHref(root, p.Person), Program: program(p),
		Type: render.Clean(string(p.Type)), Container: render.Clean(p.Container), Dead: dead(p),
	}
	if p.User != p.Person {
		pv.Login = render.Clean(p.User)
	}
	if p.UsedMemory != nil {
		pv.Memory = gib(*p.UsedMemory)
	}
	if p.Share != nil {
		pv.Share = strconv.Itoa(int(math.Round(100 * *p.Share)))
	}
	if p.StartedAt != nil {
		pv.Since = v.words.near(p.StartedAt.Time, ref)
	}
	if p.GPUInstanceID != nil {
		pv.Instance = strconv.Itoa(*p.GPUInstanceID)
	}
	var pids, names []string
	for _, c := range p.Children {
		pids = append(pids, strconv.Itoa(c.PID))
		if name := strings.TrimSpace(c.User + " " + c.Program); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	pv.Kill, pv.Children = strings.Join(pids, " "), render.Clean(strings.Join(names, ", "))
	return pv
}

func dead(p *board.Process) bool { return p.Alive != nil && !*p.Alive }

func memory(p *board.Process) float64 {
	if p.UsedMemory == nil {
		return 0
	}
	return float64(*p.UsedMemory)
}

func boolFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// program is what runs, for people: its name, or the container's where the name
// is not known.
func program(p *board.Process) string {
	if p.Program == "" {
		return ""
	}
	return render.Clean(p.Program)
}

// wholeGiB is a memory size as cards are sold; 0 when it is not known.
func wholeGiB(mib *int64) int {
	if mib == nil {
		return 0
	}
	return int(math.Round(float64(*mib) / 1024))
}

// gib says MiB in GiB, with one decimal.
func gib(mib int64) string { return strconv.FormatFloat(float64(mib)/1024, 'f', 1, 64) }
