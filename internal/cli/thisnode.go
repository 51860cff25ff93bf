package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/text"
)

// hereKeys are the settings of commands that look at this node now.
func hereKeys() []string {
	return []string{"host", "spool", "nvidia_smi", "nvidia_smi_timeout", "ps", "site_url", "site_timeout", "data", "site", "comments", "aliases",
		"timezone", "free_memory_mib", "free_memory_percent"}
}

// thisNode reads this node and merges it with its bookings, so that a GPU is
// free here exactly when it would be free on the page. What could not be had is
// among the board's problems; the error is for when nothing could be asked.
func (a *app) thisNode(ctx context.Context, cfg *config.Config, settings board.Settings) (*board.Board, booking.Aliases, error) {
	host, err := a.node(cfg).Host()
	if err != nil {
		return nil, nil, err
	}
	data := ""
	if dir := cfg.String("data"); cfg.Given("data") || isDir(filepath.Join(dir, "drop")) {
		data = dir // a directory that happens to be called data is not ours
	}
	aliases, problems := a.aliases(cfg, data)
	in := board.Input{Settings: settings, Person: aliases.Canonical, Problems: problems}
	in.Hosts = []inventory.Host{{Name: host}}
	listed, _ := inventory.List(cfg.Hosts)
	for _, h := range listed {
		if h.Name == host {
			in.Hosts[0] = h
		}
	}

	// The site answers while nvidia-smi does.
	type answer struct {
		calendar    *booking.Calendar
		maintenance bool
		problems    []snapshot.Problem
	}
	booked := make(chan answer, 1)
	go func() {
		var got answer
		got.calendar, got.maintenance, got.problems = a.bookingsHere(ctx, cfg, host, data, booking.Options{Aliases: aliases, Now: a.now().UTC()}, cfg.BookingZone(true).Location)
		booked <- got
	}()
	snap, err := a.node(cfg).Collect(ctx)
	if err != nil {
		return nil, nil, err
	}
	got := <-booked
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	in.Calendar = got.calendar
	in.Problems = append(in.Problems, got.problems...)
	in.Hosts[0].Maintenance = in.Hosts[0].Maintenance || got.maintenance
	if len(snap.GPUs) > 0 && !snap.GPUsComplete {
		in.Problems = append(in.Problems, snapshot.Problem{Code: partialCode, Message: fmt.Sprintf(
			"the driver did not answer in full: it told of %d GPUs, and there may be more", len(snap.GPUs))})
	}
	in.Now = a.now().UTC()
	in.Reports = map[string]board.Report{host: {Snapshot: snap}}
	b, _ := board.Merge(in)
	return b, aliases, nil
}

// partialCode is the problem of an answer that may lack GPUs. A command that looks
// at this node alone does not know what was there before.
const partialCode = "smi:partial"

// partial is the exit status of an answer that may lack GPUs; nil for a full one.
func partial(b *board.Board) error {
	if slices.ContainsFunc(b.Problems, func(p snapshot.Problem) bool { return p.Code == partialCode }) {
		return silent(failure.ExitDegraded)
	}
	return nil
}

// siteSilence is for how long a site may have had no news of this node, which
// sends some every few seconds, before its bookings are called old too.
const siteSilence = 15 * time.Minute

// bookingsHere are the bookings for this host: from comments.json where that
// lies here, else from the site. Where neither is configured nobody has booked
// anything; where they cannot be had, that is a problem to be said.
func (a *app) bookingsHere(ctx context.Context, cfg *config.Config, host, data string, opt booking.Options, zone *time.Location) (*booking.Calendar, bool, []snapshot.Problem) {
	comments := cfg.String("comments")
	named := comments != ""
	if !named && data != "" {
		comments = filepath.Join(data, "comments.json")
	}
	if comments != "" && (named || isFile(comments)) {
		cal := booking.Open(comments, zone).Load(opt)
		keepHost(cal, host)
		a.followCards(ctx, cfg, cal)
		return cal, false, nil
	}
	s := &source{a: a, cfg: cfg}
	switch {
	case cfg.String("site_url") != "":
		if err := s.at(cfg.String("site_url")); err != nil {
			return nil, false, []snapshot.Problem{{Code: "site:unreachable", Message: "the bookings are not known: " + err.Error()}}
		}
	case isFile(filepath.Join(cfg.String("site"), boardFile)):
		s.file, s.name = filepath.Join(cfg.String("site"), boardFile), cfg.String("site")
	default:
		return nil, false, nil
	}
	h, bookings, err := s.host(ctx, host)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, []snapshot.Problem{{Code: "site:unknown-host", Message: fmt.Sprintf("%s does not know a host %s, so its bookings are not known: see --host", s.name, host)}}
	case err != nil:
		return nil, false, []snapshot.Problem{{Code: "site:unreachable", Message: "the bookings are not known: " + err.Error()}}
	}
	var problems []snapshot.Problem
	if age := a.now().Sub(h.SnapshotAt); !h.SnapshotAt.IsZero() && age > siteSilence {
		problems = append(problems, snapshot.Problem{Code: "site:stale", Message: fmt.Sprintf(
			"%s last had news of this host %s ago; if its generator has stopped, bookings made since are not known", s.name, board.Span(age))})
	}
	return calendarOf(host, bookings), h.State == board.Maintenance, problems
}

