package demo

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Use is one person's actual use of one GPU, whether or not the node could report it.
type Use struct {
	Host        string
	GPU         int
	User        string // "" for memory that a dead process left behind
	Program     string
	From, Until time.Time // within the span that was asked for
	Memory      int64     // MiB, the same all the time
	// Idle is true when it never used the GPU.
	Idle bool
}

// Truth returns every use within a span, in order of host, GPU, start and user.
func (f *Fleet) Truth(from, until time.Time) []Use {
	var list []Use
	s := span{from.UTC(), until.UTC()}
	for _, m := range f.machines {
		for _, d := range m.gpus {
			for _, l := range d.slots {
				for _, j := range l.between(s) {
					u := Use{
						Host: m.Name, GPU: d.index, User: j.user, Program: j.program, From: j.from, Until: j.until,
						Memory: j.memory, Idle: j.workload == held || j.workload == dead,
					}
					if u.From.Before(s.from) {
						u.From = s.from
					}
					if u.Until.IsZero() || u.Until.After(s.until) {
						u.Until = s.until
					}
					list = append(list, u)
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Use) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), a.GPU-b.GPU, a.From.Compare(b.From), strings.Compare(a.User, b.User))
	})
	return list
}
