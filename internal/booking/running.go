package booking

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

// A Job is what somebody runs on a GPU that another person wants to book.
type Job struct {
	Place   string         `json:"place"` // as [ParsePlace] reads it
	Who     snapshot.Owner `json:"user"`
	Program string         `json:"program,omitempty"`
	PID     int            `json:"pid,omitempty"`             // of one of its processes; 0 if that is not known
	Since   time.Time      `json:"since,omitzero"`            // zero if that is not known
	Memory  int64          `json:"used_memory_mib,omitempty"` // 0 if that is not known
	Unknown bool           `json:"unknown,omitempty"`         // whether the GPU is in use at all is not known
}

// Digest identifies jobs by their places, who runs them and since when: who agrees to these has agreed
// to no others. Programs and memory change while a job runs, and do not count. It is "" for no jobs.
func Digest(jobs []Job) string {
	if len(jobs) == 0 {
		return ""
	}

	var lines []string
	for _, j := range jobs {
		since := "at " + j.Since.UTC().Format(time.RFC3339)
		if j.Since.IsZero() {
			since = fmt.Sprint("pid ", j.PID)
		}
		lines = append(lines, fmt.Sprintf("%q %q %t %s", j.Place, j.Who.String(), j.Unknown, since))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "\n")))
	return hex.EncodeToString(sum[:8])
}

// Jobs returns what others run now on the GPUs of bookings that begin now.
func (p *Policy) Jobs(wanted []Booking) (jobs []Job) {
	for _, w := range wanted {
		if p.Running != nil && !w.From.After(p.Now) {
			jobs = append(jobs, p.Running(w)...)
		}
	}
	return jobs
}

// running returns Jobs. It is an error unless the person agrees to these, or it is for maintenance.
func (p *Policy) running(wanted []Booking) ([]Job, error) {
	jobs := p.Jobs(wanted)
	ask := slices.ContainsFunc(wanted, func(w Booking) bool { return w.Kind != Maintenance })
	if len(jobs) == 0 || !ask || p.Force || p.OverRunning == Digest(jobs) {
		return jobs, nil
	}
	reason := Running
	if p.OverRunning != "" {
		reason = RunningChanged
	}
	return nil, &Refusal{Reason: reason, Jobs: jobs, Err: fmt.Errorf("%s is in use, or may be", jobs[0].Place)}
}
