package sitegen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

// A sender is a machine, in one boot, that sent snapshots under the name of a host.
type sender struct {
	Boot string `json:"boot_id"`
	// Seq and Collected are of the newest snapshot, and Seen is when it was first
	// seen, by our own clock.
	Seq       uint64    `json:"seq"`
	Collected time.Time `json:"collected_at"`
	Seen      time.Time `json:"seen"`
	// Shown means that one of its snapshots was on the board, Refused that the
	// newest was taken for a replay, and Turned is when it last took turns with
	// another sender.
	Shown   bool      `json:"shown,omitempty"`
	Refused bool      `json:"refused,omitempty"`
	Turned  time.Time `json:"turned,omitzero"`
	// Addresses and GPUs (by UUID) are a few of each, by which people and we tell
	// two machines apart.
	Addresses []string `json:"addresses,omitempty"`
	GPUs      []string `json:"gpus,omitempty"`
}

const (
	maxSenders = 4              // of one host that are remembered
	maxOwn     = 4              // addresses, and GPUs, of a sender
	sendersFor = 24 * time.Hour // how long one that was replaced is remembered
	twinsFor   = time.Hour      // how long after the last turn two senders are named
	burst      = 600            // how many numbers may come faster than one a second, as by hand
)

func senderOf(b *snapshot.Bundle, now time.Time) sender {
	s := sender{Boot: b.BootID, Seq: b.Snapshot.Seq, Collected: b.Snapshot.CollectedAt.Time, Seen: now}
	for _, face := range b.Snapshot.Node.Interfaces {
		if face.Name != "lo" {
			s.Addresses = append(s.Addresses, face.Addrs...)
		}
	}
	for _, g := range b.Snapshot.GPUs {
		if g.UUID != "" {
			s.GPUs = append(s.GPUs, g.UUID)
		}
	}
	return s
}

// is reports whether both are one machine in one boot. A GPU that is lost is
// missing from the list, so machines are different where they have no GPU in common.
func (s sender) is(o sender) bool {
	return s.Boot == o.Boot && (len(s.GPUs) == 0 || len(o.GPUs) == 0 ||
		slices.ContainsFunc(s.GPUs, func(uuid string) bool { return slices.Contains(o.GPUs, uuid) }))
}

// bundle is what [spool.Newer] compares between two senders: moments, so it has no boot.
func (s sender) bundle() *snapshot.Bundle {
	return &snapshot.Bundle{Snapshot: &snapshot.Snapshot{CollectedAt: snapshot.TimeOf(s.Collected)}}
}

// reachable is the largest number that a collector can have given: at most one a second, since the
// node booted or, where a container has an uptime of its own, since the last number that is known.
func reachable(s *snapshot.Snapshot, old sender, now time.Time) uint64 {
	most, known := uint64(max(0, now.Unix())), uint64(0)
	if up := s.Node.UptimeSeconds; up != nil {
		if old.Seq > 0 {
			known = old.Seq + uint64(max(0, now.Sub(old.Seen)/time.Second))
		}
		most = min(most, max(uint64(*up), known)+burst)
	}
	return most
}

