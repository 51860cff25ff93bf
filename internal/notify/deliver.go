package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"gpuboard/internal/snapshot"
)

// The pause after a failure doubles from firstPause to maxPause.
const (
	firstPause = 30 * time.Second
	maxPause   = time.Hour
)

// A refusal is an answer that refuses a message, or defers it.
type refusal struct {
	err       error
	permanent bool          // the same message will be refused again
	recipient bool          // because nobody has this address
	after     time.Duration // Retry-After of the receiver; 0 for none
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Deliver sends what waits, to all hooks in parallel and to each in order, within [Budget].
// It returns the hooks that fail. What could not be sent stays.
func (c *Notifier) Deliver(ctx context.Context, now time.Time) []State {
	box, err := c.load()
	if err != nil {
		return []State{{Err: err}}
	}
	var due []*Hook
	for i := range c.opt.Hooks {
		h := &c.opt.Hooks[i]
		if c.quiet(h, now) {
			continue
		}
		if q := box.Hooks[h.Name]; q != nil && h.Not != "" {
			q.Pending = withoutEnded(q.Pending)
		}
		if q := box.Hooks[h.Name]; q != nil && len(q.Pending) > 0 && q.isDue(now) && q.tokens(h, now) > 0 {
			q.Began = now
			due = append(due, h)
		}
	}
	if len(due) > 0 {
		if err := c.save(box); err != nil {
			return []State{{Err: fmt.Errorf("nothing is sent: %w", err)}}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	var all errgroup.Group
	for _, h := range due {
		all.Go(func() error { return c.serve(ctx, h, box, now) })
	}
	unsaved := all.Wait()
	list := c.failures(box)
	if unsaved != nil {
		list = slices.Insert(list, 0, State{Err: unsaved})
	}
	return list
}

// isDue reports whether the pause is over. One longer than maxPause comes from a wrong clock.
func (q *queue) isDue(now time.Time) bool {
	return !now.Before(q.Next) || q.Next.Sub(now) > maxPause
}

// tokens returns how many messages the hook may still get in this minute.
func (q *queue) tokens(h *Hook, now time.Time) int {
	q.Sent = slices.DeleteFunc(q.Sent,
		func(t time.Time) bool { return now.Sub(t) >= time.Minute || t.After(now.Add(time.Minute)) })
	return h.PerMinute - len(q.Sent)
}

// serve sends what waits for one hook. The error is one of the outbox.
func (c *Notifier) serve(ctx context.Context, h *Hook, box *outbox, now time.Time) error {
	q := box.Hooks[h.Name]
	for {
		c.mu.Lock()
		m, n := c.next(h, q, now)
		c.mu.Unlock()
		if n == 0 || ctx.Err() != nil {
			return nil
		}
		err := c.send(ctx, h, m)
		if err != nil && errors.Is(ctx.Err(), context.Canceled) {
			return nil // the caller gave up; the hook has not failed
		}
		c.mu.Lock()
		if err != nil {
			q.failed(err, now)
			if r, ok := errors.AsType[*refusal](err); ok && r.recipient && h.toPeople() {
				q.Pending = slices.Clone(q.Pending[n:]) // one wrong address keeps nothing from others
			}
		} else {
			q.Pending = slices.Clone(q.Pending[n:])
			q.Sent = append(q.Sent, now)
			q.Tries, q.Next, q.Error, q.Refused, q.Dropped = 0, time.Time{}, "", false, 0
		}
		saved := c.save(box)
		c.mu.Unlock()
		if saved != nil || err != nil {
			return saved
		}
	}
}

// next returns the next message and how many items it contains; 0 if none may be sent now.
// If more events wait than the rate allows, they are combined.
func (c *Notifier) next(h *Hook, q *queue, now time.Time) (message, int) {
	tokens := q.tokens(h, now)
	if len(q.Pending) == 0 || tokens <= 0 {
		return message{}, 0
	}
	first := q.Pending[0]
	if first.Event == nil {
		return c.summaryMessage(first, q.Dropped), 1
	}
	n := 1
	if len(q.Pending) > tokens {
		for n < len(q.Pending) && n < maxTogether && q.Pending[n].Event != nil && q.Pending[n].To == first.To {
			n++
		}
	}
	return c.eventMessage(q.Pending[:n], q.Dropped, now), n
}

func (q *queue) failed(err error, now time.Time) {
	pause := min(firstPause<<min(q.Tries, 10), maxPause)
	q.Tries++
	q.Refused = false
	if r, ok := errors.AsType[*refusal](err); ok {
		q.Refused = r.permanent
		pause = min(max(pause, r.after), maxPause)
	}
	q.Next = now.Add(pause)
	q.Error = printable(err.Error(), 300)
}

func (c *Notifier) send(ctx context.Context, h *Hook, m message) error {
	switch h.Kind {
	case Webhook:
		return c.post(ctx, h, m)
	case Mail:
		return c.mail(ctx, h, m)
	default:
		return c.run(ctx, h, m)
	}
}

// printable makes the text of another program safe to print, in one line.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return snapshot.Text(strings.TrimSpace(s), most)
}
