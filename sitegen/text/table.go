package text

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// A textColumn is one column of a table; least is how narrow [List] may make it.
type textColumn struct {
	title        string
	width, least int
	right        bool
}

// cell is a text as wide as its column.
func (t *textPage) cell(c textColumn, s string) string {
	if c.right {
		return textRight(s, c.width, t.more)
	}
	return textPad(s, c.width, t.more)
}

// textWide is the width from which the table has columns of its own for who,
// since when, with what and the reservation.
const textWide = 140

// columns are as wide as the board needs, and what is left is for the state:
// a fleet of short names has room for long models.
func (t *textPage) columns() []textColumn {
	host, gpu := 4, 8
	for i := range t.b.Hosts {
		h := &t.b.Hosts[i]
		host = max(host, render.TextWidth(t.safe(h.Name)))
		for g := range h.Rows() {
			gpu = max(gpu, render.TextWidth(t.gpuName(g)))
		}
	}
	if t.width < textWide {
		memory := 2*t.digits + 3
		rest := t.width - 7 - memory - 6 - 6
		host = min(host, rest/4)
		gpu = min(gpu, rest-host-min(22, rest/2))
		return []textColumn{
			{title: "host", width: host}, {title: "gpu", width: gpu}, {title: "memory usage", width: memory, right: true},
			{title: "volat.", width: 6, right: true}, {title: "temp.", width: 6, right: true}, {title: "state", width: rest - host - gpu},
		}
	}
	host, gpu = min(max(host, 18), 24), min(max(gpu, 24), 28)
	rest := t.width - 11 - (host + gpu + 17 + 8 + 7 + 12)
	who, since := rest/4, 12
	program := (rest - who - since) / 3
	return []textColumn{
		{title: "host", width: host}, {title: "gpu", width: gpu}, {title: "memory usage", width: 17, right: true},
		{title: "volat.", width: 8, right: true}, {title: "temp.", width: 7, right: true}, {title: "state", width: 12}, {title: "who", width: who},
		{title: "since", width: since}, {title: "program", width: program}, {title: "reservation", width: rest - who - since - program},
	}
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
	cols := t.columns()
	t.tableRule(cols)
	for _, c := range cols {
		t.buf.WriteString("|" + textPad(c.title, c.width, t.more))
	}
	t.buf.WriteString("|\n")
	t.tableRule(cols)
	any := t.eachShown(func(_ int, h *board.Host, gpus []*board.GPU) { t.tableHost(cols, h, gpus) })
	if !any {
		t.hostRow(cols, t.dash, nothing)
	}
	t.tableRule(cols)
	t.notes()
}

// tableHost is the rows of one host.
func (t *textPage) tableHost(cols []textColumn, h *board.Host, gpus []*board.GPU) {
	name, why := t.safe(h.Name), ""
	if p := h.Unread(); p != nil {
		why = ": " + t.safe(p.Message)
	}
	if silence := t.silence(h); silence != "" {
		t.hostRow(cols, name, silence+t.countGPUs(gpus)+why)
		if h.State != board.Maintenance {
			return
		}
		name = ""
	} else if len(gpus) == 0 {
		t.hostRow(cols, name, "no GPUs known"+why)
	}
	for _, g := range gpus {
		t.gpuRow(cols, name, g)
		name = ""
	}
}

func (t *textPage) countGPUs(gpus []*board.GPU) string {
	n := 0
	for _, g := range gpus {
		if len(g.Slices) == 0 {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return " (" + board.Number(n, "GPU") + ")"
}

func (t *textPage) tableRule(cols []textColumn) {
	for _, c := range cols {
		t.buf.WriteString("+" + strings.Repeat("-", c.width))
	}
	t.buf.WriteString("+\n")
}

// row writes cells, the one of the state in its colour.
func (t *textPage) row(cols []textColumn, cells []string, color string) {
	for i, c := range cols {
		cell := t.cell(c, cells[i])
		if c.title == "state" {
			cell = t.paint(color, cell)
		}
		t.buf.WriteString("|" + cell)
	}
	t.buf.WriteString("|\n")
}

// hostRow is a host without rows of GPUs: its name and one text over the rest.
func (t *textPage) hostRow(cols []textColumn, name, text string) {
	rest := t.width - 3 - cols[0].width
	t.buf.WriteString("|" + textPad(name, cols[0].width, t.more) + "|")
	t.buf.WriteString(t.paint("2", textPad(" "+text, rest, t.more)))
	t.buf.WriteString("|\n")
}

func (t *textPage) gpuRow(cols []textColumn, host string, g *board.GPU) {
	cells := []string{
		host,
		t.gpuName(g),
		textRight(number(t, g.MemoryUsed), t.digits, t.more) + " / " + textRight(number(t, g.MemoryTotal), t.digits, t.more),
		number(t, g.UtilizationGPU) + " %",
		number(t, g.Temperature) + " " + t.degree,
	}
	color := textColor(g.State)
	if t.width < textWide {
		t.row(cols, append(cells, " "+t.stateWords(g)), color)
		return
	}
	since := ""
	if !g.Since.IsZero() {
		since = " " + t.moment(g.Since)
	}
	who := t.people(g)
	if d := g.IdleFor(t.b.GeneratedAt); d > 0 && who != "" {
		who += " (idle " + board.Span(d) + ")"
	}
	state, programs := string(g.State), t.programs(g)
	if words := slicesFree(g); words != "" { // and the rest stands with its slices
		state, who, since, programs = strings.TrimPrefix(words, "slices: "), "", "", ""
	}
	t.row(cols, append(cells, " "+state, " "+who, since, " "+programs, " "+t.reservation(g)), color)
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
		s += " idle " + board.Span(d)
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
