package text

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// List writes the GPUs of a board as one plain table, as somebody wants it who
// sits at that node: a mark for each ("[ ]" free, "[~]" taken, "[!]" trouble),
// its readings, and who uses it since when with what. Below stands in words
// what a mark cannot say. Ages are as of the board, which therefore is to be one
// made just now. Of the options Width, Color, ASCII and Zone count; nothing is
// cut that fits. It returns the writer's error.
func List(w io.Writer, b *board.Board, opt Options) error {
	t := newTextPage(b, opt)
	cols, rows := t.listTable(true)
	if listWidth(cols) > t.width {
		cols, rows = t.listTable(false)
		listShrink(cols, t.width)
	}
	t.listRow(cols, nil, board.Free)
	rule := make([]string, len(cols))
	for i, c := range cols {
		rule[i] = strings.Repeat("-", c.width)
	}
	t.listRow(cols, rule, board.Free)
	n := 0
	for i := range b.Hosts {
		for g := range b.Hosts[i].Rows() {
			t.listRow(cols, rows[n], g.State)
			n++
		}
	}
	for _, g := range b.Units() {
		why := t.why(g)
		switch g.State {
		case board.Busy: // the table has it all
			why = ""
		case board.InUse:
			why = t.booked(g)
		}
		if why != "" {
			t.wrapped("gpu " + g.Label() + ": " + why)
		}
	}
	_, err := w.Write(t.buf.Bytes())
	return err
}

// wrapped writes a sentence in as many lines as it takes, all but the first
// set in; a word that is wider than the page is cut.
func (t *textPage) wrapped(s string) {
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case render.TextWidth(line)+1+render.TextWidth(word) <= t.width:
			line += " " + word
		default:
			t.line("", line)
			line = "    " + word
		}
	}
	t.line("", line)
}

// Why says in one line, without line feed and safe for a terminal, what stands
// in the way of using a GPU now, or from when on something will: "busy: anna
// (train.py), since 2 days". It is "" for one that is free for as long as is known.
func Why(b *board.Board, g *board.GPU, opt Options) string {
	return newTextPage(b, opt).why(g)
}

func (t *textPage) listTable(wide bool) ([]textColumn, [][]string) {
	cols := []textColumn{
		{title: "", right: true}, {title: "status", least: 3}, {title: "type", least: 8}, {title: "util.", right: true}, {title: "mem", right: true},
		{title: "temp.", right: true}, {title: "MHz", right: true}, {title: "users", least: 5}, {title: "since", least: 5}, {title: "pids", least: 5}, {title: "cmd", least: 4},
	}
	if !wide {
		cols[1].title = ""
	}
	var rows [][]string
	for i := range t.b.Hosts {
		for g := range t.b.Hosts[i].Rows() {
			rows = append(rows, t.listCells(g, wide))
		}
	}
	for i := range cols {
		cols[i].width = render.TextWidth(cols[i].title)
		for _, row := range rows {
			cols[i].width = max(cols[i].width, render.TextWidth(row[i]))
		}
		if cols[i].least == 0 {
			cols[i].least = cols[i].width
		}
	}
	return cols, rows
}

func listWidth(cols []textColumn) int {
	n := 2 * (len(cols) - 1)
	for _, c := range cols {
		n += c.width
	}
	return n
}

