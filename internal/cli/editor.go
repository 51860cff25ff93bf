package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen/data"
)

// bookingKeys are the settings of everything that changes bookings.
func bookingKeys() []string {
	return []string{"data", "site", "comments", "aliases", "timezone", "site_url", "site_timeout",
		"booking.name", "booking.ssh", "booking.timezone", "booking.end_of_day", "booking.default_duration",
		"booking.max_duration", "booking.max_gpus"}
}

// An editor reads and changes the bookings for one person.
type editor struct {
	booking.Policy
	app           *app
	file          *booking.File
	board         *board.Board // nil if there is none, see readBoard
	look          func() error // reads the board anew
	defaultLength string       // booking.default_duration
	notes         []string     // what was assumed, for stderr
	incomplete    error        // what failed after the change was made; nil for nothing
}

// editor opens the bookings. name and at are those of --name and --now; both may be "".
func (a *app) editor(cfg *config.Config, name, at string) (*editor, error) {
	e := &editor{app: a, defaultLength: cfg.String("booking.default_duration")}
	now, err := a.pretended(at)
	if err != nil {
		return nil, err
	}
	e.Zone, e.FileZone, e.Now = cfg.Zone(), cfg.BookingZone(true), now().In(cfg.Zone())
	if e.Limits, err = cfg.BookingLimits(); err != nil {
		return nil, err
	}
	path, err := bookingsFile(cfg)
	if err != nil {
		return nil, err
	}
	e.file = cfg.Bookings(path)
	var problems []snapshot.Problem
	e.Aliases, problems = aliasesBeside(cfg, path)
	for _, p := range problems {
		a.complain(p)
	}
	e.Login = e.Aliases.Canonical(a.bookingName(cfg))
	e.Person, e.Written = e.Login, e.Login
	if name = strings.TrimSpace(name); name != "" {
		e.Person, e.Written = e.Aliases.Canonical(name), name
	}
	return e, nil
}

// aliasesBeside reads which names mean the same person, beside the bookings or in the data directory.
func aliasesBeside(cfg *config.Config, bookings string) (booking.Aliases, []snapshot.Problem) {
	dir := filepath.Dir(bookings)
	if data := cfg.String("data"); config.IsDir(data) && !config.IsFile(filepath.Join(dir, "aliases.csv")) {
		dir = data
	}
	return source.Aliases(cfg, dir)
}

// asking is the person who asks, also where bookings cannot be changed.
func (a *app) asking(cfg *config.Config, name string) booking.Policy {
	var aliases booking.Aliases
	if path, err := bookingsFile(cfg); err == nil {
		aliases, _ = aliasesBeside(cfg, path)
	} else {
		aliases, _ = source.Aliases(cfg, "")
	}
	person := aliases.Canonical(cmp.Or(strings.TrimSpace(name), a.bookingName(cfg)))
	return booking.Policy{Login: person, Person: person, Aliases: aliases, Now: a.now().In(cfg.Zone()),
		Zone: cfg.Zone()}
}

// bookingName is who books by default: booking.name, else who runs this or typed sudo.
func (a *app) bookingName(cfg *config.Config) string {
	if name := cfg.String("booking.name"); name != "" {
		return name
	}
	if name := a.getenv("SUDO_USER"); name != "" && os.Geteuid() == 0 {
		return name
	}
	return a.unixUser()
}

// bookingsFile is comments.json of the board on this machine. It may be missing, and is not made here.
func bookingsFile(cfg *config.Config) (string, error) {
	const hint = "on the web host: --data DIR, --comments FILE or --config FILE, or for good: export GPUBOARD_CONFIG=FILE " +
		"(ask who runs the board which); on other machines: ssh WEBHOST gpuboard book …, or set booking.ssh in gpuboard.yml"
	path, err := cfg.LocalComments()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	configured := cfg.Given("data") || cfg.Given("comments") || cfg.Given("state")
	switch {
	case err != nil && failure.Explain(err).Exit == failure.ExitTryAgain: // a disk that fails
		return "", fmt.Errorf("looking for the bookings: %w", err)
	case err != nil || !info.IsDir():
		return "", failure.Usage(hint, "there are no bookings here: no directory %s", dir)
	case cfg.String("comments") != "" || source.IsData(cfg, dir):
	case configured && cfg.Bookings(path).Intact(nil) != nil: // the board remembers bookings, and says itself that the file is gone
	default:
		return "", failure.Usage(hint,
			"there are no bookings here: %s has neither drop/ nor comments.json, so it is not the data directory of a board", dir)
	}
	return path, nil
}

