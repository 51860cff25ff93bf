package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/templates"
)

// A sign is 14 units wide, in steps of 18. The script of the front page finds a sign by this step.
const (
	signWidth  = 14
	leastPart  = 4 // of a sign in parts, with the gap behind it
	signStep   = 18
	soonBooked = 24 * time.Hour
)

// signs fills in a host's signs, one a card: the slices of a partitioned one share it.
func (v *view) signs(c *templates.Card, h *board.Host) {
	for i := range h.GPUs {
		g := &h.GPUs[i]
		units := make([]*board.GPU, 0, 1)
		for j := range g.Slices {
			if s := &g.Slices[j]; s.CountedAt == "" {
				units = append(units, s)
			}
		}
		if len(g.Slices) == 0 && g.CountedAt == "" {
			units = append(units, g)
		}
		if len(units) == 0 {
			continue
		}
		glyph := v.sign(units)
		glyph.X = len(c.Glyphs) * signStep
		c.Glyphs = append(c.Glyphs, glyph)
	}
	c.States = v.stateWords(&h.Totals)
	c.GlyphWidth = max(0, len(c.Glyphs)*signStep-(signStep-signWidth))
}

// sign is the one of a GPU, or of the slices of a card: in parts where these differ.
func (v *view) sign(units []*board.GPU) templates.Glyph {
	names := make([]string, len(units))
	soon := false
	for i, g := range units {
		names[i] = v.signName(g)
		soon = soon || g.Booking == nil && g.Next != nil && g.Next.From.Sub(v.in.Board.GeneratedAt) < soonBooked
	}
	if len(slices.Compact(slices.Clone(names))) == 1 {
		return templates.Glyph{Sign: names[0], Soon: soon}
	}
	return templates.Glyph{Soon: soon, Parts: v.signParts(units)}
}

// signName is the symbol of a GPU: its state, and where it is held, its load or that it idles.
func (v *view) signName(g *board.GPU) string {
	name := string(g.State)
	switch g.State {
	case board.InUse, board.Busy:
		if g.IdleFor(v.in.Board.GeneratedAt) > 0 {
			return name + "-idle"
		}
		return name + strconv.Itoa(v.loadStep(g))
	case board.Booked:
		if g.NoShow {
			return name + "-idle"
		}
	}
	return name
}

// loadStep is the load in four steps, 0 where it is not known. It is the mean of about a quarter of an hour, so that a
// line changes when something has happened, and not with each sample. A reading of the moment counts only where there is
// no history.
func (v *view) loadStep(g *board.GPU) int {
	if mean := v.quarterMean(g.Utilization); mean != nil {
		return min(4, 1+int(*mean/25))
	}
	if g.UtilizationGPU != nil {
		return min(4, 1+*g.UtilizationGPU/25)
	}
	return 0
}

// quarterMean is the mean of the running quarter of an hour and, for as much as is still missing of it, of the one
// before; nil where neither is known. A new quarter alone would begin with the mean of one sample.
func (v *view) quarterMean(quarters []*float64) *float64 {
	n := len(quarters)
	if n < 2 {
		return nil
	}
	before, running := quarters[n-2], quarters[n-1]
	if before == nil || running == nil {
		return cmp.Or(running, before)
	}
	now := v.in.Board.GeneratedAt
	over := float64(now.Sub(now.Truncate(quarter))) / float64(quarter)
	return new(*running*over + *before*(1-over))
}

