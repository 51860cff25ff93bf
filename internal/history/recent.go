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

// Recent sums up the recent past as of now. The store keeps the week of each host until a five is closed, or a
// quarter of an hour begins; with [Options].Once it does not.
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
		sums := meanSums{users: map[string]*[windows]float64{}}
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
				sums.add(h, now.UnixMilli())
				if s.opts.Once {
					h.week = nil
				}
			}
		}
		sums.fill(out)
		return nil
	})
	return out, err
}

// holders is who held a GPU in most of the fives of each step, of two the later one. A five that is written already
// stands before one of another boot that is still open.
func (h *host) holders(gpu uint32) []string {
	w := h.week
	var fives [weekFives]uint32
	if row, found := w.open.find(kindHolder, gpu); found {
		for slot := range w.open.slots {
			if at := w.open.start/fiveMinutes - w.five + int64(slot); 0 <= at && at < weekFives {
				fives[at] = uint32(w.open.rows[row].at(0, slot))
			}
		}
	}
	if written := w.series[weekKey{kindHolder, gpu, 0}]; written != nil {
		for at, user := range written.fives {
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

// meanSums are the means of hosts added up: a window counts where it is known of a host.
type meanSums struct {
	free  [windows]float64
	known [windows]bool
	users map[string]*[windows]float64
}

// userSums is how long somebody held GPUs of one host.
type userSums struct {
	name string
	held [windows]float64
	// lately is what is known of the last week, however little that is.
	lately float64
}

// maxRecentUsers is how many people's means come from one host: those who used it
// most. A node must not decide how many people the board knows.
const maxRecentUsers = 256

// add adds the means of a host up to a moment.
func (m *meanSums) add(h *host, now int64) {
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
			known[i] = math.Inf(1) // what people held, divided by it, adds nothing
			continue
		}
		m.known[i] = true
		m.free[i] += free[i] / known[i]
	}
	var users []userSums
	for key, s := range w.series {
		if key.kind != kindUser {
			continue
		}
		one := userSums{name: h.users.name(key.id), held: sums(s), lately: sum(s.hours[:])}
		if one.name != "" && one.lately != 0 {
			users = append(users, one)
		}
	}
	slices.SortFunc(users, func(a, b userSums) int {
		return cmp.Or(cmp.Compare(b.lately, a.lately), strings.Compare(a.name, b.name))
	})
	for _, u := range users[:min(len(users), maxRecentUsers)] {
		if m.users[u.name] == nil {
			m.users[u.name] = &[windows]float64{}
		}
		for i, held := range u.held {
			m.users[u.name][i] += held / 10 / known[i]
		}
	}
}

// fill gives the recent past what was added up.
func (m *meanSums) fill(r *Recent) {
	mean := func(i int, v float64) *float64 {
		if !m.known[i] {
			return nil
		}
		return &v
	}
	r.FreeMean2h, r.FreeMean24h, r.FreeMean1w = mean(0, m.free[0]), mean(1, m.free[1]), mean(2, m.free[2])
	for _, name := range slices.Sorted(maps.Keys(m.users)) {
		v := m.users[name]
		r.Users = append(r.Users, User{name, mean(0, v[0]), mean(1, v[1]), mean(2, v[2])})
	}
}
