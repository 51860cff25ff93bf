package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

const (
	maxCards  = 12  // of "free now"; more are piled up by model
	pileRoom  = 160 // characters of a model's places, in two lines of a wall screen
	pileGap   = 4   // characters between two places
	tallPiles = 6   // models that have room for two lines each
	maxSilent = 6
)

func (v *view) indexPage(cards []*templates.Card) *templates.IndexPage {
	b := v.in.Board
	totals, models := b.Totals, b.Models
	if len(b.Hosts) == 0 { // it shows other boards alone
		others := b.Others()
		totals, models = others.Totals, others.Models
	}
	p := &templates.IndexPage{
		Frame: v.frame("index", "index.html", b.GeneratedAt, v.in.Board.Every()),
		Units: unitsOf(&totals), FreeModels: v.freeModels(models), Sites: v.sites(),
		HeldIdle: v.countOf("index.held", b.Totals.GPUs.HeldIdle, b.Totals.Slices.HeldIdle),
		Lost:     v.countOf("index.lost", b.Totals.GPUs.ByState[board.Lost], b.Totals.Slices.ByState[board.Lost]),
		Rowed:    v.rowed, Search: v.search(cards),
		AsOf:       v.words.near(b.InventoryAsOf, b.GeneratedAt),
		BookingsOf: v.words.near(b.BookingsStaleSince, b.GeneratedAt),
	}
	known := func(c board.Count) int { return c.All - c.ByState[board.Unknown] }
	p.Blind = p.Units.Any() && known(totals.GPUs)+known(totals.Slices) == 0
	if p.Blind {
		p.Icon = p.Files + "favicon-old.svg"
	} else if p.Units.Free == "" {
		p.Icon = p.Files + "favicon-none.svg"
	}
	if next := b.NextFree; next != nil {
		host, g := next.Host.Name, next.GPU
		p.Next = &templates.Next{
			Where: host + " " + g.Label(), Href: v.placeHref(host, g.Index, g.SliceIndex()),
			By: render.Clean(g.Booking.Name), At: v.words.near(g.FreeFrom, b.GeneratedAt),
		}
	}
	var free []string
	for _, m := range p.FreeModels {
		free = append(free, m.Text)
	}
	p.Description = strings.Join(free, ", ")
	p.Notice = v.markdown(v.in.Notice)
	p.NoticeStart = firstLine(v.in.Notice)
	for _, problem := range b.Problems {
		p.Problems = append(p.Problems, v.problem(problem, v.hosts[problem.Host], "", true, false))
	}
	slices.SortStableFunc(p.Problems, func(x, y templates.Problem) int { return cmp.Compare(x.Severity, y.Severity) })
	p.States = stateCounts(&b.Totals)
	p.Skip = firstFree(cards)
	p.Supply = v.supply()
	p.FreeNow = v.freeNow(b.FreeNow)
	if len(p.FreeNow) > maxCards {
		p.Piles, p.FreeNow = pile(p.FreeNow), nil
	}
	if v.rowed && len(cards) > 0 {
		p.Columns = columns(cards)
	}
	v.group(p, cards)
	v.silent(p, cards)
	v.holders(p)
	return p
}

// stateCounts are how many GPUs are in each state, of those in which any is.
func stateCounts(t *board.Totals) []templates.StateCount {
	var counts []templates.StateCount
	for _, s := range board.States() {
		if n := render.WithSlices(t.GPUs.ByState[s], t.Slices.ByState[s], strconv.Itoa); n != "" {
			counts = append(counts, templates.StateCount{State: string(s), Count: n})
		}
	}
	return counts
}

// stateWords say the same: "1 free, 3 busy".
func (v *view) stateWords(t *board.Totals) string {
	var words []string
	for _, s := range stateCounts(t) {
		words = append(words, s.Count+" "+v.words.T(s.State))
	}
	return strings.Join(words, ", ")
}

// firstFree is the id of the first row that is free, or of the line of its host where there are no rows; "" for none.
func firstFree(cards []*templates.Card) string {
	for _, c := range cards {
		if c.Units.Free == "" {
			continue
		}
		for i := range c.Rows {
			if c.Rows[i].State == string(board.Free) {
				return c.Rows[i].ID
			}
		}
		return c.ID
	}
	return ""
}

// countOf says what GPUs and slices have in common, such as "2 GPUs, 1 MIG slice lost"; "" for none.
func (v *view) countOf(key string, gpus, slices int) string {
	var counts []string
	if gpus > 0 {
		counts = append(counts, v.words.Count(gpus, "gpu"))
	}
	if slices > 0 {
		counts = append(counts, v.words.Count(slices, "slice"))
	}
	if len(counts) == 0 {
		return ""
	}
	return v.words.Count(gpus+slices, key, strings.Join(counts, ", "))
}