// signParts divides a sign among the states of slices, by their size. What is free comes first.
func (v *view) signParts(units []*board.GPU) []templates.SignPart {
	size, load := map[board.State]int{}, map[board.State]int{}
	all := 0
	for _, g := range units {
		n := sevenths(g.Slice.Profile)
		size[g.State] += n
		load[g.State] = max(load[g.State], v.loadStep(g))
		all += n
	}
	states := slices.DeleteFunc(board.States(), func(s board.State) bool { return size[s] == 0 })
	widths, before := make([]int, len(states)), 0
	for i, state := range states {
		x := signWidth * before / all
		before += size[state]
		widths[i] = signWidth*before/all - x
	}
	for i := range widths {
		widest := slices.Index(widths, slices.Max(widths))
		if lacks := leastPart - widths[i]; lacks > 0 && widths[widest]-lacks >= leastPart {
			widths[i], widths[widest] = leastPart, widths[widest]-lacks
		}
	}
	var parts []templates.SignPart
	x := 0
	for i, state := range states {
		width := widths[i]
		if i < len(states)-1 {
			width-- // a gap between two parts
		}
		parts = append(parts, templates.SignPart{
			State: string(state), X: x, Width: max(1, width), Load: 2 * load[state],
			Held: state == board.InUse || state == board.Busy,
		})
		x += widths[i]
	}
	return parts
}

// migSize is the number of compute slices in the name of a profile: that before "c", or else before "g".
var migSize = snapshot.Pattern(`^(\d)[cg]\.`)

// sevenths is how much of its card a slice is; one where its profile does not say it.
func sevenths(profile string) int {
	if found := migSize().FindStringSubmatch(profile); found != nil {
		n, _ := strconv.Atoi(found[1])
		return max(1, n)
	}
	return 1
}

// nextFree is when the first booking of a host's GPUs ends, zero where none is booked with an end.
func nextFree(h *board.Host) time.Time {
	var first time.Time
	for g := range h.Units() {
		if at := g.FreeFrom; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// shortNames are what hosts are called on their lines: without the domain that all who have one share, and cut in the
// middle where that is still long, because such names differ at their ends. Names that would become equal stay whole.
func shortNames(hosts []board.Host) map[string]string {
	domains := map[string]bool{}
	for i := range hosts {
		if _, domain, found := strings.Cut(title(&hosts[i]), "."); found {
			domains[domain] = true
		}
	}
	names, alike := make(map[string]string, len(hosts)), map[string]int{}
	for i := range hosts {
		name := title(&hosts[i])
		if first, domain, _ := strings.Cut(name, "."); len(domains) == 1 &&
			strings.ContainsFunc(domain, unicode.IsLetter) {
			name = first
		}
		names[hosts[i].Name] = cutMiddle(name)
		alike[names[hosts[i].Name]]++
	}
	for i := range hosts {
		if h := &hosts[i]; alike[names[h.Name]] > 1 {
			names[h.Name] = title(h)
		}
	}
	return names
}

// maxLineName is how many characters of a host's name a line has room for.
const maxLineName = 16

// cutMiddle takes the middle out of a name that is too long.
func cutMiddle(name string) string {
	r := []rune(name)
	if len(r) <= maxLineName {
		return name
	}
	return string(r[:maxLineName/2-1]) + "…" + string(r[len(r)-maxLineName/2:])
}

// lineModel is the families of a host's GPUs, each with its memory where the fleet has it in several sizes.
func (v *view) lineModel(h *board.Host) string {
	var models []string
	for i := range h.GPUs {
		g := &h.GPUs[i]
		name := v.words.familyOf(g.ShortName, g.MemoryTotal, v.sizes)
		if name != "" && !slices.Contains(models, name) {
			models = append(models, name)
		}
	}
	return strings.Join(models, " · ")
}

// memorySizes is in how many sizes of memory a board has each family of GPUs.
func memorySizes(b *board.Board) map[string]int {
	known, sizes := map[[2]any]bool{}, map[string]int{}
	for i := range b.Hosts {
		for j := range b.Hosts[i].GPUs {
			g := &b.Hosts[i].GPUs[j]
			size := [2]any{family(g.ShortName), board.WholeGiB(g.MemoryTotal)}
			if g.MemoryTotal != nil && !known[size] {
				known[size] = true
				sizes[family(g.ShortName)]++
			}
		}
	}
	return sizes
}
