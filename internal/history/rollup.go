package history

import (
	"cmp"
	"slices"
)

// How long a sample stands for what it saw. A gap is unknown, never idle: a
// sample counts until the next one, and at most 2.5 intervals, where the
// interval is the distance to its nearer neighbour (those further than maxHold
// are none), at most maxInterval; a sample alone counts as one of loneInterval.
// Each hour stands for itself: the last sample counts until its end at most, and the
// first one, if it comes within an interval, from its beginning on.
const (
	loneInterval = 20_000  // ms
	maxInterval  = 120_000 // ms
	maxHold      = 300_000 // ms; 2.5 * maxInterval
)

const (
	fiveMinutes = 300_000   // ms
	hourMS      = 3_600_000 // ms
	dayMS       = 24 * hourMS
	maxSlots    = 24 // of a frame
	fivesAnHour = 12
)

// interval is the distance of rs[i] to its nearer neighbour, and next that to the one after it, in ms.
func interval(rs []reading, i int) (interval, next int64) {
	interval, next = maxHold+1, maxHold+1
	if i+1 < len(rs) {
		next = rs[i+1].At - rs[i].At
		interval = next
	}
	if i > 0 {
		if d := rs[i].At - rs[i-1].At; d > 0 {
			interval = min(interval, d)
		}
	}
	if interval > maxHold {
		interval = loneInterval
	}
	return interval, next
}

// hold is how long rs[i] stands, in ms.
func hold(rs []reading, i int) int64 {
	interval, next := interval(rs, i)
	return min(next, min(interval, maxInterval)*5/2)
}

// The fields of a roll-up. Times are seconds, and what is multiplied by time is
// multiplied by seconds; while a bucket is being added up they are milliseconds.
// A sum is followed by the time for which it is known.
const (
	gKnown = iota
	gUtil
	gUtilKnown
	gMem
	gMemKnown
	gTemp
	gTempKnown
	gEnergy
	gPowerKnown
	gProcKnown
	gHeld
	gIdle
	gFields
)

const (
	uHeld   = iota // tenths of a second
	uUtil          // % * s
	uIdle          // tenths of a second
	uEnergy        // J
	uFields
)

const (
	hSamples   = iota
	hCover     // seconds that samples vouch for
	hProcCover // of these: with the processes known
	hFree      // GPU-seconds in which nobody held a GPU
	hFields
)

// The fields of the host's own readings. They are rows of a kind of their own, so that rows of earlier versions,
// which do not have them, read as unknown.
const (
	oLoad = iota
	oLoadKnown
	oMem
	oMemKnown
	oFields
)

// HostMemoryUnit is one unit of the memory of a host, in MiB, so that small changes take no room.
const HostMemoryUnit = 256

type gpuBucket struct {
	gpu uint32
	v   [gFields]int64
	// users holds microseconds by share of memory until the bucket is closed.
	users []userBucket
	// holder is the user with the largest share, 0 where that is nobody, or nobody who is known.
	holder uint32
}

type userBucket struct {
	user uint32
	v    [uFields]int64
}

type bucket struct {
	v     [hFields]int64
	own   [oFields]int64
	gpus  []gpuBucket
	users []userBucket
}

func (b *bucket) gpu(id uint32, hint int) *gpuBucket {
	if hint < len(b.gpus) && b.gpus[hint].gpu == id {
		return &b.gpus[hint]
	}
	i, found := slices.BinarySearchFunc(b.gpus, id, func(g gpuBucket, id uint32) int { return cmp.Compare(g.gpu, id) })
	if !found {
		b.gpus = slices.Insert(b.gpus, i, gpuBucket{gpu: id})
	}
	return &b.gpus[i]
}

func user(us *[]userBucket, id uint32) *userBucket {
	i, found := slices.BinarySearchFunc(*us, id, func(u userBucket, id uint32) int { return cmp.Compare(u.user, id) })
	if !found {
		*us = slices.Insert(*us, i, userBucket{user: id})
	}
	return &(*us)[i]
}

// fives adds sorted readings up into the fives numbered from lo up to and including hi. All
// sums are of integers, so that no order of adding changes them.
func (h *host) fives(rs []reading, lo, hi int64, idlePercent float64) []bucket {
	out := make([]bucket, hi-lo+1)
	for hour := floorDiv(lo, fivesAnHour); hour <= floorDiv(hi, fivesAnHour); hour++ {
		h.addHour(out, lo*fiveMinutes, between(rs, hour*hourMS, (hour+1)*hourMS), hour*hourMS)
	}
	for i := range out {
		out[i].close(h, idlePercent)
	}
	return out
}

