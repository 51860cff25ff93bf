package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/sitegen/text"
)

// staleBoard is the age at which a board is no news any more.
const staleBoard = 10 * time.Minute

// choose picks free GPUs: those that the board calls free, when the booking
// begins now, and that nobody has booked until its end. All on one host if that
// can be, on the one with the least to spare; else from the hosts with most.
func (m *bookingMaker) choose(cal *booking.Calendar, among []booking.Booking, from, until time.Time) ([]booking.Booking, error) {
	r := m.request
	r.pick.hosts = nil
	for _, b := range among {
		r.pick.hosts = append(r.pick.hosts, b.Host)
	}
	now := !from.After(m.now)
	if age := m.now.Sub(m.fleet.board.GeneratedAt); now && age > staleBoard {
		m.note("the board was made " + booking.Length(age) + " ago: what it calls free may be in use by now")
	}
	type hostWith struct {
		name string
		free []booking.Booking
	}
	var hosts []hostWith
	fit, total := 0, 0
	for i := range m.fleet.board.Hosts {
		h := &m.fleet.board.Hosts[i]
		with := hostWith{name: h.Name}
		for g := range h.Units() {
			target, ok := g.Target()
			if !ok || !r.pick.fits(h, g) {
				continue
			}
			fit++
			w := m.wanted(h.Name, target, from, until)
			if now && g.State != board.Free || g.State == board.Lost || g.Missing || m.taken(cal, w) {
				continue
			}
			with.free = append(with.free, w)
			total++
		}
		if len(with.free) > 0 {
			hosts = append(hosts, with)
		}
	}
	if total < r.gpus {
		return nil, fail(exitNoMatch, fmt.Errorf("%s of %d wanted can be booked, of %d that fit", counted(total, "GPU"), r.gpus, fit),
			"gpuboard status shows who has them and until when")
	}
	slices.SortStableFunc(hosts, func(a, b hostWith) int {
		enoughA, enoughB := len(a.free) >= r.gpus, len(b.free) >= r.gpus
		switch {
		case enoughA != enoughB:
			if enoughA {
				return -1
			}
			return 1
		case enoughA:
			return cmp.Or(cmp.Compare(len(a.free), len(b.free)), cmp.Compare(a.name, b.name))
		}
		return cmp.Or(cmp.Compare(len(b.free), len(a.free)), cmp.Compare(a.name, b.name))
	})
	var picked []booking.Booking
	for _, h := range hosts {
		picked = append(picked, h.free[:min(len(h.free), r.gpus-len(picked))]...)
	}
	return picked, nil
}

// taken reports whether anybody, oneself too, has a GPU at the time wanted.
func (m *bookingMaker) taken(cal *booking.Calendar, w booking.Booking) bool {
	w.Name += "\x00" // nobody's name
	if w.From.Before(m.now) {
		w.From = m.now
	}
	return len(booking.Conflicts(cal, w, m.fleet.resolve)) > 0
}

// extend moves the ends of bookings.
func (m *bookingMaker) extend(ctx context.Context) error {
	r := m.request
	return m.change(ctx, func(data []byte) (outcome, error) {
		out := outcome{before: data, after: data}
		cal := m.parse(data)
		found, err := m.find(cal, r.extend, r.force, false)
		if err != nil {
			return out, err
		}
		for _, b := range slices.Backward(found) { // as in release
			if b.Until.IsZero() && r.length != "" {
				return out, usagef("--until TIME gives it one", "%s has no end that could be moved by %s", placeOf(b), r.length)
			}
			from := b.From
			if from.Before(m.now) {
				from = m.now
			}
			until, err := m.end(b.Until, from)
			if err != nil {
				return out, err
			}
			over, err := m.extendable(cal, b, until)
			if err != nil {
				return out, err
			}
			next, changed, err := booking.Extend(out.after, m.in, b.ID, until, m.now)
			if err != nil {
				return out, err
			}
			out.after, out.done, out.over = next, append(out.done, changed), append(out.over, over...)
		}
		slices.Reverse(out.done)
		return out, nil
	}, "extended")
}

// extendable checks the time that is added; what is held already is not asked
// for anew, even where somebody booked over it.
func (m *bookingMaker) extendable(cal *booking.Calendar, b booking.Booking, until time.Time) (over []booking.Booking, err error) {
	longer := !b.Until.IsZero() && (until.IsZero() || until.After(b.Until))
	if !longer {
		return nil, nil
	}
	more := b
	more.From, more.Until = b.Until, until
	over = booking.Conflicts(cal, more, m.fleet.resolve)
	if len(over) > 0 && !m.request.force && b.Kind != booking.Maintenance {
		return nil, m.conflict(over)
	}
	whole := b
	whole.Until = until
	if err := m.limits.Check(cal, []booking.Booking{whole}, m.now, m.fleet.gpus); err != nil {
		return nil, fail(exitError, err, "")
	}
	return over, nil
}

