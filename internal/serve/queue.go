package serve

import (
	"context"
	"sync"
)

// A queue lets a few comparisons of passwords run at once, and one of each
// address, so that one address cannot make the others wait for its own.
type queue struct {
	free chan struct{} // one element for each that runs

	mu  sync.Mutex
	own map[string]*turn // of the addresses that run one or wait
}

// A turn is that of one address.
type turn struct {
	taken chan struct{}
	users int // run or wait
}

func newQueue(atOnce int) *queue {
	return &queue{free: make(chan struct{}, atOnce), own: map[string]*turn{}}
}

// enter waits until a comparison for address may run. It is an error when ctx
// ends before; otherwise leave must be called.
func (q *queue) enter(ctx context.Context, address string) (leave func(), err error) {
	q.mu.Lock()
	t := q.own[address]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		q.own[address] = t
	}
	t.users++
	q.mu.Unlock()
	done := func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(q.own, address)
		}
	}
	select {
	case t.taken <- struct{}{}:
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
	select {
	case q.free <- struct{}{}:
	case <-ctx.Done():
		<-t.taken
		done()
		return nil, ctx.Err()
	}
	leave = func() {
		<-q.free
		<-t.taken
		done()
	}
	if err := ctx.Err(); err != nil { // both were ready
		leave()
		return nil, err
	}
	return leave, nil
}
