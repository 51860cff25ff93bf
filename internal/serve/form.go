package serve

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gpuboard/internal/booking"
)

// wanted reads the booking out of the form. What it had to guess it asks about.
func (d *desk) wanted(p *place) (booking.Booking, error) {
	f := &p.form
	want := booking.Booking{Host: f.Host, Target: p.target, Name: p.me, Comment: strings.TrimSpace(f.Comment), Kind: booking.Reserved}
	if name := p.aliases.Canonical(f.Name); !strings.EqualFold(name, p.me) {
		if want.Name, want.By = name, p.me; name == "" {
			return want, &refusal{status: http.StatusUnprocessableEntity, say: "noname", field: "name"}
		}
	}
	unclear := func(err error, field string) error {
		return &refusal{status: http.StatusUnprocessableEntity, say: "time", detail: err.Error(), field: field}
	}
	var notes []string
	if from := strings.TrimSpace(f.From); from != "" {
		t, note, err := booking.ParseMoment(from, p.now, p.zone)
		switch {
		case err != nil:
			return want, unclear(err, "from")
		case t.Before(p.now.Add(-time.Minute)):
			return want, unclear(fmt.Errorf("%s is over", t.In(p.zone).Format("Mon 2 Jan 2006 15:04")), "from")
		case note != "":
			notes = append(notes, note)
		}
		want.From = t
	}
	begin := want.From
	if begin.IsZero() {
		begin = p.now.Truncate(time.Minute)
	}
	until, note, err := booking.ParseUntil(strings.TrimSpace(f.Until), begin, p.now, p.zone)
	if err != nil {
		return want, unclear(err, "until")
	}
	want.Until = until
	if note != "" {
		notes = append(notes, note)
	}
	if len(notes) > 0 {
		asked := until.UTC().Format(time.RFC3339)
		if f.Sure != asked {
			f.Sure = asked
			return want, &refusal{status: http.StatusUnprocessableEntity, say: "sure", detail: strings.Join(notes, "; ") + ": " + booking.Describe(want.From, until, p.now, p.zone)}
		}
	}
	return want, nil
}

var (
	errType   = errors.New("a form is sent as application/x-www-form-urlencoded")
	errFields = errors.New("the form cannot be read")
)

// body reads a form within its bounds of size and time.
func (d *desk) body(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, errType
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(d.BodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	q, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, errFields
	}
	return q, nil
}

func bodyError(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	status := http.StatusBadRequest
	switch {
	case errors.As(err, &large):
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the form is larger than %d KiB: nothing was saved", maxBody>>10)
	case errors.Is(err, errType):
		status = http.StatusUnsupportedMediaType
	case errors.Is(err, errFields):
	default:
		// Whoever sends so slowly would read slowly too.
		w.Header().Set("Connection", "close")
		status, err = http.StatusRequestTimeout, errors.New("the form did not arrive in time: nothing was saved")
	}
	http.Error(w, err.Error(), status)
}
