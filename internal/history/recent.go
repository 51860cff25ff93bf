package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// Sparks are [SparkSteps] steps of SparkStep, on the clock's quarters of an
// hour; the last one holds the present and is still growing.
const (
	SparkSteps = 96
	SparkStep  = 15 * time.Minute
)

// minKnown is the part of a window that has to be known of a host before its
// mean is believed.
const minKnown = 0.1

// Recent sums up the recent past as of now, for the GPUs asked for, or for all
// of them. It is kept in memory between calls, so that a call costs what is new;
// with [Options].Once it is not. The Utilization of a GPU is the same list for as
// long as nothing came for it and no quarter of an hour began, and GPUs the same
// map when all of them are the same. Nobody changes either.
//
// A user's mean over a window (2 h, 24 h, a week up to now) is the mean number
// of GPUs held over the time that is known, host by host: a silent hour of a
// host neither counts as idle nor as used, and a host of which less than a
// tenth of the window is known does not count. This is a plain mean, so "3.2 in
// 24 h" are 3.2 x 24 GPU-hours; it moves and forgets like the exponential
// average of the same length that such tables often show, but depends on
// nothing older, and on no order. Processes without a known owner count for nobody.
//
// idleThreshold is in %. On a nil store the result is empty, never nil.
func (s *Store) Recent(ctx context.Context, now time.Time, idleWindow time.Duration, idleThreshold float64, keys ...Key) (*Recent, error) {
	out := &Recent{GPUs: map[Key]GPU{}}
	if s == nil {
		return out, nil
	}
	var only map[Key]bool
	if len(keys) > 0 {
		only = make(map[Key]bool, len(keys))
		for _, k := range keys {
			only[k] = true
		}
	}
	err := s.view(ctx, "the board", func(q querier) error {
		hosts := make([]*host, 0, len(s.hosts))
		for _, h := range s.hosts {
			hosts = append(hosts, h)
		}
		slices.SortFunc(hosts, byNumber)
		atOnce := max(1, len(hosts))
		if s.opts.Once {
			atOnce = weeksAtOnce
		}
		fill := only != nil || s.opts.Once || s.recent == nil
		n, changed := 0, false
		sums := make([]*hostMeans, 0, len(hosts))
		for part := range slices.Chunk(hosts, atOnce) {
			if err := s.loadBoards(ctx, q, part, now.UnixMilli()); err != nil {
				return err
			}
			for _, h := range part {
				if err := s.refresh(ctx, q, h, now.UnixMilli()); err != nil {
					return fmt.Errorf("reading the week of %s: %w", h.name, err)
				}
				b := h.board
				for id := range b.gpus {
					key := Key{h.name, h.gpus.name(uint32(id))}
					if only != nil && !only[key] || b.gpus[id].empty() {
						continue
					}
					v := b.recent(id, now, idleWindow, idleThreshold)
					if fill {
						out.GPUs[key] = v
					}
					if shown := &b.gpus[id].shown; only == nil && !v.same(shown) {
						*shown, changed = v, true
					}
					n++
				}
				sums = append(sums, h.meansOf(now.UnixMilli()))
				if s.opts.Once {
					h.board = nil
				}
			}
		}
		switch {
		case fill:
		case !changed && n == len(s.recent):
			out.GPUs = s.recent
		default:
			out.GPUs = shown(hosts, n)
		}
		if only == nil && !s.opts.Once {
			s.recent = out.GPUs
		}
		// In one order, so that sums are the same every time.
		slices.SortFunc(sums, func(a, b *hostMeans) int { return strings.Compare(a.host, b.host) })
		means := newMeans()
		for _, m := range sums {
			means.add(m)
		}
		means.into(out)
		return nil
	})
	return out, err
}

// weeksAtOnce is of how many hosts a process has the week in memory that asks once.
const weeksAtOnce = 64

// shown is what these hosts' boards gave last.
func shown(hosts []*host, n int) map[Key]GPU {
	all := make(map[Key]GPU, n)
	for _, h := range hosts {
		for id := range h.board.gpus {
			if g := &h.board.gpus[id]; !g.empty() {
				all[Key{h.name, h.gpus.name(uint32(id))}] = g.shown
			}
		}
	}
	return all
}

