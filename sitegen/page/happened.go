package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

const (
	maxHappened = 30 // of the fleet
	maxMarks    = 14 // on the charts of a host
	// happenedDays is how many days of bookings the fleet's list goes back.
	happenedDays = 7
)

// A happening is one thing that happened to a host, or to some of its GPUs. Its kind is that of an event, or one of
// those that the board and the charts show by themselves: xid, boot, silent, began, ended.
type happening struct {
	at    time.Time
	kind  string
	host  string
	gpus  []string // labels; none for the host
	who   []string
	value string // of an Xid, its number; of a silence, its length
}

// grave are the kinds that somebody should look at.
func (x *happening) grave() bool {
	return slices.Contains([]string{"host-down", "gpu-lost", "gpu-stuck", "gpu-hot", "xid", "silent", "host-stale"}, x.kind)
}

// happened is what the log, the bookings and the hosts tell of the time from from to now, oldest first. Only says
// which hosts; nil is all.
func (v *view) happened(from time.Time, only *board.Host) []happening {
	now := v.in.Board.GeneratedAt
	var list []happening
	add := func(x happening) {
		if !x.at.Before(from) && !x.at.After(now) {
			list = append(list, x)
		}
	}
	listed := map[string]bool{} // the bookings that still say themselves when they begin and end
	booked := v.booked
	if only != nil {
		booked = map[string][]*board.Booking{only.Name: v.booked[only.Name]}
	}
	for name, of := range booked {
		for _, b := range of {
			listed[b.ID] = true
			if !b.ByPerson() {
				continue
			}
			x := happening{at: b.From, kind: "booking-start", host: name, gpus: b.Labels(), who: []string{b.Name}}
			add(x)
			x.at, x.kind = b.Until, "booking-end"
			add(x)
		}
	}
	for _, e := range v.in.Events {
		switch kind := string(e.Kind); {
		case only != nil && only.Name != e.Host, kind == "booking-ending", kind == "gpu-xid":
		case only != nil && (kind == "host-stale" || kind == "host-up" || kind == "host-down" || kind == "gpu-freed"):
			// The charts show by themselves where a host was silent, and who used what.
		case listed[e.Booking] && (kind == "booking-start" || kind == "booking-end"):
		default:
			x := happening{at: e.At, kind: kind, host: e.Host, who: e.Users}
			if e.GPU != nil {
				x.gpus = []string{strconv.Itoa(*e.GPU)}
			}
			add(x)
		}
	}
	for i := range v.in.Board.Hosts {
		if h := &v.in.Board.Hosts[i]; only == nil || only == h {
			for _, x := range hostTells(h) {
				add(x)
			}
		}
	}
	return merged(list)
}

// hostTells is what the last snapshot of a host says of the past.
func hostTells(h *board.Host) (list []happening) {
	if up := h.Node.UptimeSeconds; up != nil {
		at := h.SnapshotAt.Add(-time.Duration(*up) * time.Second).Truncate(time.Minute)
		list = append(list, happening{at: at, kind: "boot", host: h.Name})
	}
	for i := range h.GPUs {
		if x := h.GPUs[i].XID; x != nil {
			list = append(list, happening{
				at: x.At.Time, kind: "xid", host: h.Name, gpus: []string{h.GPUs[i].Label()},
				value: strconv.Itoa(x.Code),
			})
		}
	}
	return list
}

// merged sorts by time, and makes one of what happened to several GPUs of a host at once, or concerns several people.
func merged(list []happening) (out []happening) {
	slices.SortStableFunc(list, func(x, y happening) int {
		return cmp.Or(x.at.Compare(y.at), strings.Compare(x.host, y.host), strings.Compare(x.kind, y.kind),
			slices.Compare(x.who, y.who), slices.CompareFunc(x.gpus, y.gpus, board.NaturalCompare))
	})
	for _, x := range list {
		if len(out) > 0 {
			last := &out[len(out)-1]
			if last.at.Equal(x.at) && last.host == x.host && last.kind == x.kind && slices.Equal(last.who, x.who) &&
				len(last.gpus) > 0 && len(x.gpus) > 0 && last.value == x.value {
				last.gpus = slices.Compact(slices.Concat(last.gpus, x.gpus))
				continue
			}
			if last.at.Equal(x.at) && last.host == x.host && last.kind == x.kind && x.kind == "gpu-contested" &&
				slices.Equal(last.gpus, x.gpus) {
				last.who = slices.Compact(slices.Concat(last.who, x.who))
				continue
			}
		}
		out = append(out, x)
	}
	return out
}

