package serve

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
)

// wanted reads the bookings from the form. What was assumed has to be confirmed.
func (d *bookingForm) wanted(v *visit) ([]booking.Booking, error) {
	f := &v.page.Fields
	if v.Person = v.Aliases.Canonical(f.Name); v.Person == "" {
		return nil, &refusal{status: http.StatusUnprocessableEntity, say: "noname", field: "name"}
	}
	from, until, notes, err := v.Times(strings.TrimSpace(f.From), strings.TrimSpace(f.Until))
	if err != nil {
		return nil, err
	}
	if asked := until.UTC().Format(time.RFC3339); len(notes) > 0 && f.Sure != asked {
		f.Sure = asked
		detail := strings.Join(notes, "; ") + ": " + booking.Describe(from, until, v.Now, v.Zone)
		return nil, &refusal{status: http.StatusUnprocessableEntity, say: "sure", detail: detail}
	}
	v.OverRunning = f.Over
	wanted := slices.Clone(v.page.At)
	for i := range wanted {
		wanted[i].From, wanted[i].Until, wanted[i].Comment, wanted[i].Kind = from, until, strings.TrimSpace(
			f.Comment), booking.Reserved
	}
	return wanted, nil
}

// offer finds what is asked for in the fields: so many GPUs of a kind.
func (d *bookingForm) offer(v *visit, cal *booking.Calendar) error {
	f := &v.page.Fields
	wish := board.Wish{OneHost: f.OneHost, Request: board.Request{Model: f.Model}}
	var err error
	if wish.GPUs, err = strconv.Atoi(strings.TrimSpace(f.GPUs)); err != nil || wish.GPUs < 1 || wish.GPUs > maxPlaces {
		return &refusal{status: http.StatusUnprocessableEntity, say: "count", field: "gpus"}
	}
	if memory := strings.TrimSpace(f.Memory); memory != "" {
		if strings.Trim(memory, "0123456789.") == "" {
			memory += "G"
		}
		if wish.Memory, err = board.ParseMemory(memory); err != nil {
			return &refusal{status: http.StatusUnprocessableEntity, say: "memory", field: "memory", detail: err.Error()}
		}
	}
	// What was assumed need not be asked about: the offer says from when until when.
	if wish.From, wish.Until, _, err = v.Times(strings.TrimSpace(f.From), strings.TrimSpace(f.Until)); err != nil {
		return err
	}
	offer := wish.Offer(v.board, cal, v.Now)
	v.page.Wish, v.page.Offer = &wish, &offer
	return nil
}

// body reads a form within its bounds of size and time.
func (d *bookingForm) body(w http.ResponseWriter, r *http.Request) (url.Values, *denial) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return nil, &denial{status: http.StatusUnsupportedMediaType,
			text: "a form is sent as application/x-www-form-urlencoded"}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d.BodyTimeout)) // a recorder in tests has none
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &denial{status: http.StatusRequestEntityTooLarge,
			text: fmt.Sprintf("the form is larger than %d KiB: nothing was saved", maxBody>>10)}
	}
	if err != nil {
		// A client that sends so slowly would read slowly too.
		w.Header().Set("Connection", "close")
		return nil, &denial{status: http.StatusRequestTimeout,
			text: "the form did not arrive in time: nothing was saved"}
	}
	q, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, &denial{status: http.StatusBadRequest, text: "the form cannot be read"}
	}
	return q, nil
}

// maxFreed bounds the address that says what was released: a proxy may take no more than 4 KiB.
const maxFreed = 2 << 10

// freed returns the query of the page after a release: the bookings that were released, in the fields of the form
// that books them again. If one form cannot, because they differ, or if that is too long, it names none.
func (v *visit) freed(list []booking.Booking) url.Values {
	first := list[0]
	q := url.Values{
		"released": {string(first.Kind)}, "name": {first.Name},
		"until": {booking.EndText(first.Until)}, "comment": {first.Comment},
	}
	if first.From.After(v.Now) {
		q.Set("from", first.From.Format(time.RFC3339))
	}
	alike := true
	for _, b := range list {
		q.Add("at", b.Place())
		alike = alike && b.Name == first.Name && b.From.Equal(first.From) && b.Until.Equal(first.Until) &&
			b.Comment == first.Comment && b.Kind == first.Kind
	}
	if !alike || len(q.Encode()) > maxFreed {
		return url.Values{"released": {"1"}}
	}
	return q
}

// readFreed reads the query of [visit.freed], and whether the form can book that again.
func (v *visit) readFreed() {
	p, q := &v.page, v.query
	from, until, _, err := v.Times(q.Get("from"), q.Get("until"))
	if err != nil { // it would be over by now
		p.Freed = nil
	}
	for i := range p.Freed {
		b := &p.Freed[i]
		b.Kind, b.Name, b.Comment = booking.Kind(q.Get("released")), q.Get("name"), q.Get("comment")
		b.From, b.Until = from, until
		p.Again = b.Kind == booking.Reserved && strings.EqualFold(b.Name, p.Fields.Name)
	}
}
