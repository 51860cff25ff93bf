package text

import (
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
	table, rows := t.listTable(true)
	if !table.Fit(rows) {
		table, rows = t.listTable(false)
		table.Fit(rows)
	}
	t.put(table.Titles())
	t.put(table.Rule())
	for i, g := range t.listed() {
		t.put(table.Line(textColor(g.State), rows[i]...))
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

// listed are the GPUs and slices of all hosts.
func (t *textPage) listed() (rows []*board.GPU) {
	for i := range t.b.Hosts {
		rows = slices.AppendSeq(rows, t.b.Hosts[i].Rows())
	}
	return rows
}

// listTable is the table with its rows. Unless it is wide, a state is shown by its mark alone.
func (t *textPage) listTable(wide bool) (table *Table, rows [][]string) {
	table = t.columns("  ", "",
		Column{Right: true}, Column{Title: "status", Least: 3, Painted: true}, Column{Title: "type", Least: 8},
		Column{Title: "util.", Right: true}, Column{Title: "mem", Right: true},
		Column{Title: "temp.", Right: true}, Column{Title: "MHz", Right: true},
		Column{Title: "users", Least: 5}, Column{Title: "since", Least: 5},
		Column{Title: "pids", Least: 5}, Column{Title: "cmd", Least: 4},
	)
	if !wide {
		table.Columns[1].Title = ""
	}
	for _, g := range t.listed() {
		rows = append(rows, t.listCells(g, wide))
	}
	return table, rows
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
		number(t, g.UtilizationGPU) + " %", t.listMemory(g.MemoryUsed, g.MemoryTotal), number(t, g.Temperature),
		number(t, g.ClockSM),
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
	}{
		{365 * day, "year", "y"}, {day, "day", "d"}, {time.Hour, "hour", "h"}, {time.Minute, "minute", "min"},
		{time.Second, "second", "s"},
	} {
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
