package text

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// textWide is the width from which the table has columns of its own for who,
// since when, with what and the reservation.
const textWide = 140

// narrow reports whether the table has few columns. It always has in a pipe, whose width depends on what is in it.
func (t *textPage) narrow() bool { return t.width < textWide || t.opt.Whole }

// overview is the table without rows. Its columns are as wide as the board needs, and what is
// left is for the state: a fleet of short names has room for long models.
func (t *textPage) overview() *Table {
	host, gpu := 4, 8
	for i := range t.b.Hosts {
		h := &t.b.Hosts[i]
		host = max(host, render.TextWidth(t.safe(h.Name)))
		for g := range h.Rows() {
			gpu = max(gpu, render.TextWidth(t.gpuName(g)))
		}
	}
	if t.narrow() {
		memory := 2*t.digits + 3
		rest := t.width - 7 - memory - 6 - 6
		if !t.opt.Whole {
			host = min(host, rest/4)
			gpu = min(gpu, rest-host-min(22, rest/2))
		}
		return t.columns("|", "|",
			Column{Title: "host", Width: host}, Column{Title: "gpu", Width: gpu},
			Column{Title: "memory usage", Width: memory, Right: true}, Column{Title: "volat.", Width: 6, Right: true},
			Column{Title: "temp.", Width: 6, Right: true},
			Column{Title: "state", Width: max(rest-host-gpu, 1), Painted: true},
		)
	}
	host, gpu = min(max(host, 18), 24), min(max(gpu, 24), 28)
	rest := t.width - 11 - (host + gpu + 17 + 8 + 7 + 12)
	who, since := rest/4, 12
	program := (rest - who - since) / 3
	return t.columns("|", "|",
		Column{Title: "host", Width: host}, Column{Title: "gpu", Width: gpu},
		Column{Title: "memory usage", Width: 17, Right: true}, Column{Title: "volat.", Width: 8, Right: true},
		Column{Title: "temp.", Width: 7, Right: true}, Column{Title: "state", Width: 12, Painted: true},
		Column{Title: "who", Width: who}, Column{Title: "since", Width: since},
		Column{Title: "program", Width: program},
		Column{Title: "reservation", Width: rest - who - since - program},
	)
}

func (t *textPage) gpuName(g *board.GPU) string {
	if g.Slice != nil {
		return "  " + g.Label() + " " + t.safe(cmp.Or(g.Slice.Profile, "MIG"))
	}
	return " " + strconv.Itoa(g.Index) + ":" + t.safe(g.ShortName)
}

// table is the overview: one row for each GPU, one for each host that is not up.
func (t *textPage) table() {
	t.headline()
	t.sites()
	if len(t.b.Hosts) == 0 && len(t.b.Sites) > 0 {
		t.notes()
		return
	}
	table := t.overview()
	t.put(table.Rule())
	t.put(table.Titles())
	t.put(table.Rule())
	any := t.eachShown(func(_ int, h *board.Host, gpus []*board.GPU) { t.tableHost(table, h, gpus) })
	if !any {
		t.hostRow(table, t.dash, nothing)
	}
	t.put(table.Rule())
	t.notes()
}

// sites are the boards of other clusters, a line each, where no host is asked for.
func (t *textPage) sites() {
	if len(t.b.Sites) == 0 || len(t.opt.Hosts) > 0 {
		return
	}
	table := t.columns("  ", "", Column{Title: "cluster", Least: 8}, Column{Title: "free", Painted: true},
		Column{Title: "by model", Least: 10}, Column{Title: "as of"})
	var rows [][]string
	for i := range t.b.Sites {
		s := &t.b.Sites[i]
		sums, asOf, free := s.Sums(), "never", t.dash
		if s.Summary != nil {
			asOf = t.moment(s.Summary.GeneratedAt)
			free = fmt.Sprintf("%d of %d", sums.Totals.GPUs.Free(), sums.Totals.GPUs.All)
			if s.State != board.Up {
				asOf, free = asOf+", late", fmt.Sprintf("? of %d", sums.Totals.GPUs.All)
			}
			if slices := sums.Totals.Slices; slices.All > 0 && s.State == board.Up {
				free += fmt.Sprintf(" + %d MIG", slices.Free())
			}
		}
		rows = append(rows, []string{t.safe(s.Name), free, t.free(sums.Models), asOf})
	}
	table.Fit(rows)
	t.put(table.Titles())
	for i, row := range rows {
		state := board.Unknown
		if t.b.Sites[i].State == board.Up {
			state = board.Free
		}
		t.put(table.Line(textColor(state), row...))
	}
}

