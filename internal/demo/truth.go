package demo

import (
	"slices"
	"strings"
	"time"
)

// A Use is one person's use of one GPU, as it was, whether or not the node
// could tell anybody.
type Use struct {
	Host        string
	GPU         int
	User        string // "" for memory that a dead process left behind
	Program     string
	From, Until time.Time // within the span that was asked for
	Memory      int64     // MiB, the same all the time
	// Idle is true when it did nothing with the GPU from beginning to end.
	Idle bool
}

// Truth returns every use within a span, in order of host, GPU, start and user.
func (f *Fleet) Truth(from, until time.Time) []Use {
	var list []Use
	s := span{from.UTC(), until.UTC()}
	for _, m := range f.machines {
		for _, d := range m.gpus {
			for _, l := range d.lanes {
				for _, j := range l.between(s) {
					u := Use{
						Host: m.Name, GPU: d.index, User: j.user, Program: j.program, From: j.from, Until: j.until,
						Memory: j.memory, Idle: j.shape == held || j.shape == dead,
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
		if c := strings.Compare(a.Host, b.Host); c != 0 {
			return c
		}
		if a.GPU != b.GPU {
			return a.GPU - b.GPU
		}
		if c := a.From.Compare(b.From); c != 0 {
			return c
		}
		return strings.Compare(a.User, b.User)
	})
	return list
}
