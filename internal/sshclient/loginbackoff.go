package sshclient

import (
	"errors"
	"fmt"
	"time"
)

// sshd of OpenSSH 9.8 and later blocks an address for a while after a few failed
// logins, and many nodes may share one address. A node whose key is refused would
// fail at every interval and get the others blocked, so it waits longer after
// each refused login.
const (
	firstLoginPause = 30 * time.Second
	maxLoginPause   = 5 * time.Minute
)

// A Backoff remembers a login that fails until somebody changes something.
type Backoff struct {
	refused *Error // the last refusal; nil when logins may be attempted
	until   time.Time
	pause   time.Duration
}

// Record takes the result of an attempt to connect.
func (b *Backoff) Record(err error, now time.Time) {
	if err == nil {
		*b = Backoff{}
	} else if e, ok := errors.AsType[*Error](err); ok && e.LoginRefused {
		b.pause = min(max(2*b.pause, firstLoginPause), maxLoginPause)
		b.refused, b.until = e, now.Add(b.pause)
	}
}

// Check returns the last refusal while the pause lasts, with the time of the next attempt, and nil
// after it.
func (b *Backoff) Check(now time.Time) error {
	// A clock that was set back does not make the pause longer.
	if b.refused == nil || !now.Before(b.until) || now.Before(b.until.Add(-b.pause)) {
		return nil
	}
	e := *b.refused
	e.Err = fmt.Errorf("%w; the next login is at %s", e.Err, b.until.UTC().Format(time.RFC3339))
	return &e
}
