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

// DefaultLeaderKey is the key that generators of one site compete for.
const DefaultLeaderKey = "gpuboard/leader"

// Times of an election. Consul ends a session between one and two TTLs after
// its last renewal, and then holds the key back for the lock delay: another
// takes over within 2*10 + 3 + 2 seconds. The delay is longer than a tick, so that a
// leader whose session somebody ended knows it before there is another.
const (
	leaderTTL   = 10 * time.Second // Consul's minimum
	leaderDelay = 3 * time.Second
	leaderTick  = 2 * time.Second
)

// A Leader takes part in an election among the generators of one site, so that
// only one of them writes. The lock is a session's hold on a key in Consul.
type Leader struct {
	consul  *Consul
	key     string
	name    string
	session string
	until   atomic.Pointer[time.Time] // the hold is certain until then; nil for none
}

// LeaderStatus is how a candidate stands in the election.
type LeaderStatus struct {
	Held   bool   // it leads
	Holder string // another leads, by its own name; "" for nobody
	Err    error  // why it is not known who leads
}

// NewLeader makes a candidate for the key (DefaultLeaderKey when ""). It does
// not stand before [Leader.Run].
func (c *Consul) NewLeader(key string) *Leader {
	if key == "" {
		key = DefaultLeaderKey
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unknown host"
	}
	return &Leader{consul: c, key: key, name: line(fmt.Sprintf("%s, process %d", name, os.Getpid()), snapshot.MaxNameBytes)}
}

// Held reports whether this candidate leads. It turns false before anybody
// else can lead, also when Consul cannot be reached and Run has not noticed.
func (l *Leader) Held() bool {
	until := l.until.Load()
	return until != nil && time.Now().Before(*until)
}

// Run stands for election until ctx ends, and gives the lead back at the end. It calls changed when
// this candidate begins or ceases to lead, when another begins to, and when that is not known any
// more. It returns ctx's error.
func (l *Leader) Run(ctx context.Context, changed func(LeaderStatus)) error {
	var told LeaderStatus
	tell := func(s LeaderStatus) {
		s.Held = l.Held()
		if s.Held {
			s.Holder, s.Err = "", nil
		}
		if s.Held == told.Held && (s == LeaderStatus{} || s.Holder == told.Holder && (s.Err == nil) == (told.Err == nil)) {
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
			tell(s) // the hold may have run out
		}
	}
	l.resign()
	tell(LeaderStatus{})
	return ctx.Err()
}

// rest waits for the next step, or until a hold that is not renewed runs out.
func (l *Leader) rest(ctx context.Context) {
	d := leaderTick
	if until := l.until.Load(); until != nil {
		if left := time.Until(*until); left > 0 {
			d = min(d, left)
		}
	}
	sleep(ctx, d)
}

// step renews the session, or makes one, and tries to hold the key. Errors are
// retried at the next step: the hold runs out by itself.
func (l *Leader) step(ctx context.Context) LeaderStatus {
	// The hold counts from before the renewal was sent: Consul cannot end the
	// session earlier than a TTL after that.
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
			if entry == nil { // it ended
				l.session, lost = "", true
			}
		}
		if l.session == "" {
			// Bound to its TTL alone: the checks of a node may flap.
			id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{Name: "gpuboard leader", TTL: leaderTTL.String(),
				LockDelay: leaderDelay, Behavior: api.SessionBehaviorRelease}, w)
			if err != nil {
				return err
			}
			l.session = id
		}
		// Reading first spares the servers a write for every step of every
		// candidate.
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

// resign gives the key and the session back, so that the next leader need not
// wait. ctx has ended by now, so it has a little time of its own.
func (l *Leader) resign() {
	l.until.Store(nil)
	if l.session == "" {
		return
	}
	session := l.session
	l.session = ""
	// Should this fail, the session ends by itself.
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