// accept decides whether a bundle is news or a replay of an older one, and
// remembers it. limit is the moment after which a node's clock is wrong.
//
// Of one sender the larger number is the newer one, whatever the clock says. Of
// another sender than the one that is shown, the later moment is the newer one.
// An earlier moment is a replay, or the clock was set back during a reboot: a
// replay stays what it is, and a living node soon sends a larger number, which counts.
func (m *memory) accept(host string, b *snapshot.Bundle, now, limit time.Time) (replay *snapshot.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.Senders[host]
	s := senderOf(b, now)
	var old sender
	at := slices.IndexFunc(known, s.is)
	if at >= 0 {
		old = known[at]
	}
	if most := reachable(b.Snapshot, old, now); s.Seq > most {
		return &snapshot.Problem{Code: snapshot.BadParse, Message: fmt.Sprintf(
			"the snapshot's number is %d, and no collector can have reached more than %d: one for each second",
			s.Seq, most)}
	}
	older := false
	switch {
	case len(known) == 0:
	case at == 0 && s.Seq == old.Seq:
		return nil // as it was
	case at == 0:
		older = s.Seq < old.Seq
	default:
		older = s.Seq <= old.Seq || !old.Refused && !spool.Newer(b, known[0].bundle(), limit)
	}
	if older {
		replay = &snapshot.Problem{Code: "host:replayed", Message: fmt.Sprintf(
			"its drop holds an older snapshot than the one that is shown: number %d of boot %s, collected at %s; known is "+
				"number %d of boot %s, collected at %s; if the older one is right, as after a backup was put back: "+
				"gpuboard accept %s",
			s.Seq, shortBoot(s.Boot), s.Collected.Format(time.RFC3339), known[0].Seq, shortBoot(known[0].Boot),
			known[0].Collected.Format(time.RFC3339), host)}
		if s.Seq <= old.Seq {
			return replay
		}
	}
	if len(s.GPUs) == 0 {
		s.GPUs = old.GPUs // the driver does not answer
	}
	s.Addresses, s.GPUs = s.Addresses[:min(len(s.Addresses), maxOwn)], s.GPUs[:min(len(s.GPUs), maxOwn)]
	s.Refused, s.Shown, s.Turned = older, old.Shown || !older, old.Turned
	var all []sender
	for i, k := range known {
		if i != at && (i == 0 || now.Sub(k.Seen) <= sendersFor) {
			all = append(all, k)
		}
	}
	switch {
	case older:
		all = slices.Insert(all, 1, s)
	case at > 0 && old.Shown: // another one took its place, and it is back with news
		s.Turned, all[0].Turned = now, now
		fallthrough
	default:
		all = slices.Insert(all, 0, s)
	}
	m.Senders[host] = all[:min(len(all), maxSenders)]
	return replay
}

// Accept forgets who sent as a host, so that the next generation shows what lies in its
// drop, however old that is. It reports whether anything was known. The error wraps
// [ErrLocked] while a generation runs.
func Accept(state, host string) (known bool, err error) {
	g := &Generator{opt: Options{State: state}}
	lock, err := g.lock()
	if err != nil {
		return false, err
	}
	defer atomicfile.Unlock(lock)
	m := g.recall()
	if len(m.problems) > 0 {
		return false, fmt.Errorf("reading the state: %s", m.problems[0].Message)
	}
	if known = len(m.Senders[host]) > 0; !known {
		return false, nil
	}
	delete(m.Senders, host)
	return true, g.writeMemory(m)
}

// twins names the machines that send snapshots under the name of one host in
// turns, nil where there is one. A reboot is no turn, because the earlier boot
// never comes back.
func (m *memory) twins(host string, now time.Time) *snapshot.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	var turned []sender
	for _, s := range m.Senders[host] {
		if age := now.Sub(s.Turned); age >= 0 && age <= twinsFor {
			turned = append(turned, s)
		}
	}
	if len(turned) < 2 {
		return nil
	}
	var names []string
	for i, s := range turned {
		names = append(names, s.name(slices.Delete(slices.Clone(turned), i, i+1)))
	}
	return &snapshot.Problem{Code: "host:twins", Message: snapshot.Text(fmt.Sprintf(
		"%d machines send as %s, in turns: %s; give each a name of its own (gpuboard check NAME --to …, with a drop "+
			"of that name)",
		len(turned), host, strings.Join(names, " and ")), snapshot.MaxTextBytes)}
}

// name is what tells a sender from the others: addresses that they have as well,
// such as those of bridges for containers, do not.
func (s sender) name(others []sender) string {
	parts := []string{"boot " + shortBoot(s.Boot)}
	for _, address := range s.Addresses {
		if !slices.ContainsFunc(others, func(o sender) bool { return slices.Contains(o.Addresses, address) }) &&
			len(parts) < 3 {
			parts = append(parts, address)
		}
	}
	if len(s.GPUs) > 0 {
		parts = append(parts, s.GPUs[0])
	}
	return strings.Join(parts, ", ")
}

func shortBoot(id string) string { return id[:min(len(id), 8)] }
