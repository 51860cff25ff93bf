package data

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// icsShared are the calendars of all bookings and of each person who uses or has
// booked anything, as [People] says. A calendar without bookings is published all the same, so that
// subscribing to it works before the first.
func icsShared(in render.Input) ([]render.File, error) {
	b := in.Board
	title := in.Site.Title
	people, byUser := render.People(b), map[string][]*board.Booking{}
	all := make([]*board.Booking, len(b.Bookings))
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		all[i] = bk
		byUser[bk.Name] = append(byUser[bk.Name], bk)
	}

	files := make([]render.File, 0, len(people)+1)
	add := func(path, name string, bookings []*board.Booking) error {
		content, err := icsCalendar(name, bookings, b.GeneratedAt)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		files = append(files, render.NewFile(path, content))
		return nil
	}
	if err := add("bookings.ics", title+": bookings", all); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(people)) {
		if err := add("users/"+people[name]+".ics", title+": "+name, byUser[name]); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// icsCalendar writes bookings as events. UIDs and stamps come from the booking
// alone: an unchanged booking is an unchanged event, and one that is extended
// stays the same event in whoever's calendar it is.
func icsCalendar(name string, bookings []*board.Booking, now time.Time) ([]byte, error) {
	cal := ics.NewCalendarFor("gpuboard")
	cal.SetMethod(ics.MethodPublish)
	cal.SetXWRCalName(snapshot.Text(name, snapshot.MaxTextBytes))
	cal.SetXPublishedTTL("PT15M")
	seen := map[string]int{}
	for _, b := range bookings {
		uid := icsID(b.ID)
		seen[uid]++
		if n := seen[uid]; n > 1 {
			uid += "-" + strconv.Itoa(n)
		}
		icsEvent(cal.AddEvent(uid+"@gpuboard"), b, now)
	}
	var buf bytes.Buffer
	if err := cal.SerializeTo(&buf, ics.WithNewLineWindows); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// icsID keeps of an id what needs no escaping in any reader.
func icsID(id string) string {
	return strings.Map(func(r rune) rune {
		if r > 0x20 && r < 0x7f && !strings.ContainsRune(`\;,"`, r) {
			return r
		}
		return '-'
	}, id)
}

// icsEvent fills one event. A booking may lack its start or its end, and a
// calendar has no word for either: without a start the event begins with the
// day of generation (or of the booking's end, when that is over), and without
// an end it is a whole day that repeats for ever.
func icsEvent(e *ics.VEvent, b *board.Booking, now time.Time) {
	e.SetSummary(icsSummary(b))
	stamp := b.From
	if stamp.IsZero() {
		stamp = b.Until
	}
	if stamp.IsZero() {
		stamp = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	e.SetDtStampTime(stamp)

	start := b.From
	if start.IsZero() {
		start = now
		if !b.Until.IsZero() && b.Until.Before(start) {
			start = b.Until.Add(-time.Second)
		}
		start = start.UTC().Truncate(24 * time.Hour)
	}
	if b.Until.IsZero() {
		e.SetAllDayStartAt(start.UTC())
		e.AddRrule("FREQ=DAILY")
	} else {
		e.SetStartAt(start)
		e.SetEndAt(b.Until)
	}

	var text []string
	if b.Comment != "" {
		text = append(text, snapshot.Text(b.Comment, render.MaxText))
	}
	if b.From.IsZero() {
		text = append(text, "No start is given.")
	}
	if b.Until.IsZero() {
		text = append(text, "No end is given.")
	}
	if b.By != "" && b.By != b.Name {
		text = append(text, "Entered by "+snapshot.Text(b.By, snapshot.MaxNameBytes)+".")
	}
	if len(text) > 0 {
		e.SetDescription(strings.Join(text, "\n"))
	}
	e.SetLocation(snapshot.Text(b.Host, snapshot.MaxTextBytes))
	e.SetStatus(ics.ObjectStatusConfirmed)
	// A booked GPU does not make its owner busy.
	e.SetTimeTransparency(ics.TransparencyTransparent)
}

func icsSummary(b *board.Booking) string {
	what := b.Host
	switch {
	case len(b.GPUs) > 0:
		one := *b
		one.GPUs = slices.Sorted(slices.Values(b.GPUs))
		what += " GPU " + strings.Join(one.Labels(), ",")
	case b.UUID != "":
		what += " " + b.UUID
	default:
		what += " (whole host)"
	}
	who := b.Name
	if b.Kind == "maintenance" {
		who = "maintenance, " + who
	}
	return snapshot.Text(what+": "+who, snapshot.MaxTextBytes)
}
