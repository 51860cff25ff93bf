package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

// A bookRequest is what the flags of book say.
type bookRequest struct {
	length, until, from   string
	name, comment, kind   string
	extend                string
	gpus                  int
	pick                  wanted
	force, dryRun, asJSON bool
	at                    string
}

func (a *app) bookCommand() *cobra.Command {
	var r bookRequest
	c := &cobra.Command{
		Use: "book [HOST[:GPU[,GPU]]…]", Short: "book GPUs, or extend a booking", GroupID: groupUse,
		Long: "book writes a booking into comments.json, on the web host, and leaves every\n" +
			"other byte of the file as it is. Elsewhere, with booking.ssh, it runs there by ssh. A host alone is the whole host; a GPU is an index, a range\n" +
			"such as 0-3, or a UUID. With --gpus it picks GPUs that are free on the board, on one host if\n" +
			"that can be, in the same order every time.\n\n" +
			"What somebody else has booked is refused, with who and until when; --force books it all the\n" +
			"same, and the file then says so.\n" + exitStatus,
		Example: "  gpuboard book gpu01:0,1 --for 2d6h --comment \"camera ready\"\n" +
			"  gpuboard book gpu01 --from \"mon 08:00\" --until \"mon 18:00\" --kind maintenance\n" +
			"  gpuboard book --gpus 2 --model a100 --min-memory 40G --until \"fri 18:00\"\n" +
			"  gpuboard book --extend gpu01:0 --for 1d",
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			if done, err := a.onWebHost(c, cfg, args); done {
				return err
			}
			if err := r.check(c, args); err != nil {
				return err
			}
			d, err := a.desk(c, cfg, r.name, r.at)
			if err != nil {
				return err
			}
			fleet, err := d.fleet(c.Context(), cfg)
			if err := r.board(a, cfg, err); err != nil {
				return err
			}
			b := &bookingMaker{desk: d, request: &r, fleet: fleet}
			if r.extend != "" {
				return b.extend(c.Context())
			}
			return b.book(c.Context(), args)
		},
	}
	a.flags(c, bookingKeys()...)
	c.Flags().StringVar(&r.length, "for", "", "for so `LONG`, such as 2d6h; with --extend, so much longer")
	c.Flags().StringVar(&r.until, "until", "", "until this `TIME`, such as \"2026-11-23 18:00\", \"fri 18:00\" or tomorrow; never for an open end")
	c.Flags().StringVar(&r.from, "from", "", "from this `TIME` on (default: now)")
	c.Flags().StringVar(&r.name, "name", "", "book for this `NAME` (default: booking.name, else your login name)")
	c.Flags().StringVar(&r.comment, "comment", "", "`TEXT` that is shown beside the booking")
	c.Flags().StringVar(&r.kind, "kind", "", "`KIND`: booking, or maintenance to drain a host or GPU")
	c.Flags().StringVar(&r.extend, "extend", "", "move the end of your booking `WHICH`, named by its id or by HOST:GPU")
	c.Flags().IntVar(&r.gpus, "gpus", 0, "pick so `MANY` free GPUs")
	c.Flags().StringVar(&r.pick.model, "model", "", "with --gpus: only models whose name holds this `TEXT`")
	c.Flags().StringVar(&r.pick.minMemory, "min-memory", "", "with --gpus: only GPUs with at least this `MEMORY`, such as 40G as vendors count, or 40Gi")
	c.Flags().BoolVar(&r.force, "force", false, "book over standing bookings, and what the board does not know")
	c.Flags().BoolVar(&r.dryRun, "dry-run", false, "show what would change in the file, and change nothing")
	c.Flags().BoolVar(&r.asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&r.at, "now", "", "pretend that it is this `TIME` (RFC 3339)")
	_ = c.Flags().MarkHidden("now")
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"booking", "maintenance"}, cobra.ShellCompDirectiveNoFileComp))
	c.ValidArgsFunction = a.completeHosts
	return c
}

