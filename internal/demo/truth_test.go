package demo

import (
	"slices"
	"time"
)

// meanUsed returns the mean number of GPUs that each person used within a span.
// A GPU that several share at a moment counts for each by share of their memory.
func (f *Fleet) meanUsed(from, until time.Time) map[string]float64 {
	uses := f.Truth(from, until)
	mean := map[string]float64{}
	for start := 0; start < len(uses); {
		end := start + 1
		for end < len(uses) && uses[end].Host == uses[start].Host && uses[end].GPU == uses[start].GPU {
			end++
		}
		addShares(mean, uses[start:end])
		start = end
	}
	for user := range mean {
		mean[user] /= until.Sub(from).Seconds()
	}
	return mean
}

// addShares adds, for each user of one GPU, the seconds times the share.
func addShares(sum map[string]float64, uses []Use) {
	var edges []time.Time
	for _, u := range uses {
		edges = append(edges, u.From, u.Until)
	}
	slices.SortFunc(edges, time.Time.Compare)
	for i := 1; i < len(edges); i++ {
		a, b := edges[i-1], edges[i]
		total := int64(0)
		for _, u := range uses {
			if !u.From.After(a) && !u.Until.Before(b) {
				total += u.Memory
			}
		}
		for _, u := range uses {
			if !u.From.After(a) && !u.Until.Before(b) && total > 0 {
				sum[u.User] += b.Sub(a).Seconds() * float64(u.Memory) / float64(total)
			}
		}
	}
}

// Utilization returns what a GPU does at a moment, in %; false where the driver
// cannot tell (a lost or partitioned GPU, one whose driver does not answer, or
// none of that name).
func (f *Fleet) Utilization(host string, gpu int, at time.Time) (int, bool) {
	m := f.machine(host)
	if m == nil {
		return 0, false
	}
	s := f.snapshot(m, at.UTC())
	if gpu < 0 || gpu >= len(s.GPUs) {
		return 0, false
	}
	if v := s.GPUs[gpu].UtilizationGPU; v != nil {
		return *v, true
	}
	return 0, false
}
