package history

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// SparkSteps is how many steps a spark has: the clock's quarters of an hour. The
// last one holds the present and is still growing.
const SparkSteps = 96

// minKnown is the part of a window that has to be known of a host before its
// mean is believed.
const minKnown = 0.1

// Recent sums up the recent past as of now. The store keeps the week
// of each host, so that a call costs only what is new; with [Options].Once it does not.
//
// A user's mean over a window (2 h, 24 h, a week up to now) is the mean number
// of GPUs held over the time that is known, host by host: a silent hour of a
// host neither counts as idle nor as used, and a host of which less than a
// tenth of the window is known does not count. This is a plain mean, so "3.2 in
// 24 h" are 3.2 x 24 GPU-hours; it moves and forgets like the exponential
// average of the same length that such tables often show, but depends on
// nothing older, and on no order. Processes without a known owner count for nobody.
//
// idleThreshold is in %.
func (s *Store) Recent(
	ctx context.Context, now time.Time, idleWindow time.Duration, idleThreshold float64,
) (*Recent, error) {
	out := &Recent{GPUs: map[Key]GPU{}}
	err := s.view(ctx, "the board", func(q querier) error {
		var means []hostMeans
		for part := range slices.Chunk(s.allHosts(), weeksAtOnce) {
			if err := s.loadWeeks(ctx, q, part, now.UnixMilli()); err != nil {
				return err
			}
			for _, h := range part {
				for key := range h.week.series {
					if key.kind == kindGPU && key.field == gUtil {
						g := h.week.recent(key.id, now, idleWindow, idleThreshold)
						g.Holders = h.holders(key.id)
						out.GPUs[Key{h.name, h.gpus.name(key.id)}] = g
					}
				}
				means = append(means, h.meansAt(now.UnixMilli()))
				if s.opts.Once {
					h.week = nil
				}
			}
		}
		out.addUp(means)
		return nil
	})
	return out, err
}

// holders is who held a GPU in most of the fives of each step, of two the later one. A five that is written already
// stands before one of another boot that is still open.
func (h *host) holders(gpu uint32) []string {
	w := h.week
	var fives [weekFives]uint32
	for i := range w.open {
		at := w.openFrom - w.five + int64(i)
		gpus := w.open[i].gpus
		if k, found := findGPU(gpus, gpu); found && 0 <= at && at < weekFives {
			fives[at] = gpus[k].holder
		}
	}
	if written := w.holders[gpu]; written != nil {
		for at, user := range written {
			if user != 0 {
				fives[at] = uint32(user)
			}
		}
	}
	steps := make([]string, SparkSteps)
	for step := range steps {
		steps[step] = h.users.name(mostNamed([3]uint32(fives[(step+1)*3:])))
	}
	return steps
}

// mostNamed is the user who holds most of the fives of a step, of two the later one; 0 for nobody.
func mostNamed(fives [3]uint32) (user uint32) {
	if first := fives[0]; first != 0 && (first == fives[1] || first == fives[2]) {
		return first
	}
	return cmp.Or(fives[2], fives[1], fives[0])
}

// weeksAtOnce is the number of hosts whose weeks are read together: with
// [Options].Once no more of them are in memory.
const weeksAtOnce = 64

// windows are the last 2 h, day and week.
const windows = 3

// hostMeans are the means of one host, with NaN where too little is known.
type hostMeans struct {
	host  string
	free  [windows]float64
	users []userMeans
}

type userMeans struct {
	name string
	held [windows]float64
	// lately is what is known of the last week, however little that is.
	lately float64
}

// maxRecentUsers is how many people's means come from one host: those who used it
// most. A node must not decide how many people the board knows.
const maxRecentUsers = 256

// meansAt are the means of a host up to a moment.
func (h *host) meansAt(now int64) hostMeans {
	w := h.week
	last := int(min(max(floorDiv(now, fiveMinutes)-w.five, 0), weekFives-1))
	end := int(min(max(floorDiv(now, hourMS)-w.hour, 0), weekHours-1))
	sums := func(s *series) [windows]float64 {
		return [windows]float64{
			sum(s.fives[max(0, last-23) : last+1]), sum(s.fives[max(0, last-287) : last+1]),
			sum(s.hours[max(0, end-167) : end+1]),
		}
	}
	known, free := sums(w.get(kindHost, 0, hProcCover)), sums(w.get(kindHost, 0, hFree))
	for i, length := range [windows]float64{2 * 3600, 24 * 3600, 7 * 24 * 3600} {
		if known[i] < minKnown*length {
			known[i] = math.NaN()
		}
	}
	m := hostMeans{host: h.name}
	for i := range free {
		m.free[i] = free[i] / known[i]
	}
	for key, s := range w.series {
		if key.kind != kindUser {
			continue
		}
		one := userMeans{name: h.users.name(key.id), held: sums(s), lately: sum(s.hours[:])}
		if one.name == "" || one.lately == 0 {
			continue
		}
		for i := range one.held {
			one.held[i] = one.held[i] / 10 / known[i]
		}
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

// addUp adds the means of all hosts up, in a fixed order, so that sums of fractions
// are the same every time.
func (r *Recent) addUp(hosts []hostMeans) {
	slices.SortFunc(hosts, func(a, b hostMeans) int { return strings.Compare(a.host, b.host) })
	var free [windows]float64
	var known [windows]bool
	users := map[string]*[windows]float64{}
	for _, h := range hosts {
		for i, v := range h.free {
			if !math.IsNaN(v) {
				free[i] += v
				known[i] = true
			}
		}
		for _, u := range h.users {
			if users[u.name] == nil {
				users[u.name] = &[windows]float64{}
			}
			for i, v := range u.held {
				if !math.IsNaN(v) {
					users[u.name][i] += v
				}
			}
		}
	}
	mean := func(i int, v float64) *float64 {
		if !known[i] {
			return nil
		}
		return &v
	}
	r.FreeMean2h, r.FreeMean24h, r.FreeMean1w = mean(0, free[0]), mean(1, free[1]), mean(2, free[2])
	for _, name := range slices.Sorted(maps.Keys(users)) {
		v := users[name]
		r.Users = append(r.Users, User{name, mean(0, v[0]), mean(1, v[1]), mean(2, v[2])})
	}
}
