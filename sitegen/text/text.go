// Package text writes what a terminal shows: a Board becomes lines of text.
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

// Options says how [Status] writes a board. The zero value is the plain
// overview of everything in 80 columns.
type Options struct {
	Width  int            // columns; 0 for 80, and never fewer than 60
	Color  bool           // ANSI colours; the state stands there in words as well
	ASCII  bool           // nothing beyond ASCII
	Detail bool           // a box for each GPU instead of a row
	Whole  bool           // cut nothing: Width is the least width, for a pipe
	Zone   *time.Location // of the moments shown; nil for UTC
	// What to show. An empty filter is none.
	Hosts []string // these hosts only
	Free  bool     // free GPUs only
	User  string   // GPUs that this person (or login) uses, has booked, or left memory on
	Model string   // GPUs whose name contains this, in any case
}

// Status writes the board for a terminal: a headline, then a table of hosts and
// GPUs, or with Detail a box for each GPU. Unless Whole is true, no line is wider than the
// options say, whatever the board holds, and no byte of it is a control character but
// the line feeds and, with Color, the colours. It returns the writer's error.
func Status(w io.Writer, b *board.Board, opt Options) error {
	_, err := w.Write(statusText(b, opt, nil))
	return err
}

// mostWidth is the width from which on text is cut even in a pipe: no program's name is as long.
const mostWidth = 2000

// statusText is the same in memory; boxes as [textPage.detail] takes them.
func statusText(b *board.Board, opt Options, boxes [][]byte) []byte {
	t := newTextPage(b, opt)
	if opt.Detail {
		t.detail(boxes)
	} else {
		t.table()
	}
	if t.cut && opt.Whole && t.width < mostWidth {
		opt.Width = t.width + t.width/8
		return statusText(b, opt, boxes)
	}
	return t.buf.Bytes()
}

// Files renders the views for curl: of all hosts as a table, in ASCII and in
// colour, and with a box for each GPU; and a text of each host.
func Files(in render.Input) error {
	zone := in.Site.Zone
	hosts := in.Board.Hosts
	boxes := make([][]byte, len(hosts))
	err := render.InParallel(len(hosts), func(i int) error {
		content, headline := textHost(&hosts[i], zone)
		boxes[i] = content[headline:]
		return in.Put(render.NewFile("hosts/"+hosts[i].Name+"/status.txt", content))
	})
	if err != nil {
		return err
	}
	return in.Put(
		render.NewFile("detail.txt", statusText(in.Board, Options{Detail: true, Zone: zone}, boxes)),
		render.NewFile("status.txt", statusText(in.Board, Options{ASCII: true, Zone: zone}, nil)),
		render.NewFile("status.ansi", statusText(in.Board, Options{Color: true, Zone: zone}, nil)),
	)
}

// A textPage is one text being written.
type textPage struct {
	b     *board.Board
	opt   Options
	buf   bytes.Buffer
	width int
	cut   bool   // whether a line was cut
	more  string // marks what was cut
	dash  string // stands for what is not known
	// degree is the unit of temperatures.
	degree string
	// digits is how many the largest number of MiB has, and five at least.
	digits int
}

func newTextPage(b *board.Board, opt Options) *textPage {
	t := &textPage{b: b, opt: opt, width: max(cmp.Or(opt.Width, 80), 60), more: "…", dash: "–", degree: "°C", digits: 5}
	t.opt.Zone = cmp.Or(opt.Zone, time.UTC)
	for i := range b.Hosts {
		for j := range b.Hosts[i].GPUs {
			if m := b.Hosts[i].GPUs[j].MemoryTotal; m != nil && *m > 99999 {
				t.digits = 7 // up to 9 TiB
			}
		}
	}
	t.buf.Grow(1 << 10)
	if opt.ASCII {
		t.more, t.dash, t.degree = "~", "-", "C"
	}
	return t
}

// Colours by state, from the sixteen that every terminal has.
func textColor(s board.State) string {
	switch s {
	case board.Free:
		return "32"
	case board.InUse, board.Booked:
		return "34"
	case board.Busy:
		return "33"
	case board.Contested, board.Stuck, board.Lost:
		return "31"
	default:
		return "2"
	}
}

func (t *textPage) safe(s string) string { return textSafe(s, t.opt.ASCII) }

// columns is a table with the look of the page.
func (t *textPage) columns(gap, edge string, columns ...Column) *Table {
	return &Table{Columns: columns, Width: t.width, Gap: gap, Edge: edge, Color: t.opt.Color, More: t.more, cut: &t.cut}
}

// put writes one line that is as wide as it shall be.
func (t *textPage) put(line string) {
	t.buf.WriteString(line)
	t.buf.WriteByte('\n')
}

// line writes one line of text, cut to the width unless all of it is wanted.
func (t *textPage) line(color, s string) {
	if !t.opt.Whole {
		s = textCut(s, t.width, t.more)
	}
	if t.opt.Color {
		s = paint(color, s)
	}
	t.put(s)
}

