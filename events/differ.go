package events

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"gpuboard/board"
)

// A Differ compares boards one after the other, each as [Diff] does, and passes
// over the hosts of which nothing is new since the last one. For that, nobody may
// change a board or a memory that it saw. The zero value is ready; it is for one
// goroutine at a time.
type Differ struct {
	prev, next Memory   // of the last board, with what is remembered of hosts and GPUs
	hosts      []looked // of that board, in its order; nil where it is of no use
}

// looked is a host as it was, and what came of it.
type looked struct {
	name  string
	state board.HostState
	at    time.Time
	gpus  []board.GPU
	// still is true when nothing happened, and what is remembered stayed.
	still bool
	// The keys of its GPUs in the memory before that board and in the one after.
	before, after []string
}

// Diff is the function of this name.
func (k *Differ) Diff(prev Memory, now *board.Board) ([]Event, Memory) {
	d := newDiff(prev, now)
	switch {
	case d.first || !k.follows(now):
		d.whole()
	case sameHosts(prev, k.next):
		d.since(k.hosts, func(l *looked) []string { return l.after })
	case sameHosts(prev, k.prev): // as what came of the last board was not remembered
		d.since(k.hosts, func(l *looked) []string { return l.before })
	default:
		d.whole()
	}
	found, next := d.finish()
	k.note(d)
	return found, next
}

// follows reports whether the hosts of a board are the last one's.
func (k *Differ) follows(now *board.Board) bool {
	if k.hosts == nil || len(k.hosts) != len(now.Hosts) {
		return false
	}
	for i := range k.hosts {
		if k.hosts[i].name != now.Hosts[i].Name {
			return false
		}
	}
	return true
}

// is reports whether a host is what it was.
func (l *looked) is(h *board.Host) bool {
	return l.state == h.State && l.at.Equal(h.SnapshotAt) && len(l.gpus) == len(h.GPUs) && (len(h.GPUs) == 0 || &l.gpus[0] == &h.GPUs[0])
}

// since looks at the hosts that are not what they were. keys are those that a host
// has in the memory.
func (d *diff) since(hosts []looked, keys func(*looked) []string) {
	d.looked = make([]looked, len(hosts))
	var again []int
	for i := range hosts {
		l := &hosts[i]
		if l.still && l.is(&d.now.Hosts[i]) {
			d.looked[i] = *l
			d.looked[i].before, d.looked[i].after = keys(l), keys(l)
			continue
		}
		again = append(again, i)
		d.listed[l.name] = keys(l)
		d.look(i)
	}
	other := slices.ContainsFunc(again, func(i int) bool { return !d.looked[i].still })
	if !other {
		d.next.Hosts, d.next.GPUs = d.prev.Hosts, d.prev.GPUs
		return
	}
	fresh := d.next
	d.next.Hosts, d.next.GPUs = maps.Clone(d.prev.Hosts), maps.Clone(d.prev.GPUs)
	for _, i := range again {
		for _, key := range d.looked[i].before {
			delete(d.next.GPUs, key)
		}
	}
	maps.Copy(d.next.Hosts, fresh.Hosts)
	maps.Copy(d.next.GPUs, fresh.GPUs)
}

// look compares one host, and notes what came of it.
func (d *diff) look(i int) {
	h := &d.now.Hosts[i]
	l := looked{name: h.Name, state: h.State, at: h.SnapshotAt, gpus: h.GPUs, before: d.listed[h.Name]}
	events := len(d.events)
	d.keys = nil
	d.host(h)
	l.after = d.keys
	was, known := d.prev.Hosts[h.Name]
	l.still = known && was.same(d.next.Hosts[h.Name]) && len(d.events) == events && len(l.before) == len(l.after)
	for _, key := range l.after {
		was, known := d.prev.GPUs[key]
		is := d.next.GPUs[key]
		l.still = l.still && known && was.same(is) && !is.Vanished
	}
	d.looked[i] = l
}

// note keeps what the next board needs.
func (k *Differ) note(d *diff) {
	k.prev, k.next, k.hosts = d.prev, d.next, d.looked
	// Two hosts of one name, and one that is gone, need a look at all of them.
	if len(d.next.Hosts) != len(d.now.Hosts) || d.left {
		k.hosts = nil
	}
}

// sameHosts reports whether two memories hold the same of hosts and GPUs: as the
// maps themselves, which nobody changes.
func sameHosts(m, o Memory) bool { return sameMap(m.Hosts, o.Hosts) && sameMap(m.GPUs, o.GPUs) }

func sameMap[V any](x, y map[string]V) bool {
	return reflect.ValueOf(x).Pointer() == reflect.ValueOf(y).Pointer()
}