// addHour adds the readings of an hour to fives, the first of which begins at the moment from.
func (h *host) addHour(out []bucket, from int64, rs []reading, hour int64) {
	to := from + int64(len(out))*fiveMinutes
	for i := range rs {
		r := &rs[i]
		start, end := r.At, min(r.At+hold(rs, i), hour+hourMS, to)
		if every, _ := interval(rs, i); i == 0 && start-hour <= every {
			start = hour
		}
		if r.At >= from && r.At < to {
			out[(r.At-from)/fiveMinutes].v[hSamples]++
		}
		for at := max(start, from); at < end; {
			slot := (at - from) / fiveMinutes
			stop := min(end, from+(slot+1)*fiveMinutes)
			out[slot].add(h, r, stop-at)
			at = stop
		}
	}
}

// add counts what r saw for ms milliseconds.
func (b *bucket) add(h *host, r *reading, ms int64) {
	if b.gpus == nil {
		b.gpus = make([]gpuBucket, 0, len(r.GPUs))
	}
	b.v[hCover] += ms
	for i, v := range r.Host {
		if v > 0 {
			b.own[2*i] += int64(v-1) * ms
			b.own[2*i+1] += ms
		}
	}
	procs := false
	for k := range r.GPUs {
		g := &r.GPUs[k]
		a := b.gpu(g.GPU, k)
		a.v[gKnown] += ms
		for i, sum := range [sFields]int{gUtil, gTemp, gMem, gEnergy} {
			if v := g.Values[i]; v >= 0 {
				a.v[sum] += int64(v) * ms
				a.v[sum+1] += ms
			}
		}
		if g.Users == nil {
			continue
		}
		a.v[gProcKnown] += ms
		if len(g.Users) > 0 {
			a.v[gHeld] += ms
			a.share(g, ms)
		}
		if h.isSlice(g.GPU) {
			continue
		}
		procs = true
		if len(g.Users) == 0 {
			b.v[hFree] += ms
		}
	}
	if procs {
		b.v[hProcCover] += ms
	}
}

// share divides a held GPU among those who hold it, by memory; equally when
// nobody's memory is known.
func (a *gpuBucket) share(g *gpuReading, ms int64) {
	var total int64
	for _, u := range g.Users {
		total += int64(u.Memory)
	}
	for _, u := range g.Users {
		us := ms * 1000
		if total > 0 {
			us = us * int64(u.Memory) / total
		} else {
			us /= int64(len(g.Users))
		}
		t := user(&a.users, u.User)
		t.v[uHeld] += us
		t.v[uUtil] += us * int64(max(g.Values[sUtil], 0))
		t.v[uEnergy] += us * int64(max(g.Values[sPower], 0))
	}
}

// close turns the sums into the units of the fields. Idleness is decided here,
// by the mean of the bucket: one sample is not idleness. Who holds a slice is counted
// with its GPU.
func (b *bucket) close(h *host, idlePercent float64) {
	for i := range b.gpus {
		g := &b.gpus[i]
		idle := g.v[gUtilKnown] > 0 && float64(g.v[gUtil]) < idlePercent*float64(g.v[gUtilKnown])
		if idle {
			g.v[gIdle] = g.v[gHeld]
		}
		g.holder = holderOf(g.users)
		for j := range g.users {
			if h.isSlice(g.gpu) {
				break
			}
			from := &g.users[j]
			if idle {
				from.v[uIdle] = from.v[uHeld]
			}
			to := user(&b.users, from.user)
			for f := range to.v {
				to.v[f] += from.v[f]
			}
		}
		g.users = nil
		toSeconds(g.v[:])
	}
	for i := range b.users {
		v := &b.users[i].v
		v[uHeld] = (v[uHeld] + 50_000) / 100_000
		v[uIdle] = (v[uIdle] + 50_000) / 100_000
		v[uUtil] = (v[uUtil] + 500_000) / 1_000_000
		v[uEnergy] = (v[uEnergy] + 500_000) / 1_000_000
	}
	toSeconds(b.own[:])
	toSeconds(b.v[hCover:]) // which hSamples precedes
	// A frame has no place for what rounds to nothing, though the GPUs of a
	// fraction of a second may add up to one.
	if b.nothing() {
		*b = bucket{}
	}
}

// toSeconds rounds milliseconds to seconds.
func toSeconds(fields []int64) {
	for f, v := range fields {
		fields[f] = (v + 500) / 1000
	}
}

// holderOf is the user with the largest share; of those with equal shares the last one, who is not the nameless one.
func holderOf(users []userBucket) (holder uint32) {
	most := int64(0)
	for i := range users {
		if held := users[i].v[uHeld]; held >= most {
			holder, most = users[i].user, held
		}
	}
	return holder
}

// nothing reports whether a closed bucket has neither a sample nor a second.
func (b *bucket) nothing() bool { return b.v[hCover] == 0 && b.v[hSamples] == 0 }
