package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/text"
)

// kind is how many GPUs of which kind are wanted.
type kind struct {
	Count    int      `json:"count,omitempty" jsonschema:"how many GPUs"`
	Model    string   `json:"model,omitempty" jsonschema:"only models whose name contains this, such as a100"`
	Memory   string   `json:"memory,omitempty" jsonschema:"only GPUs with at least this memory, such as 40G"`
	MIG      bool     `json:"mig,omitempty" jsonschema:"MIG slices, and not whole GPUs"`
	Hosts    []string `json:"hosts,omitempty" jsonschema:"only on these hosts"`
	SameHost bool     `json:"same_host,omitempty" jsonschema:"all of them on one host"`
}

func (k *kind) wish() (w board.Wish, err error) {
	w.GPUs, w.OneHost, w.Model, w.MIG = cmp.Or(k.Count, 1), k.SameHost, k.Model, k.MIG
	if w.GPUs < 1 || w.GPUs > maxGPUs {
		return w, failure.Usage("", "count: %d is not from 1 to %d", w.GPUs, maxGPUs)
	}
	if k.Memory != "" {
		if w.Memory, err = board.ParseMemory(k.Memory); err != nil {
			return w, failure.Usage("for instance 40G", "memory: %w", err)
		}
	}
	for _, name := range k.Hosts {
		if name, err = snapshot.ParseHost(name); err != nil {
			return w, failure.Usage("", "hosts: %w", err)
		}
		w.Hosts = append(w.Hosts, name)
	}
	return w, nil
}

// times sets from when until when the GPUs are wanted, from now on.
func times(w *board.Wish, p *booking.Policy, length, until string) (err error) {
	if length != "" && until != "" {
		return failure.Usage("", "for and until both say when it ends: give one of them")
	}
	if length+until != "" {
		if w.From, w.Until, _, err = p.Times("", length+until); err != nil {
			return failure.Usage("for instance for: 8h, or until: fri 18:00", "%w", err)
		}
	}
	return nil
}

func places(units []board.Unit) string {
	var names []string
	for _, u := range units {
		names = append(names, u.String())
	}
	return strings.Join(names, ", ")
}

type findInput struct {
	For   string `json:"for,omitempty" jsonschema:"only GPUs that nobody else has booked within this time, such as 8h"`
	Until string `json:"until,omitempty" jsonschema:"the same as a time, such as fri 18:00"`
	kind
}

// findFree chooses as available does.
func (t *tools) findFree(ctx context.Context, in findInput) (string, []byte, error) {
	w, err := in.wish()
	policy := t.Policy()
	if err = cmp.Or(err, times(&w, &policy, in.For, in.Until)); err != nil {
		return "", nil, err
	}
	p, note, err := t.Read(ctx)
	if err != nil {
		return "", nil, err
	}
	w.FreeUntil = w.Until
	open := w.Choose(p.Board, policy.Aliases.Mine(policy.Person))
	units := board.Pick(open, w.GPUs, w.OneHost, true)
	words := board.Number(len(units), "GPU") + " can be used now: " + places(units)
	if units == nil {
		units = open
		words = fmt.Sprintf("%s can be used now, and you want %d; when_free says from when on there are so many",
			board.Number(len(open), "GPU"), w.GPUs)
	}
	p.Board = p.Board.Only(w.Fits)
	p.Board.FreeNow = units
	return strings.TrimSpace(words + "\n" + note), p.FreeJSON(), nil
}

type whoInput struct {
	Place string `json:"place" jsonschema:"host:gpu or host, such as gpu01:0"`
}

// at returns the board with nothing but a place, and the host.
func at(b *board.Board, place string) (*board.Board, *board.Host, error) {
	host, targets, err := booking.ParsePlace(place)
	if err != nil {
		return nil, nil, failure.Usage("write gpu01:0, or gpu01 for all of the host", "place: %w", err)
	}
	var asked booking.Calendar
	for _, target := range targets {
		asked.Bookings = append(asked.Bookings, booking.Booking{Host: host, Target: target})
	}
	if problems := booking.Check(&asked, b.Fleet(), time.Time{}); len(problems) > 0 {
		what := strings.TrimPrefix(problems[0].Message, `"" books `)
		return nil, nil, failure.New(failure.ExitNoMatch, errors.New("there is no such place: "+what),
			"find_free lists what is free")
	}
	only := b.Only(func(h *board.Host, g *board.GPU) bool {
		return h.Name == host && slices.ContainsFunc(targets, g.CoveredBy)
	})
	i := slices.IndexFunc(only.Hosts, func(h board.Host) bool { return h.Name == host })
	return only, &only.Hosts[i], nil
}

