package history

import (
	"context"
	"fmt"
	"time"
)

const (
	weekFives = (SparkSteps + 1) * 3
	weekHours = 7*24 + 1
)

// A week is the recent past of one host: the last day in buckets of five minutes
// and the last week in hours. It is kept in memory, and samples that come change
// the buckets that they touch.
type week struct {
	five   int64 // number since 1970 of the first bucket
	hour   int64 // and of the first hour
	lo, hi int64 // ms; what changed since the last refresh
	// proc and free are seconds of the host (hProcCover, hFree), and users what
	// each person held.
	proc, free series
	gpus       []weekGPU // by number
	users      map[uint32]*series
}

// A series is one sum in each bucket and in each hour of a week.
type series struct {
	fives [weekFives]int32
	hours [weekHours]int32
}

// set replaces the sum of a bucket and changes that of its hour.
func (s *series) set(five, hour int, v int64) {
	s.hours[hour] += int32(v) - s.fives[five]
	s.fives[five] = int32(v)
}

func (s *series) shift(fives, hours int) {
	move(s.fives[:], fives)
	move(s.hours[:], hours)
}

type weekGPU struct {
	util, known series // % multiplied by seconds, and seconds
	seen        bool
}

func (w *week) touch(from, to int64) {
	if w.lo > w.hi {
		w.lo, w.hi = from, to
		return
	}
	w.lo, w.hi = min(w.lo, from), max(w.hi, to)
}

func wantWeek(kind byte, f int) bool {
	switch kind {
	case kindHost:
		return f == hProcCover || f == hFree
	case kindGPU:
		return f == gUtil || f == gUtilKnown
	default:
		return f == uHeld
	}
}

// weekFrom are the first bucket and the first hour of the week up to a moment.
func weekFrom(now int64) (five, hour int64) {
	return (floorDiv(now, 3*fiveMinutes) - SparkSteps) * 3, floorDiv(now, hourMS) - weekHours + 1
}

// loadWeeks reads the week of those among the hosts, in order of their ids, whose
// week is not in memory, or cannot be brought up to date there.
func (s *Store) loadWeeks(ctx context.Context, q querier, hosts []*host, now int64) error {
	five, hour := weekFrom(now)
	var load []*host
	for _, h := range hosts {
		if w := h.week; w == nil || five < w.five || five-w.five > weekFives/2 ||
			w.lo <= w.hi && floorDiv(w.lo, fiveMinutes) < five {
			h.week = &week{five: five, hour: hour, users: map[uint32]*series{}}
			h.week.refreshed(h.lastAt)
			load = append(load, h)
		}
	}
	if len(load) == 0 {
		return nil
	}
	for day := floorDiv(hour, 24); day <= floorDiv(now+maxFuture.Milliseconds(), dayMS); day++ {
		err := s.tablesOf(ctx, q, load, day, day >= floorDiv(five, fivesADay), wantWeek, func(h *host, t table) {
			h.week.load(t)
		})
		if err != nil {
			for _, h := range load {
				h.week = nil
			}
			return fmt.Errorf("reading the week: %w", err)
		}
	}
	return nil
}

// refresh brings the week of a host up to date with the samples that came.
func (s *Store) refresh(ctx context.Context, q querier, h *host, now int64) error {
	five, hour := weekFrom(now)
	w := h.week
	w.shift(int(five-w.five), int(hour-w.hour))
	if w.lo > w.hi {
		return nil
	}
	lo, hi := floorDiv(w.lo, fiveMinutes), min(floorDiv(w.hi, fiveMinutes), w.five+weekFives-1)
	if lo > hi {
		return nil
	}
	h.reopen(lo*fiveMinutes - maxHold) // the next sample will need it again
	bs, err := s.buckets(ctx, q, h, lo, hi)
	if err != nil {
		return err
	}
	for i := range bs {
		w.replace(lo+int64(i), &bs[i])
	}
	w.refreshed(h.lastAt)
	return nil
}

// refreshed notes that everything is counted but what the newest sample stands for
// after the last bucket.
func (w *week) refreshed(lastAt int64) {
	w.lo, w.hi = (w.five+weekFives)*fiveMinutes, lastAt+maxHold
}

// shift moves the beginnings of the week on.
func (w *week) shift(fives, hours int) {
	if fives <= 0 && hours <= 0 {
		return
	}
	w.five += int64(fives)
	w.hour += int64(hours)
	w.proc.shift(fives, hours)
	w.free.shift(fives, hours)
	for i := range w.gpus {
		w.gpus[i].util.shift(fives, hours)
		w.gpus[i].known.shift(fives, hours)
	}
	for id, u := range w.users {
		if u.shift(fives, hours); sum(u.hours[:]) == 0 {
			delete(w.users, id)
		}
	}
}

func move[T any](s []T, n int) {
	n = min(n, len(s))
	copy(s, s[n:])
	clear(s[len(s)-n:])
}

func sum(list []int32) float64 {
	total := int64(0)
	for _, v := range list {
		total += int64(v)
	}
	return float64(total)
}

func (w *week) gpu(id uint32) *weekGPU {
	for int(id) >= len(w.gpus) {
		w.gpus = append(w.gpus, weekGPU{})
	}
	return &w.gpus[id]
}

