package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
)

func testWatch(t *testing.T, agent *consultest.Agent) {
	admin := agent.Admin()
	// For Consul these are one node.
	enter(t, admin, "another", "WATCHED1", nil)
	enter(t, admin, "watched", "watched1", nil)
	c := newConsul(t, ConsulOptions{Address: agent.Address, Service: "watched"})
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan Change, 16)
	done := make(chan error, 1)
	go func() { done <- c.Watch(ctx, func(ch Change) { seen <- ch }) }()

	next := func(what string) {
		t.Helper()
		select {
		case <-seen:
		case <-time.After(need.Patience):
			t.Fatalf("no call after %s", what)
		}
	}
	next("the first answer")
	enter(t, admin, "watched", "gpu02", nil)
	// Two seconds are the promise; the bound of the test is the machine's.
	start := time.Now()
	next("a new host")
	t.Logf("seen after %s", time.Since(start))
	// The index moves, and nothing that shows does.
	enter(t, admin, "watched", "gpu02", nil, &api.HealthCheck{CheckID: "gpuboard-collect", Status: "passing", ServiceID: "watched", Output: "8 GPUs, 2 free"})
	enter(t, admin, "watched", "gpu02", nil, &api.HealthCheck{CheckID: "gpuboard-collect", Status: "critical", ServiceID: "watched", Output: "no push"})
	next("a critical check")
	leave(t, admin, "watched", "watched1")
	next("a host that left")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returned %v", err)
	}
	if n := len(seen); n > 0 {
		t.Errorf("%d calls too many", n)
	}
}

// What a server of Consul may do to an index: go back after a restore, and be 0.
func TestNextIndex(t *testing.T) {
	for _, tt := range []struct{ old, got, want uint64 }{
		{0, 0, 1}, {0, 5, 5}, {5, 5, 5}, {5, 9, 9}, {9, 5, 0}, {1, 0, 0},
	} {
		if got := nextIndex(tt.old, tt.got); got != tt.want {
			t.Errorf("nextIndex(%d, %d) = %d, want %d", tt.old, tt.got, got, tt.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	last := time.Duration(0)
	for failures := 1; failures < 100; failures++ {
		d := backoff(failures)
		if d < time.Second || d > watchMaxPause*5/4 || d < min(last, watchMaxPause)/2 {
			t.Errorf("after %d failures: %s (before: %s)", failures, d, last)
		}
		last = d
	}
}

func TestWatchRecovers(t *testing.T) {
	noEnvironment(t)
	var mu sync.Mutex
	var indexes []string
	answers := []struct {
		status int
		index  string
		body   string
	}{
		{200, "50", `[{"Node":{"Node":"gpu01"},"Service":{"ID":"s"}}]`},
		{500, "", "No cluster leader"},
		{200, "7", `[{"Node":{"Node":"gpu01"},"Service":{"ID":"s"}}]`}, // the same hosts: no call
		{200, "3", `[]`}, // restored from a backup; only the alarm
		{200, "3", `[{"Node":{"Node":"gpu02"},"Service":{"ID":"s"}}]`},
		{200, "4", `[{"Node":{"Node":"gpu03"},"Service":{"ID":"s"}}]`},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := len(indexes)
		indexes = append(indexes, r.URL.Query().Get("index"))
		mu.Unlock()
		if n >= len(answers) {
			<-r.Context().Done()
			return
		}
		w.Header().Set("X-Consul-Index", answers[n].index)
		w.WriteHeader(answers[n].status)
		fmt.Fprint(w, answers[n].body)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []uint64
	err := newConsul(t, ConsulOptions{Address: server.URL}).Watch(ctx, func(c Change) {
		if got = append(got, c.Index); len(got) == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || fmt.Sprint(got) != "[50 0 4]" {
		t.Errorf("calls %v, %v", got, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprintf("%q", indexes[:6]) != `["" "50" "" "7" "" ""]` {
		t.Errorf("waited on %q", indexes)
	}
}
