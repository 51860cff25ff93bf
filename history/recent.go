package history

import (
	"context"
	"fmt"
	"sort"
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
// of them. It is kept in memory between calls, so that a call costs what is new.
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
	means := newMeans()
	err := s.view(ctx, "the board", func(q querier) error {
		hosts := make([]*host, 0, len(s.hosts))
		for _, h := range s.hosts {
			hosts = append(hosts, h)
		}
		sort.Slice(hosts, func(i, j int) bool { return hosts[i].name < hosts[j].name })
		if err := s.loadBoards(ctx, q, hosts, now.UnixMilli()); err != nil {
			return err
		}
		for _, h := range hosts {
			if err := s.refresh(ctx, q, h, now.UnixMilli()); err != nil {
				return fmt.Errorf("reading the week of %s: %w", h.name, err)
			}
			b := h.board
			for id := range b.gpus {
				key := Key{h.name, h.gpus.name(uint32(id))}
				if only != nil && !only[key] || b.gpus[id].empty() {
					continue
				}
				out.GPUs[key] = GPU{Utilization: b.spark(id), IdleSince: b.idleSince(id, now, idleWindow, idleThreshold)}
			}
			means.add(h, now.UnixMilli())
		}
		return nil
	})
	means.into(out)
	return out, err
}

// GPU is what is known of one GPU; the zero GPU when nothing is. It works on nil.
func (r *Recent) GPU(k Key) GPU {
	if r == nil {
		return GPU{}
	}
	return r.GPUs[k]
}

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
	perHour := hourMS / t.width
	for slot := range t.slots {
		n := floorDiv(t.start, t.width) + int64(slot)
		hour := floorDiv(n, perHour) - b.hour
		five := int64(-1)
		if t.width == fiveMinutes {
			five = n - b.five
		}
		for i := range t.rows {
			b.loadRow(&t.rows[i], slot, five, hour)
		}
	}
}

func (b *boardHost) loadRow(r *frameRow, slot int, five, hour int64) {
	inFive, inHour := five >= 0 && five < boardFives, hour >= 0 && hour < boardHours
	switch r.kind {
	case kindHost:
		proc, free := r.at(hProcCover, slot), r.at(hFree, slot)
		if inFive {
			b.proc[five], b.free[five] = uint16(proc), int32(free)
		}
		if inHour {
			b.hproc[hour] += int32(proc)
			b.hfree[hour] += int32(free)
		}
	case kindGPU:
		util, known := r.at(gUtil, slot), r.at(gUtilKnown, slot)
		g := b.gpu(r.id)
		g.stale = true
		g.some = g.some || inHour
		if inFive {
			g.util[five], g.known[five] = uint16(util), uint16(known)
		}
		if inHour {
			g.hutil[hour] += int32(util)
			g.hknown[hour] += int32(known)
		}
	case kindUser:
		if held := r.at(uHeld, slot); held != 0 {
			u := b.user(r.id)
			if inFive {
				u.held[five] = int32(held)
			}
			if inHour {
				u.hheld[hour] += int32(held)
			}
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

// means adds up the three windows over hosts.
type means struct {
	users map[string]*[3]float64
	free  [3]float64
	some  [3]bool
}

func newMeans() *means { return &means{users: map[string]*[3]float64{}} }

func (m *means) add(h *host, now int64) {
	b := h.board
	last := int(min(max(floorDiv(now, fiveMinutes)-b.five, 0), boardFives-1))
	hour := int(min(max(floorDiv(now, hourMS)-b.hour, 0), boardHours-1))
	fives := [2]int{max(last-23, 0), max(last-287, 0)}
	hours := max(hour-167, 0)
	length := [3]float64{2 * 3600, 24 * 3600, 7 * 24 * 3600}
	var proc, free [3]float64
	for w, from := range fives {
		for i := from; i <= last; i++ {
			proc[w] += float64(b.proc[i])
			free[w] += float64(b.free[i])
		}
	}
	for i := hours; i <= hour; i++ {
		proc[2] += float64(b.hproc[i])
		free[2] += float64(b.hfree[i])
	}
	for w := range proc {
		if proc[w] >= minKnown*length[w] {
			m.some[w] = true
			m.free[w] += free[w] / proc[w]
		}
	}
	for id, u := range b.users {
		name := h.users.name(id)
		if name == "" {
			continue
		}
		sums := m.users[name]
		if sums == nil {
			sums = &[3]float64{}
			m.users[name] = sums
		}
		var held [3]float64
		for w, from := range fives {
			for i := from; i <= last; i++ {
				held[w] += float64(u.held[i])
			}
		}
		for i := hours; i <= hour; i++ {
			held[2] += float64(u.hheld[i])
		}
		for w := range held {
			if proc[w] >= minKnown*length[w] {
				sums[w] += held[w] / 10 / proc[w]
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
