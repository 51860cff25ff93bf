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
	"gpuboard/sitegen/render"
)

// An indexPage is index.html.
type indexPage struct {
	page
	Free, GPUs  int
	FreeModels  string // "2 × H100, 1 × RTX 3090"
	Blind       bool   // nothing at all is known of any GPU
	Next        *nextView
	StaleHosts  int
	Silent      []string // their names, the first few
	SilentMore  int
	LostGPUs    int
	HeldIdle    int
	States      []stateCount
	Share       []shareView // the same as a bar of 100 units
	Problems    []problemView
	Notice      safeHTML
	Cards       []cardView
	Piles       []pileView // instead of cards, when there are many
	Map         bool       // there is room for a sign a GPU
	Groups      []groupView
	Filter      bool
	Dense       bool
	People      []askView
	PeopleMore  int
	FreeAsk     *askView
	Means       bool // history knows how it was
	AsOf        *moment
	BookingsOf  *moment
	Comments    string
	Command     string
	Models      []modelView
	KioskStates []stateCount
	cards       [][]byte // of the hosts, which are put in at last
}

type nextView struct {
	Where, Href, Model, By string
	At                     *moment
}

type stateCount struct {
	State board.State
	Count int
}

type shareView struct {
	State board.State
	X, W  string
}

type modelView struct {
	Name        string
	Free, Total int
	Title       string
}

// A cardView is one host's free GPUs of one model.
type cardView struct {
	Where, GPUs, Href, Model string
	Count                    int
	Until                    *moment
	SSH, Devices             string
}

type groupView struct {
	Name  string
	Hosts []*hostView
}

// A pileView is all that is free of one model.
type pileView struct {
	Model string
	Count int
	Cards []cardView
	More  int
}

// An askView is one line of "who to ask".
type askView struct {
	Name, Href, Reserved, Used, Mean2h, Mean24h, Mean1w string
	Trend2h, Trend24h, Trend1w                          string // up, down or ""
	Idle                                                int
	Where                                               []whereView
	WhereMore                                           int
}

type whereView struct{ Text, Href string }

const (
	maxCards  = 12 // of "free now"; more are piled up by model
	maxPile   = 30
	maxAsk    = 50
	maxSilent = 6
	maxWhere  = 4
)

func (v *view) indexPage(done []*rendered) (*indexPage, error) {
	b := v.in.Board
	p := &indexPage{
		page: v.page("index", "", b.GeneratedAt, v.interval()),
		Free: b.Totals.Free(), GPUs: b.Totals.GPUs, HeldIdle: b.Totals.HeldIdle,
		LostGPUs: b.Totals.ByState[board.Lost], FreeModels: v.freeModels(b.Models),
		Filter: len(b.Hosts) > 2, Dense: len(b.Hosts) > usualHosts, Map: len(b.Hosts) <= denseHosts,
		AsOf: v.words.near(b.InventoryAsOf, b.GeneratedAt), BookingsOf: v.words.near(b.BookingsStaleSince, b.GeneratedAt),
		Comments: render.Clean(v.in.Site.CommentsPath), Command: render.Clean(v.in.Site.BookCommand),
	}
	p.Blind = p.GPUs > 0 && b.Totals.ByState[board.Unknown] == p.GPUs
	if p.Blind {
		p.Icon = "favicon-old.svg"
	} else if p.Free == 0 {
		p.Icon = "favicon-none.svg"
	}
	if f := b.NextFree; f != nil {
		p.Next = &nextView{
			Where: f.Host + " " + f.Label(), Href: "#" + v.rowID(f.Host, f.GPU, f.Slice),
			Model: v.words.model(f.Model, f.Memory), By: render.Clean(f.By), At: v.words.near(f.From, b.GeneratedAt),
		}
	}
	var err error
	if p.Notice, err = markdown(v.in.Notice); err != nil {
		return nil, fmt.Errorf("reading the notice: %w", err)
	}
	hosts := hostsByName(b)
	for _, problem := range b.Problems {
		p.Problems = append(p.Problems, v.problem(problem, hosts[problem.Host], "", true, false))
	}
	slices.SortStableFunc(p.Problems, func(x, y problemView) int { return cmp.Compare(x.Severity, y.Severity) })
	p.count(b)
	for _, m := range b.Models {
		p.Models = append(p.Models, modelView{v.words.model(m.Name, m.MemoryTotal), m.Free, m.Total, render.Clean(m.FullName)})
	}
	p.Cards = v.cards(b.FreeNow, hosts)
	if len(p.Cards) > maxCards {
		p.Piles, p.Cards = pile(p.Cards), nil
	}
	for i := range b.Hosts {
		p.addHost(done[i])
	}
	v.ask(p)
	return p, nil
}