// uses are the beginnings and ends of the uses that a GPU's last day shows.
func uses(h *board.Host, g *board.GPU, from time.Time) (list []happening) {
	if len(g.Holders) != render.PastSteps()[0] {
		return nil
	}
	for i := 1; i < len(g.Holders); i++ {
		was, is := g.Holders[i-1], g.Holders[i]
		x := happening{at: from.Add(time.Duration(i) * quarter), host: h.Name, gpus: []string{g.Label()}}
		switch {
		case was == is:
			continue
		case is != "":
			x.kind, x.who = "began", []string{is}
		default:
			x.kind, x.who = "ended", []string{was}
		}
		list = append(list, x)
	}
	return list
}

// quarter is a step of what the last day shows.
const quarter = 15 * time.Minute

// A silence is some steps of which nothing is known.
type silence struct{ from, to int }

// unknownRuns are the steps of which nothing is known.
func unknownRuns(values []float64) (list []silence) {
	for i, x := range values {
		switch {
		case !math.IsNaN(x):
		case len(list) > 0 && list[len(list)-1].to == i:
			list[len(list)-1].to++
		default:
			list = append(list, silence{i, i + 1})
		}
	}
	return list
}

// spansOf are silences in a picture of n steps.
func spansOf(list []silence, n int) (spans []templates.Span) {
	for _, s := range list {
		spans = append(spans, templates.Span{
			X: percent(float64(s.from) / float64(n)), Width: percent(float64(s.to-s.from) / float64(n)),
		})
	}
	return spans
}

// silences are the steps in which nothing is known of any GPU of a host.
func silences(span *render.PastSpan) []silence {
	seen := slices.Repeat([]float64{math.NaN()}, span.Len())
	for _, g := range span.GPUs {
		for _, metric := range []int{render.PastUtilization, render.PastMemory} {
			for i, x := range g[metric] {
				if x != render.PastUnknown {
					seen[i] = 0
				}
			}
		}
	}
	return unknownRuns(seen)
}

// hostHappened is what happened to a host in the time of a chart, oldest first.
func (v *view) hostHappened(h *board.Host, span *render.PastSpan) []happening {
	list := v.happened(span.From, h)
	var used []happening
	for g := range h.Rows() {
		used = append(used, uses(h, g, v.dayFrom())...)
	}
	for _, s := range silences(span) {
		from := span.From.Add(time.Duration(s.from) * span.Step())
		to := from.Add(time.Duration(s.to-s.from) * span.Step())
		switch {
		case s.to < span.Len() && s.from > 0:
			list = append(list, happening{
				at: from, kind: "silent", host: h.Name, value: v.words.length(to.Sub(from)),
			})
		case s.from > 0 && (h.State == board.Stale || h.State == board.Down):
			list = append(list, happening{at: h.SnapshotAt, kind: "host-stale", host: h.Name})
		}
		used = slices.DeleteFunc(used, func(x happening) bool { // it may have been at any time of the silence
			return from.Before(x.at.Add(quarter)) && to.After(x.at.Add(-quarter))
		})
	}
	list = append(list, used...)
	list = slices.DeleteFunc(merged(list), func(x happening) bool { return x.at.Before(span.From) })
	return list[max(0, len(list)-maxMarks):]
}

// dayFrom is when the last day of the board begins, as the steps of its GPUs count it: the last of them is the quarter
// of an hour in which the board was made.
func (v *view) dayFrom() time.Time {
	return v.in.Board.GeneratedAt.Truncate(quarter).Add(quarter - render.PastLengths()[0])
}

// happening is a line of what happened. Times are named relative to ref. Root leads to the site's root; it is "" on
// the pages of the host itself, which lie in several places and have no links.
func (v *view) happening(x *happening, ref time.Time, root string) templates.Happening {
	out := templates.Happening{
		At: toMinute(v.words.near(x.at, ref)), What: v.words.T("event." + x.kind), Grave: x.grave(),
		Where: v.words.T("past.host"),
	}
	if x.value != "" {
		out.What = v.words.T("event."+x.kind, x.value)
	}
	if len(x.gpus) > 0 {
		out.Where = v.words.T("host.gpu", render.Clean(strings.Join(x.gpus, ", ")))
	}
	if root != "" {
		out.Host = render.Clean(x.host)
		if v.hosts[x.host] != nil {
			out.Href = hostHref(root, x.host)
		}
		if len(x.gpus) == 0 {
			out.Where = ""
		}
	}
	for _, name := range x.who[:min(len(x.who), maxNames)] {
		p := templates.Person{Name: render.Clean(name)}
		if root != "" {
			p.Href = v.userHref(root, name)
		}
		out.Who = append(out.Who, p)
	}
	return out
}

// fleetHappened is what happened lately on all hosts, the newest first.
func (v *view) fleetHappened() (list []templates.Happening) {
	now := v.in.Board.GeneratedAt
	all := v.happened(now.AddDate(0, 0, -happenedDays), nil)
	for i := len(all) - 1; i >= max(0, len(all)-maxHappened); i-- {
		list = append(list, v.happening(&all[i], now, "../"))
	}
	return list
}
