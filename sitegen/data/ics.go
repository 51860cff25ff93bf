package data

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	ics "github.com/arran4/golang-ical"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// maxEvents is how many bookings a calendar has. Programs that show calendars fetch all of one each time, and become
// slow with tens of thousands.
const maxEvents = 2000

// bookingTexts are the bookings of a board as they stand in files. A booking stands in several
// calendars and in several documents, and is written once for all of them.
type bookingTexts struct {
	title string // of the site
	now   time.Time
	all   []*board.Booking
	of    map[*board.Booking]*bookingText
}

// A bookingText is one of them: as JSON, and as an event once a calendar has it.
type bookingText struct {
	json  []byte
	uid   string
	once  sync.Once
	event icsEvent
}

// An icsEvent is the event of a booking as it stands in files.
type icsEvent []byte

// UnknownPropertiesIANAProperties implements ics.Component.
func (icsEvent) UnknownPropertiesIANAProperties() []ics.IANAProperty { return nil }

// SubComponents implements ics.Component.
func (icsEvent) SubComponents() []ics.Component { return nil }

// SerializeTo implements ics.Component.
func (e icsEvent) SerializeTo(w io.Writer, _ *ics.SerializationConfiguration) error {
	_, err := w.Write(e)
	return err
}

// newBookingTexts writes the documents of a board's bookings, and names their events. UIDs and stamps come from the
// booking alone: an unchanged booking is an unchanged event, and one that is extended
// stays the same event in whoever's calendar it is.
func newBookingTexts(in render.Input) *bookingTexts {
	bookings := in.Board.Bookings
	t := &bookingTexts{
		title: in.Site.Title, now: in.Board.GeneratedAt, of: make(map[*board.Booking]*bookingText, len(bookings)),
	}
	seen, texts := make(map[string]int, len(bookings)), make([]bookingText, len(bookings))
	var doc []byte
	for i := range bookings {
		b, text := &bookings[i], &texts[i]
		text.uid = icsID(b.ID)
		seen[text.uid]++
		if n := seen[text.uid]; n > 1 {
			text.uid += "-" + strconv.Itoa(n)
		}

		doc = new(bookingOf(b)).appendTo(doc[:0])
		text.json = bytes.Clone(doc)
		t.all = append(t.all, b)
		t.of[b] = text
	}
	return t
}

// event is the event of a booking. Calendars of several hosts are written at the same time.
func (t *bookingTexts) event(b *board.Booking) icsEvent {
	text := t.of[b]
	text.once.Do(func() {
		e := ics.NewEvent(text.uid + "@gpuboard")
		e.Properties = slices.Grow(e.Properties, 9) // those of [fillEvent]
		fillEvent(e, b, t.now)
		var out bytes.Buffer
		lines := &ics.SerializationConfiguration{MaxLength: 75, PropertyMaxLength: 75, NewLine: "\r\n"}
		_ = e.SerializeTo(&out, lines) // a buffer in memory cannot fail
		text.event = out.Bytes()
	})
	return text.event
}

// shared are the calendars of all bookings and of each person who uses or has
// booked anything, as [render.People] says. A calendar without bookings is published all the same, so that
// subscribing to it works before the first.
func (t *bookingTexts) shared(b *board.Board) []render.File {
	people := render.People(b)
	byUser := b.BookingsByName(people)
	files := []render.File{t.file("bookings.ics", "bookings", t.all)}
	for _, name := range slices.Sorted(maps.Keys(people)) {
		files = append(files, t.file("users/"+people[name]+".ics", name, byUser[name]))
	}
	return files
}

// file is the calendar of some of the board's bookings. Of too many, it has those that are not over and begin first,
// and says how many are left out.
func (t *bookingTexts) file(path, of string, bookings []*board.Booking) render.File {
	cal := ics.NewCalendarFor("gpuboard")
	cal.SetMethod(ics.MethodPublish)
	cal.SetXWRCalName(snapshot.Text(t.title+": "+of, snapshot.MaxTextBytes))
	if all := len(bookings); all > maxEvents {
		bookings = slices.DeleteFunc(slices.Clone(bookings), func(b *board.Booking) bool { return b.Expired })
		bookings = bookings[:min(len(bookings), maxEvents)]
		cal.SetXWRCalDesc(fmt.Sprintf("%d bookings are left out: those that are over, and those that begin last.",
			all-len(bookings)))
	}
	cal.SetXPublishedTTL("PT15M")
	size := 512 // of the head
	for _, b := range bookings {
		event := t.event(b)
		cal.Components = append(cal.Components, event)
		size += len(event)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size))
	_ = cal.SerializeTo(buf, ics.WithNewLineWindows) // a buffer in memory cannot fail
	return render.NewFile(path, buf.Bytes())
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

// fillEvent fills one event. A booking may lack its start or its end, and a
// calendar has no word for either: without a start the event begins with the
// day of generation (or of the booking's end, when that is over), and without
// an end it is a whole day that repeats for ever.
func fillEvent(e *ics.VEvent, b *board.Booking, now time.Time) {
	e.SetSummary(icsSummary(b))
	e.SetDtStampTime(cmp.Or(b.From, b.Until, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))

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