// check refuses what makes no sense, before anything is read.
func (r *bookRequest) check(c *cobra.Command, args []string) (err error) {
	const which = "gpuboard book gpu01:0 --for 2d; or --gpus 2 to have free ones picked"
	picking := c.Flags().Changed("gpus")
	switch {
	case r.length != "" && r.until != "":
		return usagef("", "--for and --until both say when it ends: give one of them")
	case r.extend != "" && (len(args) > 0 || picking || r.from != "" || r.kind != "" || r.comment != ""):
		return usagef("gpuboard book --extend gpu01:0 --for 1d", "--extend moves the end of a booking, and takes --for or --until beside it")
	case r.extend != "" && r.length == "" && r.until == "":
		return usagef("gpuboard book --extend "+r.extend+" --for 1d", "how long? give --for or --until")
	case r.extend == "" && len(args) == 0 && !picking:
		return usagef(which, "what is to be booked?")
	case picking && r.gpus < 1:
		return usagef(which, "--gpus: at least 1, not %d", r.gpus)
	case !picking && (r.pick.model != "" || r.pick.minMemory != ""):
		return usagef(which, "--model and --min-memory go with --gpus")
	}
	switch booking.Kind(r.kind) {
	case "", booking.Reserved, booking.Maintenance:
	default:
		return usagef("", "--kind: %q is neither booking nor maintenance", r.kind)
	}
	if r.length != "" {
		if _, err := booking.ParseDuration(r.length); err != nil {
			return usagef("a moment goes with --until", "--for: %w", err)
		}
	}
	if r.pick.minMemory != "" {
		if r.pick.memory, err = mebibytes(r.pick.minMemory); err != nil {
			return usagef("for instance --min-memory 40G", "--min-memory: %w", err)
		}
	}
	return nil
}

// board decides what it means that there is none: picking needs one, and who
// configured one wants to know.
func (r *bookRequest) board(a *app, cfg *config.Config, err error) error {
	var f *failure.Error
	switch {
	case err == nil:
	case r.gpus > 0:
		return err
	case errors.As(err, &f) && f.Exit == exitUsage && cfg.String("site_url") == "":
	default:
		fmt.Fprintf(a.stderr, "gpuboard: the board cannot be read, so it is not checked whether the GPUs exist: %s\n", printable(err.Error()))
	}
	return nil
}

// A bookingMaker makes one change to the bookings.
type bookingMaker struct {
	*desk
	request *bookRequest
	fleet   *knownFleet
	notes   []string
}

// An outcome is what a change came to.
type outcome struct {
	before, after []byte
	done          []booking.Booking // as they read in the file
	over          []booking.Booking // standing bookings that were overruled
}

func (m *bookingMaker) book(ctx context.Context, args []string) error {
	r := m.request
	from, until, err := m.times()
	if err != nil {
		return err
	}
	wants, err := m.wants(args, from, until)
	if err != nil {
		return err
	}
	if r.gpus == 0 {
		m.inUse(wants)
	}
	return m.change(ctx, func(data []byte) (outcome, error) {
		cal, wants := m.parse(data), wants
		if r.gpus > 0 {
			if wants, err = m.choose(cal, wants, from, until); err != nil {
				return outcome{}, err
			}
		}
		over, err := m.allowed(cal, wants)
		if err != nil {
			return outcome{}, err
		}
		for i := range wants {
			wants[i].Name, wants[i].Forced = m.written, r.force && len(over) > 0
			if !strings.EqualFold(m.login, m.me) || wants[i].Forced {
				wants[i].By = m.login
			}
		}
		next, added, err := booking.Add(data, m.in, wants...)
		return outcome{before: data, after: next, done: added, over: over}, err
	}, "booked")
}

// times reads when the booking begins and ends.
func (m *bookingMaker) times() (from, until time.Time, err error) {
	r := m.request
	from = m.now.Truncate(time.Minute) // the file is for people, and they write no seconds
	if r.from != "" {
		t, note, err := booking.ParseMoment(r.from, m.now, m.zone)
		if err != nil {
			return from, until, usagef("", "--from: %w", err)
		}
		if t.Before(from) {
			return from, until, usagef("leave --from out to begin now", "--from: %s is over", t.In(m.zone).Format("Mon 2 Jan 2006 15:04 MST"))
		}
		from = t
		m.note(note)
	}
	until, err = m.end(from, from)
	return from, until, err
}

// end reads when something ends that begins at from. A length of time counts
// from start.
func (m *bookingMaker) end(start, from time.Time) (until time.Time, err error) {
	r := m.request
	flag, text := "--until", r.until
	switch {
	case r.length != "":
		flag, text, from = "--for", r.length, start
	case text == "never":
		return time.Time{}, nil
	case text == "":
		if m.length == "" || m.length == "none" {
			return until, usagef("for instance --for 2d6h, or --until \"fri 18:00\"; booking.default_duration in gpuboard.yml is taken when neither is given", "for how long?")
		}
		flag, text = "booking.default_duration", m.length
	}
	until, note, err := booking.ParseUntil(text, from, m.now, m.zone)
	if err != nil {
		return until, usagef("", "%s: %w", flag, err)
	}
	m.note(note)
	return until, nil
}

