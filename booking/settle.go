package booking

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gpuboard/atomicfile"
)

// A settling decides what stands at the name after the file was taken away, from
// what lies there alone: so it is the same for the program that did it and for
// one that finds it later.
//
// What was taken is one of three things. The base is what the change was made
// upon: it is done with. A program's own content, which nobody was told of, is
// dropped. All else is a hand: what a person saved at the last moment. A hand
// goes back to its name if nothing stands there, or nothing but a program's own
// content. Where another person's save stands, a hand that this one holds is
// done with, too, and one that holds more than this one takes its place; of two
// that each hold something of their own one stands, and the other is kept under
// a name that people see.
type settling struct {
	dir   Dir
	name  string
	turns []turn
	own   map[string]bool // fingerprints of what programs put there
	// placed: the new content is known to have stood at the name.
	placed bool
	// recovering: another program did this, and how far it came is not known.
	recovering bool

	moved    bool     // something was put back
	kept     []string // what people have to look at
	previous []string // what the file held before the last change
}

func (k *Keeper) settling(turns []turn) *settling {
	s := &settling{dir: k.dir, name: k.name, turns: turns, own: map[string]bool{}}
	for _, t := range turns {
		if t.ours != nobodys {
			s.own[t.ours] = true
		}
	}
	return s
}

// A find is a file that was taken, and what it holds; nil for what cannot be read.
type find struct {
	turn
	data []byte
	info fs.FileInfo
	at   int // its turn
}

// rounds is how often people may save while it is settled what stands.
const rounds = 12

func (s *settling) run(ctx context.Context) error {
	for range rounds {
		now, _, err := readOrNil(ctx, s.dir, s.name)
		if err != nil && !unreadable(err) {
			return err
		}
		hands, bases, err := s.look(ctx)
		if err != nil {
			return err
		}
		again := false
		switch {
		case len(hands) > 0:
			again, err = true, s.hand(ctx, now, hands)
		case now == nil && !s.placed && len(bases) > 0 && bases[0].data != nil:
			again, err = true, s.give(ctx, bases[0], nil)
		default:
			again, err = s.clear(ctx, now)
		}
		if err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("%w, again and again", ErrChanged)
}

// look reads what was taken. Hands are in the order to prefer them in: the
// longest first that holds the others, else the last one that was saved.
func (s *settling) look(ctx context.Context) (hands, bases []find, err error) {
	for i, t := range s.turns {
		data, info, err := s.dir.Read(ctx, t.taken)
		f := find{t, data, info, i}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case unreadable(err):
			f.data = nil
			hands = append(hands, f)
			continue
		case err != nil:
			return nil, nil, err
		}
		switch is := fingerprint(data); {
		case s.own[is], is == t.gave: // nobody's, or in place already
		case is == t.base:
			bases = append(bases, f)
		default:
			hands = append(hands, f)
		}
	}
	slices.SortStableFunc(hands, func(a, b find) int {
		switch inA, inB := contains(a.data, b.data), contains(b.data, a.data); {
		case inA && !inB:
			return -1
		case inB && !inA:
			return 1
		}
		return b.at - a.at
	})
	return hands, bases, nil
}

