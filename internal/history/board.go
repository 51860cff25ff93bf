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
	five       int64 // number since 1970 of slot 0
	hour       int64
	lo, hi     int64 // ms; what changed since the last refresh
	proc, free tally
	gpus       []boardGPU // by number
	users      map[uint32]*tally
	means      *hostMeans // nil when they are to be worked out
}

// A tally is what one thing added up to.
type tally struct{ fives, hours runs }

// set replaces a five and returns what it was.
func (t *tally) set(five, hour int, v int64) (was int32) {
	if was = t.fives.set(five, int32(v)); int64(was) != v {
		t.hours.set(hour, t.hours.at(hour)+int32(v)-was)
	}
	return was
}

func (t *tally) shift(fives, hours int) {
	t.fives.drop(fives)
	t.hours.drop(hours)
}

type boardGPU struct {
	util  [boardFives]uint16
	hutil [boardHours]int32
	known tally
	some  bool
	stale bool       // what follows is of other numbers
	steps []*float64 // the spark, shared with callers and never changed
	five  int64      // of which the spark is
	idle  idleness
	shown GPU // as Recent last gave it
}

// An idleness is since when a GPU has been idle, ms, 0 for never, and what that
// was asked for.
type idleness struct {
	five      int64
	window    time.Duration
	threshold float64
	since     int64
}

func (g *boardGPU) empty() bool { return !g.some }

