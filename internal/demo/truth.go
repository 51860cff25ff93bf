package demo

import "time"

// A Use is one person's actual use of one GPU, whether or not the node could report it.
type Use struct {
	Host        string
	GPU         int
	User        string // "" for memory that a dead process left behind
	Program     string
	From, Until time.Time // zero for no end
	Memory      int64     // MiB, the same all the time
	// Idle is true when it never used the GPU.
	Idle bool
}

// Uses returns the uses of a GPU that overlap a span.
func (f *Fleet) Uses(host string, gpu int, from, until time.Time) (list []Use) {
	for _, l := range f.machine(host).gpus[gpu].slots {
		for _, j := range l.between(span{from, until}) {
			list = append(list, Use{
				Host: host, GPU: gpu, User: j.user, Program: j.program, From: j.from, Until: j.until,
				Memory: j.memory, Idle: j.workload == held || j.workload == dead,
			})
		}
	}
	return list
}
