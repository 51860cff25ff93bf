package collector

import (
	"context"
	"time"
)

// A late reading may take longer than anybody waits for it. While it does, no other one is begun.
type late[T any] struct{ running chan T }

// begin begins a reading, unless one is running.
func (l *late[T]) begin(read func() T) {
	if l.running != nil {
		select {
		case <-l.running: // it has finished by now, and is old
		default:
			return
		}
	}
	running := make(chan T, 1)
	go func() { running <- read() }()
	l.running = running
}

// wait returns what was read; ok is false if that takes longer than the budget.
func (l *late[T]) wait(ctx context.Context, budget time.Duration) (value T, ok bool) {
	select {
	case value = <-l.running:
		l.running = nil
		return value, true
	case <-time.After(budget):
	case <-ctx.Done():
	}
	return value, false
}
