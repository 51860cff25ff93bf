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
	series map[weekKey]*series
}

// A weekKey is one field of a roll-up: of the host, of a GPU, or of a user.
type weekKey struct {
	kind  byte
	id    uint32
	field int
}

// A series is one sum in each bucket and in each hour of a week.
type series struct {
	fives [weekFives]int32
	hours [weekHours]int32
}

// get is a field of the week, which is made where there is none.
func (w *week) get(kind byte, id uint32, field int) *series {
	key := weekKey{kind, id, field}
	if w.series[key] == nil {
		w.series[key] = &series{}
	}
	return w.series[key]
}

// set replaces the sum of a bucket and changes that of its hour.
func (s *series) set(five, hour int, v int64) {
	s.hours[hour] += int32(v) - s.fives[five]
	s.fives[five] = int32(v)
}

// touch notes that the time up to to changed.
func (w *week) touch(from, to int64) {
	if w.lo > w.hi {
		w.lo, w.hi = from, to
		return
	}
	w.lo, w.hi = min(w.lo, from), max(w.hi, to)
}

func wantWeek() wanted {
	return wanted{kindHost: 1<<hProcCover | 1<<hFree, kindGPU: 1<<gUtil | 1<<gUtilKnown, kindUser: 1 << uHeld}
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
			h.week = &week{five: five, hour: hour, series: map[weekKey]*series{}}
			h.week.refreshed(h.lastAt)
			load = append(load, h)
		}
	}
	if len(load) == 0 {
		return nil
	}
	for day := floorDiv(hour, 24); day <= floorDiv(now+maxFuture.Milliseconds(), dayMS); day++ {
		err := s.tablesOf(ctx, q, load, day, day >= floorDiv(five, fivesADay), wantWeek(), func(h *host, t table) {
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

// shift moves the beginnings of the week on, and forgets people who held nothing since.
func (w *week) shift(fives, hours int) {
	if fives <= 0 && hours <= 0 {
		return
	}
	w.five += int64(fives)
	w.hour += int64(hours)
	for key, s := range w.series {
		move(s.fives[:], fives)
		move(s.hours[:], hours)
		if key.kind == kindUser && sum(s.hours[:]) == 0 {
			delete(w.series, key)
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
	want := wantWeek()
	for i := range t.rows {
		r := &t.rows[i]
		for field, col := range r.cols {
			if !want.has(r.kind, field) || r.kind == kindUser && (col == nil || allZero(col[first:last])) {
				continue
			}
			s := w.get(r.kind, r.id, field)
			for slot := first; slot < last && col != nil; slot++ {
				v := int32(col[slot])
				s.hours[hour+slot/perHour] += v
				if i := five + slot; i >= 0 && i < weekFives {
					s.fives[i] = v
				}
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
	for _, s := range w.series {
		s.set(i, hour, 0)
	}
	for _, field := range []int{hProcCover, hFree} {
		w.get(kindHost, 0, field).set(i, hour, b.v[field])
	}
	for j := range b.users {
		w.get(kindUser, b.users[j].user, uHeld).set(i, hour, b.users[j].v[uHeld])
	}
	for j := range b.gpus {
		for _, field := range []int{gUtil, gUtilKnown} {
			w.get(kindGPU, b.gpus[j].gpu, field).set(i, hour, b.gpus[j].v[field])
		}
	}
}

// A weekGPU is the utilization of a GPU in a week: % multiplied by seconds, and seconds.
type weekGPU struct{ util, known *series }

// recent is what the board shows of a GPU.
func (w *week) recent(gpu uint32, now time.Time, window time.Duration, threshold float64) GPU {
	g := weekGPU{w.get(kindGPU, gpu, gUtil), w.get(kindGPU, gpu, gUtilKnown)}
	out := GPU{Utilization: g.spark()}
	since := w.idleSince(g, int(floorDiv(now.UnixMilli(), fiveMinutes)-w.five), window, threshold)
	if at := time.UnixMilli(since).UTC(); since != 0 && now.Sub(at) >= window {
		out.IdleSince = at
	}
	return out
}

// spark is the mean utilization of each quarter of an hour.
func (g weekGPU) spark() []*float64 {
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
func (w *week) idleSince(g weekGPU, last int, window time.Duration, threshold float64) int64 {
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
