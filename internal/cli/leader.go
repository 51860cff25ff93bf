package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
)

// How often a candidate that does not lead looks whether it has something new to say.
const lookAround = time.Second

// A candidate is this generator in the election among those of one site.
type candidate struct {
	app    *app
	leader *inventory.Leader
	won    func() // called when this generator begins to lead

	mu   sync.Mutex
	lost map[*func()]bool // what to call when it ceases to lead
	said string
}

func newCandidate(a *app, l *inventory.Leader, won func()) *candidate {
	return &candidate{app: a, leader: l, won: won, lost: map[*func()]bool{}}
}

// stand stands for election until ctx ends, and says how it stands whenever
// that is something else than before.
func (c *candidate) stand(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() {
		for pause(ctx, lookAround) == nil {
			c.tell()
		}
	})
	_ = c.leader.Run(ctx, func(held bool) {
		if ctx.Err() != nil {
			return // it ends, and gives the lead back
		}
		c.tell()
		if held {
			c.won()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for f := range c.lost {
			(*f)()
		}
	})
}

// whenLost has f called when this generator ceases to lead, until the returned
// function is called.
func (c *candidate) whenLost(f func()) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[&f] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.lost, &f)
	}
}

func (c *candidate) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, words := c.words()
	if key == c.said || words == "" {
		return
	}
	c.said = key
	fmt.Fprintf(c.app.stderr, "gpuboard: %s %s\n", c.app.now().UTC().Format(time.RFC3339), printable(words))
}

// words says how this generator stands; the key is the same as long as that is
// the same in substance.
func (c *candidate) words() (key, words string) {
	s := c.leader.Status()
	switch {
	case c.leader.Held():
		return "leads", "leading: this generator writes the site"
	case s == nil: // the first attempt is under way
		return "", ""
	case s.Err != nil:
		f := failure.Explain(s.Err)
		words = fmt.Sprintf("standing by: %v", s.Err)
		if f.Hint != "" {
			words += "\ngpuboard: hint: " + f.Hint
		}
		return "error", words
	case s.Holder == "":
		return c.said, "" // nobody leads yet: the next attempt will tell
	}
	return "behind " + s.Holder, "standing by: another generator leads (" + s.Holder + ")"
}
