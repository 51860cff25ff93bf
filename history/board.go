package history

import (
	"context"
	"fmt"
	"time"
)

const (
	boardFives = (SparkSteps + 1) * 3
	boardHours = 7*24 + 1
)

// A boardHost is the last day in fives and the last week in hours of one host.
type boardHost struct {
	five int64 // number since 1970 of slot 0
	hour int64
	// What was touched since the last refresh, ms.
	lo, hi int64
	proc   [boardFives]uint16
	free   [boardFives]int32
	hproc  [boardHours]int32
	hfree  [boardHours]int32
	gpus   []boardGPU // by number
	users  map[uint32]*boardUser
}

type boardGPU struct {
	util, known   [boardFives]uint16
	hutil, hknown [boardHours]int32
	steps         []*float64 // the spark, shared with callers and never changed
	stepsFrom     int64
	stale         bool
	some          bool
}

type boardUser struct {
	held  [boardFives]int32
	hheld [boardHours]int32
}

func (g *boardGPU) empty() bool { return !g.some }

func (b *boardHost) touch(at int64) {
	if b.lo > b.hi {
		b.lo, b.hi = at, at
		return
	}
	b.lo, b.hi = min(b.lo, at), max(b.hi, at)
}

func boardWant(kind byte, f int) bool {
	switch kind {
	case kindHost:
		return f == hProcCover || f == hFree
	case kindGPU:
		return f == gUtil || f == gUtilKnown
	default:
		return f == uHeld
	}
}

// boardFrom are the first five and the first hour that the board shows at a moment.
func boardFrom(now int64) (five, hour int64) {
	return (floorDiv(now, 3*fiveMinutes) - SparkSteps) * 3, floorDiv(now, hourMS) - boardHours + 1
}

// loadBoards reads the week of the hosts whose board is not in memory, or
// cannot be brought up to date there.
func (s *Store) loadBoards(ctx context.Context, q querier, hosts []*host, now int64) error {
	five, hour := boardFrom(now)
	load := map[*host]bool{}
	for _, h := range hosts {
		if b := h.board; b == nil || five < b.five || five-b.five > boardFives/2 ||
			b.lo <= b.hi && floorDiv(b.lo-maxHold, fiveMinutes) < five {
			h.board = &boardHost{five: five, hour: hour, lo: 1, users: map[uint32]*boardUser{}}
			load[h] = true
		}
	}
	if len(load) == 0 {
		return nil
	}
	only := (*host)(nil)
	if len(load) == 1 {
		for only = range load {
		}
	}
	for day := floorDiv(hour, 24); day <= floorDiv(now+maxFuture.Milliseconds(), dayMS); day++ {
		err := s.tablesOf(ctx, q, only, day, day >= floorDiv(five, fivesADay), boardWant, func(h *host, t table) {
			if load[h] {
				h.board.load(t)
			}
		})
		if err != nil {
			for h := range load {
				h.board = nil
			}
			return fmt.Errorf("reading the week: %w", err)
		}
	}
	return nil
}

// refresh brings the board of a host up to date with what was touched.
func (s *Store) refresh(ctx context.Context, q querier, h *host, now int64) error {
	five, hour := boardFrom(now)
	b := h.board
	b.shift(int(five-b.five), int(hour-b.hour))
	if b.lo > b.hi {
		return nil
	}
	lo, hi := floorDiv(b.lo-maxHold, fiveMinutes), floorDiv(b.hi+2*maxHold, fiveMinutes)
	hi = min(hi, b.five+boardFives-1)
	if lo > hi {
		return nil
	}
	bs, err := s.buckets(ctx, q, h, lo, hi)
	if err != nil {
		return err
	}
	for i := range bs {
		b.replace(lo+int64(i), &bs[i])
	}
	// What lies after the last slot is touched still.
	b.lo, b.hi = 1, 0
	if h.lastAt+2*maxHold >= (b.five+boardFives)*fiveMinutes {
		b.touch(h.lastAt)
	}
	return nil
}

