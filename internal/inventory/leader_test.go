package inventory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
)

// leaderKey is the default of consul.leader_key, which deploy/consul allows.
const leaderKey = "gpuboard/leader"

// candidate runs a leader and returns it, what it tells, and how to end it.
func candidate(t *testing.T, c *Consul, key string) (l *Leader, told chan bool, resign func()) {
	t.Helper()
	l = c.NewLeader(key)
	told = make(chan bool, 16)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	held := false
	go func() {
		done <- l.Run(ctx, func(s LeaderStatus) {
			if s.Held != held {
				held = s.Held
				told <- held
			}
		})
	}()
	return l, told, func() {
		t.Helper()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	}
}

func hear(t *testing.T, told chan bool, want bool, within time.Duration) {
	t.Helper()
	select {
	case got := <-told:
		if got != want {
			t.Fatalf("told %v, want %v", got, want)
		}
	case <-time.After(within):
		t.Fatalf("not told %v within %s", want, within)
	}
}

func TestLeader(t *testing.T) {
	noEnvironment(t)
	agent := consultest.Start(t, consultest.Options{})
	admin := agent.Admin()
	c := newConsul(t, ConsulOptions{Address: agent.Address})

	first, toldFirst, resignFirst := candidate(t, c, leaderKey)
	hear(t, toldFirst, true, need.Patience)
	second, toldSecond, resignSecond := candidate(t, c, leaderKey)
	pair, _, err := admin.KV().Get(leaderKey, nil)
	if err != nil || pair == nil || pair.Session == "" {
		t.Fatalf("the key: %+v, %v", pair, err)
	}
	holder := pair.Session
	if !first.Held() || second.Held() {
		t.Errorf("held: %v, %v", first.Held(), second.Held())
	}
	resignFirst()
	hear(t, toldFirst, false, need.Patience)
	hear(t, toldSecond, true, need.Patience)
	if first.Held() || !second.Held() {
		t.Errorf("after resigning: held %v, %v", first.Held(), second.Held())
	}
	if s, _, err := admin.Session().Info(holder, nil); err != nil || s != nil {
		t.Errorf("the session of the first is still there: %v, %v", s, err)
	}

	t.Run("a session that somebody ended", func(t *testing.T) {
		pair, _, err := admin.KV().Get(leaderKey, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Session().Destroy(pair.Session, nil); err != nil {
			t.Fatal(err)
		}
		hear(t, toldSecond, false, need.Patience)
		hear(t, toldSecond, true, need.Patience)
	})

	t.Run("Consul goes away", func(t *testing.T) {
		agent.Stop()
		hear(t, toldSecond, false, 2*leaderTTL)
		if second.Held() {
			t.Error("held without Consul")
		}
		agent.Restart()
		hear(t, toldSecond, true, need.Patience)
	})
	resignSecond()
}

// A leader that dies gives nothing back: its session has to run out.
func TestLeaderDies(t *testing.T) {
	need.Time(t, "takes Consul half a minute")
	noEnvironment(t)
	agent := consultest.Start(t, consultest.Options{})
	admin := agent.Admin()
	dead, _, err := admin.Session().CreateNoChecks(&api.SessionEntry{TTL: leaderTTL.String(), LockDelay: leaderDelay},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	if ok, _, err := admin.KV().Acquire(&api.KVPair{Key: "site/lead", Session: dead}, nil); err != nil || !ok {
		t.Fatalf("acquiring: %v, %v", ok, err)
	}
	start := time.Now()
	l, told, resign := candidate(t, newConsul(t, ConsulOptions{Address: agent.Address}), "site/lead")
	if l.Held() {
		t.Error("held beside a living session")
	}
	hear(t, told, true, need.Patience)
	t.Logf("took over after %s", time.Since(start))
	if took := time.Since(start); took < leaderTTL {
		t.Errorf("took over after %s, before the session could have ended", took)
	}
	resign()
}
