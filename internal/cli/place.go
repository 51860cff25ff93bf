package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

// bookingKeys are the settings of everything that changes bookings.
func bookingKeys() []string {
	return []string{"data", "site", "comments", "aliases", "timezone", "site_url", "site_timeout",
		"booking.name", "booking.ssh", "booking.timezone", "booking.default_duration", "booking.max_duration", "booking.max_gpus"}
}

// A desk is where one person changes bookings: the file, and what has to be
// known to change it well.
type desk struct {
	app     *app
	file    *booking.File
	zone    *time.Location // in which times are shown, and read from flags
	in      booking.Zone   // of the times in the file
	now     time.Time
	aliases booking.Aliases
	limits  booking.Limits
	length  string // booking.default_duration
	login   string // who runs this, canonical
	me      string // who is acted for, canonical
	written string // the same as it was given
}

// desk opens the bookings. name is that of --name, "" for oneself; at that of
// --now, "" for now.
func (a *app) desk(c *cobra.Command, cfg *config.Config, name, at string) (*desk, error) {
	d := &desk{app: a, zone: cfg.Zone(), in: cfg.BookingZone(true), now: a.now(), length: cfg.String("booking.default_duration")}
	var err error
	if at != "" {
		if d.now, err = time.Parse(time.RFC3339, at); err != nil {
			return nil, usagef("for instance --now 2026-11-20T10:42:00Z", "--now: %q is not a time in RFC 3339", at)
		}
	}
	d.now = d.now.In(d.zone)
	if d.limits, err = bookingLimits(cfg); err != nil {
		return nil, err
	}
	login := cfg.String("booking.name")
	if login == "" {
		login = a.bookingUser()
	}
	problems, err := d.open(cfg)
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		a.complain(p)
	}
	d.login = d.aliases.Canonical(login)
	d.me, d.written = d.login, d.login
	if name = strings.TrimSpace(name); name != "" {
		d.me, d.written = d.aliases.Canonical(name), name
	}
	return d, nil
}

// bookingUser is who runs this; with sudo, the one who typed it.
func (a *app) bookingUser() string {
	if name := a.getenv("SUDO_USER"); name != "" && os.Geteuid() == 0 {
		return name
	}
	return a.unixUser()
}

// open opens the file and reads who is who.
func (d *desk) open(cfg *config.Config) ([]snapshot.Problem, error) {
	path, err := localComments(cfg)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil && failure.Explain(err).Exit == exitTempFail { // a disk that fails
		return nil, fmt.Errorf("looking for the bookings: %w", err)
	}
	if err != nil || !info.IsDir() {
		return nil, usagef("on the web host: --data DIR or --comments FILE; elsewhere: ssh WEBHOST gpuboard book …, which booking.ssh in gpuboard.yml has typed for you",
			"there are no bookings here: no directory %s", dir)
	}
	d.file = booking.Open(path, d.in.Location)
	var problems []snapshot.Problem
	if data := cfg.String("data"); isDir(data) && !isFile(filepath.Join(dir, "aliases.csv")) {
		dir = data
	}
	d.aliases, problems = d.app.aliases(cfg, dir)
	return problems, nil
}

// bookingLimits reads the settings that bound what one person may book.
func bookingLimits(cfg *config.Config) (booking.Limits, error) {
	l := booking.Limits{MaxGPUs: int(cfg.Number("booking.max_gpus"))}
	for _, name := range []string{"booking.max_duration", "booking.default_duration"} {
		s := cfg.String(name)
		if s == "" || s == "none" {
			continue
		}
		length, err := booking.ParseDuration(s)
		if err != nil {
			return l, usagef("for instance 7d or 36h", "%s from %s: %w", name, cfg.Origin(name), err)
		}
		if name == "booking.max_duration" {
			l.MaxDuration = length
		}
	}
	return l, nil
}

// parse reads the bookings as they stand in data.
func (d *desk) parse(data []byte) *booking.Calendar {
	return booking.Parse("comments.json", data, d.in.Location, booking.Options{Aliases: d.aliases, Now: d.now})
}

