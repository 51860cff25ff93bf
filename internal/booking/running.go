package booking

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"gpuboard/internal/snapshot"
)

// A Job is a process of somebody on a GPU that another person wants to book.
type Job struct {
	Place   string         `json:"place"` // as [ParsePlace] reads it
	Who     snapshot.Owner `json:"user"`
	Program string         `json:"program,omitempty"`
	PID     int            `json:"pid,omitempty"`             // 0 if that is not known
	Since   time.Time      `json:"since,omitzero"`            // zero if that is not known
	Memory  int64          `json:"used_memory_mib,omitempty"` // 0 if that is not known
	Unknown bool           `json:"unknown,omitempty"`         // whether the GPU is in use at all is not known
}

const (
	// maxListed bounds a [Consent] to 11 KiB, which a form can hold. Nobody reads more jobs than that.
	maxListed = 1000
	// startTolerance is how far, in seconds, the start of one process may differ between two looks: a node
	// that is not read by a loop measures it anew each time.
	startTolerance = 2
)

// Consent lists the jobs that a person is shown. Agreeing to these is agreeing to no others. It is "" for none.
func Consent(jobs []Job) string {
	var list []byte
	for _, j := range jobs[:min(len(jobs), maxListed)] {
		id, start := j.identity()
		list = binary.BigEndian.AppendUint32(list, id)
		list = binary.BigEndian.AppendUint32(list, uint32(start))
	}
	return base64.RawURLEncoding.EncodeToString(list)
}

// identity tells jobs apart: a short hash of place, user and pid, and the start in Unix seconds, 0 if that is not
// known. Program and memory change while a job runs.
func (j Job) identity() (id uint32, start int64) {
	if !j.Since.IsZero() {
		start = j.Since.Unix()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %t %d", j.Place, j.Who.String(), j.Unknown, j.PID))
	return binary.BigEndian.Uint32(sum[:]), start
}

// agreed reports whether each of these jobs is on the list of a [Consent].
func agreed(consent string, jobs []Job) bool {
	list, err := base64.RawURLEncoding.DecodeString(consent)
	if err != nil || len(list)%8 != 0 {
		return false
	}
	starts := map[uint32][]int64{}
	for one := range slices.Chunk(list, 8) {
		id := binary.BigEndian.Uint32(one)
		starts[id] = append(starts[id], int64(binary.BigEndian.Uint32(one[4:])))
	}
	for _, j := range jobs {
		id, start := j.identity()
		i := slices.IndexFunc(starts[id], func(shown int64) bool {
			return max(shown-start, start-shown) <= startTolerance
		})
		if i < 0 {
			return false
		}
		starts[id] = slices.Delete(starts[id], i, i+1) // two jobs without pids need two entries
	}
	return true
}

// ByUser returns jobs for people to read: one for each user and GPU, since the first of them, with the
// memory of all.
func ByUser(jobs []Job) []Job {
	var list []Job
	at := map[Job]int{}
	for _, j := range jobs {
		user := Job{Place: j.Place, Who: j.Who, Unknown: j.Unknown}
		i, again := at[user]
		if !again {
			at[user] = len(list)
			list = append(list, j)
			continue
		}
		list[i].Memory += j.Memory
		if !j.Since.IsZero() && (list[i].Since.IsZero() || j.Since.Before(list[i].Since)) {
			list[i].Since = j.Since
		}
	}
	return list
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
	if len(jobs) == 0 || !ask || p.Force || agreed(p.OverRunning, jobs) {
		return jobs, nil
	}
	reason := Running
	if p.OverRunning != "" {
		reason = RunningChanged
	}
	return nil, &Refusal{Reason: reason, Jobs: jobs, Err: fmt.Errorf("%s is in use, or may be", jobs[0].Place)}
}