// times is "2 × H100", which never breaks over a line.
func times(n int, what string) string {
	return strings.ReplaceAll(fmt.Sprintf("%d × %s", n, what), " ", "\u00a0")
}

// freeModels says what is free by family, with the memory if a family has several sizes.
func (v *view) freeModels(models []board.Model) []templates.FreeModel {
	sizes := map[string]int{}
	for _, m := range models {
		if m.Free > 0 {
			sizes[family(m.Name)]++
		}
	}
	var parts []templates.FreeModel
	for _, m := range models {
		if m.Free == 0 {
			continue
		}
		name := v.words.familyOf(m.Name, m.MemoryTotal, sizes)
		if len(parts) == 4 {
			parts = append(parts, templates.FreeModel{Text: "…"})
			break
		}
		parts = append(parts, templates.FreeModel{
			Text: times(m.Free, name), Query: url.QueryEscape("free " + strings.ToLower(name)),
		})
	}
	return parts
}

const (
	maxSupply   = 6
	ribbonSteps = 28 // of six hours
	ribbonStep  = 6 * time.Hour
)

// A modelKey is what GPUs or slices of one kind have in common.
type modelKey struct {
	name string
	gib  int
	mig  bool
}

func keyOf(m *board.Model) modelKey { return modelKey{m.Name, board.WholeGiB(m.MemoryTotal), m.MIG} }

// A demand is how many units of a model are booked, by the steps of a ribbon.
type demand [ribbonSteps]float64

// supply says of the first models how many are free, when more will be, and how much is booked.
func (v *view) supply() []templates.Supply {
	models := v.in.Board.Models
	demands, list := v.demands(), v.modelsOf(models)
	for i := range list {
		m, s := &models[i], &list[i]
		if next := m.Next; next != nil {
			s.NextHref = v.placeHref(next.Host, next.GPU, next.Slice)
		}
		sum, shares := 0.0, make([]float64, ribbonSteps)
		for k, n := range demands[keyOf(m)] {
			shares[k] = n / float64(m.Total)
			sum += shares[k]
		}
		s.Ribbon, _ = area(shares, 8, 0)
		s.Booked = v.words.T("index.booked", partOf(sum/ribbonSteps))
	}
	return list
}

// modelsOf says of the first models how many are free, and when more will be.
func (v *view) modelsOf(models []board.Model) (list []templates.Supply) {
	sizes := map[string]int{}
	for _, m := range models {
		sizes[family(m.Name)]++
	}
	for _, m := range models[:min(len(models), maxSupply)] {
		name := v.words.familyOf(m.Name, m.MemoryTotal, sizes)
		s := templates.Supply{
			Name: name, Free: m.Free, Query: url.QueryEscape(strings.ToLower(name)),
			Title: render.Clean(cmp.Or(m.FullName, m.Name)) + ": " +
				v.words.Count(m.Free, "index.free", m.Free, m.Total),
		}
		if next := m.Next; next != nil {
			s.More, s.Next = fmt.Sprintf("+%d", next.Count), v.words.near(next.At, v.in.Board.GeneratedAt)
		}
		list = append(list, s)
	}
	return list
}

// sites are the boards of other clusters, and where the site has no hosts of its own, their sum.
func (v *view) sites() (list []templates.Site) {
	b := v.in.Board
	line := func(sums board.Sums) templates.Site {
		line := templates.Site{
			Units: unitsOf(&sums.Totals), Models: v.modelsOf(sums.Models),
			ModelsMore: max(0, len(sums.Models)-maxSupply),
		}
		if sums.Problems > 0 {
			line.Problems = strconv.Itoa(sums.Problems)
		}
		return line
	}
	for i := range b.Sites {
		s := &b.Sites[i]
		l := line(s.Said())
		l.Name, l.Href, l.Old = s.Name, s.URL, s.State != board.Up
		if s.Summary != nil {
			l.Title, l.AsOf = render.Clean(s.Summary.Title), v.words.near(s.Summary.GeneratedAt, b.GeneratedAt)
			if n := len(s.Summary.Others.IDs); n > 0 {
				l.Others = v.words.Count(n, "more")
			}
		}
		list = append(list, l)
	}
	if len(list) > 1 && len(b.Hosts) == 0 {
		sum := line(b.Others().Sums)
		sum.Sum = true
		list = append(list, sum)
	}
	return list
}

