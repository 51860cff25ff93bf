package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/internal/sshclient"
)

// pushInto returns a kept node whose pushes go into a folder, in place of a server.
func pushInto(t *testing.T, data string) *keptNode {
	t.Helper()
	k := keptNodes{Hosts: []string{"gpu0000"}, Servers: []keptServer{{Name: "a folder", Target: "file://" + data,
		Drops: filepath.Join(data, "drop")}}}
	if err := os.MkdirAll(filepath.Join(data, "drop", "gpu0000"), 0o755); err != nil {
		t.Fatal(err)
	}
	nodes, _, err := k.nodes()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nodes[0].publisher.Close() })
	return nodes[0]
}

// Each push is a newer bundle, and the drop holds the last that was confirmed.
func TestKeptNodeIsAheadOfItsDrop(t *testing.T) {
	n := pushInto(t, t.TempDir())
	now := time.Now().UTC()
	for number := range uint64(3) {
		if err := n.push(context.Background(), number, now.Add(time.Duration(number)*every)); err != nil {
			t.Fatal(err)
		}
	}
	drops := filepath.Dir(n.drop)
	r := n.tally.begin()
	if r.Pushes != 3 || r.Confirmed != 3 || r.Missing != 0 || len(r.Failed) > 0 || r.Most99 <= 0 {
		t.Errorf("%+v", r)
	}
	if behind := behindDrops(drops, r.Last); len(behind) > 0 || len(r.Last) != 1 {
		t.Errorf("%v of %v is not in the drop", behind, r.Last)
	}
	if again := n.tally.begin(); again.Pushes != 0 || len(again.Last) != 1 {
		t.Errorf("after what was counted was told it is %+v", again)
	}

	r.Last["gpu0000"]++
	if behind := behindDrops(drops, r.Last); len(behind) != 1 {
		t.Errorf("a drop without what was confirmed last is not found: %v", behind)
	}
}

// What a server confirmed and the drop has not is missing; what it did not confirm has failed.
func TestLostPushIsCounted(t *testing.T) {
	n := pushInto(t, t.TempDir())
	held := n.drop
	n.drop = t.TempDir() // another directory than the one that the server writes into
	if err := n.push(context.Background(), 0, time.Now().UTC()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(held)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Dir(held), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.push(context.Background(), 1, time.Now().UTC()); err != nil {
		t.Fatal(err)
	}
	r := n.tally.begin()
	failed := 0
	for code, count := range r.Failed {
		if code == "" || code == sshclient.CodeCancelled {
			t.Errorf("it failed by %q", code)
		}
		failed += count
	}
	if r.Pushes != 2 || r.Confirmed != 1 || r.Missing != 1 || failed != 1 || r.Example == "" {
		t.Errorf("%+v", r)
	}
	if behind := behindDrops(filepath.Dir(held), r.Last); len(behind) != 1 {
		t.Errorf("a drop that is gone is not found: %v", behind)
	}
}

// Later pushes of all nodes stay as far apart as their logins.
func TestLoginsTakeWholeIntervals(t *testing.T) {
	for hosts, want := range map[int]time.Duration{1: every, 50: every, 1000: 4 * every} {
		if got := spreadLogins(hosts); got != want {
			t.Errorf("%d hosts log in within %s, want %s", hosts, got, want)
		}
	}
}