// shift moves the windows on.
func (b *boardHost) shift(fives, hours int) {
	if fives > 0 {
		b.five += int64(fives)
		move(b.proc[:], fives)
		move(b.free[:], fives)
	}
	if hours > 0 {
		b.hour += int64(hours)
		move(b.hproc[:], hours)
		move(b.hfree[:], hours)
	}
	for i := range b.gpus {
		g := &b.gpus[i]
		if fives > 0 {
			move(g.util[:], fives)
			move(g.known[:], fives)
		}
		if hours > 0 {
			move(g.hutil[:], hours)
			move(g.hknown[:], hours)
		}
	}
	for id, u := range b.users {
		if fives > 0 {
			move(u.held[:], fives)
		}
		if hours > 0 {
			move(u.hheld[:], hours)
			if u.hheld == ([boardHours]int32{}) {
				delete(b.users, id)
			}
		}
	}
}

func move[T any](s []T, n int) {
	n = min(n, len(s))
	copy(s, s[n:])
	clear(s[len(s)-n:])
}

func (b *boardHost) gpu(id uint32) *boardGPU {
	for int(id) >= len(b.gpus) {
		b.gpus = append(b.gpus, boardGPU{})
	}
	return &b.gpus[id]
}

func (b *boardHost) user(id uint32) *boardUser {
	if b.users[id] == nil {
		b.users[id] = &boardUser{}
	}
	return b.users[id]
}

// load adds a table from disk; each slot comes once.
func (b *boardHost) load(t table) {
	perHour := int(hourMS / t.width)
	hour := int(floorDiv(t.start, hourMS) - b.hour) // of slot 0
	five := boardFives                              // of slot 0; out of reach for hours
	if t.width == fiveMinutes {
		five = int(floorDiv(t.start, fiveMinutes) - b.five)
	}
	first := max(0, -hour*perHour)
	last := min(t.slots, (boardHours-hour)*perHour)
	each := func(col []int64, do func(v int64, five, hour int)) {
		if col == nil {
			return
		}
		for slot := first; slot < last; slot++ {
			if v := col[slot]; v != 0 {
				do(v, five+slot, hour+slot/perHour)
			}
		}
	}
	inFives := func(i int) bool { return i >= 0 && i < boardFives }
	for i := range t.rows {
		switch r := &t.rows[i]; r.kind {
		case kindHost:
			each(r.cols[hProcCover], func(v int64, five, hour int) {
				b.hproc[hour] += int32(v)
				if inFives(five) {
					b.proc[five] = uint16(v)
				}
			})
			each(r.cols[hFree], func(v int64, five, hour int) {
				b.hfree[hour] += int32(v)
				if inFives(five) {
					b.free[five] = int32(v)
				}
			})
		case kindGPU:
			g := b.gpu(r.id)
			g.stale, g.some = true, g.some || first < last
			each(r.cols[gUtil], func(v int64, five, hour int) {
				g.hutil[hour] += int32(v)
				if inFives(five) {
					g.util[five] = uint16(v)
				}
			})
			each(r.cols[gUtilKnown], func(v int64, five, hour int) {
				g.hknown[hour] += int32(v)
				if inFives(five) {
					g.known[five] = uint16(v)
				}
			})
		case kindUser:
			each(r.cols[uHeld], func(v int64, five, hour int) {
				u := b.user(r.id)
				u.hheld[hour] += int32(v)
				if inFives(five) {
					u.held[five] = int32(v)
				}
			})
		}
	}
}