// demands adds up, by model, what bookings say of the next seven days.
func (v *view) demands() map[modelKey]*demand {
	now := v.in.Board.GeneratedAt.Truncate(quarter)
	week := span{from: now, until: now.Add(ribbonSteps * ribbonStep)}
	booked, _ := v.scheduled(week)
	all := map[modelKey]*demand{}
	for i := range v.in.Board.Models {
		all[keyOf(&v.in.Board.Models[i])] = &demand{}
	}
	for i := range v.in.Board.Hosts {
		h := &v.in.Board.Hosts[i]
		whole := week.shares(booked.whole(h))
		for g := range h.Units() {
			d := all[modelKey{g.ShortName, board.WholeGiB(g.MemoryTotal), g.Slice != nil}]
			if d == nil {
				continue
			}
			for k, own := range week.shares(booked.of(h, g)) {
				d[k] += min(1, whole[k]+own)
			}
		}
	}
	return all
}

// shares are the parts of the steps of a ribbon in which there is one of these bookings, which are sorted by start.
func (s span) shares(list []*board.Booking) (shares [ribbonSteps]float64) {
	for _, t := range s.taken(list) {
		for k := int(s.at(t.from) * ribbonSteps); k < ribbonSteps; k++ {
			from := s.from.Add(time.Duration(k) * ribbonStep)
			if !from.Before(t.until) {
				break
			}
			step := span{from: from, until: from.Add(ribbonStep)}
			shares[k] += step.at(t.until) - step.at(t.from)
		}
	}
	return shares
}

// columns puts hosts into two columns that are about as high, in their order.
func columns(cards []*templates.Card) [][]*templates.Card {
	heights, all := make([]int, len(cards)), 0
	for i, c := range cards {
		heights[i] = 1 + len(c.Rows)
		for _, r := range c.Rows {
			heights[i] -= max(0, r.Alike-1) // these are not seen
		}
		if c.Open {
			heights[i]++ // the space above it
		}
		all += heights[i]
	}
	left, at := 0, 0
	for at < len(cards) && 2*left+heights[at] <= all {
		left += heights[at]
		at++
	}
	at = max(at, min(1, len(cards)))
	return [][]*templates.Card{cards[:at], cards[at:]}
}

// freeNow puts the free GPUs of one host, model and end together.
func (v *view) freeNow(free []board.Unit) []templates.FreeCard {
	type key struct {
		host, model string
		until       time.Time
	}
	index := map[key]int{}
	var cards []templates.FreeCard
	for _, u := range free {
		g := u.GPU
		k := key{u.Host.Name, v.words.model(g.ShortName, g.MemoryTotal), g.FreeUntil}
		i, ok := index[k]
		if !ok {
			index[k] = len(cards)
			cards = append(cards, templates.FreeCard{
				Where: title(u.Host), Model: k.model, GPUs: g.Label(), Count: 1,
				Until: v.words.near(g.FreeUntil, v.in.Board.GeneratedAt),
			})
			continue
		}
		cards[i].GPUs += "," + g.Label()
		cards[i].Count++
	}
	return cards
}

// address is what stands behind ssh for a host, "" where that is not published.
func address(h *board.Host) string {
	if h.Address != "" && !shellWord(h.Address) {
		return h.Name
	}
	return h.Address
}

// pile sorts cards by model, in the order in which the models come up.
func pile(cards []templates.FreeCard) []templates.Pile {
	index := map[string]int{}
	var piles []templates.Pile
	for _, c := range cards {
		i, ok := index[c.Model]
		if !ok {
			i = len(piles)
			index[c.Model], piles = i, append(piles, templates.Pile{Model: c.Model})
		}
		piles[i].Count += c.Count
		piles[i].Cards = append(piles[i].Cards, c)
	}
	room := pileRoom
	if len(piles) > tallPiles {
		room /= 2
	}
	for i := range piles {
		cutPile(&piles[i], room)
	}
	return piles
}

// cutPile leaves out the places that do not fit in so many characters, and counts them. If none fits, it keeps the first
// one, with as many of its GPUs as fit.
func cutPile(p *templates.Pile, room int) {
	var shown []templates.FreeCard
	left := room
	for _, c := range p.Cards {
		if n := render.TextWidth(c.Where+c.GPUs) + pileGap; n <= left {
			left -= n
			shown = append(shown, c)
		}
	}
	if len(shown) == 0 {
		first := p.Cards[0]
		if width := max(0, room-render.TextWidth(first.Where)); width < len(first.GPUs) {
			first.GPUs = first.GPUs[:strings.LastIndexByte(first.GPUs[:width], ',')+1] + "…"
		}
		shown = append(shown, first)
	}
	p.Cards, p.More = shown, len(p.Cards)-len(shown)
}