// readBoard reads the board, against which bookings are checked. Without required it may fail.
func (e *editor) readBoard(ctx context.Context, cfg *config.Config, required bool) error {
	o := e.app.source(cfg)
	o.Now = func() time.Time { return e.Now }
	s, err := source.Open(o, "")
	if err != nil && cfg.String("site_url") == "" && cfg.String("comments") == "" {
		s, err = source.Open(o, cfg.String("data")) // where bookings are, and no node has pushed yet
	}
	var p *data.Published
	if err == nil {
		p, err = s.WithBookings(ctx)
	}
	switch {
	case err == nil:
		e.board = p.Board
		e.Fleet = e.board.Fleet()
		listed, _ := inventory.List(cfg.Hosts)
		for _, h := range listed {
			if _, known := e.Fleet.Hosts[h.Name]; !known {
				e.Fleet.Hosts[h.Name] = booking.KnownHost{} // the board is older than the list
			}
		}
		mine := e.Aliases.Mine(e.Person)
		e.Running = func(b booking.Booking) []booking.Job { return e.board.Jobs(b, mine) }
	case required:
		return err
	default:
		fmt.Fprintf(e.app.stderr,
			"gpuboard: the board cannot be read, so it is not checked whether the GPUs exist: %s\n",
			failure.Printable(err.Error()))
	}
	return nil
}

func (e *editor) by() booking.By { return booking.By{Name: e.Login, At: e.Now} }

func (e *editor) when(b booking.Booking) string {
	return booking.Describe(b.From, b.Until, e.Now, e.Zone)
}

func (e *editor) moment(t time.Time) string { return t.In(e.Zone).Format("Mon 2 Jan 2006 15:04 MST") }

func (e *editor) note(notes ...string) {
	for _, n := range notes {
		if n != "" && !slices.Contains(e.notes, n) {
			e.notes = append(e.notes, n)
		}
	}
}

// change makes a change under the lock; with dryRun it only reads.
func (e *editor) change(
	ctx context.Context, dryRun bool, edit func([]byte) (booking.Change, error),
) (c booking.Change, err error) {
	if dryRun {
		data, err := e.file.ReadSaved(ctx)
		if err != nil {
			return c, err
		}
		return edit(data)
	}
	err = e.file.Update(ctx, e.by(), func(data []byte) ([]byte, error) {
		c, err = edit(data)
		return c.After, err
	})
	return c, e.made(err)
}

// made keeps the error of a change that was made, so that [editor.done] prints the change before it.
func (e *editor) made(err error) error {
	if _, ok := errors.AsType[*booking.MadeError](err); ok {
		e.incomplete = failure.New(failure.ExitDegraded, err, failure.Explain(err).Hint)
		return nil
	}
	return err
}

// failed gives the errors of changing bookings their exit codes and hints.
func (e *editor) failed(err error) error {
	var f *failure.Error
	var refusal *booking.Refusal
	var restorable *booking.RestorableError
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.As(err, &refusal):
		return e.refused(refusal)
	case errors.As(err, &restorable):
		return failure.New(failure.ExitError, err, restorable.Hint)
	case errors.Is(err, booking.ErrBroken):
		return failure.New(failure.ExitError, err, "gpuboard bookings lists the errors with line and column")
	case errors.Is(err, booking.ErrLocked):
		return failure.New(failure.ExitTryAgain, err, "try again in a moment")
	case errors.Is(err, booking.ErrChanged):
		return failure.New(failure.ExitTryAgain, err,
			"check with gpuboard bookings --mine whether it was saved, and try again")
	case errors.Is(err, booking.ErrInvalid):
		return failure.New(failure.ExitUsage, err, "")
	case errors.Is(err, booking.ErrEncoding):
		return failure.New(failure.ExitError, err, "for instance: iconv -f WINDOWS-1252 -t UTF-8")
	case errors.Is(err, fs.ErrPermission):
		return failure.New(failure.ExitError, err,
			"this account must be able to read the file and its lock, and to write its directory; with the package: sudo usermod -aG gpuboard ACCOUNT; else give both a common group: chgrp GROUP, and chmod g+w")
	}
	return err
}

// refused says why the policy does not allow a change, and what to do instead.
func (e *editor) refused(r *booking.Refusal) error {
	switch r.Reason {
	case booking.Taken:
		return failure.New(failure.ExitError, errors.New(strings.Join(e.standing(r.Bookings), "\n")),
			"book another one (gpuboard book --gpus 1 chooses a free one), ask them, or book it all the same: --force")
	case booking.Already:
		b := r.Bookings[0]
		return failure.New(failure.ExitError,
			fmt.Errorf("%s is booked by %s already: %s", b.Place(), b.Name, e.when(b)),
			"gpuboard extend "+b.Place()+" --until TIME moves its end")
	case booking.NotYours:
		b := r.Bookings[0]
		return failure.New(failure.ExitError,
			fmt.Errorf("%s is booked by %s, not by %s: %s", b.Place(), b.Name, e.Person, e.when(b)),
			"--name says who you are, and --force changes somebody else's booking")
	case booking.NoBooking:
		hint := "gpuboard bookings --mine lists yours with their ids"
		if len(r.Bookings) > 0 {
			hint = "you have booked " + booking.Places(r.Bookings)
		}
		return failure.New(failure.ExitError, r.Err, hint)
	case booking.BadPlace:
		return failure.Usage(placeForm, "%w", r.Err)
	case booking.BadBegin:
		return failure.Usage("leave --from out to begin now", "--from: %w", r.Err)
	}
	return failure.New(failure.ExitError, r.Err, "")
}