// moment is short where it can be: today's carry no date.
func (t *textPage) moment(at time.Time) string {
	at, now := at.In(t.opt.Zone), t.b.GeneratedAt.In(t.opt.Zone)
	switch {
	case at.Year() == now.Year() && at.YearDay() == now.YearDay():
		return at.Format("15:04")
	case at.Sub(now).Abs() < 6*24*time.Hour:
		return at.Format("Mon 15:04")
	default:
		return at.Format("2006-01-02")
	}
}

// headline answers the first question in one line: how many are free, and of
// which kind.
func (t *textPage) headline() {
	totals, models := t.b.Totals, t.b.Models
	if len(t.b.Hosts) == 0 { // it shows other boards alone
		others := t.b.Others()
		totals, models = others.Totals, others.Models
	}
	s := totals.FreeOf() + " free"
	if kinds := t.free(models); kinds != "" {
		s += ": " + kinds
	}
	color := "1;32"
	if totals.GPUs.Free()+totals.Slices.Free() == 0 {
		color = "1;33"
	}
	t.line(color, s)
	stamp := "as of " + t.b.GeneratedAt.In(t.opt.Zone).Format("2006-01-02 15:04:05 MST")
	if t.b.Demo {
		stamp += " (demo)"
	}
	if next := t.b.NextFree; next != nil {
		stamp += fmt.Sprintf("; next: %s %s at %s", t.safe(next.Host.Name), next.GPU.Label(),
			t.moment(next.GPU.FreeFrom))
	}
	t.line("2", stamp)
}

// free is how many of each model are free, with its memory, once: "2 x H100 80 GB".
func (t *textPage) free(models []board.Model) string {
	var kinds []string
	for _, m := range models {
		name := t.safe(m.Name)
		if m.MemoryTotal != nil && !strings.Contains(strings.ToUpper(name), "GB") {
			name += " " + strconv.Itoa(board.WholeGiB(m.MemoryTotal)) + " GB"
		}
		if m.Free > 0 {
			kinds = append(kinds, strconv.Itoa(m.Free)+" x "+name)
		}
	}
	return strings.Join(kinds, ", ")
}

// notes ends a text with what is not well, so that nobody takes the rest for
// the whole truth.
func (t *textPage) notes() {
	b := t.b
	if !b.InventoryAsOf.IsZero() {
		t.line("33", "! the list of hosts is of "+t.moment(b.InventoryAsOf))
	}
	if !b.BookingsStaleSince.IsZero() {
		t.line("33",
			"! the bookings cannot be read since "+t.moment(b.BookingsStaleSince)+"; the last good ones stand in")
	}
	const most = 8
	for i, p := range b.Problems {
		if i == most {
			t.line("33", fmt.Sprintf("! and %d more in health.json", len(b.Problems)-most))
			break
		}
		where := p.Where()
		if where != "" {
			where = t.safe(where) + ": "
		}
		t.line("33", "! "+where+t.safe(p.Message))
	}
}

// shows reports whether the filters let a GPU through.
func (t *textPage) shows(g *board.GPU) bool {
	o := &t.opt
	if o.Free && g.State != board.Free || !g.IsModel(o.Model) {
		return false
	}
	if o.User == "" {
		return true
	}
	return g.Of(func(name string) bool { return name == o.User })
}

// hostShown reports whether a host is shown, and which of its GPUs and slices. A
// host that is not up is shown without any, unless the filters ask for GPUs. A GPU
// that is partitioned is shown where one of its slices is.
func (t *textPage) hostShown(h *board.Host) (gpus []*board.GPU, shown bool) {
	o := &t.opt
	if len(o.Hosts) > 0 && !slices.Contains(o.Hosts, h.Name) {
		return nil, false
	}
	for g := range h.Rows() {
		one := len(g.Slices) == 0 && t.shows(g)
		if one || slices.ContainsFunc(g.Slices, func(m board.GPU) bool { return t.shows(&m) }) {
			gpus = append(gpus, g)
		}
	}
	filtered := o.Free || o.Model != "" || o.User != ""
	return gpus, len(gpus) > 0 || !filtered
}

// eachShown visits the hosts that are shown with their places on the board, and reports
// whether there are any.
func (t *textPage) eachShown(visit func(i int, h *board.Host, gpus []*board.GPU)) (any bool) {
	for i := range t.b.Hosts {
		h := &t.b.Hosts[i]
		if gpus, shown := t.hostShown(h); shown {
			any = true
			visit(i, h, gpus)
		}
	}
	return any
}

// silence says in words how long nothing came from a host; "" for one that is up.
func (t *textPage) silence(h *board.Host) string {
	switch h.State {
	case board.Up:
		return ""
	case board.Never:
		return "never heard of"
	case board.Maintenance:
		return "maintenance"
	}
	s := string(h.State)
	if h.SnapshotAt.IsZero() {
		return s
	}
	return s + ", last news " + h.SnapshotAt.In(t.opt.Zone).Format("2006-01-02 15:04 MST")
}

// people are the users of a GPU, or who left the memory of one that is stuck.
func (t *textPage) people(g *board.GPU) string {
	if left := g.Left(); len(left) > 0 {
		return "left by " + t.owners(left)
	}
	return t.owners(g.Owners())
}

func (t *textPage) owners(list []snapshot.Owner) string {
	var names []string
	for _, o := range list {
		names = append(names, t.safe(o.String()))
	}
	return strings.Join(names, ",")
}
