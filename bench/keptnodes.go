package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

// keptNodes are nodes that push to servers over connections that they keep, in a process of their own. What stands
// here goes to that process as JSON.
type keptNodes struct {
	Hosts   []string
	For     time.Duration // how long they go on, from when all of them have pushed
	Keys    string        // a directory with each host's private key
	State   string
	Servers []keptServer
}

// A keptServer is one that they push to.
type keptServer struct{ Name, Target, KnownHosts, Drops string }

// A keptResult is what the nodes of one server saw from when all had pushed until the end.
type keptResult struct {
	Name               string
	Pushes, Confirmed  int
	Missing            int // confirmed, and not in the drop right after
	Dialed, Again      int // new connections, and attempts beyond the first of a push
	Median, Most99, Ms float64
	Failed             map[string]int    // pushes by reason code
	Example            string            // what the last that failed said
	Last               map[string]uint64 // the number of the last confirmed snapshot of each host
}

// spreadLogins is how long so many hosts take to log in: a login takes sshd 30 ms of processor time. It is whole
// intervals, so that later pushes are spread evenly as well.
func spreadLogins(hosts int) time.Duration {
	return (time.Duration(hosts)*60*time.Millisecond/every + 1) * every
}

// A keptTally counts for one server.
type keptTally struct {
	mu     sync.Mutex
	result keptResult
	took   []time.Duration
}

// begin forgets what was counted, but not the last number of each host, and returns what it was.
func (t *keptTally) begin() keptResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.sum()
	t.result = keptResult{Name: before.Name, Failed: map[string]int{}, Last: before.Last}
	t.took = nil
	return before
}

func (t *keptTally) sum() keptResult {
	r := t.result
	if n := len(t.took); n > 0 {
		slices.Sort(t.took)
		ms := func(i int) float64 { return float64(t.took[i].Microseconds()) / 1000 }
		r.Median, r.Most99, r.Ms = ms(n/2), ms(n*99/100), ms(n-1)
	}
	return r
}

// A keptNode is one host at one server.
type keptNode struct {
	host      string
	publisher *publisher.Publisher
	first     *snapshot.Bundle
	drop      string
	tally     *keptTally
}

// bundle is what the node sends: its first bundle, so many intervals later.
func (n *keptNode) bundle(number uint64, now time.Time) ([]byte, error) {
	b, s := *n.first, *n.first.Snapshot
	moved := now.Sub(s.CollectedAt.Time)
	s.Seq += number
	s.CollectedAt = snapshot.TimeOf(now)
	b.Snapshot, b.Samples = &s, slices.Clone(b.Samples)
	for i := range b.Samples {
		b.Samples[i].Seq += number
		b.Samples[i].At = b.Samples[i].At.Add(moved).Truncate(time.Millisecond)
	}
	return snapshot.EncodeBundle(&b)
}

// push delivers one bundle and counts. What was confirmed must be in the drop, byte by byte: nobody else writes there.
func (n *keptNode) push(ctx context.Context, number uint64, now time.Time) error {
	raw, err := n.bundle(number, now)
	if err != nil {
		return err
	}
	start := time.Now()
	report, err := n.publisher.Publish(ctx, one(raw))
	took := time.Since(start)
	held, _ := os.ReadFile(filepath.Join(n.drop, spool.LatestName))
	t := n.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Pushes++
	t.result.Dialed += report.Dialed
	t.result.Again += max(0, report.Attempts-1)
	t.took = append(t.took, took)
	if err != nil {
		t.result.Failed[publisher.Code(err)]++
		t.result.Example = n.host + ": " + err.Error()
		return nil
	}
	t.result.Confirmed++
	t.result.Last[n.host] = n.first.Snapshot.Seq + number
	if !bytes.Equal(raw, held) {
		t.result.Missing++
	}
	return nil
}

// pushKept is the process of [keptNodes]. It writes a list of results when all nodes have pushed, another one at the
// end, and keeps the connections until in ends.
func pushKept(file string, in io.Reader, out io.Writer) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all keptNodes
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	nodes, tallies, err := all.nodes()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	failed := make(chan error, len(nodes))
	var firsts, ends sync.WaitGroup
	firsts.Add(len(nodes))
	begin, spread := time.Now(), spreadLogins(len(all.Hosts))
	for i, n := range nodes {
		ends.Go(func() {
			next := begin.Add(time.Duration(i) * spread / time.Duration(len(nodes)))
			for number := uint64(0); waitUntil(ctx, next); number++ {
				// What has begun is finished, with the time that every push has.
				if err := n.push(context.Background(), number, time.Now().UTC()); err != nil {
					failed <- err
					return
				}
				if number == 0 {
					firsts.Done()
				}
				next = next.Add(every)
			}
		})
	}
	pushed := make(chan struct{})
	go func() { firsts.Wait(); close(pushed) }()
	say := json.NewEncoder(out)
	tell := func() error {
		var results []keptResult
		for _, t := range tallies {
			results = append(results, t.begin())
		}
		return say.Encode(results)
	}
	select {
	case err := <-failed:
		return err
	case <-pushed:
	}
	if err := tell(); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(all.For):
	}
	stop()
	ends.Wait()
	if err := tell(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

func waitUntil(ctx context.Context, t time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(t)):
		return ctx.Err() == nil
	}
}

// nodes are all hosts at all servers, in the order in which they begin.
func (k *keptNodes) nodes() ([]*keptNode, []*keptTally, error) {
	at := time.Now().UTC().Truncate(time.Second)
	f := &fleet{Fleet: demo.NewLarge(1, at, len(k.Hosts)), at: at, seq: 3}
	var tallies []*keptTally
	for _, s := range k.Servers {
		tallies = append(tallies, &keptTally{
			result: keptResult{Name: s.Name, Failed: map[string]int{}, Last: map[string]uint64{}}})
	}
	var nodes []*keptNode
	for _, host := range k.Hosts {
		first := f.bundle(host)
		for i, s := range k.Servers {
			target, err := publisher.ParseTarget(s.Target)
			if err != nil {
				return nil, nil, err
			}
			p, err := publisher.New(publisher.Options{Target: target, Host: host, Keep: true,
				Identity: []string{filepath.Join(k.Keys, host)}, KnownHosts: []string{s.KnownHosts},
				StateDir: filepath.Join(k.State, s.Name, host)})
			if err != nil {
				return nil, nil, fmt.Errorf("a node of %s: %w", s.Name, err)
			}
			nodes = append(nodes, &keptNode{host: host, publisher: p, first: first, drop: filepath.Join(s.Drops, host),
				tally: tallies[i]})
		}
	}
	return nodes, tallies, nil
}
