package text

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// textBox are the characters that boxes and trees are drawn with.
type textBox struct{ topLeft, topRight, bottomLeft, bottomRight, across, down, branch, last string }

func (t *textPage) box() textBox {
	if t.opt.ASCII {
		return textBox{"+", "+", "+", "+", "-", "|", "|--", "`--"}
	}
	return textBox{"┌", "┐", "└", "┘", "─", "│", "├──", "└──"}
}

// detail is every host with a box for each GPU and its processes as a tree. boxes are those of all
// hosts where these are written already.
func (t *textPage) detail(boxes [][]byte) {
	t.headline()
	any := t.eachShown(func(i int, h *board.Host, gpus []*board.GPU) {
		if boxes != nil {
			t.buf.Write(boxes[i])
		} else {
			t.detailHost(h, gpus)
		}
		t.line("", strings.Repeat("_", t.width))
	})
	if !any {
		t.line("", nothing)
	}
	t.notes()
}

// nothing stands for hosts where there are none.
const nothing = "nothing to show"

func (t *textPage) detailHost(h *board.Host, gpus []*board.GPU) {
	t.buf.WriteByte('\n')
	head := "### " + t.safe(h.Name)
	if h.Address != "" && h.Address != h.Name {
		head += " :: " + t.safe(h.Address)
	}
	if head += " "; !t.opt.Whole {
		head = textCut(head, t.width-4, t.more)
	}
	t.line("1", head+strings.Repeat("#", max(0, t.width-render.TextWidth(head))))
	last := "never"
	if !h.SnapshotAt.IsZero() {
		last = h.SnapshotAt.In(t.opt.Zone).Format("2006/01/02 15:04:05 MST")
	}
	s := "  last update: " + last
	if silence := t.silence(h); silence != "" {
		s += "  status: " + string(h.State)
	}
	if h.Pulled {
		s += "  pulled"
	}
	t.line("", s)
	if n := &h.Node; n.Load1 != nil && n.Cores != nil {
		s := fmt.Sprintf("  load: %.1f of %d cores", *n.Load1, *n.Cores)
		if n.MemoryUsed != nil && n.MemoryTotal != nil {
			s += fmt.Sprintf("  memory: %d / %d GiB", *n.MemoryUsed/1024, *n.MemoryTotal/1024)
		}
		if h.Driver != "" {
			s += "  driver: " + t.safe(h.Driver)
		}
		t.line("", s)
	}
	for _, tool := range h.Tools {
		t.line("", "  "+t.safe(tool.Name+" "+board.ToolSays(tool, "driver")))
	}
	for i := range h.Problems {
		t.line("33", "  ! "+t.safe(h.Problems[i].Message))
	}
	t.line("", strings.Repeat("-", t.width))
	for _, g := range gpus {
		if g.Slice == nil { // those stand in the box of their GPU
			t.detailGPU(h, g)
		}
	}
}

// detailGPU is one box.
func (t *textPage) detailGPU(h *board.Host, g *board.GPU) {
	b := t.box()
	inner := t.width - 6 // two spaces, two walls, and as much air on the right as the boxes leave
	box := t.columns("", b.down, Column{Width: inner, Painted: true})
	put := func(color, s string) {
		t.buf.WriteString("  ")
		t.put(box.Line(color, s))
	}
	stamp := ""
	if !h.SnapshotAt.IsZero() {
		stamp = " " + h.SnapshotAt.In(t.opt.Zone).Format("2006/01/02 15:04:05")
	}
	title := fmt.Sprintf("[ gpu:%d %s%s ]", g.Index, t.safe(cmp.Or(g.Name, g.ShortName)), stamp)
	t.cut = t.cut || render.TextWidth(title) > inner-1
	title = textCut(title, inner-1, t.more)
	t.buf.WriteString("  " + b.topLeft + title + strings.Repeat(b.across, max(0, inner-render.TextWidth(title))) +
		b.topRight + "\n")

	free := g.MemoryFree
	if free == nil && g.MemoryUsed != nil && g.MemoryTotal != nil {
		free = new(*g.MemoryTotal - *g.MemoryUsed)
	}
	readings := t.columns("  ", "",
		Column{Title: "memory used", Width: 18, Right: true}, Column{Title: "memory available", Width: 16, Right: true},
		Column{Title: "gpu volatile", Width: 12, Right: true}, Column{Title: "temperature", Width: 11, Right: true},
	)
	put("", " "+readings.Titles())
	put("", " "+readings.Line("", number(t, g.MemoryUsed)+" / "+number(t, g.MemoryTotal)+"MiB",
		number(t, free)+"MiB", number(t, g.UtilizationGPU)+"%", number(t, g.Temperature)+t.degree))
	put("", "")
	t.bar(put, g, inner)
	put(textColor(g.State), "  "+t.detailState(g))
	if r := t.reservation(g); r != "" {
		put("", "  booking: "+r)
	}
	if x := g.XID; x != nil {
		put("", fmt.Sprintf("  xid %d, %s: %s", x.Code, t.moment(x.At.Time), t.safe(render.EnglishXID(x.Code))))
	}
	for i := range g.Slices {
		m := &g.Slices[i]
		row := fmt.Sprintf("  %s %s  %s / %sMiB  ",
			m.Label(), cmp.Or(t.safe(m.Slice.Profile), "MIG"), number(t, m.MemoryUsed), number(t, m.MemoryTotal)) +
			t.detailState(m)
		if r := t.reservation(m); r != "" {
			row += "; booking: " + r
		}
		put(textColor(m.State), row)
	}
	t.tree(put, g, b, inner)
	t.buf.WriteString("  " + b.bottomLeft + strings.Repeat(b.across, inner) + b.bottomRight + "\n\n")
}