// hand finds the place of what somebody saved.
func (s *settling) hand(ctx context.Context, now []byte, hands []find) error {
	best := hands[0]
	if now == nil || s.own[fingerprint(now)] || best.gave == fingerprint(now) {
		return s.give(ctx, best, now)
	}
	for _, h := range hands {
		switch {
		case h.data != nil && contains(now, h.data):
			if err := s.shelve(ctx, h.taken, h.data, now); err != nil {
				return err
			}
			s.moved = true
		case h.data != nil && contains(h.data, now):
			return s.give(ctx, h, now)
		default:
			if err := s.keep(ctx, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// give puts what was taken back in place of now, the same file if that can be,
// so that whoever has it open goes on writing into what stands there.
func (s *settling) give(ctx context.Context, f find, now []byte) error {
	s.moved = true
	staged := stagedName(s.name)
	if err := s.dir.Link(ctx, f.taken, staged); err != nil {
		if errors.Is(err, ErrUnsure) {
			return err
		}
		if f.data == nil {
			return s.keep(ctx, f)
		}
		// Somebody else's file, which one may not link to.
		if err := s.dir.Stage(ctx, staged, f.data, f.info); err != nil {
			return err
		}
	}
	var took, put error
	if now == nil {
		put = s.dir.Put(ctx, staged, s.name)
	} else {
		t := newTurn(s.name, fingerprint(now), nobodys)
		s.turns = append(s.turns, t)
		took, put = s.dir.Exchange(ctx, s.name, t.taken, staged)
	}
	if err := s.dir.Remove(ctx, staged); err != nil {
		return err
	}
	if errors.Is(took, ErrUnsure) || errors.Is(put, ErrUnsure) {
		return errors.Join(took, put)
	}
	if put == nil {
		s.placed = false // what stands there now came back
		s.turns[f.at].gave = fingerprint(f.data)
		return nil
	}
	if errors.Is(put, fs.ErrExist) || errors.Is(took, fs.ErrNotExist) {
		return nil // somebody saved meanwhile: look again
	}
	return errors.Join(took, put)
}

// keep gives what somebody saved a name that people see.
func (s *settling) keep(ctx context.Context, f find) error {
	saved := s.name + savedMark + strings.ToLower(rand.Text()[:8])
	if err := s.dir.Rename(ctx, f.taken, saved); err != nil {
		return heardLate(err)
	}
	s.kept = append(s.kept, saved)
	return nil
}

// clear puts away what is done with, the latest turn first: what tells that a
// content is a program's own goes last.
func (s *settling) clear(ctx context.Context, now []byte) (again bool, err error) {
	for _, t := range slices.Backward(s.turns) {
		data, _, err := s.dir.Read(ctx, t.taken)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		is := fingerprint(data)
		switch known := s.own[is] || is == t.gave; {
		case !known && is != t.base:
			return true, nil // somebody who had it open wrote into it just now
		case !known && s.recovering && !s.own[fingerprint(now)] && !contains(now, data):
			// Was the new content ever put there, and changed by a person since, or
			// did a person begin anew where nothing was?
			err = s.keep(ctx, find{turn: t})
		default:
			err = s.shelve(ctx, t.taken, data, now)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// shelve keeps what is done with until the next change: somebody may have
// it open, and write into it.
func (s *settling) shelve(ctx context.Context, file string, data, now []byte) error {
	if bytes.Equal(data, now) {
		// It may be what stands there, under a second name.
		staged := stagedName(s.name)
		if s.dir.Link(ctx, file, staged) == nil {
			return errors.Join(s.dir.Remove(ctx, staged), s.dir.Remove(ctx, file))
		}
	}
	if err := s.dir.Rename(ctx, file, "."+s.name+previousMark+rand.Text()+"."+fingerprint(data)); err != nil {
		return heardLate(err)
	}
	for _, old := range s.previous {
		if err := s.dir.Remove(ctx, old); err != nil {
			return err
		}
	}
	s.previous = nil
	return nil
}

// heardLate is about a file that was looked at a moment ago: if it is gone, a
// request was heard that was thought lost, and did the same.
func heardLate(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unreadable tells what is about one file from what is about the connection.
func unreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, atomicfile.ErrNotRegular)
}

// contains reports that nothing of what one content says is missing in another:
// each booking and each comment is there, or where not all of it is understood
// each line.
func contains(all, part []byte) bool {
	if all == nil || part == nil {
		return false
	}
	if bytes.Equal(all, part) {
		return true
	}
	r := read("comments.json", part, time.UTC, Options{})
	whole := len(r.cal.Problems) > 0 || bytes.Contains(part, []byte("/*"))
	if !linesIn(all, part, func(line []byte) bool { return whole || bytes.Contains(line, []byte("//")) }) {
		return false
	}
	have := map[Booking]int{}
	for _, b := range read("comments.json", all, time.UTC, Options{}).cal.Bookings {
		have[b.content()]++
	}
	for _, b := range r.cal.Bookings {
		if have[b.content()]--; !whole && have[b.content()] < 0 {
			return false
		}
	}
	return true
}

// linesIn looks for the lines of part that count.
func linesIn(all, part []byte, counts func(line []byte) bool) bool {
	have := map[string]int{}
	for line := range bytes.Lines(all) {
		have[string(bytes.TrimSpace(line))]++
	}
	for line := range bytes.Lines(part) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || !counts(line) {
			continue
		}
		if have[string(line)]--; have[string(line)] < 0 {
			return false
		}
	}
	return true
}

func quotedList(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, quote(n))
	}
	return strings.Join(all, ", ")
}
