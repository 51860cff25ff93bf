package inventory

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/snapshot"
)

// Times of an election. Consul ends a session between one and two TTLs after its
// last renewal, and keeps the key locked for the lock delay after that: another
// candidate takes over within 2*10 + 3 + 2 seconds. The delay is longer than a tick,
// so that a leader whose session was destroyed notices before another leads.
const (
	leaderTTL   = 10 * time.Second // Consul's minimum
	leaderDelay = 3 * time.Second
	leaderTick  = 2 * time.Second
)

// A Leader is a candidate in an election among the generators of one site, of which
// only the leader writes. The lock is a key in Consul that a session holds.
type Leader struct {
	consul  *Consul
	key     string
	name    string
	session string
	until   atomic.Pointer[time.Time] // the lock is certain until then; nil if it is not held
}

// LeaderStatus is the state of a candidate in the election.
type LeaderStatus struct {
	Held   bool   // the candidate leads
	Holder string // the name of another leader; "" for none
	Err    error  // why the leader is not known
}

// NewLeader makes a candidate for the key. It takes part in the election while
// [Leader.Run] runs.
func (c *Consul) NewLeader(key string) *Leader {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown host"
	}
	return &Leader{
		consul: c, key: key, name: line(fmt.Sprintf("%s, process %d", name, os.Getpid()), snapshot.MaxNameBytes),
	}
}

// Held reports whether this candidate leads. It becomes false before another one can
// lead, even if Consul cannot be reached and Run has not noticed.
func (l *Leader) Held() bool {
	until := l.until.Load()
	return until != nil && time.Now().Before(*until)
}

// Run takes part in the election until ctx ends, and then releases the lock. It calls
// changed when this candidate becomes or ceases to be the leader, when another becomes
// the leader, and when the leader is not known any more. It returns ctx's error.
func (l *Leader) Run(ctx context.Context, changed func(LeaderStatus)) error {
	var told LeaderStatus
	tell := func(s LeaderStatus) {
		s.Held = l.Held()
		if s.Held {
			s.Holder, s.Err = "", nil
		}
		if s.Held == told.Held &&
			(s == LeaderStatus{} || s.Holder == told.Holder && (s.Err == nil) == (told.Err == nil)) {
			return // also while nobody leads: the next attempt decides that
		}
		told = s
		changed(s)
	}
	for ctx.Err() == nil {
		s := l.step(ctx)
		if ctx.Err() == nil {
			tell(s)
			l.rest(ctx)
			tell(s) // the lock may have expired
		}
	}
	l.resign()
	tell(LeaderStatus{})
	return ctx.Err()
}

// rest waits for the next step, or until a lock that was not renewed expires.
func (l *Leader) rest(ctx context.Context) {
	d := leaderTick
	if until := l.until.Load(); until != nil {
		if left := time.Until(*until); left > 0 {
			d = min(d, left)
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// step renews or creates the session and tries to acquire the key.
func (l *Leader) step(ctx context.Context) LeaderStatus {
	// The lock is certain for a TTL from before the renewal is sent: Consul does not
	// end the session earlier.
	sent := time.Now()
	held, lost := false, false
	holder := ""
	err := l.consul.do(ctx, "standing for election in Consul", func(ctx context.Context, client *api.Client) error {
		ctx, cancel := context.WithTimeout(ctx, leaderTTL/3)
		defer cancel()
		w := (&api.WriteOptions{}).WithContext(ctx)
		if l.session != "" {
			entry, _, err := client.Session().Renew(l.session, w)
			if err != nil {
				return err
			}
			if entry == nil { // the session has ended
				l.session, lost = "", true
			}
		}
		if l.session == "" {
			// Without checks, because those of a node may flap: the TTL alone counts.
			id, _, err := client.Session().CreateNoChecks(
				&api.SessionEntry{Name: "gpuboard leader", TTL: leaderTTL.String(),
					LockDelay: leaderDelay, Behavior: api.SessionBehaviorRelease}, w)
			if err != nil {
				return err
			}
			l.session = id
		}
		// Reading first saves the servers a write for each step of each candidate.
		pair, _, err := client.KV().Get(l.key, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		if err != nil {
			return err
		}
		if pair == nil || pair.Session == "" {
			held, _, err = client.KV().Acquire(&api.KVPair{Key: l.key, Value: []byte(l.name), Session: l.session}, w)
		} else {
			held = pair.Session == l.session
			holder = line(string(pair.Value), snapshot.MaxNameBytes)
		}
		lost = lost || err == nil && !held
		return err
	})
	switch {
	case err == nil && held:
		until := sent.Add(leaderTTL)
		l.until.Store(&until)
	case lost:
		l.until.Store(nil)
	}
	return LeaderStatus{Holder: holder, Err: err}
}

// resign releases the key and the session, so that the next leader need not wait.
func (l *Leader) resign() {
	l.until.Store(nil)
	if l.session == "" {
		return
	}
	session := l.session
	l.session = ""
	// If this fails, the session expires by itself.
	_ = l.consul.do(context.Background(), "resigning in Consul", func(ctx context.Context, client *api.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		w := (&api.WriteOptions{}).WithContext(ctx)
		if _, _, err := client.KV().Release(&api.KVPair{Key: l.key, Session: session}, w); err != nil {
			return err
		}
		_, err := client.Session().Destroy(session, w)
		return err
	})
}
