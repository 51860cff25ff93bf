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

// wanted reads the booking from the form. What was assumed has to be confirmed.
func (d *bookingForm) wanted(v *visit) (booking.Booking, error) {
	f := &v.form
	if v.Person = v.Aliases.Canonical(f.Name); v.Person == "" {
		return booking.Booking{}, &refusal{status: http.StatusUnprocessableEntity, say: "noname", field: "name"}
	}
	from, until, notes, err := v.Times(strings.TrimSpace(f.From), strings.TrimSpace(f.Until))
	if err != nil {
		return booking.Booking{}, err
	}
	if asked := until.UTC().Format(time.RFC3339); len(notes) > 0 && f.Sure != asked {
		f.Sure = asked
		detail := strings.Join(notes, "; ") + ": " + booking.Describe(from, until, v.Now, v.Zone)
		return booking.Booking{}, &refusal{status: http.StatusUnprocessableEntity, say: "sure", detail: detail}
	}
	return booking.Booking{Host: f.Host, Target: v.target, From: from, Until: until, Comment: strings.TrimSpace(f.Comment), Kind: booking.Reserved}, nil
}

var (
	errType   = errors.New("a form is sent as application/x-www-form-urlencoded")
	errFields = errors.New("the form cannot be read")
)

// body reads a form within its bounds of size and time.
func (d *bookingForm) body(w http.ResponseWriter, r *http.Request) (url.Values, error) {
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
		// A client that sends so slowly would read slowly too.
		w.Header().Set("Connection", "close")
		status, err = http.StatusRequestTimeout, errors.New("the form did not arrive in time: nothing was saved")
	}
	http.Error(w, err.Error(), status)
}
