package booking

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// maxVanished limits the bookings that are listed as vanished.
const maxVanished = 100

// Vanished returns the entries of the record whose bookings are missing from the
// calendar, although they were not released and are not over at opts.Now: somebody has
// saved an old copy of the file over them, or has deleted them by hand. One that was
// changed by hand has not vanished: the person has the GPU from the same time on, or at
// a time that overlaps.
func Vanished(record []Entry, cal *Calendar, opts Options) []Entry {
	standing := map[string]Entry{}
	var order []string
	for _, e := range record {
		delete(standing, e.Was)
		delete(standing, e.ID)
		if e.Action != Released {
			standing[e.ID] = e
			order = append(order, e.ID)
		}
	}
	if len(order) == 0 {
		return nil
	}
	type place struct {
		host string
		kind Kind
		name string
	}
	held := map[place][]Booking{}
	for _, b := range cal.Bookings {
		p := place{b.Host, b.Kind, strings.ToLower(b.Name)}
		held[p] = append(held[p], b)
	}
	var gone []Entry
	for _, id := range order {
		e, ok := standing[id]
		delete(standing, id)
		b, sound := e.Booking()
		if !ok || !sound || b.OverAt(opts.Now) {
			continue
		}
		there := held[place{b.Host, b.Kind, strings.ToLower(opts.Aliases.Canonical(b.Name))}]
		there = slices.Concat(there, held[place{b.Host, Reserved, Unreadable}]) // which may be this one
		if !slices.ContainsFunc(there, func(have Booking) bool {
			// An index and a UUID may be the same GPU.
			sameTarget := have.Target == b.Target || have.Target.All || b.Target.All ||
				(have.Target.UUID == "") != (b.Target.UUID == "")
			return sameTarget && (have.From.Equal(b.From) || !have.OverAt(opts.Now) && sameTime(have, b))
		}) {
			gone = append(gone, e)
		}
	}
	return gone
}

// vanished returns the problems of the bookings that have vanished.
func (f *File) vanished(cal *Calendar, opts Options) []snapshot.Problem {
	gone := Vanished(f.Record(), cal, opts)
	var problems []snapshot.Problem
	for _, e := range gone[:min(len(gone), maxVanished)] {
		problems = append(problems, f.vanishedProblem(e, opts.Now))
	}
	if more := len(gone) - maxVanished; more > 0 {
		problems = append(problems, snapshot.Problem{Code: "booking:vanished", File: filepath.Base(f.path),
			Message: fmt.Sprintf("%d more bookings are gone from the file, and were not released: "+
				"gpuboard bookings --log lists them", more)})
	}
	return problems
}

func (f *File) vanishedProblem(e Entry, now time.Time) snapshot.Problem {
	b, _ := e.Booking()
	p := snapshot.Problem{Code: "booking:vanished", Host: b.Host, File: filepath.Base(f.path)}
	if !b.Target.All && b.Target.UUID == "" {
		p.GPU = &b.Target.Index
	}
	say := func(restore string) string {
		return fmt.Sprintf(
			"%s is gone from the file, and was not released: it was %s by %s on %s, for %s. To put it back: %s; or to agree: gpuboard release %s",
			thing(b.Host, b.Target), e.Action, quote(e.By), e.At.In(f.zone.Location).Format("2006-01-02 15:04 MST"),
			Describe(b.From, b.Until, now, f.zone.Location), restore, shell.Quote(e.ID))
	}
	if p.Message = say(restoring(b, now)); len(p.Message) > snapshot.MaxTextBytes {
		b.Comment = "" // a command that is cut off would be useless
		p.Message = say(restoring(b, now))
	}
	p.Message = snapshot.Text("the booking of "+quote(b.Name)+" for "+p.Message, snapshot.MaxTextBytes)
	return p
}

// restoring is the command that makes the rest of a booking again.
func restoring(b Booking, now time.Time) string {
	words := []string{"gpuboard", "book", b.Place()}
	if b.From.After(now) {
		words = append(words, "--from", b.From.UTC().Format(time.RFC3339))
	}
	words = append(words, "--until", EndText(b.Until.UTC()), "--name", b.Name)
	if b.Kind == Maintenance {
		words = append(words, "--kind", string(Maintenance))
	}
	if b.Comment != "" {
		words = append(words, "--comment", b.Comment)
	}
	return shell.Join(words...)
}

// A Move is a booking with a time without an offset: as read in the earlier zone of the file, and as read now.
type Move struct {
	Was, Now Booking
	entry    *hujson.Value // of the earlier reading
}

// Moved returns the bookings that mean other moments than in the earlier zone of the file, except those that are
// over in both zones. A booking that the record has with its present moments was made after the change of zone,
// and is left out.
func (f *File) Moved(was *time.Location, opts Options) ([]Move, error) {
	data, err := f.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the bookings: %w", err)
	}
	_, moves, err := f.moved(data, was, opts)
	return moves, err
}

// moved is [File.Moved] for a file's content. It also returns the reading in the earlier zone.
func (f *File) moved(data []byte, was *time.Location, opts Options) (r *reading, moves []Move, err error) {
	type place struct {
		offset int
		target Target
	}
	earlier := f.zone
	earlier.Location = was
	r = read(f.path, data, earlier, opts)
	if err := r.cal.changeable(); err != nil {
		return nil, nil, err
	}
	now, recorded := map[place]*found{}, map[string]Entry{}
	for _, b := range read(f.path, data, f.zone, opts).found {
		now[place{b.entry.StartOffset, b.Target}] = b
	}
	for _, e := range f.Record() {
		recorded[e.ID] = e
	}

	for _, b := range r.found {
		is := now[place{b.entry.StartOffset, b.Target}]
		if is == nil || sameMoments(b.Booking, is.Booking) || b.OverAt(opts.Now) && is.OverAt(opts.Now) {
			continue
		}
		if made, ok := recorded[is.ID].Booking(); !ok || !sameMoments(made, is.Booking) {
			moves = append(moves, Move{b.Booking, is.Booking, b.entry})
		}
	}
	return r, moves, nil
}

func sameMoments(a, b Booking) bool { return a.From.Equal(b.From) && a.Until.Equal(b.Until) }

// Keep adds offsets to the times of [File.Moved] and returns these bookings. With words, times keep their digits and
// get the offset of the present zone; otherwise they keep the moments that they meant in the earlier zone. All other
// bytes of the file stay.
func (f *File) Keep(
	ctx context.Context, by By, was *time.Location, words bool, opts Options,
) (kept []Booking, err error) {
	earlier := *f // changes are recorded by what bookings meant in the earlier zone
	earlier.zone.Location = was
	err = earlier.Update(ctx, by, func(data []byte) ([]byte, error) {
		r, moves, err := f.moved(data, was, opts)
		if kept = nil; err != nil || len(moves) == 0 {
			return data, err
		}
		r.zone.Offsets = true
		for _, m := range moves {
			b := m.Was
			if words {
				b, r.zone.Location = m.Now, f.zone.Location
			}
			kept = append(kept, b)
			if !b.From.IsZero() && !m.Was.From.Equal(m.Now.From) {
				r.set(m.entry, "from", r.stamp(b.From, false))
			}
			if !b.Until.IsZero() && !m.Was.Until.Equal(m.Now.Until) {
				r.set(m.entry, "date", r.stamp(b.Until, true))
			}
		}
		next, _, err := r.pack()
		return next, err
	})
	return kept, err
}