// listShrink takes from the widest of the columns that may give, until all fits
// or none may give any more.
func listShrink(cols []textColumn, width int) {
	for listWidth(cols) > width {
		widest := -1
		for i, c := range cols {
			if c.width > c.least && (widest < 0 || c.width > cols[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		cols[widest].width--
	}
}

// listRow writes a row, nil for the titles. Nothing is wider than the page, and
// no blank ends a line.
func (t *textPage) listRow(cols []textColumn, cells []string, s board.State) {
	var line bytes.Buffer
	room := t.width
	for i, c := range cols {
		cell := c.title
		if cells != nil {
			cell = cells[i]
		}
		if i > 0 {
			line.WriteString("  ")
			room -= 2
		}
		c.width = min(c.width, max(room, 0))
		cell = t.cell(c, cell)
		room -= c.width
		if i == 1 && cells != nil && strings.HasPrefix(cell, "[") {
			cell = t.paint(textColor(s), strings.TrimRight(cell, " ")) + strings.Repeat(" ", len(cell)-len(strings.TrimRight(cell, " ")))
		}
		line.WriteString(cell)
	}
	t.buf.Write(bytes.TrimRight(line.Bytes(), " "))
	t.buf.WriteByte('\n')
}

// listMark is the state in three characters.
func listMark(s board.State) string {
	switch s {
	case board.Free:
		return "[ ]"
	case board.Stuck, board.Lost, board.Unknown:
		return "[!]"
	default:
		return "[~]"
	}
}

func (t *textPage) listCells(g *board.GPU, wide bool) []string {
	status, since, users := listMark(g.State), "", ""
	switch {
	case len(g.Slices) > 0:
		if g.FreeSlices() > 0 {
			status = listMark(board.Free) // there is something to be had
		}
		if wide {
			status += " " + slicesFree(g)
		}
		one := *g
		one.Processes = g.Unplaced() // the others stand with the slices
		g = &one
	case wide && g.State != board.Free:
		status += " " + string(g.State)
	}
	if g.State != board.Stuck { // for which a line below says who left the memory
		users = t.people(g)
	}
	switch g.State {
	case board.Busy, board.InUse, board.Contested:
		if !g.Since.IsZero() {
			since = ago(t.b.GeneratedAt.Sub(g.Since))
			if !wide {
				since = cmp.Or(inUnits(t.b.GeneratedAt.Sub(g.Since), true), "now")
			}
		}
	}
	return []string{
		g.Label(), status, t.safe(cmp.Or(g.ShortName, g.Name)),
		number(t, g.UtilizationGPU) + " %", t.listMemory(g.MemoryUsed, g.MemoryTotal), number(t, g.Temperature), number(t, g.ClockSM),
		users, since, t.listPIDs(g), t.programs(g),
	}
}

// listMemory is "20.0/24G", in GiB as the vendor's names of cards mean it.
func (t *textPage) listMemory(used, total *int64) string {
	u, all := t.dash, t.dash
	if used != nil {
		u = strconv.FormatFloat(float64(*used)/1024, 'f', 1, 64)
	}
	if total != nil {
		all = strconv.FormatInt((*total+512)/1024, 10)
	}
	return u + "/" + all + "G"
}

func (t *textPage) listPIDs(g *board.GPU) string {
	var pids []string
	for _, p := range g.Computing() {
		if pid := strconv.Itoa(p.PID); !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return strings.Join(pids, ",")
}

func (t *textPage) why(g *board.GPU) string {
	if words := slicesFree(g); words != "" {
		return words
	}
	s := string(g.State)
	switch g.State {
	case board.Free:
		if g.Next == nil || g.FreeUntil.IsZero() {
			return ""
		}
		return "free until " + t.moment(g.FreeUntil) + ", then booked by " + t.safe(g.Next.Name)
	case board.Busy, board.InUse, board.Contested:
		if users := t.people(g); users != "" {
			s += ": " + users
		}
		if programs := t.programs(g); programs != "" {
			s += " (" + programs + ")"
		}
		if !g.Since.IsZero() {
			s += ", for " + cmp.Or(inUnits(t.b.GeneratedAt.Sub(g.Since), false), "a moment")
		}
		if g.Reason == board.ReasonUtilization || g.Reason == board.ReasonMemory {
			s += ": " + listReason(g.Reason)
		}
	case board.Stuck:
		s += ": " + t.stuck(g)
	case board.Lost, board.Unknown:
		reason := strings.Replace(listReason(g.Reason), "%s", t.safe(g.CountedAt), 1)
		if g.HealthReason != "" {
			reason = t.safe(snapshot.Says("the driver", g.HealthReason))
		}
		return s + ": " + reason
	case board.Drained:
		if g.Booking == nil {
			return s + ": " + listReason(board.ReasonHost)
		}
	}
	switch booked := t.booked(g); {
	case booked == "":
		return s
	case g.State == board.Booked:
		return booked
	default:
		return s + "; " + booked
	}
}

// booked says who has booked a GPU, until when and what for; "" for nobody.
func (t *textPage) booked(g *board.GPU) string {
	b := g.Booking
	if b == nil {
		return ""
	}
	s := "booked by " + t.safe(b.Name)
	if b.Until.IsZero() {
		s += " with no end"
	} else {
		s += " until " + t.moment(b.Until)
	}
	if b.Comment != "" {
		s += " (" + t.safe(b.Comment) + ")"
	}
	return s
}

// stuck says what holds the memory of a GPU that nobody uses, and what would
// have to be ended to free it.
func (t *textPage) stuck(g *board.GPU) string {
	var gone, children []string
	for i := range g.Processes {
		p := &g.Processes[i]
		if !p.Dead() {
			continue
		}
		gone = append(gone, strconv.Itoa(p.PID)+" ("+t.safe(p.Owner().String())+")")
		for _, c := range p.Children {
			children = append(children, strconv.Itoa(c.PID)+" ("+t.safe(c.Owner().String())+")")
		}
	}
	s := listReason(board.ReasonUnowned)
	if len(gone) > 0 {
		s = "its memory belongs to pid " + strings.Join(gone, ", ") + ", which has ended"
	}
	if len(children) > 0 {
		s += "; stop what it left running: " + strings.Join(children, ", ")
	}
	return s
}

// listReason has words for the reasons of package board, those of the pages.
func listReason(code string) string {
	if text, ok := render.EnglishWords()["reason."+code]; ok {
		return text
	}
	return snapshot.Text(cmp.Or(code, "nothing is known about it"), snapshot.MaxNameBytes)
}

// inUnits is a length of time in its largest unit, rounded down: "2 days", or "2 d" where there is little
// room; "" for less than a second.
func inUnits(d time.Duration, short bool) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		size        time.Duration
		name, short string
	}{{365 * day, "year", "y"}, {day, "day", "d"}, {time.Hour, "hour", "h"}, {time.Minute, "minute", "min"}, {time.Second, "second", "s"}} {
		switch n := int(d / unit.size); {
		case n > 0 && short:
			return strconv.Itoa(n) + " " + unit.short
		case n == 1:
			return "1 " + unit.name
		case n > 1:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return ""
}

// ago says how long something has been: "2 days ago".
func ago(d time.Duration) string {
	if words := inUnits(d, false); words != "" {
		return words + " ago"
	}
	return "just now"
}

// Shown returns the GPUs and slices of a host that the filters of the options let
// through, and whether [Status] shows the host at all.
func Shown(h *board.Host, opt Options) (gpus []board.GPU, shown bool) {
	t := &textPage{opt: opt}
	found, shown := t.hostShown(h)
	for _, g := range found {
		if g.Slice != nil {
			of := &gpus[len(gpus)-1]
			of.Slices = append(of.Slices, *g)
			continue
		}
		gpus = append(gpus, *g)
		gpus[len(gpus)-1].Slices = nil
	}
	return gpus, shown
}
