package booking

import (
	"fmt"
	"time"

	"gpuboard/internal/snapshot"
)

// A Job is what somebody runs on a GPU that another person wants to book.
type Job struct {
	Place   string // as [ParsePlace] reads it
	Who     snapshot.Owner
	Program string
	Since   time.Time // zero if that is not known
	Memory  int64     // MiB; 0 if that is not known
	Unknown bool      // whether the GPU is in use at all is not known
}

// running returns what others run on wanted GPUs. It is an error unless the person agrees to that.
func (p *Policy) running(wanted []Booking) (jobs []Job, err error) {
	ask := false
	for _, w := range wanted {
		if p.Running == nil || w.From.After(p.Now) {
			continue
		}
		here := p.Running(w)
		jobs = append(jobs, here...)
		ask = ask || len(here) > 0 && w.Kind != Maintenance
	}
	if !ask || p.OverRunning || p.Force {
		return jobs, nil
	}
	return nil, &Refusal{Reason: Running, Jobs: jobs, Err: fmt.Errorf("%s is in use, or may be", jobs[0].Place)}
}
