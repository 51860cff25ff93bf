package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

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
	in, gpus := &v.in, b.Totals.GPUs.Free()
	p.Means = p.Means || in.FreeMean2h != nil || in.FreeMean24h != nil || in.FreeMean1w != nil
	p.Free = &templates.Ask{Used: cmp.Or(render.WithSlices(gpus, b.Totals.Slices.Free(), strconv.Itoa), "0")}
	p.Free.Means = v.words.means(float64(gpus), b.Totals.Slices.All > 0, in.FreeMean2h, in.FreeMean24h, in.FreeMean1w)
	p.More = max(0, len(b.Users)-most)
	for i := range b.Users[:len(b.Users)-p.More] {
		p.List = append(p.List, v.askOf(&b.Users[i], root))
	}
	return p
}

func (v *view) askOf(u *board.User, root string) templates.Ask {
	a := templates.Ask{
		Name: render.Clean(u.Name), Href: v.userHref(root, u.Name), Means: v.words.meansOf(u),
		Idle:     render.WithSlices(u.Idle, u.Slices.Idle, strconv.Itoa),
		Reserved: render.WithSlices(u.Reserved, u.Slices.Reserved, strconv.Itoa),
		Used:     render.WithSlices(u.Used, u.Slices.Used, v.words.fraction),
	}
	for _, w := range u.Where {
		if len(a.Where) == maxWhere {
			a.WhereMore = len(u.Where) - maxWhere
			break
		}
		href := "#" + w.Host
		if root != "" {
			href = hostHref(root, w.Host)
		}
		a.Where = append(a.Where, templates.Where{Text: w.Host + " " + placesOf(w), Href: href})
	}
	return a
}

// placesOf are the labels of what somebody uses on a host.
func placesOf(w board.UserHost) string {
	labels := slices.Clone(w.Slices)
	for _, gpu := range w.GPUs {
		labels = append(labels, strconv.Itoa(gpu))
	}
	slices.SortFunc(labels, board.NaturalCompare)
	return strings.Join(labels, ", ")
}

func (w *words) meansOf(u *board.User) [3]templates.Mean {
	return w.means(u.Used, u.Slices.Used > 0, u.Mean2h, u.Mean24h, u.Mean1w)
}

// means are numbers of the past, each with a trend where the present is well away from it. With slices there is
// none: the past shares their GPU.
func (w *words) means(now float64, slices bool, past ...*float64) (out [3]templates.Mean) {
	for i, mean := range past {
		if mean == nil {
			continue
		}
		out[i] = templates.Mean{Text: w.fraction(*mean), Trend: "same"}
		switch {
		case slices:
			out[i].Trend = ""
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
