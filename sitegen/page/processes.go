package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// whoIsOn fills in who is on the GPU: the one with the most memory by name, the
// others behind "+2 more", and the processes where there is room for them.
func (v *view) whoIsOn(r *templates.Row, g *board.GPU, d detail, ref time.Time, root string) {
	if len(g.Processes) == 0 {
		return
	}
	order := make([]*board.Process, 0, len(g.Processes))
	for i := range g.Processes {
		order = append(order, &g.Processes[i])
	}
	slices.SortStableFunc(order, func(x, y *board.Process) int {
		if c := boolFirst(x.Type.Computes(), y.Type.Computes()); c != 0 {
			return c
		}
		return compareFloats(memory(y), memory(x))
	})
	seen := map[string]bool{}
	for _, p := range order {
		if p.Person == "" || seen[p.Person] || dead(p) && g.State == board.Stuck {
			continue
		}
		seen[p.Person] = true
		if len(r.More) == maxNames {
			r.MoreNames++
			continue
		}
		who := templates.Person{Name: render.Clean(p.Person), Href: v.userHref(root, p.Person), Program: render.Clean(p.Program)}
		if p.StartedAt != nil {
			who.Since = toMinute(v.words.near(p.StartedAt.Time, ref))
		}
		if r.Who == nil {
			if who.Since == nil {
				who.Since = v.words.near(g.Since, ref)
			}
			r.Who = &who
		} else {
			r.More = append(r.More, who)
		}
	}
	if d == brief {
		return
	}
	r.Details = true
	if p := order; len(p) == 1 && r.Who != nil && p[0].Type == snapshot.Compute && !dead(p[0]) {
		r.Only = p[0].PID
	}
	// What the row says is not said again below it.
	said := r.Only != 0 && d != whole
	most := maxProcesses
	if d == whole {
		most = maxOwnProcesses
	}
	for i, p := range order {
		if i == most {
			r.MoreProcesses = len(order) - most
			break
		}
		one := v.process(p, ref)
		if g.Slice != nil {
			one.instance = "" // the row says it
		}
		one.same = d != whole && r.Who != nil && len(r.More) == 0 && one.person == r.Who.Name && one.login == "" && !one.dead
		if said {
			one.since, one.told = "", true
			if one.memory == r.Used && one.same && one.container == "" && one.instance == "" {
				r.Details = false
				continue
			}
		}
		r.Processes = append(r.Processes, v.words.process(one))
	}
}

// A process is what a page says of one.
type process struct {
	pid             string
	person, login   string // login where it is not the person
	program, typ    string
	memory, share   string // GiB, per cent
	since           string
	container       string
	instance        string // of MIG
	dead            bool
	kill, survivors string // the children left behind: their pids, and what they are
	same            bool   // the row says whose it is
	told            bool   // and its pid and its program
}

func (v *view) process(p *board.Process, ref time.Time) process {
	one := process{
		pid: strconv.Itoa(p.PID), person: render.Clean(p.Person), program: render.Clean(p.Program),
		typ: render.Clean(string(p.Type)), container: render.Clean(p.Container), dead: dead(p),
	}
	if p.User != p.Person {
		one.login = render.Clean(p.User)
	}
	if p.UsedMemory != nil {
		one.memory = v.words.gib(*p.UsedMemory)
	}
	if p.Share != nil {
		one.share = strconv.Itoa(int(math.Round(100 * *p.Share)))
	}
	if p.StartedAt != nil {
		if m := v.words.near(p.StartedAt.Time, ref); m != nil {
			one.since = m.Text
		}
	}
	if p.GPUInstanceID != nil {
		one.instance = strconv.Itoa(*p.GPUInstanceID)
	}
	var pids, names []string
	for _, c := range p.Children {
		pids = append(pids, strconv.Itoa(c.PID))
		if name := strings.TrimSpace(c.User + " " + c.Program); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	one.kill, one.survivors = strings.Join(pids, " "), render.Clean(strings.Join(names, ", "))
	return one
}

// process says what a page says of a process.
func (w *words) process(p process) templates.Process {
	out := templates.Process{Dead: p.dead}
	text := []string{w.T("process.memory")}
	if p.memory != "" {
		text[0] = w.quantity(p.memory, "gib")
		if p.share != "" {
			text[0] += ", " + w.quantity(p.share, "percent")
		}
	}
	if !p.same {
		who := cmp.Or(p.person, "?")
		if p.login != "" {
			who += " (" + p.login + ")"
		}
		text = append(text, who)
	}
	if !p.told {
		out.PID = p.pid
		text = append(text, cmp.Or(p.program, "?"))
	}
	if p.typ != string(snapshot.Compute) {
		text = append(text, w.T("process.type", p.typ))
	}
	out.Text = strings.Join(text, " · ")
	for _, detail := range []struct{ key, value string }{
		{"process.since", p.since}, {"process.container", p.container}, {"process.instance", p.instance},
	} {
		if detail.value != "" {
			out.Details = append(out.Details, w.T(detail.key, detail.value))
		}
	}
	if p.dead {
		out.Left = w.T("process.gone")
		if p.kill != "" {
			out.Left += w.T("process.left", p.survivors)
			out.Kill = "kill " + p.kill
		}
	}
	return out
}

func dead(p *board.Process) bool { return p.Alive != nil && !*p.Alive }

func memory(p *board.Process) float64 {
	if p.UsedMemory == nil {
		return 0
	}
	return float64(*p.UsedMemory)
}

func boolFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}
