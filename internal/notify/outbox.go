package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/events"
)

const outboxSchema = 1

// outbox is the content of the outbox file: everything that waits for delivery.
type outbox struct {
	Schema int               `json:"schema"`
	Seen   []string          `json:"seen"` // ids that were accepted, oldest first
	Hooks  map[string]*queue `json:"hooks"`
}

// queue is what waits for one hook, and the state of its deliveries.
type queue struct {
	Pending []item      `json:"pending"`
	Sent    []time.Time `json:"sent,omitempty"` // of the last minute
	Tries   int         `json:"tries,omitempty"`
	Next    time.Time   `json:"next,omitzero"` // no attempt before
	Error   string      `json:"error,omitempty"`
	Refused bool        `json:"refused,omitempty"`
	Dropped int         `json:"dropped,omitempty"` // since the last message
	Day     string      `json:"day,omitempty"`     // of the last summary, in the site's zone
	Report  string      `json:"report,omitempty"`  // the day of the last report
	// Began is when the last delivery began. It is written before the delivery: where that
	// fails, the result could not be written either, and the message would be sent again.
	Began time.Time `json:"began,omitzero"`
}

type item struct {
	ID       string        `json:"id"`
	Accepted time.Time     `json:"accepted"`
	Event    *events.Event `json:"event,omitempty"`
	Text     string        `json:"text,omitempty"`
	To       string        `json:"to,omitempty"` // the person, of a hook to people
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

// errForgotten is wrapped by the error about an outbox that cannot be read.
var errForgotten = errors.New("the waiting messages are lost")

// load reads the outbox. The result is never nil; after an error it is empty.
func (c *Notifier) load() (*outbox, error) {
	box := &outbox{Schema: outboxSchema, Hooks: map[string]*queue{}}
	data, err := atomicfile.Read(c.opt.Outbox, maxOutbox)
	if errors.Is(err, fs.ErrNotExist) {
		return box, nil
	}
	if err != nil {
		return box, fmt.Errorf("reading the outbox: %w", err)
	}
	read := &outbox{}
	if err := json.Unmarshal(data, read); err != nil {
		return box, fmt.Errorf("reading the outbox: %w; %w", err, errForgotten)
	}
	if read.Schema != outboxSchema {
		return box, fmt.Errorf("reading the outbox: it has schema %d, and this version reads %d; %w", read.Schema,
			outboxSchema, errForgotten)
	}
	if read.Hooks == nil {
		read.Hooks = box.Hooks
	}
	return read, nil
}

func (c *Notifier) save(box *outbox) error {
	data, err := json.Marshal(box)
	if err != nil {
		return fmt.Errorf("writing the outbox: %w", err)
	}
	// The error text of a hook may not be for everybody.
	if _, err := atomicfile.Write(c.opt.Outbox, data, 0o600); err != nil {
		return fmt.Errorf("writing the outbox: %w", err)
	}
	return nil
}
