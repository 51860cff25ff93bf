package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

func (a *app) bookingsCommand() *cobra.Command {
	var name, at, host, user, before, keep string
	var mineOnly, all, asJSON, asICS, prune, log bool
	c := &cobra.Command{
		Use: "bookings", Short: "list the bookings, or move old ones into the archive", GroupID: groupUse,
		Args:       cobra.NoArgs,
		SuggestFor: []string{"reservations"},
		Long: "bookings lists current and upcoming bookings. Errors in comments.json are printed on stderr\n" +
			"with line and column, and the exit code is then 3. With --prune it moves old bookings to\n" +
			"comments.archive.json beside the file, one line of JSON each. After a change of timezone or\n" +
			"booking.timezone (booking:zone), --keep writes an offset behind the times that have none: that\n" +
			"of before, so that times are kept, or that of the new zone, so that words are kept.\n" + exitStatus,
		Example: "  gpuboard bookings\n  gpuboard bookings --mine\n  gpuboard bookings --log\n  gpuboard bookings --ics > bookings.ics\n  gpuboard bookings --prune --before 30d",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			if done, err := a.onWebHost(c, cfg, args); done {
				return err
			}
			narrowed := mineOnly || all || host != "" || user != ""
			switch {
			case asJSON && asICS:
				return failure.Usage("", "--json and --ics are two ways to print the same: give one of them")
			case keep != "" && keep != "times" && keep != "words":
				return failure.Usage("gpuboard bookings --keep times, or --keep words",
					"--keep: there is no %q to keep", keep)
			case keep != "" && (log || prune || asJSON || asICS || narrowed):
				return failure.Usage("gpuboard bookings --keep "+keep, "--keep takes no flag beside it")
			case before != "" && !prune:
				return failure.Usage("gpuboard bookings --prune --before "+before, "--before goes with --prune")
			case log && (prune || asJSON || asICS || narrowed):
				return failure.Usage("gpuboard bookings --log", "--log takes no flag beside it")
			case prune && (asJSON || asICS || narrowed):
				return failure.Usage("gpuboard bookings --prune --before 30d", "--prune takes no flag but --before")
			}
			if host != "" {
				patterns, err := hostPatterns([]string{host})
				if err != nil {
					return failure.Usage("", "--host: %w", err)
				}
				host = patterns[0]
			}
			e, err := a.editor(cfg, name, at)
			if err != nil {
				return err
			}
			switch {
			case keep != "":
				return e.failed(e.keep(c.Context(), cfg.String("state"), keep))
			case prune:
				return e.failed(e.prune(c.Context(), before))
			case log:
				return e.log()
			}
			cal := e.file.Load(e.Options())
			if err := e.readBoard(c.Context(), cfg, false); err != nil {
				return err
			}
			cal = cal.On(e.Fleet)
			problems := cal.Problems
			if len(e.Fleet.Hosts) > 0 {
				problems = append(problems, booking.Check(cal, e.Fleet, e.Now)...)
			}
			list := slices.DeleteFunc(slices.Clone(cal.Bookings), func(b booking.Booking) bool {
				return mineOnly && !e.Mine(b) || user != "" && !e.Aliases.Mine(user)(b.Name) ||
					host != "" && !hostMatches(host, b.Host) || !all && b.OverAt(e.Now)
			})
			switch {
			case asJSON:
				err = e.published("api/v1/bookings.json", list, problems)
			case asICS:
				err = e.published("bookings.ics", list, problems)
			default:
				err = e.table(a.stdout, list)
			}
			if err != nil {
				return fmt.Errorf("writing the bookings: %w", err)
			}
			for _, p := range problems {
				a.complain(p)
			}
			if len(list) == 0 && host != "" && e.board != nil &&
				a.missingHosts(e.board, matching(e.board, []string{host})) > 0 {
				return silent(failure.ExitNoMatch)
			}
			if len(problems) > 0 {
				return silent(failure.ExitDegraded)
			}
			return nil
		}),
	}
	a.flags(c, append(bookingKeys(), "state")...)
	c.Flags().StringVarP(&name, "name", "n", "", "for this `NAME` (default: booking.name, else your login name)")
	c.Flags().BoolVar(&mineOnly, "mine", false, "only bookings for you or made by you")
	c.Flags().StringVar(&user, "user", "", "only bookings for this `PERSON`")
	c.Flags().StringVar(&host, "host", "", "only bookings of this `HOST`, which may have * in it")
	c.Flags().BoolVar(&all, "all", false, "also bookings that have ended")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	c.Flags().BoolVar(&asICS, "ics", false, "print a calendar file")
	c.Flags().BoolVar(&prune, "prune", false, "move old bookings into comments.archive.json")
	c.Flags().BoolVar(&log, "log", false, "print the log of changes (who booked, changed and released what)")
	c.Flags().StringVar(&before, "before", "",
		"with --prune: `AGE` or time before which a booking is old (default 30d)")
	c.Flags().StringVar(&keep, "keep", "",
		"after a change of timezone: `WHAT` bookings keep, their times or their words")
	c.Flags().StringVar(&at, "now", "", "pretend that it is this `TIME` (RFC 3339)")
	_ = c.RegisterFlagCompletionFunc("host", a.completeHosts)
	return c
}

