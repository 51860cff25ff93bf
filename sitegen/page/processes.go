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

// whoIsOn fills in the people on the GPU, and the processes where there is room for them.
func (v *view) whoIsOn(r *templates.Row, g *board.GPU, d detail, ref time.Time, root string) {
	computing := g.Computing()
	seen := map[snapshot.Owner]bool{}
	for _, p := range computing {
		owner := p.Owner()
		if seen[owner] {
			continue
		}
		seen[owner] = true
		if len(r.More) == maxNames {
			r.MoreNames++
			continue
		}
		who := v.owner(owner, root)
		who.Program = render.Clean(p.Program)
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
	if d == brief || len(g.Processes) == 0 {
		return
	}
	r.Details = true
	if len(g.Processes) == 1 && len(computing) == 1 && computing[0].Type == snapshot.Compute {
		r.Only = computing[0].PID
	}
	order := computing
	for i := range g.Processes {
		if p := &g.Processes[i]; !p.Computes {
			order = append(order, p)
		}
	}
	most := maxProcesses
	if d == whole {
		most = maxOwnProcesses
	}
	for i, p := range order {
		if i == most {
			r.MoreProcesses = len(order) - most
			break
		}
		// What the row says is not said again below it.
		in := rowSays{
			person:   d != whole && len(r.More) == 0 && p.Computes && (p.Person == "" || p.Person == p.User),
			program:  r.Only != 0 && d != whole,
			instance: g.Slice != nil,
		}
		used := ""
		if p.UsedMemory != nil {
			used = v.words.gib(*p.UsedMemory)
		}
		if in.person && in.program && used == r.Used && p.Container == "" && (in.instance || p.GPUInstanceID == nil) {
			r.Details = false
			continue
		}
		r.Processes = append(r.Processes, v.process(p, ref, in))
	}
}

// rowSays is what a row says of a process: whose it is, its pid with program and start, the MIG instance.
type rowSays struct{ person, program, instance bool }

// process says what a page says of a process, without what its row says.
func (v *view) process(p *board.Process, ref time.Time, row rowSays) templates.Process {
	w := v.words
	out := templates.Process{Dead: p.Dead()}
	text := []string{w.T("process.memory")}
	if p.UsedMemory != nil {
		text[0] = w.quantity(w.gib(*p.UsedMemory), "gib")
		if p.Share != nil {
			text[0] += ", " + w.quantity(strconv.Itoa(int(math.Round(100**p.Share))), "percent")
		}
	}
	if !row.person {
		who := w.owner(p.Owner())
		if login := render.Clean(p.User); login != "" && p.Person != "" && p.User != p.Person {
			who += " (" + login + ")"
		}
		text = append(text, who)
	}
	if !row.program {
		out.PID = strconv.Itoa(p.PID)
		text = append(text, cmp.Or(render.Clean(p.Program), "?"))
	}
	if p.Type != snapshot.Compute {
		text = append(text, w.T("process.type", render.Clean(string(p.Type))))
	}
	out.Text = strings.Join(text, " · ")
	if p.StartedAt != nil && !row.program {
		if m := w.near(p.StartedAt.Time, ref); m != nil {
			out.Details = append(out.Details, w.T("process.since", m.Text))
		}
	}
	if p.Container != "" {
		out.Details = append(out.Details, w.T("process.container", render.Clean(p.Container)))
	}
	if p.GPUInstanceID != nil && !row.instance {
		out.Details = append(out.Details, w.T("process.instance", strconv.Itoa(*p.GPUInstanceID)))
	}
	if !out.Dead {
		return out
	}
	out.Left = w.T("process.gone")
	var pids, names []string
	for _, c := range p.Children {
		pids = append(pids, strconv.Itoa(c.PID))
		if name := strings.TrimSpace(w.owner(c.Owner()) + " " + c.Program); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(pids) > 0 {
		out.Left += w.T("process.left", render.Clean(strings.Join(names, ", ")))
		out.Kill = "kill " + strings.Join(pids, " ")
	}
	return out
}
