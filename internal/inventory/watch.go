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

// How a watch treats Consul's servers.
const (
	watchWait     = 5 * time.Minute // how long one question stays open; Consul allows 10
	watchMinGap   = time.Second     // between two questions
	watchMaxPause = time.Minute     // after errors
)

// A Change is why a watch calls.
type Change struct {
	Datacenter string // as in the options, "" for the agent's own
	Index      uint64 // Consul's
}

// Watch calls changed after the first answer, and then whenever the hosts in
// Consul are other than before, until ctx ends; it returns ctx's error. Calls
// never overlap, and while one runs, changes gather. Errors are retried ever
// more slowly and are not reported: [Consul.Query] meets the same ones.
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
				if w.ask(ctx, c) {
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

// watched returns the datacenters to watch; it goes on asking until it knows.
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

// ask asks one blocking question, and reports whether the answer is news.
func (w *watch) ask(ctx context.Context, c *Consul) bool {
	// Jitter keeps several generators from asking in step.
	wait := time.Duration(float64(watchWait) * (0.9 + 0.2*rand.Float64()))
	// Consul adds up to a sixteenth of its own.
	ctx, cancel := context.WithTimeout(ctx, wait+wait/16+c.opts.Timeout)
	defer cancel()
	client, _, err := c.client() // afresh: a token file may have changed
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
			// A question that waits is only the alarm. Its answer may come from
			// the agent's own view of the events, which keeps a host that left
			// when its node was registered under two spellings, GPU01 and gpu01.
			r = c.service(ctx, client, c.queryOptions(w.datacenter))
		}
	}
	if r.err != nil {
		w.failures++
		w.index = 0 // whoever answers next may count from elsewhere
		return false
	}
	w.failures = 0
	first := w.digest == [sha256.Size]byte{}
	w.index = index
	// An index also moves for reasons that do not show: what a passing check
	// says, or another service in the case of one that does not exist.
	digest := digestOf(r.entries, w.datacenter)
	news := first || digest != w.digest
	w.digest = digest
	return news
}

// nextIndex is the index to wait on. One that went backwards means that the
// servers were restored or replaced, and waiting on the old one could take for
// ever; 0 asks without waiting, and so does an index that a server must not give.
func nextIndex(old, got uint64) uint64 {
	if got < old {
		return 0
	}
	return max(got, 1)
}

func digestOf(entries []*api.ServiceEntry, datacenter string) [sha256.Size]byte {
	hosts, problems := hostsOf([]part{{datacenter, entries}})
	data, _ := json.Marshal([]any{hosts, problems}) // plain values: cannot fail
	return sha256.Sum256(data)
}

// pause is how long to wait before the next question, which may itself have
// taken a while.
func (w *watch) pause(took time.Duration) time.Duration {
	if w.failures > 0 {
		return backoff(w.failures)
	}
	return watchMinGap - took
}

// backoff is a second, doubled with every failure up to a minute, and up to a
// quarter more at random.
func backoff(failures int) time.Duration {
	d := watchMaxPause
	if failures < 7 {
		d = min(d, time.Second<<(failures-1))
	}
	return d + time.Duration(rand.Int64N(int64(d)/4))
}

// sleep waits, or until ctx ends.
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
