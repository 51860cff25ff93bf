package serve

import (
	"errors"
	"net/http"

	"gpuboard/internal/booking"
)

// A refusal is why nothing was saved, as a key of the word list with details.
type refusal struct {
	status  int
	say     string // "book.say."+say
	detail  string // in English
	field   string // of the form, that it is about
	clashes []booking.Booking
}

func (r *refusal) Error() string { return r.say + " " + r.detail }

// refused turns the errors of a change into what the form says. endField is the field that
// the end was read from. It is nil for other errors, which are not refusals.
func refused(err error, endField string) *refusal {
	var policy *booking.Refusal
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	switch {
	case errors.As(err, &policy):
		return policyRefusal(policy, endField)
	case errors.Is(err, booking.ErrBroken):
		return &refusal{status: http.StatusConflict, say: "broken"}
	case errors.Is(err, booking.ErrNotFound):
		return &refusal{status: http.StatusConflict, say: "gone"}
	case errors.Is(err, booking.ErrOver):
		return &refusal{status: http.StatusConflict, say: "over"}
	case errors.Is(err, booking.ErrInvalid):
		return &refusal{status: http.StatusUnprocessableEntity, say: "invalid", detail: err.Error()}
	case errors.Is(err, booking.ErrEncoding):
		return &refusal{status: http.StatusUnprocessableEntity, say: "invalid", detail: err.Error(), field: "comment"}
	case errors.Is(err, booking.ErrLocked), errors.Is(err, booking.ErrChanged):
		return &refusal{status: http.StatusServiceUnavailable, say: "busy", detail: err.Error()}
	}
	return nil
}

func policyRefusal(p *booking.Refusal, endField string) *refusal {
	const wrong = http.StatusUnprocessableEntity
	why, known := map[booking.Reason]refusal{
		booking.Taken:          {status: http.StatusConflict, say: "conflict", clashes: p.Bookings},
		booking.Already:        {status: http.StatusConflict, say: "already", clashes: p.Bookings[:min(len(p.Bookings), 1)]},
		booking.NotYours:       {status: http.StatusForbidden, say: "not-yours", clashes: p.Bookings},
		booking.OverLimit:      {status: wrong, say: "limit", detail: p.Error(), field: endField},
		booking.Running:        {status: http.StatusConflict, say: "running", field: "over"},
		booking.RunningChanged: {status: http.StatusConflict, say: "running-changed", field: "over"},
		booking.BadBegin:       {status: wrong, say: "time", detail: p.Error(), field: "from"},
		booking.BadEnd:         {status: wrong, say: "time", detail: p.Error(), field: endField},
	}[p.Reason]
	if !known {
		why = refusal{status: http.StatusConflict, say: "gone"}
	}
	return &why
}
