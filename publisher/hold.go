package publisher

import (
	"errors"
	"time"
)

// sshd of OpenSSH 9.8 and later turns a whole address away for a while after a
// few logins that failed, and behind one address there may be many nodes. A
// node whose key is refused would fail at every interval until somebody mends
// it, and lock the others out with it. So it knocks less and less often.
const (
	firstHold = 30 * time.Second
	longHold  = 5 * time.Minute
)

// hold is the memory of a door that stays shut until somebody does something.
type hold struct {
	refused *Error // nil: the door was open, or may be by itself
	until   time.Time
	length  time.Duration
}

// learn takes what came of knocking.
func (h *hold) learn(err error, now time.Time) {
	var e *Error
	if !errors.As(err, &e) || !e.shut {
		if err == nil {
			*h = hold{}
		}
		return
	}
	h.length = min(max(2*h.length, firstHold), longHold)
	h.refused, h.until = e, now.Add(h.length)
}

// refusal is why there is no use in knocking yet, or nil.
func (h *hold) refusal(now time.Time) error {
	// A clock that was set back must not shut the door for longer.
	if h.refused == nil || !now.Before(h.until) || now.Before(h.until.Add(-h.length)) {
		return nil
	}
	return h.refused
}