func (m *bookingMaker) note(text string) {
	if text != "" && !slices.Contains(m.notes, text) {
		m.notes = append(m.notes, text)
	}
}

// wants makes the bookings that the arguments name. With --gpus they are hosts
// to pick from.
func (m *bookingMaker) wants(args []string, from, until time.Time) ([]booking.Booking, error) {
	r := m.request
	var wants []booking.Booking
	for _, arg := range args {
		host, targets, err := parseWhere(arg)
		if err != nil {
			return nil, err
		}
		for _, target := range targets {
			if r.gpus > 0 && !target.All {
				return nil, usagef("name hosts alone with --gpus, or GPUs without it", "%s names a GPU, and --gpus is to pick them", arg)
			}
			wants = append(wants, m.wanted(host, target, from, until))
		}
	}
	slices.SortStableFunc(wants, func(a, b booking.Booking) int { return cmp.Compare(a.Host, b.Host) })
	if len(m.fleet.hosts) == 0 || r.force || len(wants) == 0 {
		return wants, nil
	}
	for _, p := range booking.Check(&booking.Calendar{Bookings: wants}, m.fleet.hosts, m.now) {
		return nil, fail(exitUsage, errors.New(p.Message), "gpuboard status lists what there is; --force books it all the same")
	}
	return wants, nil
}

func (m *bookingMaker) wanted(host string, target booking.Target, from, until time.Time) booking.Booking {
	kind := booking.Kind(cmp.Or(m.request.kind, string(booking.Reserved)))
	return booking.Booking{Host: host, Target: target, Name: m.me, Written: m.written, From: from, Until: until, Comment: m.request.comment, Kind: kind}
}

// allowed checks the bookings against those that stand and against the limits.
// It returns those that are overruled.
func (m *bookingMaker) allowed(cal *booking.Calendar, wants []booking.Booking) (over []booking.Booking, err error) {
	var against, own []booking.Booking
	for _, w := range wants {
		if w.From.Before(m.now) {
			w.From = m.now // what ended earlier in this minute is no conflict
		}
		against = append(against, booking.Conflicts(cal, w, m.fleet.resolve)...)
		w.Name += "\x00" // nobody's name: what is left is one's own
		for _, b := range booking.Conflicts(cal, w, m.fleet.resolve) {
			if strings.EqualFold(b.Name, m.me) && b.Target == w.Target && b.Kind == w.Kind {
				own = append(own, b)
			}
		}
	}
	if err := m.limits.Check(cal, wants, m.now, m.fleet.gpus); err != nil {
		return nil, fail(exitError, err, "")
	}
	maintenance := len(wants) > 0 && wants[0].Kind == booking.Maintenance
	switch {
	case len(against) > 0 && !m.request.force && !maintenance:
		return nil, m.conflict(against)
	case len(own) > 0 && !m.request.force:
		return nil, fail(exitError, fmt.Errorf("%s is booked by %s already: %s", placeOf(own[0]), own[0].Name, m.when(own[0])),
			"gpuboard book --extend "+placeOf(own[0])+" --until TIME moves its end")
	}
	return against, nil
}

// conflict says who is in the way, until when.
func (m *bookingMaker) conflict(against []booking.Booking) error {
	const most = 5
	var lines []string
	for i, b := range against {
		line := m.standing(b)
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(against)-most))
			break
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return fail(exitError, errors.New(strings.Join(lines, "\n")), "book another one (gpuboard book --gpus 1 picks a free one), ask them, or --force to book it all the same")
}

// standing describes a booking that is in the way.
func (m *bookingMaker) standing(b booking.Booking) string {
	who := "is booked by " + b.Name
	if b.Kind == booking.Maintenance {
		who = "is under maintenance"
		if b.Name != "" {
			who += " by " + b.Name
		}
	}
	line := placeOf(b) + " " + who + ": "
	switch {
	case b.From.After(m.now):
		line += m.when(b)
	case b.Until.IsZero():
		line += "no end is given"
	default:
		line += "until " + b.Until.In(m.zone).Format("Mon 2 Jan 15:04 MST") + ", for " + booking.Length(b.Until.Sub(m.now))
	}
	if b.Comment != "" {
		line += " (" + snapshot.Text(b.Comment, 120) + ")"
	}
	return line
}