// tableHost is the rows of one host.
func (t *textPage) tableHost(table *Table, h *board.Host, gpus []*board.GPU) {
	name, why := t.safe(h.Name), ""
	if p := h.Unread(); p != nil {
		why = ": " + t.safe(p.Message)
	}
	if silence := t.silence(h); silence != "" {
		t.hostRow(table, name, silence+t.countGPUs(gpus)+why)
		if h.State != board.Maintenance {
			return
		}
		name = ""
	} else if len(gpus) == 0 {
		t.hostRow(table, name, "no GPUs known"+why)
	}
	for _, g := range gpus {
		t.put(table.Line(textColor(g.State), t.gpuCells(name, g)...))
		name = ""
	}
}

func (t *textPage) countGPUs(gpus []*board.GPU) string {
	whole, slices := 0, 0
	for _, g := range gpus {
		switch {
		case g.Slice != nil:
			slices++
		case len(g.Slices) == 0:
			whole++
		}
	}
	var parts []string
	if whole > 0 {
		parts = append(parts, board.Number(whole, "GPU"))
	}
	if slices > 0 {
		parts = append(parts, board.Number(slices, "MIG slice"))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// hostRow is a host without rows of GPUs: its name and one text over the rest.
func (t *textPage) hostRow(table *Table, name, text string) {
	host := table.Columns[0]
	row := t.columns("|", "|", host, Column{Width: t.width - 3 - host.Width, Painted: true})
	t.put(row.Line("2", name, " "+text))
}

func (t *textPage) gpuCells(host string, g *board.GPU) []string {
	cells := []string{
		host,
		t.gpuName(g),
		textRight(number(t, g.MemoryUsed), t.digits, t.more) + " / " +
			textRight(number(t, g.MemoryTotal), t.digits, t.more),
		number(t, g.UtilizationGPU) + " %",
		number(t, g.Temperature) + " " + t.degree,
	}
	if t.narrow() {
		return append(cells, " "+t.stateWords(g))
	}
	since := ""
	if !g.Since.IsZero() {
		since = " " + t.moment(g.Since)
	}
	who := t.people(g)
	if d := g.IdleFor(t.b.GeneratedAt); d > 0 && who != "" {
		who += " (idle " + snapshot.Length(d) + ")"
	}
	state, programs := string(g.State), t.programs(g)
	if words := slicesFree(g); words != "" { // and the rest stands with its slices
		state, who, since, programs = strings.TrimPrefix(words, "slices: "), "", "", ""
	}
	return append(cells, " "+state, " "+who, since, " "+programs, " "+t.reservation(g))
}

// number writes a reading, or a dash where it is not known.
func number[N int | int64](t *textPage, v *N) string {
	if v == nil {
		return t.dash
	}
	return strconv.FormatInt(int64(*v), 10)
}

// stateWords is the state with the one thing that matters most beside it.
func (t *textPage) stateWords(g *board.GPU) string {
	if words := slicesFree(g); words != "" {
		return words
	}
	s := string(g.State)
	people := t.people(g)
	switch g.State {
	case board.Free:
		if !g.FreeUntil.IsZero() {
			s += " until " + t.moment(g.FreeUntil)
		}
		return s
	case board.Booked:
		if g.Booking != nil {
			s += " " + t.safe(g.Booking.Name)
		}
		if g.NoShow {
			s += " no-show"
		}
	case board.Contested:
		s += " " + people
		if g.Booking != nil {
			s += " (" + t.safe(g.Booking.Name) + ")"
		}
	case board.InUse, board.Busy, board.Stuck:
		s = strings.TrimSpace(s + " " + people)
	}
	if d := g.IdleFor(t.b.GeneratedAt); d > 0 {
		s += " idle " + snapshot.Length(d)
	}
	return s
}

// slicesFree is what there is to say of the state of a GPU that is partitioned; ""
// where it has a state that is its own.
func slicesFree(g *board.GPU) string {
	if len(g.Slices) == 0 || g.OwnState() {
		return ""
	}
	return fmt.Sprintf("slices: %d/%d free", g.FreeSlices(), len(g.Slices))
}

// programs are the names of what runs.
func (t *textPage) programs(g *board.GPU) string { return t.safe(strings.Join(g.Programs(), ",")) }

// reservation is the booking in force, or the next one.
func (t *textPage) reservation(g *board.GPU) string {
	if b := g.Booking; b != nil {
		s := t.safe(b.Name)
		if b.Kind == "maintenance" {
			s = "maintenance (" + s + ")"
		}
		if !b.Until.IsZero() {
			s += " until " + t.moment(b.Until)
		}
		if others := len(g.Others) + g.MoreOthers; others > 0 {
			s += fmt.Sprintf(" (+%d)", others)
		}
		if b.Comment != "" {
			s += ": " + t.safe(b.Comment)
		}
		return s
	}
	if b := g.Next; b != nil && !b.From.IsZero() {
		return "from " + t.moment(b.From) + " " + t.safe(b.Name)
	}
	return ""
}