// pruneAfter is how long after its end a booking stays, without --before.
const pruneAfter = 30 * 24 * time.Hour

func (e *editor) prune(ctx context.Context, before string) error {
	end := e.Now.Add(-pruneAfter)
	if before != "" {
		if length, err := booking.ParseDuration(before); err == nil {
			end = e.Now.Add(-length)
		} else if end, _, err = booking.ParseMoment(before, e.Now, e.Zone); err != nil {
			return failure.Usage("for instance --before 30d", "--before: %w", err)
		} else if end.After(e.Now) {
			return failure.Usage("", "--before: %s is not over", before)
		}
	}
	moved, into, err := e.file.Prune(ctx, e.by(), end)
	if err = e.made(err); err != nil {
		return err
	}
	if len(moved) == 0 {
		_, err = fmt.Fprintf(e.app.stdout, "no booking ended before %s\n", e.moment(end))
		return err
	}
	_, err = fmt.Fprintf(e.app.stdout, "moved %s that ended before %s to %s\n", board.Number(len(moved), "booking"),
		e.moment(end), into)
	return cmp.Or(err, e.incomplete)
}

// keep settles what bookings mean after a change of zone: the moments of before ("times"), or the digits that are
// written ("words").
func (e *editor) keep(ctx context.Context, state, what string) error {
	was, err := sitegen.BookingZone(state)
	if err != nil {
		return failure.New(
			failure.ExitError,
			err,
			"as the account that generates, such as: sudo -u gpuboard gpuboard bookings --keep "+what,
		)
	}
	kept, err := e.file.Keep(ctx, e.by(), was, what == "words", e.Options())
	if err = e.made(err); err == nil && len(kept) == 0 {
		_, err = fmt.Fprintln(e.app.stdout, "no booking was moved by a change of zone")
	}
	if err != nil {
		return err
	}
	return e.done("stays", booking.Change{Done: kept}, false, false)
}

func (e *editor) log() error {
	for _, entry := range e.file.Record() {
		b, _ := entry.Booking()
		when := booking.Describe(b.From, b.Until, entry.At, e.Zone)
		if _, err := fmt.Fprintf(e.app.stdout, "%s  %s  %s %s for %s: %s [%s]\n", e.moment(entry.At),
			failure.Printable(entry.By), b.Place(), failure.Printable(entry.Action),
			failure.Printable(b.Name), when, failure.Printable(b.ID)); err != nil {
			return fmt.Errorf("writing the record: %w", err)
		}
	}
	return nil
}

// published prints a file as the site has it, for these bookings alone.
func (e *editor) published(path string, list []booking.Booking, problems []snapshot.Problem) error {
	b := &board.Board{GeneratedAt: e.Now.UTC(), Problems: problems}
	for _, bk := range list {
		shown := board.Shown(&bk, e.Now)
		if index, known := e.Fleet.Index(bk); known {
			shown.GPUs = []int{index}
		}
		b.Bookings = append(b.Bookings, shown)
	}
	return data.Files(
		render.Input{Board: b, Site: render.Site{Zone: e.Zone, Version: version()}, Emit: func(f render.File) error {
			if f.Path != path {
				return nil
			}
			_, err := e.app.stdout.Write(f.Content)
			return err
		}})
}

// table prints the bookings for people, with the comment last.
func (e *editor) table(w io.Writer, list []booking.Booking) error {
	if len(list) == 0 {
		return nil
	}
	table := text.Table{Width: e.app.width(math.MaxInt), Gap: "  ", More: "…", Columns: []text.Column{
		{Title: "HOST"}, {Title: "GPU", Least: 14}, {Title: "NAME", Least: 12}, {Title: "FROM"}, {Title: "UNTIL"},
		{}, {Title: "ID"}, {Title: "COMMENT", Least: 20},
	}}
	var rows [][]string
	for _, b := range list {
		gpu := b.Target.String()
		if b.Target.All {
			gpu = "all"
		}
		who := b.Name
		if b.Kind == booking.Maintenance {
			who = strings.TrimSpace("maintenance " + b.Name)
		}
		row := []string{
			b.Host, gpu, who, e.date(b.From, ""), e.date(b.Until, "open end"),
			e.left(b), b.ID, snapshot.Text(b.Comment, booking.MaxCommentBytes),
		}
		for i := range row {
			row[i] = failure.Printable(row[i])
		}
		rows = append(rows, row)
	}

	table.Fit(rows)
	table.Width = math.MaxInt // what did not shrink enough is for the terminal to wrap: an ID is never cut
	out := table.Titles() + "\n"
	for _, row := range rows {
		out += table.Line("", row...) + "\n"
	}
	_, err := io.WriteString(w, out)
	return err
}

func (e *editor) date(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	t = t.In(e.Zone)
	return booking.Near(t, e.Now) + t.Format(" MST")
}

// left is how much longer, or in how long, or since when not any more.
func (e *editor) left(b booking.Booking) string {
	switch {
	case b.From.After(e.Now):
		return "in " + booking.Length(b.From.Sub(e.Now))
	case b.Until.IsZero():
		return "now"
	case b.Until.After(e.Now):
		return "now, " + booking.Length(b.Until.Sub(e.Now)) + " left"
	}
	return "over for " + booking.Length(e.Now.Sub(b.Until))
}
