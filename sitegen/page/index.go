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
	maxCards  = 12 // of "free now"; more are piled up by model
	maxPile   = 30
	maxAsk    = 50 // people on the front page
	maxSilent = 6
)

func (v *view) indexPage(cards []*templates.Card) *templates.IndexPage {
	b := v.in.Board
	p := &templates.IndexPage{
		Frame: v.frame("index", "index.html", b.GeneratedAt, v.in.Board.Every()),
		Units: unitsOf(&b.Totals), FreeModels: v.freeModels(b.Models),
		HeldIdle: v.countOf(b.Totals.GPUs.HeldIdle, b.Totals.Slices.HeldIdle),
		Lost:     v.countOf(b.Totals.GPUs.ByState[board.Lost], b.Totals.Slices.ByState[board.Lost]),
		Rowed:    v.rowed, Few: len(b.Hosts) <= fewHosts, Map: len(b.Hosts) <= denseHosts, Search: v.search(),
		AsOf: v.words.near(b.InventoryAsOf, b.GeneratedAt), BookingsOf: v.words.near(b.BookingsStaleSince, b.GeneratedAt),
	}
	known := func(c board.Count) int { return c.All - c.ByState[board.Unknown] }
	p.Blind = p.Units.Any() && known(b.Totals.GPUs)+known(b.Totals.Slices) == 0
	if p.Blind {
		p.Icon = p.Files + "favicon-old.svg"
	} else if p.Units.Free == "" {
		p.Icon = p.Files + "favicon-none.svg"
	}
	if next := b.NextFree; next != nil {
		host, g := next.Host.Name, next.GPU
		p.Next = &templates.Next{
			Where: host + " " + g.Label(), Href: v.rowHref(host, g),
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
	for _, s := range board.States() {
		if n := render.WithSlices(b.Totals.GPUs.ByState[s], b.Totals.Slices.ByState[s], strconv.Itoa); n != "" {
			p.States = append(p.States, templates.StateCount{State: string(s), Count: n})
		}
	}
	for _, m := range b.Models {
		p.Models = append(p.Models, templates.Model{
			Name: v.words.model(m.Name, m.MemoryTotal), Free: m.Free, Total: m.Total, Title: render.Clean(m.FullName),
		})
	}
	p.FreeNow = v.freeNow(b.FreeNow)
	if len(p.FreeNow) > maxCards {
		p.Piles, p.FreeNow = pile(p.FreeNow), nil
	}
	v.group(p, cards)
	p.People = v.ask(maxAsk, "")
	return p
}

// countOf is how many GPUs and slices there are of something; "" for none.
func (v *view) countOf(gpus, slices int) string {
	var counts []string
	if gpus > 0 {
		counts = append(counts, v.words.Count(gpus, "gpu"))
	}
	if slices > 0 {
		counts = append(counts, v.words.Count(slices, "slice"))
	}
	return strings.Join(counts, ", ")
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
		name := family(m.Name)
		if sizes[name] > 1 {
			name = v.words.model(m.Name, m.MemoryTotal)
		}
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

// freeNow puts the free GPUs of one host, model and end together.
func (v *view) freeNow(free []board.Unit) []templates.FreeCard {
	type key struct {
		host, model string
		until       time.Time
	}
	index, gpus := map[key]int{}, [][]string{}
	var cards []templates.FreeCard
	for _, u := range free {
		g := u.GPU
		k := key{u.Host.Name, v.words.model(g.ShortName, g.MemoryTotal), g.FreeUntil}
		i, ok := index[k]
		if !ok {
			i = len(cards)
			index[k], gpus = i, append(gpus, nil)
			cards = append(cards, templates.FreeCard{
				Where: title(u.Host), Model: k.model,
				Until: v.words.near(g.FreeUntil, v.in.Board.GeneratedAt),
			})
		}
		gpus[i] = append(gpus[i], g.Label())
		cards[i].Count++
	}
	for i := range cards {
		cards[i].GPUs = strings.Join(gpus[i], ",")
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