// inUse notes who uses what is about to be booked from now on, booked or not.
func (m *bookingMaker) inUse(wants []booking.Booking) {
	if m.fleet.board == nil {
		return
	}
	const most = 8
	for _, w := range wants {
		if w.From.After(m.now) {
			continue
		}
		for i := range m.fleet.board.Hosts {
			h := &m.fleet.board.Hosts[i]
			if h.Name != w.Host {
				continue
			}
			for g := range h.Units() {
				switch g.State {
				case board.Busy, board.Stuck, board.Lost, board.Unknown:
					if g.CoveredBy(w.Target) && len(m.notes) < most {
						m.note(fmt.Sprintf("%s:%s is %s", h.Name, g.Label(), text.Why(m.fleet.board, g, text.Options{Width: 200, Zone: m.zone})))
					}
				}
			}
		}
	}
}

// change makes the change, or shows it, and says what came of it.
func (m *bookingMaker) change(ctx context.Context, edit func([]byte) (outcome, error), verb string) error {
	out, err := m.apply(ctx, m.request.dryRun, edit)
	if err != nil {
		return m.failed(err)
	}
	for _, b := range out.over {
		fmt.Fprintf(m.app.stderr, "gpuboard: %s\n", printable(m.standing(b)))
	}
	for _, b := range out.done {
		m.note(clocksChange(b, m.now, m.zone))
	}
	for _, n := range m.notes {
		fmt.Fprintf(m.app.stderr, "gpuboard: note: %s\n", printable(n))
	}
	return m.tell(verb, out, nil, m.request.asJSON, m.request.dryRun)
}

// apply makes a change under the lock, or with dry only reads. The outcome is
// that of the last time that edit was called, which is the one that counts.
func (d *desk) apply(ctx context.Context, dry bool, edit func([]byte) (outcome, error)) (out outcome, err error) {
	if dry {
		data, err := d.file.Read()
		if err != nil {
			return out, fmt.Errorf("reading the bookings: %w", err)
		}
		if err := d.file.Intact(data); err != nil {
			return out, err
		}
		return edit(data)
	}
	err = d.file.Update(ctx, d.by(), func(data []byte) ([]byte, error) {
		out, err = edit(data)
		return out.after, err
	})
	return out, err
}

// tell prints what was done: a line for each stretch of time, or JSON, and with
// dry the lines of the file that would change. freed, when not nil, are the
// stretches that were given back, which say more than what is left.
func (d *desk) tell(verb string, out outcome, freed []booking.Booking, asJSON, dry bool) error {
	if asJSON {
		doc := struct {
			Schema   int           `json:"schema_version"`
			Action   string        `json:"action"`
			DryRun   bool          `json:"dry_run"`
			Bookings []bookingJSON `json:"bookings"`
			Over     []bookingJSON `json:"over"`
			Diff     string        `json:"diff,omitempty"`
		}{1, verb, dry, toJSON(out.done), toJSON(out.over), ""}
		if dry {
			doc.Diff = diffLines(out.before, out.after)
		}
		return writeJSON(d.app.stdout, doc)
	}
	if dry {
		verb = "would be " + verb
		if _, err := fmt.Fprint(d.app.stdout, diffLines(out.before, out.after)); err != nil {
			return err
		}
	}
	list := out.done
	if freed != nil {
		list = freed
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].From.Equal(list[0].From) && list[n].Until.Equal(list[0].Until) && list[n].Name == list[0].Name {
			n++
		}
		var ids []string
		for _, b := range list[:n] {
			ids = append(ids, b.ID)
		}
		what, given := verb, ""
		if freed != nil {
			given = " given back"
		}
		if list[0].Kind == booking.Maintenance {
			what += " for maintenance"
		}
		if _, err := fmt.Fprintf(d.app.stdout, "%s %s for %s: %s [%s]\n", printable(places(list[:n])), what, printable(d.aliases.Canonical(list[0].Name)),
			d.when(list[0])+given, printable(strings.Join(ids, " "))); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// clocksChange says that a day of the booking is not 24 hours long; "" when all are.
func clocksChange(b booking.Booking, now time.Time, zone *time.Location) string {
	from := b.From
	if from.IsZero() {
		from = now
	}
	if b.Until.IsZero() {
		return ""
	}
	_, before := from.In(zone).Zone()
	_, after := b.Until.In(zone).Zone()
	way := "forward"
	switch {
	case before == after:
		return ""
	case after < before:
		way = "back"
	}
	length := b.Until.Sub(from).Round(time.Minute)
	words := fmt.Sprintf("%d h", int(length.Hours()))
	if minutes := int(length.Minutes()) % 60; minutes != 0 {
		words += fmt.Sprintf(" %d min", minutes)
	}
	return fmt.Sprintf("clocks go %s in between: it lasts %s", way, words)
}

// A bookingJSON is a booking as commands print it.
type bookingJSON struct {
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

func toJSON(bookings []booking.Booking) []bookingJSON {
	list := make([]bookingJSON, 0, len(bookings))
	for _, b := range bookings {
		list = append(list, oneJSON(b))
	}
	return list
}

func oneJSON(b booking.Booking) bookingJSON {
	moment := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	return bookingJSON{b.ID, b.Host, b.Target.String(), b.Name, moment(b.From), moment(b.Until), b.Comment, string(b.Kind), b.By, b.Forced}
}
