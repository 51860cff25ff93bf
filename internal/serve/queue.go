package serve

import (
	"context"
	"sync"
)

// A queue limits how many comparisons of passwords run at once: a few in all and one
// per address, so that one address cannot hold up the others.
type queue struct {
	running chan struct{} // one element for each comparison that runs

	mu        sync.Mutex
	addresses map[string]*addressSlot // those that run a comparison or wait
}

// An addressSlot lets one comparison of an address run at a time.
type addressSlot struct {
	taken chan struct{}
	users int // comparisons that run or wait
}

func newQueue(atOnce int) *queue {
	return &queue{running: make(chan struct{}, atOnce), addresses: map[string]*addressSlot{}}
}

// enter waits until a comparison for address may run. If ctx ends before, it returns
// an error; otherwise leave must be called.
func (q *queue) enter(ctx context.Context, address string) (leave func(), err error) {
	q.mu.Lock()
	slot := q.addresses[address]
	if slot == nil {
		slot = &addressSlot{taken: make(chan struct{}, 1)}
		q.addresses[address] = slot
	}
	slot.users++
	q.mu.Unlock()
	done := func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if slot.users--; slot.users == 0 {
			delete(q.addresses, address)
		}
	}
	select {
	case slot.taken <- struct{}{}:
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
	select {
	case q.running <- struct{}{}:
	case <-ctx.Done():
		<-slot.taken
		done()
		return nil, ctx.Err()
	}
	leave = func() {
		<-q.running
		<-slot.taken
		done()
	}
	if err := ctx.Err(); err != nil { // both were ready
		leave()
		return nil, err
	}
	return leave, nil
}