func (t *tools) whoUses(ctx context.Context, in whoInput) (string, []byte, error) {
	p, note, err := t.Read(ctx)
	if err != nil {
		return "", nil, err
	}
	b, h, err := at(p.Board, in.Place)
	if err != nil {
		return "", nil, err
	}
	lines := []string{h.Name + " is " + string(h.State)}
	for g := range h.Units() {
		why := text.Why(b, g, text.Options{Zone: t.Policy().Zone})
		lines = append(lines, board.Unit{Host: h, GPU: g}.String()+": "+cmp.Or(why, string(g.State)))
	}
	return strings.TrimSpace(strings.Join(lines, "\n") + "\n" + note), data.HostJSON(b, h), nil
}

type whenInput struct {
	For string `json:"for,omitempty" jsonschema:"how long they are wanted, such as 8h; 1h if not given"`
	kind
}

// whenFree finds what book --gpus would offer, now or later.
func (t *tools) whenFree(ctx context.Context, in whenInput) (string, []byte, error) {
	w, err := in.wish()
	policy := t.Policy()
	if err = cmp.Or(err, times(&w, &policy, cmp.Or(in.For, "1h"), "")); err != nil {
		return "", nil, err
	}
	p, note, err := t.Read(ctx)
	if err != nil {
		return "", nil, err
	}
	p.Board = p.Board.Only(w.Fits)
	cal := source.Calendar(p.Board.Bookings, func(string) bool { return true })
	offer := w.Offer(p.Board, cal, policy.Now)
	p.Board.FreeNow = offer.Units
	words := fmt.Sprintf("%s can be booked now: %s", board.Number(w.GPUs, "GPU"), places(offer.Units))
	switch {
	case offer.Units != nil:
	case !offer.Next.IsZero():
		first := *offer.Later[0].GPU
		first.FreeFrom = booking.WholeMinute(offer.Next)
		p.Board.NextFree = &board.Unit{Host: offer.Later[0].Host, GPU: &first}
		words = fmt.Sprintf("%s can be booked from %s on: %s", board.Number(w.GPUs, "GPU"),
			first.FreeFrom.In(policy.Zone).Format("Mon 2 Jan 2006 15:04 MST"), places(offer.Later))
	case offer.Fit < w.GPUs:
		words = fmt.Sprintf("there will never be %d: the board has %d of this kind", w.GPUs, offer.Fit)
	default:
		words = fmt.Sprintf(
			"%s can be booked now, and when %d can is not known: whoever uses the others has not said until when",
			board.Number(offer.Open, "GPU"), w.GPUs)
	}
	return strings.TrimSpace(words + "\n" + note), p.FreeJSON(), nil
}

// myBookings asks the file of bookings where it can be changed, because the site is some seconds older.
func (t *tools) myBookings(ctx context.Context, _ struct{}) (string, []byte, error) {
	if t.Run != nil {
		printed, said, err := t.Run(ctx, "bookings", "--mine", "--json")
		return strings.TrimSpace("your bookings\n" + said), printed, err
	}
	p, note, err := t.Read(ctx)
	if err != nil {
		return "", nil, err
	}
	policy := t.Policy()
	p.Board.Bookings = slices.DeleteFunc(p.Board.Bookings, func(b board.Booking) bool {
		return !policy.Mine(booking.Booking{Name: b.Name, By: b.By}) || !b.Until.IsZero() && !b.Until.After(policy.Now)
	})
	return strings.TrimSpace(board.Number(len(p.Board.Bookings), "booking") + "\n" + note), p.BookingsJSON(), nil
}
