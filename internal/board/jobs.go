package board

import (
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// Jobs returns what others run on the GPUs of a booking, one for each person and
// GPU. Mine reports whether a name is that of the person who books. A GPU of which
// nobody knows whether it is in use counts, too.
func (b *Board) Jobs(of booking.Booking, mine func(string) bool) []booking.Job {
	var jobs []booking.Job
	for i := range b.Hosts {
		h := &b.Hosts[i]
		if h.Name != of.Host {
			continue
		}
		for g := range h.Units() {
			if g.CoveredBy(of.Target) {
				jobs = append(jobs, jobsOn(h, g, mine)...)
			}
		}
	}
	return jobs
}

func jobsOn(h *Host, g *GPU, mine func(string) bool) []booking.Job {
	place := Unit{h, g}.String()
	switch g.State {
	case Unknown:
		return []booking.Job{{Place: place, Unknown: true}}
	case Busy, InUse, Contested:
	default:
		return nil
	}
	var jobs []booking.Job
	own := false
	at := map[snapshot.Owner]int{}
	for _, p := range g.Computing() {
		if p.Of(mine) {
			own = true
			continue
		}
		who := p.Owner()
		n, known := at[who]
		if !known {
			n = len(jobs)
			at[who] = n
			jobs = append(jobs, booking.Job{Place: place, Who: who, Program: p.Program, PID: p.PID})
		}
		j := &jobs[n]
		if p.UsedMemory != nil {
			j.Memory += *p.UsedMemory
		}
		if p.StartedAt != nil && (j.Since.IsZero() || p.StartedAt.Before(j.Since)) {
			j.Since = p.StartedAt.Time
		}
	}
	if len(jobs) == 0 && !own && !(g.State == InUse && g.Booking != nil && mine(g.Booking.Name)) {
		jobs = append(jobs, booking.Job{Place: place})
	}
	return jobs
}