// standing describes bookings that are in the way, the first few of them.
func (e *editor) standing(bookings []booking.Booking) []string {
	const most = 5
	var lines []string
	for i, b := range bookings {
		if i == most {
			return append(lines, fmt.Sprintf("and %d more", len(bookings)-most))
		}
		who := "is booked by " + b.Name
		if b.Kind == booking.Maintenance {
			who = strings.TrimSuffix("is under maintenance by "+b.Name, " by ")
		}
		line := b.Place() + " " + who + ": "
		switch {
		case b.From.After(e.Now):
			line += e.when(b)
		case b.Until.IsZero():
			line += "no end is given"
		default:
			line += "until " + e.date(b.Until, "") + ", for " + booking.Length(b.Until.Sub(e.Now))
		}
		if b.Comment != "" {
			line += " (" + snapshot.Text(b.Comment, 120) + ")"
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// jobs describes what others run, by user, the first few of it.
func (e *editor) jobs(jobs []booking.Job) []string {
	const most = 8
	var lines []string
	jobs = booking.ByUser(jobs)
	for i, j := range jobs {
		if i == most {
			return append(lines, fmt.Sprintf("and %d more", len(jobs)-most))
		}
		if j.Unknown {
			lines = append(lines, j.Place+" may be in use: the board does not know")
			continue
		}
		line := j.Place + " is in use by " + j.Who.String()
		if j.Program != "" {
			line += ": " + snapshot.Text(j.Program, 80)
		}
		if !j.Since.IsZero() {
			line += " since " + j.Since.In(e.Zone).Format("Mon 2 Jan 15:04 MST") + ", for " +
				booking.Length(e.Now.Sub(j.Since))
		}
		if j.Memory > 0 {
			line += fmt.Sprintf(", %.1f GiB", float64(j.Memory)/1024)
		}
		lines = append(lines, line)
	}
	return lines
}

// done prints what was done, and returns what could not be recorded of it.
func (e *editor) done(verb string, c booking.Change, asJSON, dry bool) error {
	for _, n := range e.notes {
		fmt.Fprintf(e.app.stderr, "gpuboard: note: %s\n", failure.Printable(n))
	}
	return cmp.Or(e.print(verb, c, asJSON, dry), e.incomplete)
}

// print prints what was done: a line for each stretch of time, or JSON. After a release
// these are the stretches that were given back.
func (e *editor) print(verb string, c booking.Change, asJSON, dry bool) error {
	if asJSON {
		doc := struct {
			Schema   int            `json:"schema_version"`
			Action   string         `json:"action"`
			DryRun   bool           `json:"dry_run"`
			Bookings []booking.JSON `json:"bookings"`
			Over     []booking.JSON `json:"over"`
			Running  []booking.Job  `json:"running"`
			// OverRunning is what --over-running takes for these jobs.
			OverRunning string `json:"over_running,omitempty"`
			Diff        string `json:"diff,omitempty"`
		}{
			1, verb, dry, toJSON(c.Done), toJSON(c.Over),
			append([]booking.Job{}, c.Running...), booking.Consent(c.Running), "",
		}
		if dry {
			doc.Diff = diffLines(c.Before, c.After)
		}
		return writeJSON(e.app.stdout, doc)
	}
	if dry {
		verb = "would be " + verb
		if _, err := fmt.Fprint(e.app.stdout, diffLines(c.Before, c.After)); err != nil {
			return err
		}
	}
	list, given := c.Done, ""
	if len(c.Freed) > 0 {
		list, given = c.Freed, " is free again"
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].From.Equal(list[0].From) && list[n].Until.Equal(list[0].Until) &&
			list[n].Name == list[0].Name {
			n++
		}
		var ids []string
		for _, b := range list[:n] {
			ids = append(ids, b.ID)
		}
		what := verb
		if list[0].Kind == booking.Maintenance {
			what += " for maintenance"
		}
		if _, err := fmt.Fprintf(e.app.stdout, "%s %s for %s: %s [%s]\n", failure.Printable(booking.Places(list[:n])),
			what, failure.Printable(e.Aliases.Canonical(list[0].Name)),
			e.when(list[0])+given, failure.Printable(strings.Join(ids, " "))); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// diffLines shows the lines that differ, with "+" and "-" in front.
func diffLines(before, after []byte) string {
	unified := string(diff.Diff("before", normalLines(before), "after", normalLines(after)))
	var out strings.Builder
	n := 0
	for line := range strings.Lines(unified) {
		n++
		switch {
		case n <= 3: // the names of the files
		case strings.HasPrefix(line, "@@"):
			if n > 4 {
				out.WriteString("  ...\n")
			}
		default:
			out.WriteString(line[:1] + " " + failure.Printable(strings.TrimSuffix(line[1:], "\n")) + "\n")
		}
	}
	return out.String()
}

// normalLines returns a text in UTF-8 whose lines all end in a newline alone.
func normalLines(data []byte) []byte {
	text := strings.ReplaceAll(booking.ToUTF8(data), "\r\n", "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}

func toJSON(bookings []booking.Booking) []booking.JSON {
	list := make([]booking.JSON, 0, len(bookings))
	for _, b := range bookings {
		list = append(list, b.JSON())
	}
	return list
}