func (w *week) user(id uint32) *series {
	if w.users[id] == nil {
		w.users[id] = &series{}
	}
	return w.users[id]
}

// load adds a table from disk; each slot comes once.
func (w *week) load(t table) {
	perHour := int(hourMS / t.width)
	hour := int(floorDiv(t.start, hourMS) - w.hour) // of slot 0
	five := weekFives                               // of slot 0; out of reach for hours
	if t.width == fiveMinutes {
		five = int(floorDiv(t.start, fiveMinutes) - w.five)
	}
	first := max(0, -hour*perHour)
	last := min(t.slots, (weekHours-hour)*perHour)
	if first >= last {
		return
	}
	count := func(col []int64, s *series) {
		for slot := first; slot < last && col != nil; slot++ {
			v := int32(col[slot])
			s.hours[hour+slot/perHour] += v
			if i := five + slot; i >= 0 && i < weekFives {
				s.fives[i] = v
			}
		}
	}
	for i := range t.rows {
		switch r := &t.rows[i]; r.kind {
		case kindHost:
			count(r.cols[hProcCover], &w.proc)
			count(r.cols[hFree], &w.free)
		case kindGPU:
			g := w.gpu(r.id)
			g.seen = true
			count(r.cols[gUtil], &g.util)
			count(r.cols[gUtilKnown], &g.known)
		case kindUser:
			if col := r.cols[uHeld]; col != nil && !allZero(col[first:last]) {
				count(col, w.user(r.id))
			}
		}
	}
}

// replace puts a bucket that was added up anew in place of the old one, in the
// hours too.
func (w *week) replace(n int64, b *bucket) {
	i, hour := int(n-w.five), int(floorDiv(n, fivesAnHour)-w.hour)
	if i < 0 || i >= weekFives || hour < 0 || hour >= weekHours {
		return
	}
	w.proc.set(i, hour, b.v[hProcCover])
	w.free.set(i, hour, b.v[hFree])
	for _, u := range w.users {
		u.set(i, hour, 0)
	}
	for j := range b.users {
		w.user(b.users[j].user).set(i, hour, b.users[j].v[uHeld])
	}
	for id := range w.gpus {
		w.gpus[id].util.set(i, hour, 0)
		w.gpus[id].known.set(i, hour, 0)
	}
	for j := range b.gpus {
		g := w.gpu(b.gpus[j].gpu)
		g.seen = true
		g.util.set(i, hour, b.gpus[j].v[gUtil])
		g.known.set(i, hour, b.gpus[j].v[gUtilKnown])
	}
}

// recent is what the board shows of a GPU.
func (w *week) recent(g *weekGPU, now time.Time, window time.Duration, threshold float64) GPU {
	out := GPU{Utilization: g.spark()}
	since := w.idleSince(g, int(floorDiv(now.UnixMilli(), fiveMinutes)-w.five), window, threshold)
	if at := time.UnixMilli(since).UTC(); since != 0 && now.Sub(at) >= window {
		out.IdleSince = at
	}
	return out
}

// spark is the mean utilization of each quarter of an hour.
func (g *weekGPU) spark() []*float64 {
	steps := make([]*float64, SparkSteps)
	var values [SparkSteps]float64
	for step := range steps {
		from, to := (step+1)*3, (step+2)*3
		if known := sum(g.known.fives[from:to]); known > 0 {
			values[step] = sum(g.util.fives[from:to]) / known
			steps[step] = &values[step]
		}
	}
	return steps
}

// idleSince walks back from the present, the slot last, over means of the idle
// window for as long as they are under the threshold. It knows five minutes of
// the last day, and hours of the last week.
func (w *week) idleSince(g *weekGPU, last int, window time.Duration, threshold float64) int64 {
	k := int((window.Milliseconds() + fiveMinutes - 1) / fiveMinutes)
	if k < 1 || last-k < 0 || last >= weekFives {
		return 0
	}
	utils, seconds := &g.util.fives, &g.known.fives
	var util, known float64
	for i := last - k; i <= last; i++ {
		util, known = util+float64(utils[i]), known+float64(seconds[i])
	}
	if known < 0.8*window.Seconds() || util >= threshold*known {
		return 0
	}
	first := last - k
	util, known = util-float64(utils[last]), known-float64(seconds[last])
	for first > 0 { // the window [first-1, first-1+k)
		util += float64(utils[first-1]) - float64(utils[first-1+k])
		known += float64(seconds[first-1]) - float64(seconds[first-1+k])
		if known < float64(k)*fiveMinutes/2000 || util >= threshold*known {
			break
		}
		first--
	}
	if first > 0 {
		for first < last && (seconds[first] == 0 || float64(utils[first]) >= threshold*float64(seconds[first])) {
			first++
		}
		return (w.five + int64(first)) * fiveMinutes
	}
	hour := int(floorDiv(w.five, fivesAnHour) - w.hour)
	for hour > 0 {
		known := g.known.hours[hour-1]
		if known < 1800 || float64(g.util.hours[hour-1]) >= threshold*float64(known) {
			break
		}
		hour--
	}
	return min((w.hour+int64(hour))*hourMS, w.five*fiveMinutes)
}
