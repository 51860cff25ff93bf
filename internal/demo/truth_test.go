package demo

import "time"

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