// same reports whether both are what one and the same list and moment say: a
// list that was handed out is never changed.
func (g *GPU) same(o *GPU) bool {
	return len(g.Utilization) == len(o.Utilization) && (len(g.Utilization) == 0 || &g.Utilization[0] == &o.Utilization[0]) && g.IdleSince.Equal(o.IdleSince)
}

// GPU is what is known of one GPU; the zero GPU when nothing is. It works on nil.
func (r *Recent) GPU(k Key) GPU {
	if r == nil {
		return GPU{}
	}
	return r.GPUs[k]
}

// windows are the last 2 h, day and week.
const windows = 3

// hostMeans are the means of one host, with NaN where too little is known.
type hostMeans struct {
	host  string
	five  int64 // up to which
	free  [windows]float64
	users []userMeans
}

type userMeans struct {
	name string
	held [windows]float64
	// lately is what is known of the last week, however little that is.
	lately int64
}

// meansOf are those up to now. They are kept until a sample comes, or the next five.
func (h *host) meansOf(now int64) *hostMeans {
	b := h.board
	if five := floorDiv(now, fiveMinutes); b.means == nil || b.means.five != five {
		b.means = h.workOut(five, floorDiv(now, hourMS))
	}
	return b.means
}

func (h *host) workOut(five, hour int64) *hostMeans {
	b := h.board
	last := int(min(max(five-b.five, 0), boardFives-1))
	end := int(min(max(hour-b.hour, 0), boardHours-1))
	sum := func(t *tally) [windows]float64 {
		return [windows]float64{
			float64(t.fives.sum(last-23, last+1)), float64(t.fives.sum(last-287, last+1)), float64(t.hours.sum(end-167, end+1)),
		}
	}
	known, free := sum(&b.proc), sum(&b.free)
	for w, length := range [windows]float64{2 * 3600, 24 * 3600, 7 * 24 * 3600} {
		if known[w] < minKnown*length {
			known[w] = math.NaN()
		}
	}
	m := &hostMeans{host: h.name, five: five}
	for w := range free {
		m.free[w] = free[w] / known[w]
	}
	for id, u := range b.users {
		one := userMeans{name: h.users.name(id), held: sum(u)}
		if one.name == "" || u.hours.sum(0, boardHours) == 0 {
			continue
		}
		for w := range one.held {
			one.held[w] = one.held[w] / 10 / known[w]
		}
		one.lately = u.hours.sum(0, boardHours)
		m.users = append(m.users, one)
	}
	if len(m.users) > maxRecentUsers {
		slices.SortFunc(m.users, func(a, b userMeans) int {
			return cmp.Or(cmp.Compare(b.lately, a.lately), strings.Compare(a.name, b.name))
		})
		m.users = m.users[:maxRecentUsers]
	}
	return m
}

// maxRecentUsers is how many people's means come from one host: those who used it
// most. A node must not decide how many people the board knows.
const maxRecentUsers = 256

// means adds up the three windows over hosts.
type means struct {
	users map[string]*[windows]float64
	free  [windows]float64
	some  [windows]bool
}

func newMeans() *means { return &means{users: map[string]*[windows]float64{}} }

func (m *means) add(h *hostMeans) {
	for w, free := range h.free {
		if !math.IsNaN(free) {
			m.some[w] = true
			m.free[w] += free
		}
	}
	for i := range h.users {
		u := &h.users[i]
		sums := m.users[u.name]
		if sums == nil {
			sums = &[windows]float64{}
			m.users[u.name] = sums
		}
		for w, held := range u.held {
			if !math.IsNaN(held) {
				sums[w] += held
			}
		}
	}
}

func (m *means) into(r *Recent) {
	get := func(w int, v float64) *float64 {
		if !m.some[w] {
			return nil
		}
		return &v
	}
	r.FreeMean2h, r.FreeMean24h, r.FreeMean1w = get(0, m.free[0]), get(1, m.free[1]), get(2, m.free[2])
	for name, v := range m.users {
		r.Users = append(r.Users, User{name, get(0, v[0]), get(1, v[1]), get(2, v[2])})
	}
	sort.Slice(r.Users, func(i, j int) bool { return r.Users[i].Name < r.Users[j].Name })
}
