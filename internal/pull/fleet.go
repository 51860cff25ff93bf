package pull

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/sshclient"
	"gpuboard/publisher"
)

const (
	onceBudget = 10 * time.Second // for all nodes, before a single generation
	maxLogins  = 16               // at the same time
	// refusedPause is for how long a login that was refused is not tried again by another process, which does not know
	// how often it was: too many lock an account, or this address.
	refusedPause = 5 * time.Minute
)

// A Fleet is the nodes that a web host reads. What it reads goes through a spool of each node into its drop, as if the
// node had pushed it.
type Fleet struct {
	Options
	Data, State string
	Interval    time.Duration
	// Once is for one generation: each node is read once. Otherwise a goroutine reads each at every interval.
	Once bool

	mu      sync.Mutex
	drops   *spool.Drops
	nodes   map[Target]*member
	asked   time.Time // when Read was last called
	logins  chan struct{}
	running sync.WaitGroup
}

// A member is one node of a fleet, from its sshd to its drop.
type member struct {
	*Fleet
	target  Target
	stop    context.CancelFunc
	problem error // of the last reading

	node  *Node // nil until it can be opened
	spool *spool.Spool
	drop  *publisher.Publisher
}

// Read reads these nodes from now on, or once, and returns what is wrong with each.
func (f *Fleet) Read(ctx context.Context, targets []Target) (problems []snapshot.Problem) {
	f.mu.Lock()
	if f.nodes == nil {
		f.nodes, f.logins = map[Target]*member{}, make(chan struct{}, maxLogins)
	}
	if f.drops == nil {
		if f.drops, _ = spool.OpenDrops(f.Data); f.drops == nil { // the generator says why
			f.mu.Unlock()
			return nil
		}
	}
	f.asked = time.Now()
	for t, m := range f.nodes {
		if !slices.Contains(targets, t) {
			m.stop()
			delete(f.nodes, t)
		}
	}
	once, cancel := context.WithTimeout(ctx, cmp.Or(f.Budget, onceBudget))
	defer cancel()
	for _, t := range targets {
		if f.nodes[t] != nil {
			continue
		}
		m := &member{Fleet: f, target: t, stop: cancel}
		f.nodes[t] = m
		life := once
		if !f.Once {
			life, m.stop = context.WithCancel(context.WithoutCancel(ctx))
		}
		f.running.Go(func() { m.loop(life) })
	}
	f.mu.Unlock()
	if f.Once {
		f.running.Wait()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		if m.problem != nil {
			problems = append(problems, Problem(m.target.Host, m.problem))
		}
	}
	slices.SortFunc(problems, func(a, b snapshot.Problem) int { return strings.Compare(a.Host, b.Host) })
	return problems
}

// Close ends all readings.
func (f *Fleet) Close() {
	f.mu.Lock()
	for _, m := range f.nodes {
		m.stop()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// loop reads the node until its context ends, or until nobody has asked for long: another generator leads.
func (m *member) loop(ctx context.Context) {
	defer m.close()
	for {
		err := m.read(ctx)
		m.mu.Lock()
		m.problem = err
		forgotten := time.Since(m.asked) > time.Minute+10*m.Interval
		if forgotten {
			delete(m.nodes, m.target)
		}
		m.mu.Unlock()
		if forgotten || m.Once {
			return
		}
		select {
		case <-time.After(publisher.UntilPush(m.target.Host, m.Interval, m.Now())):
		case <-ctx.Done():
			return
		}
	}
}

// read reads the node and writes its drop, unless the node writes that itself, or another process reads it.
func (m *member) read(ctx context.Context) error {
	latest, _, err := m.drops.Latest(m.target.Host)
	if err == nil {
		age := m.Now().Sub(latest.Snapshot.CollectedAt.Time).Abs()
		switch {
		case !latest.Snapshot.Pulled && age < snapshot.BundleWindow && m.target.Any:
			return nil
		case !latest.Snapshot.Pulled && age < snapshot.BundleWindow:
			return sshclient.Permanent("pull:pushed", "take it out of pull, or end what pushes: gpuboard check kill",
				"the node pushes its snapshots itself, so it is not read over SSH")
		case m.Once && age < m.Interval:
			return nil
		}
	}
	if m.node == nil {
		err := m.open()
		if err != nil {
			m.close()
		}
		if errors.Is(err, spool.ErrLocked) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	snap, err := m.node.Collect(ctx)
	if e, ok := errors.AsType[*sshclient.Error](err); ok && e.LoginRefused {
		_, _ = atomicfile.Write(m.refused(), []byte(Problem(m.target.Host, err).Message), 0o600)
	}
	if err != nil {
		return err
	}
	_ = os.Remove(m.refused())
	snap.IntervalSeconds = int(m.Interval / time.Second)
	if err := m.spool.Add(snap); err != nil {
		return err
	}
	_, err = m.drop.Publish(ctx, m.spool)
	return err
}

// refused is the file with the words of the last refusal.
func (m *member) refused() string { return filepath.Join(m.spool.Dir(), "refused") }

func (m *member) open() (err error) {
	if m.spool, err = spool.Open(filepath.Join(m.State, "pull", m.target.Host)); err != nil {
		return err
	}
	if err := m.spool.Lock(); err != nil {
		return err
	}
	if info, err := os.Stat(m.refused()); err == nil && time.Since(info.ModTime()) < refusedPause {
		said, _ := atomicfile.Read(m.refused(), snapshot.MaxTextBytes)
		return sshclient.Permanent("pull:refused", "", "%s; the next login is %s after that", said, refusedPause)
	}
	drop := publisher.Options{Target: publisher.Target{Scheme: "file", Dir: m.Data}, Host: m.target.Host}
	if m.drop, err = publisher.New(drop); err != nil {
		return err
	}
	m.node, err = New(m.target, filepath.Join(m.spool.Dir(), "read"), m.Options)
	if err == nil {
		m.node.logins = m.logins
	}
	return err
}

func (m *member) close() {
	if m.node != nil {
		m.node.Close()
	}
	if m.drop != nil {
		_ = m.drop.Close()
	}
	if m.spool != nil {
		_ = m.spool.Close()
	}
}
