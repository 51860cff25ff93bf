package serve

import (
	"context"
	"hash/maphash"
)

// A queue limits how many passwords are compared at once: two in all, and one per address.
// Addresses with the same hash share a place.
type queue struct {
	running   chan struct{}
	addresses [256]chan struct{}
	seed      maphash.Seed
}

func newQueue() *queue {
	q := &queue{running: make(chan struct{}, 2), seed: maphash.MakeSeed()}
	for i := range q.addresses {
		q.addresses[i] = make(chan struct{}, 1)
	}
	return q
}

// enter waits until a comparison may run. Without an error, leave must be called.
func (q *queue) enter(ctx context.Context, address string) (leave func(), err error) {
	own := q.place(address)
	select {
	case own <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case q.running <- struct{}{}:
	case <-ctx.Done():
		<-own
		return nil, ctx.Err()
	}
	return func() { <-q.running; <-own }, nil
}

func (q *queue) place(address string) chan struct{} {
	return q.addresses[maphash.String(q.seed, address)%uint64(len(q.addresses))]
}