func (t *textPage) bar(put func(color, s string), g *board.GPU, inner int) {
	room := inner - 13
	if g.MemoryUsed == nil || g.MemoryTotal == nil || *g.MemoryTotal <= 0 {
		put("", " mem ["+strings.Repeat(" ", room)+"]    "+t.dash)
		return
	}
	part := min(1, max(0, float64(*g.MemoryUsed)/float64(*g.MemoryTotal)))
	fill := int(part*float64(room) + 0.5)
	if fill == 0 && *g.MemoryUsed > 0 {
		fill = 1
	}
	put("",
		fmt.Sprintf(" mem [%s%s] %3d%%", strings.Repeat("/", fill), strings.Repeat(" ", room-fill), int(part*100+0.5)))
}

func (t *textPage) detailState(g *board.GPU) string {
	s := t.stateWords(g)
	if g.State == board.Lost && g.HealthReason != "" {
		s += ": " + t.safe(snapshot.Says("the driver", g.HealthReason))
	} else if g.Reason != "" {
		s += " (" + t.safe(g.Reason) + ")"
	}
	if !g.Since.IsZero() {
		s += ", since " + t.moment(g.Since)
	}
	if g.Last != nil {
		s += ", last seen " + string(g.Last.State)
		if len(g.Last.Users) > 0 {
			s += " " + t.safe(strings.Join(g.Last.Users, ","))
		}
	}
	return s
}

// tree lists the processes: program, user, pid, memory.
func (t *textPage) tree(put func(color, s string), g *board.GPU, b textBox, inner int) {
	room := inner - 2 - 3 - 1 - 1 - 8 - 1 - 10 - 1
	table := t.columns(" ", "", Column{Width: 5}, Column{Width: room * 3 / 5}, Column{Width: 8, Right: true},
		Column{Width: room - room*3/5 - 1}, Column{Width: 10, Right: true})
	for i := range g.Processes {
		p := &g.Processes[i]
		twig := b.branch
		if i == len(g.Processes)-1 {
			twig = b.last
		}
		user, color := t.safe(p.Owner().String()), ""
		if p.Dead() {
			user, color = user+" (gone)", "31"
		}
		program, memory := t.safe(cmp.Or(p.Program, "?")), number(t, p.UsedMemory)+"MiB"
		put(color, table.Line("", "  "+twig, program, strconv.Itoa(p.PID), user, memory))
		if known := t.known(p); known != "" {
			put("", "      "+known)
		}
		for _, c := range p.Children {
			put("", "      child "+strconv.Itoa(c.PID)+" "+t.safe(c.Owner().String())+" "+t.safe(c.Program))
		}
	}
}

// known says by what the owner of a process is known, or which two sources disagree, and where somebody's process
// runs. An unknown user's place is in the name.
func (t *textPage) known(p *board.Process) string {
	var said []string
	by := func(who string, c snapshot.Claim) string { return t.word("who.by."+string(c.Source), who) }
	switch len(p.By) {
	case 1:
		said = append(said, by(p.Owner().String(), p.By[0]))
	case 2:
		said = append(said,
			fmt.Sprintf(render.EnglishWords()["who.conflict"], by(p.By[0].User, p.By[0]), by(p.By[1].User, p.By[1])))
	}
	if place := p.Place(); p.Owner().Name() != "" && place.Name != "" {
		said = append(said, t.word("process."+place.Kind, place.Name))
	}
	return strings.Join(said, "; ")
}

// word fills a text into the page's words for it, where there are any.
func (t *textPage) word(key, text string) string {
	if format, known := render.EnglishWords()[key]; known {
		return fmt.Sprintf(format, t.safe(text))
	}
	return t.safe(text)
}

// textHost is the view for curl of one host: a headline, and a box for each GPU.
// Like everything that belongs to one host it does not say when it was generated:
// times are those of the host's own snapshot, so a host without news is not rewritten.
// headline is the length of the headline.
func textHost(h *board.Host, zone *time.Location) (content []byte, headline int) {
	t := newTextPage(&board.Board{GeneratedAt: h.SnapshotAt}, Options{Detail: true, Zone: zone})
	text := t.safe(h.Name) + ": " + h.Totals.FreeOf() + " free"
	if silence := t.silence(h); silence != "" {
		text += ", " + silence
	}
	t.line("", text)
	headline = t.buf.Len()
	gpus, _ := t.hostShown(h)
	t.detailHost(h, gpus)
	return t.buf.Bytes(), headline
}
