package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

const (
	watchWait     = 5 * time.Minute // duration of one blocking query; Consul allows 10
	watchMinGap   = time.Second     // between two queries
	watchMaxPause = time.Minute     // after errors
)

// A Change is one call of a watch.
type Change struct {
	Datacenter string // as in the options, "" for the agent's own
	Index      uint64 // Consul's
}

// Watch calls changed after the first answer, and then whenever the hosts in Consul
// change, until ctx ends; it returns ctx's error. Calls never overlap, and several
// changes during a call cause one more. Errors are retried with backoff and are not
// reported, because [Consul.Query] returns the same ones.
func (c *Consul) Watch(ctx context.Context, changed func(Change)) error {
	names, err := c.watched(ctx)
	if err != nil {
		return err
	}
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for _, name := range names {
		w := watch{datacenter: name}
		wg.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				if w.poll(ctx, c) {
					mu.Lock()
					if ctx.Err() == nil {
						changed(Change{Datacenter: name, Index: w.index})
					}
					mu.Unlock()
				}
				sleep(ctx, w.pause(time.Since(start)))
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// watched returns the datacenters to watch. It retries until it knows them.
func (c *Consul) watched(ctx context.Context) ([]string, error) {
	for failures := 0; ; failures++ {
		var names []string
		err := c.do(ctx, "asking Consul for its datacenters", func(ctx context.Context, client *api.Client) (err error) {
			names, err = c.datacenters(ctx, client)
			return err
		})
		if err == nil {
			return names, nil
		}
		sleep(ctx, backoff(failures+1))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// A watch is the state of watching one datacenter.
type watch struct {
	datacenter string
	index      uint64
	digest     [sha256.Size]byte
	failures   int
}

// poll makes one blocking query, and reports whether the hosts have changed.
func (w *watch) poll(ctx context.Context, c *Consul) bool {
	// Jitter keeps several generators from querying at the same moments.
	wait := time.Duration(float64(watchWait) * (0.9 + 0.2*rand.Float64()))
	// Consul adds up to a sixteenth to the wait.
	ctx, cancel := context.WithTimeout(ctx, wait+wait/16+c.opts.Timeout)
	defer cancel()
	client, _, err := c.client() // reads the token file again
	if err != nil {
		w.failures++
		return false
	}
	q := c.queryOptions(w.datacenter)
	q.WaitIndex, q.WaitTime = w.index, wait
	r := c.service(ctx, client, q)
	index := uint64(0)
	if r.err == nil {
		index = nextIndex(w.index, r.meta.LastIndex)
		if w.index != 0 && r.meta.LastIndex != w.index {
			// The blocking query only tells that something changed. Its answer may
			// come from the agent's event stream, which keeps a host that left if its
			// node was registered under two spellings, GPU01 and gpu01.
			r = c.service(ctx, client, c.queryOptions(w.datacenter))
		}
	}
	if r.err != nil {
		w.failures++
		w.index = 0 // another server may have other indexes
		return false
	}
	w.failures = 0
	first := w.digest == [sha256.Size]byte{}
	w.index = index
	// An index also changes without a change of hosts: with the output of a passing
	// check, or with any service when the watched one does not exist.
	digest := digestOf(r.entries, w.datacenter)
	changed := first || digest != w.digest
	w.digest = digest
	return changed
}

// nextIndex returns the index for the next query. An index that went backwards means
// that the servers were restored or replaced: waiting for the old one could block
// forever, so the next query does not wait (0).
func nextIndex(old, got uint64) uint64 {
	if got < old {
		return 0
	}
	return max(got, 1)
}

func digestOf(entries []*api.ServiceEntry, datacenter string) [sha256.Size]byte {
	hosts, problems := hostsOf([]part{{datacenter, entries}})
	data, _ := json.Marshal([]any{hosts, problems}) // cannot fail for plain values
	return sha256.Sum256(data)
}

// pause returns how long to wait before the next query.
func (w *watch) pause(took time.Duration) time.Duration {
	if w.failures > 0 {
		return backoff(w.failures)
	}
	return watchMinGap - took
}

// backoff returns a second, doubled with every failure up to a minute, plus up to a
// quarter of it at random.
func backoff(failures int) time.Duration {
	d := watchMaxPause
	if failures < 7 {
		d = min(d, time.Second<<(failures-1))
	}
	return d + time.Duration(rand.Int64N(int64(d)/4))
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
