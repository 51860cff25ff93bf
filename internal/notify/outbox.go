package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/events"
)

const outboxSchema = 1

// outbox is everything on its way, as it is in the file.
type outbox struct {
	Schema int               `json:"schema"`
	Seen   []string          `json:"seen"` // ids that were accepted, oldest first
	Hooks  map[string]*queue `json:"hooks"`
}

// queue is what waits for one hook, and how it has gone so far.
type queue struct {
	Pending []item      `json:"pending"`
	Sent    []time.Time `json:"sent,omitempty"` // of the last minute
	Tries   int         `json:"tries,omitempty"`
	Next    time.Time   `json:"next,omitzero"` // not before
	Error   string      `json:"error,omitempty"`
	Refused bool        `json:"refused,omitempty"`
	Dropped int         `json:"dropped,omitempty"` // left out since the last message
	Day     string      `json:"day,omitempty"`     // of the last summary, in the site's zone
	// Began is when the last delivery began. Writing it first proves that the
	// acknowledgement can be written too: else a full disk would send the same
	// message at every generation.
	Began time.Time `json:"began,omitzero"`
}

// item is one event, or one summary.
type item struct {
	ID       string        `json:"id"`
	Accepted time.Time     `json:"accepted"`
	Event    *events.Event `json:"event,omitempty"`
	Text     string        `json:"text,omitempty"`
}

func (q *queue) add(i item) {
	q.Pending = append(q.Pending, i)
	if over := len(q.Pending) - MaxPending; over > 0 {
		q.Pending = q.Pending[over:]
		q.Dropped += over
	}
}

func (q *queue) expire(now time.Time) {
	for len(q.Pending) > 0 && now.Sub(q.Pending[0].Accepted) > MaxAge {
		q.Pending = q.Pending[1:]
		q.Dropped++
	}
}

func (q *queue) failure(name string) Failure {
	return Failure{Hook: name, Err: errors.New(q.Error), Tries: q.Tries, Waiting: len(q.Pending), Next: q.Next, Refused: q.Refused}
}

// errForgotten is wrapped by the error about an outbox that cannot be read.
var errForgotten = errors.New("what was on its way is forgotten")

// load reads the outbox. It is never nil, and empty after an error.
func (c *Notifier) load() (*outbox, error) {
	box := &outbox{Schema: outboxSchema, Hooks: map[string]*queue{}}
	data, err := atomicfile.Read(c.opt.Outbox, maxOutbox)
	if errors.Is(err, fs.ErrNotExist) {
		return box, nil
	}
	if err != nil {
		return box, fmt.Errorf("reading the outbox: %w", err)
	}
	var read outbox
	if err := json.Unmarshal(data, &read); err != nil {
		return box, fmt.Errorf("reading the outbox: %w; %w", err, errForgotten)
	}
	if read.Schema != outboxSchema {
		return box, fmt.Errorf("reading the outbox: it has schema %d, and this version reads %d; %w", read.Schema, outboxSchema, errForgotten)
	}
	if read.Hooks == nil {
		read.Hooks = map[string]*queue{}
	}
	for name, q := range read.Hooks {
		if q == nil {
			delete(read.Hooks, name)
		}
	}
	return &read, nil
}

func (c *Notifier) save(box *outbox) error {
	data, err := json.Marshal(box)
	if err != nil {
		return fmt.Errorf("writing the outbox: %w", err)
	}
	// What is in it is the board's, but a failed hook's words may not be.
	if _, err := atomicfile.Write(c.opt.Outbox, data, 0o600); err != nil {
		return fmt.Errorf("writing the outbox: %w", err)
	}
	return nil
}

func (b *outbox) clone() *outbox {
	n := &outbox{Schema: b.Schema, Seen: b.Seen, Hooks: make(map[string]*queue, len(b.Hooks))}
	for name, q := range b.Hooks {
		c := *q
		n.Hooks[name] = &c
	}
	return n
}

func (b *outbox) equal(o *outbox) bool { return reflect.DeepEqual(b, o) }
