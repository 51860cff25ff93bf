package publisher_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuboard/internal/objectstore"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/publisher"
)

const (
	raceBoot = "6b1b36cb-0c62-4d4f-9d1b-0c2f3f4f5a6b"
	writers  = 3 // of each node: processes that overlap
)

// push is the spool of one process, which knows one snapshot.
type push struct{ data []byte }

func (p push) Pending(string) ([]string, error)           { return []string{spool.LatestName}, nil }
func (p push) Read(string) ([]byte, error)                { return p.data, nil }
func (p push) Delivered(string, string, []byte) error     { return nil }
func (p push) Obsolete(string) []string                   { return nil }
func (p push) Withdrawn(target string, n ...string) error { return nil }

// numbered is what a node has collected as the n-th of a boot.
func numbered(t *testing.T, host string, n uint64) []byte {
	t.Helper()
	at := snapshot.TimeOf(time.Date(2026, 11, 20, 8, 0, int(n), 0, time.UTC))
	s := &snapshot.Snapshot{Host: host, BootID: raceBoot, Seq: n, CollectedAt: at, IntervalSeconds: 60}
	data, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: raceBoot, Snapshot: s})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// number reads it back; 0 is nothing.
func number(t *testing.T, data []byte) uint64 {
	t.Helper()
	if data == nil {
		return 0
	}
	b, err := snapshot.DecodeBundle(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return b.Snapshot.Seq
}

// race lets the writers of all nodes push at the same time, each two snapshots of its own, and each until nobody is in its
// way. With turns, two writers of one node never push in the same instant.
func race(t *testing.T, nodes int, turns bool) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(64)
	turn := make([]sync.Mutex, nodes)
	for _, i := range rand.New(rand.NewPCG(20261128, 1)).Perm(nodes * writers) {
		node, n := i/writers, uint64(i%writers+1)
		host := fmt.Sprintf("gpu%04d", node)
		snapshots := []push{{numbered(t, host, n)}, {numbered(t, host, writers+n)}}
		all.Go(func() error {
			target, err := publisher.ParseTarget("s3://gpus/drops/" + host)
			if err != nil {
				return err
			}
			p, err := publisher.New(publisher.Options{Target: target, Host: host})
			if err != nil {
				return err
			}
			defer p.Close()
			for _, s := range snapshots {
				for range 8 * writers { // another one's write between a question and an answer is no fault
					if turns {
						turn[node].Lock()
					}
					_, err = p.Publish(t.Context(), s)
					if turns {
						turn[node].Unlock()
					}
					if err == nil {
						break
					}
				}
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestNoOlderSnapshotReplacesANewerOne lets a thousand nodes push into one bucket, each from processes that overlap.
func TestNoOlderSnapshotReplacesANewerOne(t *testing.T) {
	nodes := 1000
	if testing.Short() {
		nodes = 50
	}
	store := s3test.Start(t, "gpus")
	var mu sync.Mutex
	held := map[string]uint64{}
	store.Written(func(name string, content []byte) {
		mu.Lock()
		defer mu.Unlock()
		n := number(t, content)
		if n < held[name] {
			t.Errorf("%s held snapshot %d, and holds %d", name, held[name], n)
		}
		held[name] = n
	})
	race(t, nodes, false)
	if len(held) != nodes {
		t.Errorf("%d nodes pushed, want %d", len(held), nodes)
	}
	for name, n := range held {
		if n != 2*writers {
			t.Errorf("%s holds snapshot %d of %d in the end", name, n, 2*writers)
		}
	}
}

// TestNoOlderSnapshotReplacesANewerOneInARealGateway is the same with fewer nodes, whose writers take turns: this gateway
// compares and writes in two steps.
func TestNoOlderSnapshotReplacesANewerOneInARealGateway(t *testing.T) {
	s3test.Gateway(t, "gpus")
	const nodes = 30
	race(t, nodes, true)
	for i := range nodes {
		bucket, err := objectstore.Open(fmt.Sprintf("s3://gpus/drops/gpu%04d", i), os.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := bucket.Get(t.Context(), spool.LatestName, snapshot.MaxFileBytes)
		if err != nil {
			t.Fatal(err)
		}
		if n := number(t, data); n != 2*writers {
			t.Errorf("node %d: the bucket holds snapshot %d of %d", i, n, 2*writers)
		}
	}
}
