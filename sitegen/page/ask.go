package page

import (
	"math"
	"strconv"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

const (
	maxPeople = 1000 // on their page
	maxWhere  = 4
)

// ask lists the free GPUs, then at most so many people in the board's order. root leads to the site's root.
func (v *view) ask(most int, root string) templates.People {
	var p templates.People
	b := v.in.Board
	for _, u := range b.Users {
		p.Means = p.Means || u.Mean2h != nil || u.Mean24h != nil || u.Mean1w != nil
	}
	in, free := &v.in, b.Totals.Free()
	p.Means = p.Means || in.FreeMean2h != nil || in.FreeMean24h != nil || in.FreeMean1w != nil
	p.Free = &templates.Ask{Used: strconv.Itoa(free)}
	p.Free.Means = v.words.means(float64(free), in.FreeMean2h, in.FreeMean24h, in.FreeMean1w)
	p.More = max(0, len(b.Users)-most)
	for i := range b.Users[:len(b.Users)-p.More] {
		p.List = append(p.List, v.askOf(&b.Users[i], root))
	}
	return p
}

func (v *view) askOf(u *board.User, root string) templates.Ask {
	a := templates.Ask{Name: render.Clean(u.Name), Href: v.userHref(root, u.Name), Idle: u.IdleGPUs}
	if u.Used > 0 {
		a.Used = v.words.fraction(u.Used)
	}
	if u.Reserved > 0 {
		a.Reserved = strconv.Itoa(u.Reserved)
	}
	a.Means = v.words.means(u.Used, u.Mean2h, u.Mean24h, u.Mean1w)
	for _, w := range u.Where {
		if len(a.Where) == maxWhere {
			a.WhereMore = len(u.Where) - maxWhere
			break
		}
		href := "#" + w.Host
		if root != "" {
			href = root + "hosts/" + w.Host + "/index.html"
		}
		a.Where = append(a.Where, templates.Where{Text: w.Host + " " + joinInts(w.GPUs, ", "), Href: href})
	}
	return a
}

// means are numbers of the past, each with a trend where the present is well away from it.
func (w *words) means(now float64, past ...*float64) (out [3]templates.Mean) {
	for i, mean := range past {
		if mean == nil {
			continue
		}
		out[i] = templates.Mean{Text: w.fraction(*mean), Trend: "same"}
		switch {
		case *mean > now+0.1:
			out[i].Trend = "down"
		case *mean < now-0.1:
			out[i].Trend = "up"
		}
	}
	return out
}

func (w *words) fraction(f float64) string {
	return w.float(math.Round(f*10)/10, 1)
}
