package inventory

import (
	"time"

	"gpuboard/internal/snapshot"
)

// Known is what one answer leaves for the next: the last known hosts of each source, by name. It is plain JSON, and the
// zero value knows of none.
type Known map[source][]keptHost

// A keptHost is a host with the time at which its source last named it.
type keptHost struct {
	Host
	SeenAt time.Time `json:"seen_at"`
}

// A source is what is asked for hosts and can fail.
type source string

// The values of source, as Known has them.
const (
	fromConsul source = "consul"
	fromDrops  source = "drops"
)

// usable leaves out what is no host, and has no time in the future, as after a clock was set back.
func (k Known) usable(now time.Time) Known {
	usable := Known{}
	for source, hosts := range k {
		for _, h := range hosts {
			if name, err := snapshot.ParseHost(h.Name); err != nil || name != h.Name {
				continue
			}
			for _, t := range []*time.Time{&h.SeenAt, &h.GoneSince} {
				if t.After(now) {
					*t = now
				}
			}
			usable[source] = append(usable[source], h)
		}
		usable[source] = bound(usable[source])
	}
	return usable
}
