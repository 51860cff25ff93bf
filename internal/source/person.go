package source

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
)

// Concerning reads a board with the hosts where the person who has a name computes or has booked something now, and
// with all bookings. Of a site it reads no other hosts, because a large board takes long to read.
func (s *Source) Concerning(ctx context.Context, is func(name string) bool) (*board.Board, error) {
	if s.data != "" {
		return s.mergeData(ctx)
	}
	var bookings []board.Booking
	var unread error
	var asked sync.WaitGroup
	asked.Go(func() { bookings, unread = readFile(ctx, s, data.BookingsPath, data.ReadBookings) })
	b, err := readFile(ctx, s, data.UsersPath, data.ReadUsers)
	asked.Wait()
	if err = cmp.Or(err, unread); err != nil {
		return nil, err
	}

	b.Bookings = bookings
	var names []string
	for _, u := range b.Users {
		for _, at := range u.Where {
			if is(u.Name) {
				names = append(names, at.Host)
			}
		}
	}
	for i := range bookings {
		if bookings[i].Active && is(bookings[i].Name) {
			names = append(names, bookings[i].Host)
		}
	}
	slices.SortFunc(names, board.NaturalCompare)
	names = slices.Compact(names)
	hosts := make([]board.Host, len(names))
	err = render.InParallel(len(names), func(i int) error {
		name, err := snapshot.ParseHost(names[i])
		if err != nil {
			return nil // no path is made of it
		}
		h, _, err := s.host(ctx, name)
		if err == nil {
			hosts[i] = *h
		} else if !errors.Is(err, fs.ErrNotExist) { // it has left the board meanwhile
			return err
		}
		return nil
	})
	b.Hosts = slices.DeleteFunc(hosts, func(h board.Host) bool { return h.Name == "" })
	return b, err
}