// by is who changes the bookings, for the record.
func (d *desk) by() booking.By { return booking.By{Name: d.login, At: d.now} }

// load reads the bookings for show; the last good ones where the file has an error.
func (d *desk) load() *booking.Calendar {
	return d.file.Load(booking.Options{Aliases: d.aliases, Now: d.now})
}

// mine reports whether a booking is theirs to change: it is their own, or they
// made it for somebody else.
func (d *desk) mine(b booking.Booking) bool {
	return strings.EqualFold(b.Name, d.me) || b.By != "" && strings.EqualFold(d.aliases.Canonical(b.By), d.me)
}

// when puts the time of a booking into words.
func (d *desk) when(b booking.Booking) string {
	return booking.Describe(b.From, b.Until, d.now, d.zone)
}

// failed gives the errors of changing bookings their exit codes and hints.
func (d *desk) failed(err error) error {
	var f *failure.Error
	var encoding *booking.EncodingError
	var restorable *booking.RestorableError
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.As(err, &restorable):
		return fail(exitError, err, "mend it by hand, or restore what was last good: "+restorable.Restore+"; or start anew: "+restorable.Anew)
	case errors.Is(err, booking.ErrBroken):
		return fail(exitError, err, "gpuboard bookings lists what has to be mended by hand, by line and column")
	case errors.Is(err, booking.ErrLocked):
		return fail(exitTempFail, err, "try again in a moment")
	case errors.Is(err, booking.ErrChanged):
		return fail(exitTempFail, err, "look with gpuboard bookings --mine whether it was done, and try again")
	case errors.Is(err, booking.ErrInvalid):
		return fail(exitUsage, err, "")
	case errors.As(err, &encoding):
		return fail(exitError, err, "for instance: iconv -f WINDOWS-1252 -t UTF-8")
	case errors.Is(err, fs.ErrPermission):
		return fail(exitError, err, "you have to be allowed to read the file and its lock, and to write its directory")
	}
	return err
}

// A knownFleet is what the board says about hosts, for commands that can do
// without.
type knownFleet struct {
	board *board.Board
	hosts map[string]booking.KnownHost
	cards map[string]int // the numbers of the cards of bookings, as render.Cards has them
}

// fleet reads the board. Without one the fleet knows nothing; why is said when
// somebody named a board to read.
func (d *desk) fleet(ctx context.Context, cfg *config.Config) (*knownFleet, error) {
	f := &knownFleet{}
	s, err := d.app.source(cfg, "")
	if err != nil {
		return f, err
	}
	p, err := s.read(ctx)
	if err != nil {
		return f, err
	}
	f.board, f.hosts, f.cards = p.Board, map[string]booking.KnownHost{}, s.cards(ctx)
	for i := range p.Board.Hosts {
		h := &p.Board.Hosts[i]
		var known booking.KnownHost
		all := true
		for g := range h.Rows() {
			known.GPUs = max(known.GPUs, g.Index+1)
			if g.UUID != "" {
				known.UUIDs = append(known.UUIDs, g.UUID)
			}
			all = all && (g.Slice == nil || g.UUID != "")
		}
		if !all {
			known.UUIDs = nil // any may be that of a slice
		}
		f.hosts[h.Name] = known
	}
	return f, nil
}

// resolve tells the index that the GPU of a booking has now, or the GPU that the
// slice of a booking is a part of, for booking.Conflicts.
func (f *knownFleet) resolve(b booking.Booking) (int, bool) {
	if b.Target.UUID == "" {
		index, known := f.cards[b.Host+"/"+b.ID]
		return index, known
	}
	if f.board == nil {
		return 0, false
	}
	for i := range f.board.Hosts {
		if h := &f.board.Hosts[i]; h.Name == b.Host {
			for g := range h.Rows() {
				if strings.EqualFold(g.UUID, b.Target.UUID) {
					return g.Index, true
				}
			}
		}
	}
	return 0, false
}

// gpus is how many GPUs a host has, for booking.Limits.
func (f *knownFleet) gpus(host string) int { return f.hosts[host].GPUs }
