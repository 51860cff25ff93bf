// Package booking is comments.json: who has reserved which GPU, until when. It
// reads the file that people edit by hand, says by line and column what is
// wrong with it, and changes it without disturbing what they wrote.
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
	// ID is the entry's own id, or one made from host, target, name, from and
	// until, so that every booking can be named.
	ID      string
	Host    string // as snapshot.ParseHost returns it
	Target  Target
	Name    string // who booked, canonical after aliases
	Written string // the name as it stands in the file
	From    time.Time
	Until   time.Time // zero: open-ended
	Comment string
	Kind    Kind
	By      string // who made the entry, where that is recorded and differs
	Forced  bool   // made over somebody's standing booking
	Line    int    // of the entry in the file, from 1
	Col     int
}

// ActiveAt reports whether the booking is in force at t: From is part of it,
// Until is not. A zero From has always been, a zero Until never ends.
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
	return JSON{b.ID, b.Host, b.Target.String(), b.Name, jsonTime(b.From), jsonTime(b.Until), b.Comment, string(b.Kind), b.By, b.Forced}
}

// jsonTime is a time in UTC; nil for the zero time.
func jsonTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// A Calendar is all of comments.json as far as it could be understood.
type Calendar struct {
	// Bookings are in the order of host, target, start. Expired ones are among
	// them: who shows them decides for how long.
	Bookings []Booking
	// Problems names each thing in the file that could not be used, or that
	// contradicts something else, with its line and column.
	Problems []snapshot.Problem
	// File is the file's name as problems cite it: comments.json.
	File string
	// Encoding is how the file was written: "utf-8" or "windows-1252".
	Encoding string
	// Broken is true when the file is not well-formed. LastGood is then when
	// the content was read that stands in for what could not be; zero when all
	// bookings are those of the file as it is.
	Broken   bool
	LastGood time.Time
}

// At returns the bookings in force at t that cover the GPU of this index and
// UUID on host, those of kind maintenance first, then by start.
func (c *Calendar) At(t time.Time, host string, index int, uuid string) []Booking {
	var active []Booking
	for _, kind := range []Kind{Maintenance, Reserved} {
		for _, b := range c.Bookings {
			if b.Host == host && b.Kind == kind && b.Target.Covers(index, uuid) && b.ActiveAt(t) {
				active = append(active, b)
			}
		}
	}
	return active
}