// replace puts a five that was added up anew in place of the old one, in the
// hours too.
func (b *boardHost) replace(n int64, x *bucket) {
	i, hour := n-b.five, floorDiv(n, fivesAnHour)-b.hour
	if i < 0 || i >= boardFives || hour < 0 || hour >= boardHours {
		return
	}
	b.hproc[hour] += int32(x.v[hProcCover]) - int32(b.proc[i])
	b.hfree[hour] += int32(x.v[hFree]) - b.free[i]
	b.proc[i], b.free[i] = uint16(x.v[hProcCover]), int32(x.v[hFree])
	for _, u := range b.users {
		u.hheld[hour] -= u.held[i]
		u.held[i] = 0
	}
	for j := range x.users {
		u := b.user(x.users[j].user)
		u.held[i] = int32(x.users[j].v[uHeld])
		u.hheld[hour] += u.held[i]
	}
	for j := range x.gpus {
		b.gpu(x.gpus[j].gpu).some = true
	}
	k := 0
	for id := range b.gpus {
		g := &b.gpus[id]
		var util, known int64
		for k < len(x.gpus) && int(x.gpus[k].gpu) < id {
			k++
		}
		if k < len(x.gpus) && int(x.gpus[k].gpu) == id {
			util, known = x.gpus[k].v[gUtil], x.gpus[k].v[gUtilKnown]
		}
		g.hutil[hour] += int32(util) - int32(g.util[i])
		g.hknown[hour] += int32(known) - int32(g.known[i])
		if g.util[i] != uint16(util) || g.known[i] != uint16(known) {
			g.util[i], g.known[i], g.stale = uint16(util), uint16(known), true
		}
	}
}

// spark returns the 96 steps; a list that was handed out is never changed.
func (b *boardHost) spark(id int) []*float64 {
	g := &b.gpus[id]
	if g.steps != nil && !g.stale && g.stepsFrom == b.five {
		return g.steps
	}
	steps := make([]*float64, SparkSteps)
	moved := int(b.five-g.stepsFrom) / 3
	for q := range steps {
		var util, known int
		for i := (q + 1) * 3; i < (q+2)*3; i++ {
			util, known = util+int(g.util[i]), known+int(g.known[i])
		}
		if known == 0 {
			continue
		}
		v := float64(util) / float64(known)
		if o := q + moved; g.steps != nil && o >= 0 && o < SparkSteps && g.steps[o] != nil && *g.steps[o] == v {
			steps[q] = g.steps[o]
			continue
		}
		steps[q] = &v
	}
	g.steps, g.stepsFrom, g.stale = steps, b.five, false
	return steps
}

// idleSince walks back from now over means of the idle window for as long as
// they are under the threshold. It knows five minutes of the last day, and
// hours of the last week.
func (b *boardHost) idleSince(id int, now time.Time, window time.Duration, threshold float64) time.Time {
	g := &b.gpus[id]
	k := int((window.Milliseconds() + fiveMinutes - 1) / fiveMinutes)
	last := int(floorDiv(now.UnixMilli(), fiveMinutes) - b.five)
	if k < 1 || last-k < 0 || last >= boardFives {
		return time.Time{}
	}
	var util, known float64
	for i := last - k; i <= last; i++ {
		util, known = util+float64(g.util[i]), known+float64(g.known[i])
	}
	if known < 0.8*window.Seconds() || util >= threshold*known {
		return time.Time{}
	}
	first := last - k
	util, known = util-float64(g.util[last]), known-float64(g.known[last])
	for first > 0 { // the window [first-1, first-1+k)
		util += float64(g.util[first-1]) - float64(g.util[first-1+k])
		known += float64(g.known[first-1]) - float64(g.known[first-1+k])
		if known < float64(k)*fiveMinutes/2000 || util >= threshold*known {
			break
		}
		first--
	}
	if first > 0 {
		for first < last && (g.known[first] == 0 || float64(g.util[first]) >= threshold*float64(g.known[first])) {
			first++
		}
		start := time.UnixMilli((b.five + int64(first)) * fiveMinutes).UTC()
		if now.Sub(start) < window {
			return time.Time{}
		}
		return start
	}
	hour := floorDiv(b.five, fivesAnHour) - b.hour
	for hour > 0 && g.hknown[hour-1] >= 1800 && float64(g.hutil[hour-1]) < threshold*float64(g.hknown[hour-1]) {
		hour--
	}
	return time.UnixMilli(min((b.hour+hour)*hourMS, b.five*fiveMinutes)).UTC()
}
