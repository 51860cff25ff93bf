package booking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

// A Policy decides what one person may book, extend and release. The command line
// and the booking form share it.
type Policy struct {
	// Login is who makes the change, for Person. Both are canonical names.
	Login, Person string
	// Written is Person as it is to be written into the file; "" for Person itself.
	Written string
	// Force overrides existing bookings, and allows changes of those of others.
	Force bool
	// OverRunning is the [Consent] to the jobs of others that the person agrees to book
	// over; "" for none. Running says what runs on the GPUs of a booking; nil if that is
	// not known.
	OverRunning string
	Running     func(Booking) []Job
	Now         time.Time
	Zone        *time.Location // of the times that people type
	FileZone    Zone           // of the times in the file
	Aliases     Aliases
	Limits      Limits
	Fleet       Fleet
}

// A Change is the outcome of an edit of the file.
type Change struct {
	Before, After []byte
	// Done are the bookings that were made or changed, as they read in the file.
	Done []Booking
	// Over are the existing bookings that were overridden, Running what others run there.
	Over    []Booking
	Running []Job
	// Freed are the periods that a release makes free.
	Freed []Booking
}

// Reason is why a change is refused.
type Reason string

// The values of Reason.
const (
	Taken     Reason = "taken"      // it conflicts with Bookings of others, or maintenance
	Already   Reason = "already"    // the person has booked the same for that time: Bookings
	NotYours  Reason = "not-yours"  // Bookings belong to somebody else
	NoBooking Reason = "no-booking" // nothing has that name; Bookings are the person's on that host
	Ambiguous Reason = "ambiguous"  // Bookings have the same id in the file
	BadPlace  Reason = "bad-place"  // what is to be changed is neither an ID nor a place
	OverLimit Reason = "over-limit" // a limit is exceeded
	BadBegin  Reason = "bad-begin"  // the beginning cannot be read, or is over
	BadEnd    Reason = "bad-end"    // the end cannot be read, or cannot be chosen
	Running   Reason = "running"    // others are using it: Jobs
	// RunningChanged means that others are using it, and not those that the person agreed to: Jobs.
	RunningChanged Reason = "running-changed"
)

// A Refusal is the error of a change that the policy does not allow.
type Refusal struct {
	Reason   Reason
	Bookings []Booking
	Jobs     []Job
	Err      error // the details in words
}