func (p *indexPage) addHost(r *rendered) {
	hv := r.view
	p.cards = append(p.cards, r.card)
	if n := len(p.Groups); n == 0 || p.Groups[n-1].Name != hv.Group {
		p.Groups = append(p.Groups, groupView{Name: hv.Group})
	}
	g := &p.Groups[len(p.Groups)-1]
	g.Hosts = append(g.Hosts, hv)
	if hv.Old {
		p.StaleHosts++
		if len(p.Silent) < maxSilent {
			p.Silent = append(p.Silent, hv.Name)
		} else {
			p.SilentMore++
		}
	}
}

// count fills in how many GPUs are in each state, as numbers and as a bar.
func (p *indexPage) count(b *board.Board) {
	x := 0.0
	for _, s := range board.States() {
		n := b.Totals.ByState[s]
		if n == 0 {
			continue
		}
		p.States = append(p.States, stateCount{s, n})
		w := float64(n) / float64(max(1, b.Totals.GPUs))
		p.Share = append(p.Share, shareView{s, percent(x), percent(w)})
		x += w
	}
}

// times is "2 × H100", which never breaks over a line.
func times(n int, what string) string {
	return strings.ReplaceAll(fmt.Sprintf("%d × %s", n, what), " ", "\u00a0")
}

// freeModels says what is free: by family, and by memory too where one family
// comes in two sizes.
func (v *view) freeModels(models []board.Model) string {
	sizes := map[string]int{}
	for _, m := range models {
		if m.Free > 0 {
			sizes[family(m.Name)]++
		}
	}
	var parts []string
	for _, m := range models {
		if m.Free == 0 {
			continue
		}
		name := family(m.Name)
		if sizes[name] > 1 {
			name = v.words.model(m.Name, m.MemoryTotal)
		}
		if len(parts) == 4 {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, times(m.Free, name))
	}
	return strings.Join(parts, ", ")
}

// cards puts the free GPUs of one host, model and end together.
func (v *view) cards(free []board.FreeGPU, hosts map[string]*board.Host) []cardView {
	type key struct {
		host, model string
		until       time.Time
	}
	index, gpus, devices := map[key]int{}, [][]string{}, [][]string{}
	var cards []cardView
	type product struct {
		name   string
		known  bool
		memory int64
	}
	models := map[product]string{}
	model := func(f *board.FreeGPU) string {
		p := product{name: f.Model}
		if f.Memory != nil {
			p.known, p.memory = true, *f.Memory
		}
		if _, known := models[p]; !known {
			models[p] = v.words.model(f.Model, f.Memory)
		}
		return models[p]
	}
	for i := range free {
		f := &free[i]
		k := key{f.Host, model(f), f.Until}
		i, ok := index[k]
		if !ok {
			i = len(cards)
			index[k], gpus, devices = i, append(gpus, nil), append(devices, nil)
			where := f.Host
			if t := render.Clean(f.Title); t != "" {
				where = t
			}
			cards = append(cards, cardView{
				Where: where, Href: "#" + v.rowID(f.Host, f.GPU, f.Slice), Model: k.model,
				Until: v.words.near(f.Until, v.in.Board.GeneratedAt), SSH: address(hosts[f.Host]),
			})
		}
		gpus[i] = append(gpus[i], f.Label())
		switch {
		case f.Slice == nil:
			devices[i] = append(devices[i], strconv.Itoa(f.GPU))
		case shellWord(f.UUID): // CUDA knows a slice by nothing else
			devices[i] = append(devices[i], f.UUID)
		}
		cards[i].Count++
	}
	for i := range cards {
		cards[i].GPUs = strings.Join(gpus[i], ",")
		if len(devices[i]) == len(gpus[i]) {
			cards[i].Devices = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=" + strings.Join(devices[i], ",")
		}
	}
	return cards
}

