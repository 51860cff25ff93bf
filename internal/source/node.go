package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/data"
)

// A Machine is a node that can be read now.
type Machine interface {
	Host() (string, error)
	Collect(context.Context) (*snapshot.Snapshot, error)
}

// ThisNode reads this node and merges it with its bookings, so that a GPU is
// free here exactly when it would be free on the page. What could not be had is
// among the board's problems; the error is for when nothing could be asked.
func ThisNode(ctx context.Context, o Options, n Machine) (*board.Board, booking.Aliases, error) {
	cfg := o.Config
	host, err := n.Host()
	if err != nil {
		return nil, nil, err
	}
	dir := cfg.String("data")
	if !cfg.Given("data") && !config.IsDir(filepath.Join(dir, "drop")) {
		dir = "" // a directory that happens to be called data is not ours
	}
	aliases, problems := Aliases(cfg, dir)
	in := board.Input{Settings: cfg.Board(), Person: aliases.Canonical, Problems: problems}
	in.Hosts = []inventory.Host{{Name: host}}
	listed, _ := inventory.List(cfg.Hosts)
	for _, h := range listed {
		if h.Name == host {
			in.Hosts[0] = h
		}
	}

	// The site answers while nvidia-smi does.
	var maintenance bool
	var asked sync.WaitGroup
	asked.Go(func() {
		in.Calendar, maintenance, problems = bookingsHere(ctx, o, host, dir,
			booking.Options{Aliases: aliases, Now: o.Now().UTC()})
	})
	snap, err := n.Collect(ctx)
	asked.Wait()
	if err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	in.Problems = append(in.Problems, problems...)
	in.Hosts[0].Maintenance = in.Hosts[0].Maintenance || maintenance
	if len(snap.GPUs) > 0 && !snap.GPUsComplete {
		in.Problems = append(in.Problems, snapshot.Problem{Code: PartialCode, Message: fmt.Sprintf(
			"the driver did not answer in full: it told of %d GPUs, and there may be more", len(snap.GPUs))})
	}
	in.Now = o.Now().UTC()
	in.Reports = map[string]board.Report{host: {Snapshot: snap}}
	b, _ := board.Merge(in)
	return b, aliases, nil
}

// PartialCode is the problem of an answer that may lack GPUs. A command that looks
// at this node alone does not know what was there before.
const PartialCode = "smi:partial"

// siteSilence is for how long a site may have had no news of this node, which
// sends some every few seconds, before its bookings are called old too.
const siteSilence = 15 * time.Minute

// bookingsHere are the bookings for this host: from comments.json where that
// lies here, else from the site. Where neither is configured nobody has booked
// anything; where they cannot be had, that is a problem to be said.
func bookingsHere(
	ctx context.Context, o Options, host, dir string, opt booking.Options,
) (*booking.Calendar, bool, []snapshot.Problem) {
	cfg := o.Config
	comments := cfg.String("comments")
	named := comments != ""
	if !named && dir != "" {
		comments = filepath.Join(dir, "comments.json")
	}
	if comments != "" && (named || config.IsFile(comments)) {
		cal := booking.Open(comments, cfg.BookingZone(true)).Load(opt)
		keepHost(cal, host)
		followCards(ctx, o, cal)
		return cal, false, nil
	}
	s := &Source{opt: o, cfg: cfg}
	var err error
	switch {
	case cfg.String("site_url") != "":
		err = s.at(cfg.String("site_url"))
	case config.IsFile(filepath.Join(cfg.String("site"), data.BoardPath)):
		s.file, s.Name = filepath.Join(cfg.String("site"), data.BoardPath), cfg.String("site")
	default:
		return nil, false, nil
	}
	var h *board.Host
	var bookings []board.Booking
	if err == nil {
		h, bookings, err = s.host(ctx, host)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, []snapshot.Problem{{Code: "site:unknown-host",
			Message: fmt.Sprintf("%s does not know a host %s, so its bookings are not known: see --host", s.Name,
				host)}}
	case err != nil:
		return nil, false, []snapshot.Problem{{Code: "site:unreachable",
			Message: "the bookings are not known: " + err.Error()}}
	}
	var problems []snapshot.Problem
	if age := o.Now().Sub(h.SnapshotAt); !h.SnapshotAt.IsZero() && age > siteSilence {
		problems = append(problems, snapshot.Problem{Code: "site:stale", Message: fmt.Sprintf(
			"%s last had news of this host %s ago; if its generator has stopped, bookings made since are not known",
			s.Name, snapshot.Length(age))})
	}
	return Calendar(bookings, func(name string) bool { return name == host }), h.State == board.Maintenance, problems
}

// keepHost leaves of a calendar what is this node's business: its own bookings,
// and what is wrong with those or with the whole file.
func keepHost(cal *booking.Calendar, host string) {
	cal.Bookings = slices.DeleteFunc(cal.Bookings, func(b booking.Booking) bool { return b.Host != host })
	cal.Problems = slices.DeleteFunc(cal.Problems,
		func(p snapshot.Problem) bool { return p.Host != "" && p.Host != host })
}

// followCards gives bookings by number the numbers that their cards have now,
// where the site lies here, too.
func followCards(ctx context.Context, o Options, cal *booking.Calendar) {
	s := &Source{opt: o, cfg: o.Config, file: filepath.Join(o.Config.String("site"), data.BoardPath)}
	fleet := (&board.Board{Bookings: s.bookings(ctx)}).Fleet()
	for i := range cal.Bookings {
		b := &cal.Bookings[i]
		if index, known := fleet.Index(*b); known && b.Target.UUID == "" {
			b.Target.Index = index
		}
	}
}

// Calendar makes a calendar of the bookings of some hosts that a site shows.
func Calendar(shown []board.Booking, of func(host string) bool) *booking.Calendar {
	cal := &booking.Calendar{File: "the site"}
	for _, s := range shown {
		if !of(s.Host) {
			continue
		}
		b := booking.Booking{ID: s.ID, Host: s.Host, Name: s.Name, Written: s.Name, From: s.From, Until: s.Until,
			Comment: s.Comment,
			Kind:    booking.Kind(s.Kind), By: s.By, Forced: s.Forced}
		targets := []booking.Target{{All: true, Index: -1}}
		switch {
		case s.UUID != "":
			targets = []booking.Target{{UUID: s.UUID, Index: -1}}
		case len(s.GPUs) > 0:
			targets = nil
			for _, i := range s.GPUs {
				targets = append(targets, booking.Target{Index: i})
			}
		}
		for _, t := range targets {
			b.Target = t
			cal.Bookings = append(cal.Bookings, b)
		}
	}
	return cal
}