func (r *Refusal) Error() string { return r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

// refuse names a refusal's first booking in its error.
func refuse(reason Reason, bookings []Booking, what string) *Refusal {
	return &Refusal{Reason: reason, Bookings: bookings,
		Err: fmt.Errorf("%s %s %s", bookings[0].Place(), what, bookings[0].Name)}
}

// Options are those with which the bookings are read for this policy.
func (p *Policy) Options() Options {
	return Options{Aliases: p.Aliases, Now: p.Now}
}

// Read returns the bookings of a file's content, with the names of this policy.
func (p *Policy) Read(data []byte) *Calendar {
	return Parse("comments.json", data, p.FileZone, p.Options()).On(p.Fleet)
}

// Mine reports whether a booking is the person's own, or made by them for somebody else.
func (p *Policy) Mine(b Booking) bool {
	mine := p.Aliases.Mine(p.Person)
	return mine(b.Name) || b.By != "" && mine(b.By)
}

// Times reads when a new booking begins and ends. An empty from is now, and the
// end "never" is the zero time. The notes say what was assumed. An error is a
// [*Refusal] for BadBegin or BadEnd.
func (p *Policy) Times(from, until string) (begin, end time.Time, notes []string, err error) {
	begin = p.Now.Truncate(time.Minute) // people write no seconds
	if from != "" {
		t, note, err := ParseMoment(from, p.Now, p.Zone)
		if err == nil && t.Before(begin) {
			err = fmt.Errorf("%s is over", t.In(p.Zone).Format("Mon 2 Jan 2006 15:04 MST"))
		}
		if err != nil {
			return begin, end, nil, &Refusal{Reason: BadBegin, Err: err}
		}
		begin, notes = t, appendNote(notes, note)
	}
	end, note, err := p.end(until, begin)
	return begin, end, appendNote(notes, note), err
}

func (p *Policy) end(text string, from time.Time) (end time.Time, note string, err error) {
	if end, note, err = ParseUntil(text, from, p.Now, p.Zone); err != nil {
		return end, "", &Refusal{Reason: BadEnd, Err: err}
	}
	return end, note, nil
}

// newEnd reads the new end of a booking. A length of time is added to its present end.
func (p *Policy) newEnd(text string, b Booking) (end time.Time, note string, err error) {
	from := later(b.From, p.Now)
	if _, err := ParseDuration(text); err == nil {
		if from = b.Until; from.IsZero() {
			return end, "", &Refusal{Reason: BadEnd,
				Err: fmt.Errorf("%s has no end that could be moved by %s", b.Place(), text)}
		}
	}
	return p.end(text, from)
}

// Book adds bookings, all or none. One that would begin before now begins now.
func (p *Policy) Book(data []byte, wanted ...Booking) (Change, error) {
	if p.Person == Unreadable {
		return Change{}, fmt.Errorf("%w: %s is no name: it stands for an entry that cannot be read", ErrInvalid,
			quote(p.Person))
	}
	cal := p.Read(data)
	var others, own []Booking
	wanted = slices.Clone(wanted)
	for i := range wanted {
		w := &wanted[i]
		w.Name = p.Person
		p.begin(cal, w)
		standing := Conflicts(cal, *w, p.Fleet)
		others = append(others, Others(standing, *w)...)
		for _, b := range standing {
			if samePerson(b, *w) && b.Kind == w.Kind && b.Target.All == w.Target.All {
				own = append(own, b)
			}
		}
	}
	maintenance := !slices.ContainsFunc(wanted, func(w Booking) bool { return w.Kind != Maintenance })
	switch {
	case p.Force:
	case len(others) > 0 && !maintenance:
		return Change{}, refuse(Taken, others, "is booked by")
	case len(own) > 0:
		return Change{}, refuse(Already, own, "is booked already by")
	}
	if err := p.Limits.Check(cal, wanted, p.Now, p.Fleet); err != nil {
		return Change{}, &Refusal{Reason: OverLimit, Err: err}
	}
	jobs, err := p.running(wanted)
	if err != nil {
		return Change{}, err
	}
	for i := range wanted {
		w := &wanted[i]
		w.Forced = p.Force && len(others) > 0
		if p.Written != "" {
			w.Name = p.Written
		}
		if !strings.EqualFold(p.Login, p.Person) || w.Forced {
			w.By = p.Login
		}
	}
	next, done, err := Add(data, p.FileZone, wanted...)
	return Change{Before: data, After: next, Done: done, Over: others, Running: jobs}, err
}

// begin moves the beginning of a booking from before now to now: in whole minutes,
// because people read the file, or to the second if another booking of the GPU ended
// within this minute.
func (p *Policy) begin(cal *Calendar, w *Booking) {
	if w.From.After(p.Now) {
		return
	}
	w.From = p.Now.Truncate(time.Minute)
	if len(Conflicts(cal, *w, p.Fleet)) > 0 {
		w.From = p.Now.Truncate(time.Second)
	}
}

// Extend moves the ends of the bookings that which names (see [Policy.Find]).
func (p *Policy) Extend(data []byte, which, until string) (c Change, notes []string, err error) {
	c = Change{Before: data, After: data}
	cal := p.Read(data)
	found, err := p.Find(cal, which, false)
	if err != nil {
		return c, nil, err
	}
	for _, b := range slices.Backward(found) { // the IDs of equal entries are numbered, so the last one is first
		end, note, err := p.newEnd(until, b)
		if err != nil {
			return c, nil, err
		}
		over, err := p.extendable(cal, b, end)
		if err != nil {
			return c, nil, err
		}
		next, changed, err := Extend(c.After, p.FileZone, b.ID, end, p.Now)
		if err != nil {
			return c, nil, err
		}
		c.After, c.Done, c.Over = next, append(c.Done, changed), append(c.Over, over...)
		notes = appendNote(notes, note)
	}
	slices.Reverse(c.Done)
	return c, notes, nil
}

// extendable checks the time that an extension adds, and returns the bookings that it overrides.
func (p *Policy) extendable(cal *Calendar, b Booking, end time.Time) (over []Booking, err error) {
	if b.Until.IsZero() || !end.IsZero() && !end.After(b.Until) {
		return nil, nil
	}
	added, whole := b, b
	added.From, added.Until, whole.Until = b.Until, end, end
	over = Others(Conflicts(cal, added, p.Fleet), added)
	if len(over) > 0 && !p.Force && b.Kind != Maintenance {
		return nil, refuse(Taken, over, "is booked by")
	}
	if err := p.Limits.Check(cal, []Booking{whole}, p.Now, p.Fleet); err != nil {
		return nil, &Refusal{Reason: OverLimit, Err: err}
	}
	return over, nil
}

// Release ends the named bookings now. One that has not begun is removed from the file.
func (p *Policy) Release(data []byte, which ...string) (Change, error) {
	c := Change{Before: data, After: data}
	cal := p.Read(data)
	released := map[string]bool{}
	for _, name := range which {
		found, err := p.Find(cal, name, true)
		if err != nil {
			return c, err
		}
		for _, b := range slices.Backward(found) { // as in Extend
			if released[b.ID] {
				continue
			}
			released[b.ID] = true
			next, was, err := Release(c.After, p.FileZone, b.ID, p.Now)
			if err != nil {
				return c, err
			}
			was.Name = b.Name
			freed := b
			freed.ID, freed.From = was.ID, later(b.From, p.Now)
			c.After, c.Done, c.Freed = next, append(c.Done, was), append(c.Freed, freed)
		}
	}
	slices.Reverse(c.Done)
	slices.Reverse(c.Freed)
	return c, nil
}

// Find returns the bookings that a name means: the one with that ID, or those in force
// at that place (see [ParsePlace]), or else the next one of each GPU there. Bookings of
// others are found only with Force. If wholeHost is true, the name of a host that is
// not booked as a whole means all bookings on it. An error is a [*Refusal] for
// NotYours, NoBooking or BadPlace, or [ErrInvalid] for a booking whose key may mean several hosts, because
// changing one would change all of them.
func (p *Policy) Find(cal *Calendar, name string, wholeHost bool) ([]Booking, error) {
	found, err := p.find(cal, name, wholeHost)
	if i := slices.IndexFunc(found, func(b Booking) bool { return b.guess }); i >= 0 {
		return nil, fmt.Errorf("%w: its host is unclear: correct the key of line %d, column %d of the file first",
			ErrInvalid, found[i].Line, found[i].Col)
	}
	return found, err
}

func (p *Policy) find(cal *Calendar, name string, wholeHost bool) ([]Booking, error) {
	notYours := func(b Booking) error { return refuse(NotYours, []Booking{b}, "is booked by") }
	named := cal.Named(name)
	for _, b := range named {
		switch {
		case b.Line != named[0].Line || b.Col != named[0].Col:
			return nil, ambiguous(name, named)
		case !p.Mine(b) && !p.Force:
			return nil, notYours(b)
		case b.OverAt(p.Now):
			return nil, overError(b, p.Zone)
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	host, targets, err := ParsePlace(name)
	if err != nil {
		return nil, &Refusal{Reason: BadPlace, Err: err}
	}
	if _, known := p.Fleet.Hosts[host]; !known {
		if hosts, certain := p.Fleet.meant()(host); certain {
			host = hosts[0]
		}
	}
	here := selected(cal.Bookings, func(b Booking) bool { return b.Host == host && !b.OverAt(p.Now) })
	var found []Booking
	for _, target := range targets {
		at := selected(here, func(b Booking) bool { return b.Target == target })
		if len(at) == 0 && target.All && wholeHost {
			at = here
		}
		own := selected(at, p.Mine)
		switch {
		case len(own) > 0:
			found = append(found, current(own, p.Now)...)
		case len(at) == 0:
			what := "there is no booking "
			if !target.All || strings.Contains(name, ":") {
				what = "nobody has booked "
			}
			err := errors.New(what + snapshot.Text(name, 80) + p.otherHost(cal, host))
			return nil, &Refusal{Reason: NoBooking, Bookings: selected(here, p.Mine), Err: err}
		case p.Force:
			found = append(found, current(at, p.Now)...)
		default:
			return nil, notYours(current(at, p.Now)[0])
		}
	}
	return found, nil
}

// otherHost adds to the error of a name without bookings the nearest host on which the person has some.
func (p *Policy) otherHost(cal *Calendar, host string) string {
	var hosts []string
	for _, b := range cal.Bookings {
		if !b.OverAt(p.Now) && p.Mine(b) {
			hosts = append(hosts, b.Host)
		}
	}
	if near := similarHost(host, hosts); near != "" && near != host {
		return "; did you mean " + quote(near) + "?"
	}
	return ""
}

// ambiguous is the error of an id that several entries have, with the IDs to choose from.
func ambiguous(id string, named []Booking) error {
	var which []string
	for _, b := range named {
		which = append(which, fmt.Sprintf("%s for %s (line %d) is %s", b.Place(), b.Name, b.Line, b.ID))
	}
	return &Refusal{Reason: Ambiguous, Bookings: named,
		Err: fmt.Errorf("several bookings have the id %s: %s", quote(id), strings.Join(which, "; "))}
}

// current returns the bookings in force; if there are none, the next one on each GPU.
func current(list []Booking, now time.Time) []Booking {
	if active := selected(list, func(b Booking) bool { return b.ActiveAt(now) }); len(active) > 0 {
		return active
	}
	return slices.CompactFunc(slices.Clone(list), func(a, b Booking) bool { return a.Target == b.Target })
}

func selected(list []Booking, keep func(Booking) bool) (out []Booking) {
	for _, b := range list {
		if keep(b) {
			out = append(out, b)
		}
	}
	return out
}

func appendNote(notes []string, note string) []string {
	if note == "" || slices.Contains(notes, note) {
		return notes
	}
	return append(notes, note)
}

// later returns the later of two moments.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