// keepHost leaves of a calendar what is this node's business: its own bookings,
// and what is wrong with those or with the whole file.
func keepHost(cal *booking.Calendar, host string) {
	cal.Bookings = slices.DeleteFunc(cal.Bookings, func(b booking.Booking) bool { return b.Host != host })
	cal.Problems = slices.DeleteFunc(cal.Problems, func(p snapshot.Problem) bool { return p.Host != "" && p.Host != host })
}

// followCards gives bookings by number the numbers that their cards have now,
// where the site lies here, too.
func (a *app) followCards(ctx context.Context, cfg *config.Config, cal *booking.Calendar) {
	s := &source{a: a, cfg: cfg, file: filepath.Join(cfg.String("site"), boardFile)}
	fleet := (&board.Board{Bookings: s.bookings(ctx)}).Fleet()
	for i := range cal.Bookings {
		b := &cal.Bookings[i]
		if index, known := fleet.Index(*b); known && b.Target.UUID == "" {
			b.Target.Index = index
		}
	}
}

// calendarOf makes a calendar of what a site shows.
func calendarOf(host string, shown []board.Booking) *booking.Calendar {
	cal := &booking.Calendar{File: "the site"}
	for _, s := range shown {
		if s.Host != host {
			continue
		}
		b := booking.Booking{ID: s.ID, Host: host, Name: s.Name, Written: s.Name, From: s.From, Until: s.Until, Comment: s.Comment,
			Kind: booking.Kind(s.Kind), By: s.By, Forced: s.Forced}
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

// unixUser is who runs this, as ps would call them.
func (a *app) unixUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	if name := a.getenv("USER"); name != "" {
		return name // from a directory that this program cannot ask
	}
	return strconv.Itoa(os.Getuid())
}

// mine returns whether a name in a booking means this person.
func mine(who string, aliases booking.Aliases) func(string) bool {
	return func(name string) bool {
		return strings.EqualFold(name, who) || strings.EqualFold(aliases.Canonical(name), aliases.Canonical(who))
	}
}

// openTo reports whether somebody may use a GPU now: it is free, or booked by
// nobody but themselves and not in use.
func openTo(g *board.GPU, mine func(string) bool) bool {
	switch g.State {
	case board.Free:
		return true
	case board.Booked:
		return bookedBy(g, mine)
	}
	return false
}

// sharedWith reports whether somebody may use a GPU beside those who do: nobody
// else has booked it, and it is not stuck, lost, unknown or out of service.
func sharedWith(g *board.GPU, mine func(string) bool) bool {
	switch g.State {
	case board.Free, board.Busy:
		return true
	case board.Booked, board.InUse:
		return bookedBy(g, mine)
	}
	return false
}

// bookedBy reports whether somebody, and nobody else, has booked a GPU.
func bookedBy(g *board.GPU, mine func(string) bool) bool {
	return g.Booking != nil && mine(g.Booking.Name) && g.MoreOthers == 0 && !slices.ContainsFunc(g.Others, func(b board.Booking) bool { return !mine(b.Name) })
}

// told says what is not well on a node, but for what the error says itself,
// and returns that.
func (a *app) told(b *board.Board, err error) error {
	for _, p := range b.Problems {
		if err == nil || !strings.HasSuffix(err.Error(), p.Message) {
			a.complain(p)
		}
	}
	return err
}

// unread is the error of a node whose GPUs could not be asked; nil when they
// could. "There are none free" would be a lie there.
func unread(b *board.Board) error {
	h := &b.Hosts[0]
	if slices.ContainsFunc(h.GPUs, func(g board.GPU) bool { return g.Name != "" || g.UUID != "" || g.PCIBusID != "" }) {
		return nil
	}
	for _, p := range h.Problems {
		if strings.HasPrefix(p.Code, "smi:") || strings.HasPrefix(p.Code, "gpu:") {
			return failure.New(failure.ExitError, fmt.Errorf("reading the GPUs of this node: %s", p.Message), "")
		}
	}
	return failure.New(failure.ExitError, errors.New("reading the GPUs of this node: nvidia-smi lists none"), "")
}

// look is how text is to be written on stdout.
func (a *app) look(cfg *config.Config) (text.Options, error) {
	return text.Options{Width: a.width(80), Color: a.colors(), ASCII: !a.unicode(), Zone: cfg.Zone()}, nil
}

// colors reports whether stdout is to be coloured: on a terminal, unless
// NO_COLOR says no; anywhere, if CLICOLOR_FORCE says so.
func (a *app) colors() bool {
	force := a.getenv("CLICOLOR_FORCE")
	switch {
	case a.getenv("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	case a.getenv("CLICOLOR") == "0" || a.getenv("TERM") == "dumb":
		return false
	}
	return a.terminal()
}

func (a *app) terminal() bool {
	f, ok := a.stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is how many columns stdout has: what COLUMNS says, what the terminal
// says, else what is given for a pipe or a file.
func (a *app) width(otherwise int) int {
	if n, err := strconv.Atoi(a.getenv("COLUMNS")); err == nil && n > 0 {
		return min(n, 1000)
	}
	if f, ok := a.stdout.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return min(n, 1000)
		}
	}
	return otherwise
}

// unicode reports whether the locale can show more than ASCII. Where none is
// set nothing is known, and modern terminals can.
func (a *app) unicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(a.getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true
}
