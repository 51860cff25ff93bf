package history

import (
	"context"
	"fmt"
	"time"
)

// A week has room for a quarter and an hour after the present, because nodes' clocks may be ahead.
const (
	weekFives = (SparkSteps + 2) * 3
	weekHours = 7*24 + 2
)

// A week is the recent past of one host: the last day in fives and the last week in hours. Those that are written are
// read, and those that are still open are added.
type week struct {
	five   int64 // number since 1970 of the first five
	hour   int64 // and of the first hour
	series map[weekKey]*series
	// open is the fives that are not closed, as far as they are counted.
	open table
}

// A weekKey is one field of a roll-up: of the host, of a GPU, of a user, or who held a GPU in the fives that are written.
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

func wantWeek() wanted {
	return wanted{kindHost: 1<<hProcCover | 1<<hFree, kindGPU: 1<<gUtil | 1<<gUtilKnown, kindUser: 1 << uHeld,
		kindHolder: 1}
}

// weekFrom are the first bucket and the first hour of the week up to a moment.
func weekFrom(now int64) (five, hour int64) {
	return (floorDiv(now, 3*fiveMinutes) - SparkSteps) * 3, floorDiv(now, hourMS) - 7*24
}

// loadWeeks brings the weeks of hosts, in order of their ids, up to a moment, and reads those that are not in memory.
func (s *Store) loadWeeks(ctx context.Context, q querier, hosts []*host, now int64) error {
	five, hour := weekFrom(now)
	var load []*host
	for _, h := range hosts {
		if w := h.week; w == nil || w.five != five || w.hour != hour {
			h.week = &week{
				five: five, hour: hour, series: map[weekKey]*series{}, open: table{frame: &frame{}},
			}
			load = append(load, h)
		}
	}
	last := floorDiv(now+maxFuture.Milliseconds(), hourMS)
	visit := func(h *host, t table) { h.week.add(t, 1, false) }
	err := s.days(ctx, q, load, floorDiv(hour, 24), floorDiv(last, 24), false, wantWeek(), visit)
	if err == nil {
		err = s.hours(ctx, q, load, floorDiv(five, fivesAnHour), last, wantWeek(), visit)
	}
	if err != nil {
		for _, h := range load {
			h.week = nil
		}
		return fmt.Errorf("reading the week: %w", err)
	}
	for _, h := range hosts {
		h.week.add(h.week.open, -1, true)
		h.week.open = h.open(s.opts.IdlePercent)
		h.week.add(h.week.open, 1, true)
	}
	return nil
}

func sum(list []int32) float64 {
	total := int64(0)
	for _, v := range list {
		total += int64(v)
	}
	return float64(total)
}

// add adds a table, or takes it away. Fives that are open have no hours of their own, and who holds a GPU in them may
// change.
func (w *week) add(t table, sign int32, open bool) {
	want := wantWeek()
	for i := range t.rows {
		r := &t.rows[i]
		fields := want[r.kind]
		if open && r.kind == kindHolder {
			continue
		}
		for field, col := range r.cols {
			if fields>>field&1 == 0 || r.kind == kindUser && (col == nil || allZero(col)) {
				continue
			}
			s := w.get(r.kind, r.id, field)
			for slot, v := range col {
				at := t.start + int64(slot)*t.width
				if t.width == fiveMinutes {
					addAt(s.fives[:], floorDiv(at, fiveMinutes)-w.five, sign*int32(v))
				}
				if t.width == hourMS || open {
					addAt(s.hours[:], floorDiv(at, hourMS)-w.hour, sign*int32(v))
				}
			}
		}
	}
}

// addAt adds to a number of a list, if it has that many.
func addAt(list []int32, i int64, v int32) {
	if i >= 0 && i < int64(len(list)) {
		list[i] += v
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

// knownHour is how many seconds of an hour are known at least if no five minutes of it are a gap.
const knownHour = (hourMS - fiveMinutes) / 1000

// idleSince walks back from the present, the slot last, over means of the idle
// window for as long as they are under the threshold. It knows five minutes of
// the last day, and hours of the last week. It goes back no further than a gap:
// what was used in five minutes of which nothing is known, nobody knows.
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
	for i := last - 1; i >= first; i-- {
		if seconds[i] == 0 {
			return (w.five + int64(i+1)) * fiveMinutes
		}
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
		if known < knownHour || float64(g.util.hours[hour-1]) >= threshold*float64(known) {
			break
		}
		hour--
	}
	return min((w.hour+int64(hour))*hourMS, w.five*fiveMinutes)
}