func (b *boardHost) touch(from, to int64) {
	if b.lo > b.hi {
		b.lo, b.hi = from, to
		return
	}
	b.lo, b.hi = min(b.lo, from), max(b.hi, to)
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

// loadBoards reads the week of those among the hosts, in order of their ids,
// whose board is not in memory, or cannot be brought up to date there.
func (s *Store) loadBoards(ctx context.Context, q querier, hosts []*host, now int64) error {
	five, hour := boardFrom(now)
	var load []*host
	for _, h := range hosts {
		if b := h.board; b == nil || five < b.five || five-b.five > boardFives/2 ||
			b.lo <= b.hi && floorDiv(b.lo, fiveMinutes) < five {
			h.board = &boardHost{five: five, hour: hour, users: map[uint32]*tally{}}
			h.board.settle(h.lastAt)
			load = append(load, h)
		}
	}
	if len(load) == 0 {
		return nil
	}
	for day := floorDiv(hour, 24); day <= floorDiv(now+maxFuture.Milliseconds(), dayMS); day++ {
		err := s.tablesOf(ctx, q, load, day, day >= floorDiv(five, fivesADay), boardWant, func(h *host, t table) {
			h.board.load(t)
		})
		if err != nil {
			for _, h := range load {
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
	lo, hi := floorDiv(b.lo, fiveMinutes), min(floorDiv(b.hi, fiveMinutes), b.five+boardFives-1)
	if lo > hi {
		return nil
	}
	h.reopen(lo*fiveMinutes - maxHold) // the next sample will need it again
	bs, err := s.buckets(ctx, q, h, lo, hi)
	if err != nil {
		return err
	}
	for i := range bs {
		b.replace(lo+int64(i), &bs[i])
	}
	b.means = nil
	b.settle(h.lastAt)
	return nil
}

// settle notes that all is counted but what the newest sample stands for after
// the last slot.
func (b *boardHost) settle(lastAt int64) {
	b.lo, b.hi = (b.five+boardFives)*fiveMinutes, lastAt+maxHold
}

// shift moves the windows on.
func (b *boardHost) shift(fives, hours int) {
	if fives <= 0 && hours <= 0 {
		return
	}
	b.five += int64(fives)
	b.hour += int64(hours)
	b.proc.shift(fives, hours)
	b.free.shift(fives, hours)
	for i := range b.gpus {
		g := &b.gpus[i]
		move(g.util[:], fives)
		move(g.hutil[:], hours)
		g.known.shift(fives, hours)
	}
	for id, u := range b.users {
		if u.shift(fives, hours); u.hours.sum(0, boardHours) == 0 {
			delete(b.users, id)
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

func (b *boardHost) user(id uint32) *tally {
	if b.users[id] == nil {
		b.users[id] = &tally{}
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
	each := func(col []int64, inFive, inHour func(i int, v int64)) {
		for slot := first; slot < last && col != nil; {
			sum, n := int64(0), slot/perHour
			for ; slot < last && slot/perHour == n; slot++ {
				v := col[slot]
				if sum += v; v != 0 && five+slot >= 0 && five+slot < boardFives {
					inFive(five+slot, v)
				}
			}
			if sum != 0 {
				inHour(hour+n, sum)
			}
		}
	}
	count := func(col []int64, t *tally) {
		each(col, func(i int, v int64) { t.fives.set(i, int32(v)) }, func(i int, v int64) { t.hours.set(i, int32(v)) })
	}
	for i := range t.rows {
		switch r := &t.rows[i]; r.kind {
		case kindHost:
			count(r.cols[hProcCover], &b.proc)
			count(r.cols[hFree], &b.free)
		case kindGPU:
			g := b.gpu(r.id)
			g.stale, g.some = true, g.some || first < last
			each(r.cols[gUtil], func(i int, v int64) { g.util[i] = uint16(v) }, func(i int, v int64) { g.hutil[i] = int32(v) })
			count(r.cols[gUtilKnown], &g.known)
		case kindUser:
			if col := r.cols[uHeld]; col != nil && first < last && !allZero(col[first:last]) {
				count(col, b.user(r.id))
			}
		}
	}
}

// replace puts a five that was added up anew in place of the old one, in the
// hours too.
func (b *boardHost) replace(n int64, x *bucket) {
	i, hour := int(n-b.five), int(floorDiv(n, fivesAnHour)-b.hour)
	if i < 0 || i >= boardFives || hour < 0 || hour >= boardHours {
		return
	}
	b.proc.set(i, hour, x.v[hProcCover])
	b.free.set(i, hour, x.v[hFree])
	for id, u := range b.users {
		if !x.has(id) {
			u.set(i, hour, 0)
		}
	}
	for j := range x.users {
		b.user(x.users[j].user).set(i, hour, x.users[j].v[uHeld])
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
		was := g.known.set(i, hour, known)
		if g.util[i] != uint16(util) || int64(was) != known {
			g.hutil[hour] += int32(util) - int32(g.util[i])
			g.util[i], g.stale = uint16(util), true
		}
	}
}

// has reports whether a user held anything.
func (b *bucket) has(id uint32) bool {
	for i := range b.users {
		if b.users[i].user == id {
			return true
		}
	}
	return false
}

// recent is what is known of a GPU. Both halves are kept until the numbers
// behind them are others.
func (b *boardHost) recent(id int, now time.Time, window time.Duration, threshold float64) GPU {
	g := &b.gpus[id]
	five := floorDiv(now.UnixMilli(), fiveMinutes)
	asked := idleness{five: five, window: window, threshold: threshold, since: g.idle.since}
	if g.steps == nil || g.stale || g.five != b.five || g.idle != asked {
		var known [boardFives]int32
		g.known.fives.into(known[:])
		if g.steps == nil || g.stale || g.five != b.five {
			g.spark(b.five, &known)
		}
		asked.since = b.idleSince(g, &known, int(five-b.five), window, threshold)
		g.idle, g.stale = asked, false
	}
	out := GPU{Utilization: g.steps}
	if since := time.UnixMilli(g.idle.since).UTC(); g.idle.since != 0 && now.Sub(since) >= window {
		out.IdleSince = since
	}
	return out
}

// spark makes the 96 steps; a list that was handed out is never changed. What is
// in both lists is the same number, and those that are new lie in one piece.
func (g *boardGPU) spark(five int64, seconds *[boardFives]int32) {
	steps := make([]*float64, SparkSteps)
	moved := int(five-g.five) / 3
	var fresh [SparkSteps]float64
	var at [SparkSteps]int8 // which of them a step is, from 1
	n := int8(0)
	for q := range steps {
		var util, known int
		for i := (q + 1) * 3; i < (q+2)*3; i++ {
			util, known = util+int(g.util[i]), known+int(seconds[i])
		}
		if known == 0 {
			continue
		}
		v := float64(util) / float64(known)
		switch o := q + moved; {
		case g.steps != nil && o >= 0 && o < SparkSteps && g.steps[o] != nil && *g.steps[o] == v:
			steps[q] = g.steps[o]
		case n > 0 && fresh[n-1] == v:
			at[q] = n
		default:
			fresh[n] = v
			n++
			at[q] = n
		}
	}
	list := append([]float64(nil), fresh[:n]...)
	for q, k := range at {
		if k > 0 {
			steps[q] = &list[k-1]
		}
	}
	g.steps, g.five = steps, five
}

// idleSince walks back from the present, the slot last, over means of the idle
// window for as long as they are under the threshold. It knows five minutes of
// the last day, and hours of the last week.
func (b *boardHost) idleSince(g *boardGPU, seconds *[boardFives]int32, last int, window time.Duration, threshold float64) int64 {
	k := int((window.Milliseconds() + fiveMinutes - 1) / fiveMinutes)
	if k < 1 || last-k < 0 || last >= boardFives {
		return 0
	}
	var util, known float64
	for i := last - k; i <= last; i++ {
		util, known = util+float64(g.util[i]), known+float64(seconds[i])
	}
	if known < 0.8*window.Seconds() || util >= threshold*known {
		return 0
	}
	first := last - k
	util, known = util-float64(g.util[last]), known-float64(seconds[last])
	for first > 0 { // the window [first-1, first-1+k)
		util += float64(g.util[first-1]) - float64(g.util[first-1+k])
		known += float64(seconds[first-1]) - float64(seconds[first-1+k])
		if known < float64(k)*fiveMinutes/2000 || util >= threshold*known {
			break
		}
		first--
	}
	if first > 0 {
		for first < last && (seconds[first] == 0 || float64(g.util[first]) >= threshold*float64(seconds[first])) {
			first++
		}
		return (b.five + int64(first)) * fiveMinutes
	}
	hour := int(floorDiv(b.five, fivesAnHour) - b.hour)
	for hour > 0 {
		known := g.known.hours.at(hour - 1)
		if known < 1800 || float64(g.hutil[hour-1]) >= threshold*float64(known) {
			break
		}
		hour--
	}
	return min((b.hour+int64(hour))*hourMS, b.five*fiveMinutes)
}