// address is what stands behind ssh for a host, "" where that is not published.
func address(h *board.Host) string {
	switch {
	case h == nil || h.Address == "":
		return ""
	case shellWord(h.Address):
		return h.Address
	}
	return h.Name
}

// pile sorts cards by model, in the order in which the models come up.
func pile(cards []cardView) []pileView {
	index := map[string]int{}
	var piles []pileView
	for _, c := range cards {
		i, ok := index[c.Model]
		if !ok {
			i = len(piles)
			index[c.Model], piles = i, append(piles, pileView{Model: c.Model})
		}
		p := &piles[i]
		p.Count += c.Count
		if len(p.Cards) == maxPile {
			p.More++
			continue
		}
		p.Cards = append(p.Cards, c)
	}
	return piles
}

func joinInts(list []int, sep string) string {
	s := make([]string, len(list))
	for i, n := range list {
		s[i] = strconv.Itoa(n)
	}
	return strings.Join(s, sep)
}

// ask fills in "who to ask": the free GPUs first, then people by what they
// hold: reserved, half again what they use, a little of what they used lately.
func (v *view) ask(p *indexPage) {
	b := v.in.Board
	reserved := 0
	people := slices.Clone(b.Users)
	for _, u := range people {
		reserved += u.Reserved
		p.Means = p.Means || u.Mean2h != nil || u.Mean24h != nil || u.Mean1w != nil
	}
	weight := func(u *board.User) float64 {
		w := float64(u.Reserved) + 1.5*u.Used
		if u.Mean2h != nil {
			w += 0.15 * *u.Mean2h
		}
		return w
	}
	slices.SortStableFunc(people, func(x, y board.User) int {
		return cmp.Or(compareFloats(weight(&y), weight(&x)), cmp.Compare(x.Name, y.Name))
	})
	in := &v.in
	p.Means = p.Means || in.FreeMean2h != nil || in.FreeMean24h != nil || in.FreeMean1w != nil
	p.FreeAsk = &askView{Reserved: strconv.Itoa(max(0, p.GPUs-reserved)), Used: strconv.Itoa(p.Free)}
	p.FreeAsk.means(float64(p.Free), in.FreeMean2h, in.FreeMean24h, in.FreeMean1w)
	for i := range people {
		u := &people[i]
		if len(p.People) == maxAsk {
			p.PeopleMore = len(people) - maxAsk
			break
		}
		a := askView{Name: render.Clean(u.Name), Href: v.userHref("", u.Name), Idle: u.IdleGPUs}
		if u.Used > 0 {
			a.Used = fraction(u.Used)
		}
		if u.Reserved > 0 {
			a.Reserved = strconv.Itoa(u.Reserved)
		}
		a.means(u.Used, u.Mean2h, u.Mean24h, u.Mean1w)
		for _, w := range u.Where {
			if len(a.Where) == maxWhere {
				a.WhereMore = len(u.Where) - maxWhere
				break
			}
			a.Where = append(a.Where, whereView{w.Host + " " + joinInts(w.GPUs, ", "), "#" + w.Host})
		}
		p.People = append(p.People, a)
	}
}

// means fills in the past, each with an arrow where the present is well away from it.
func (a *askView) means(now float64, h2, h24, w1 *float64) {
	for _, m := range []struct {
		mean        *float64
		text, trend *string
	}{{h2, &a.Mean2h, &a.Trend2h}, {h24, &a.Mean24h, &a.Trend24h}, {w1, &a.Mean1w, &a.Trend1w}} {
		if m.mean == nil {
			continue
		}
		*m.text = fraction(*m.mean)
		switch {
		case *m.mean > now+0.1:
			*m.trend = "down"
		case *m.mean < now-0.1:
			*m.trend = "up"
		default:
			*m.trend = "same"
		}
	}
}

func fraction(f float64) string {
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', 1, 64)
}

// kioskPage is the front page for a screen on a wall.
func (v *view) kioskPage(index *indexPage) *indexPage {
	p := *index
	p.page = v.page("kiosk", "../", v.in.Board.GeneratedAt, v.interval())
	p.KioskStates = p.States
	return &p
}
