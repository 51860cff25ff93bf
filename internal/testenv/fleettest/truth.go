package fleettest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/demo"
)

// Truth returns every use within a span, cut to it, in order of host, GPU, start and user.
func Truth(f *demo.Fleet, from, until time.Time) []demo.Use {
	var list []demo.Use
	for _, h := range f.Hosts() {
		for gpu := range h.GPUs {
			list = append(list, f.Uses(h.Name, gpu, from, until)...)
		}
	}
	for i := range list {
		u := &list[i]
		if u.From.Before(from) {
			u.From = from
		}
		if u.Until.IsZero() || u.Until.After(until) {
			u.Until = until
		}
	}
	slices.SortStableFunc(list, func(a, b demo.Use) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), a.GPU-b.GPU, a.From.Compare(b.From),
			strings.Compare(a.User, b.User))
	})
	return list
}
