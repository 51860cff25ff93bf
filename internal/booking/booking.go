// Package booking is comments.json: who has reserved which GPU, until when. It reads the
// file, which people edit by hand, reports mistakes with line and column, and changes the
// file so that everything else in it stays as people wrote it.
package booking

import (
	"time"

	"gpuboard/internal/snapshot"
)

// Kind is what a booking is for.
type Kind string

// The values of Kind. An entry without one is a booking.
const (
	Reserved    Kind = "booking"
	Maintenance Kind = "maintenance"
)

// A Booking is one entry of comments.json.
type Booking struct {
	// ID is that of the entry. One without, or with that of another, has one derived from host,
	// target, name, from and until.
	ID      string
	Host    string // as snapshot.ParseHost returns it
	Target  Target
	Name    string // who booked, canonical after aliases
	Written string // the name as it stands in the file
	From    time.Time
	Until   time.Time // zero: open-ended
	Comment string
	Kind    Kind
	By      string // who made the entry, if that is recorded and not Name
	Forced  bool   // made although somebody else had a booking
	Line    int    // of the entry in the file, from 1
	Col     int

	shared string // the id in the file, if it is that of several bookings
	guess  bool   // its key may mean several hosts, and this is one of them
}

// ActiveAt reports whether the booking is in force at t: From is part of it, Until is
// not. A zero From is before all times, a zero Until never ends.
func (b Booking) ActiveAt(t time.Time) bool { return !b.From.After(t) && !b.OverAt(t) }

// OverAt reports whether the booking has ended by t.
func (b Booking) OverAt(t time.Time) bool { return !b.Until.IsZero() && !b.Until.After(t) }

// A JSON is a booking as commands print it and as the archive keeps it.
type JSON struct {
	ID      string     `json:"id"`
	Host    string     `json:"host"`
	GPU     string     `json:"gpu"` // as in comments.json: "0", a UUID or "*"
	Name    string     `json:"name"`
	From    *time.Time `json:"from"`
	Until   *time.Time `json:"until"`
	Comment string     `json:"comment"`
	Kind    string     `json:"kind"`
	By      string     `json:"by,omitempty"`
	Forced  bool       `json:"forced"`
}

// JSON returns the booking as commands print it.
func (b Booking) JSON() JSON {
	return JSON{b.ID, b.Host, b.Target.String(), b.Name, jsonTime(b.From), jsonTime(b.Until), b.Comment, string(b.Kind),
		b.By, b.Forced}
}

// jsonTime is a time in UTC; nil for the zero time.
func jsonTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// A Calendar is what could be read of comments.json.
type Calendar struct {
	// Bookings are in the order of host, target, start. Those that are over are among
	// them.
	Bookings []Booking
	// Problems are the mistakes and contradictions in the file, with line and column.
	Problems []snapshot.Problem
	// File is the file's name as problems cite it: comments.json.
	File string
	// Broken is true if the file has an error of syntax or cannot be read. LastGood is
	// then when the content was read whose bookings are shown instead; zero if there is
	// none.
	Broken   bool
	LastGood time.Time
}

// Mistake says what keeps a broken file from being changed, and where in it that is.
func (c *Calendar) Mistake() string {
	p := c.Problems[0]
	if p.Line > 0 {
		return p.Where() + ": " + p.Message
	}
	return p.Message
}
