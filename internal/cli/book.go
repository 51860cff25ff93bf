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
	"github.com/spf13/pflag"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen/text"
)

type bookRequest struct {
	length, until, from   string
	name, comment, kind   string
	gpus                  int
	pick                  wanted
	force, dryRun, asJSON bool
	oneHost               bool
	overRunning           string // overNow, or which jobs: a booking.Consent
	at                    string
	// again is the command as it was typed without some flags and with more.
	again func(without []string, more ...string) string
	// instead is the command with other places, and with more flags.
	instead func(places []string, more ...string) string
}

func (a *app) bookCommand() *cobra.Command {
	var r bookRequest
	c := &cobra.Command{
		Use: "book [HOST[:GPU[,GPU]]…]", Short: "book GPUs", GroupID: groupUse,
		SuggestFor: []string{"reserve"},
		Long: "book adds a booking to comments.json on the web host; the rest of the file stays as it is.\n" +
			"On other machines, set booking.ssh: book then runs on the web host by ssh. HOST alone books\n" +
			"the whole host. GPU is an index, a range such as 0-3, or a UUID. With --gpus it chooses free\n" +
			"GPUs, on one host if possible.\n\n" +
			"A GPU that somebody else has booked is refused; the message names the booking. --force books\n" +
			"it all the same, and the file records that. A GPU that others are using now is refused, too;\n" +
			"the message says who, since when and how much memory, and its hint books it all the same, over\n" +
			"these jobs and no others. --over-running alone books over those that run now.\n" + exitStatus,
		Example: "  gpuboard book --gpus 1 --for 2h\n  gpuboard book gpu01:0,1 --for 2d6h --comment \"camera ready\"\n" +
			"  gpuboard book gpu02 --from \"mon 08:00\" --until \"mon 18:00\" --kind maintenance\n" +
			"  gpuboard book --gpus 2 --model a100 --min-memory 40G --until \"fri 18:00\"",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			r.again = func(without []string, more ...string) string {
				return shell.Join(slices.Concat(commandLine(c, without...), more, args)...)
			}
			r.instead = func(places []string, more ...string) string {
				without := []string{"force"}
				for _, word := range more {
					without = append(without, strings.TrimPrefix(word, "--"))
				}
				words := commandLine(c, without...)
				return shell.Join(slices.Concat(words[:2], places, words[2:], more)...)
			}
			if slices.ContainsFunc(args, source.Elsewhere) {
				return a.elsewhere(c, cfg, args, &r)
			}
			if done, err := a.onWebHost(c, cfg, args); done {
				return err
			}
			if err := r.check(c, args); err != nil {
				return err
			}
			e, err := a.editor(cfg, r.name, r.at)
			if err != nil {
				return err
			}
			if err := e.readBoard(c.Context(), cfg, r.gpus > 0); err != nil {
				return err
			}
			e.Force = r.force
			e.look = func() error { return e.readBoard(c.Context(), cfg, true) }
			if err := e.misplaced(&r, args); err != nil {
				return err
			}
			return e.book(c.Context(), &r, args)
		}),
	}
	a.flags(c, bookingKeys()...)
	c.Flags().StringVar(&r.length, "for", "", "`LENGTH` of the booking, such as 2d6h")
	c.Flags().StringVar(&r.from, "from", "", "start `TIME` (default: now)")
	r.commonFlags(c)
	c.Flags().StringVar(&r.comment, "comment", "", "`TEXT` that is shown beside the booking")
	c.Flags().StringVar(&r.kind, "kind", "", "`KIND`: booking, or maintenance to drain a host or GPU")
	c.Flags().IntVar(&r.gpus, "gpus", 0, "book this `NUMBER` of free GPUs, wherever they are")
	c.Flags().StringVar(&r.pick.Model, "model", "", "only GPUs whose name contains this `TEXT`")
	c.Flags().StringVar(&r.pick.minMemory, "min-memory", "",
		"only GPUs with at least this `MEMORY`, such as 40G (as vendors count) or 40Gi")
	c.Flags().BoolVar(&r.pick.MIG, "mig", false, "MIG slices, and not whole GPUs")
	c.Flags().BoolVar(&r.oneHost, "same-host", false, "all of them on one host")
	c.Flags().StringVar(&r.overRunning, "over-running", "",
		"book GPUs in use (`JOBS`: over these and no others, as a refusal shows them)")
	c.Flags().Lookup("over-running").NoOptDefVal = overNow
	c.Flags().BoolVar(&r.force, "force", false, "book despite other bookings, and GPUs that the board does not know")
	completes(c, "kind", "booking", "maintenance")
	c.ValidArgsFunction = a.completeHosts
	return c
}

// overNow is --over-running without a value: whatever runs when the command looks.
const overNow = "now"

func (r *bookRequest) check(c *cobra.Command, args []string) error {
	const which = "gpuboard book gpu01:0 --for 2d; or --gpus 2 to have free ones picked"
	picking := c.Flags().Changed("gpus")
	switch {
	case len(args) == 0 && !picking:
		return failure.Usage(which, "what is to be booked?")
	case picking && r.gpus < 1:
		return failure.Usage(which, "--gpus: at least 1, not %d", r.gpus)
	case !picking && (r.pick.Model != "" || r.pick.minMemory != "" || r.oneHost || r.pick.MIG):
		return failure.Usage(which, "--model, --min-memory, --mig and --same-host go with --gpus")
	case !slices.Contains([]string{"", string(booking.Reserved), string(booking.Maintenance)}, r.kind):
		return failure.Usage("", "--kind: %q is neither booking nor maintenance", r.kind)
	}
	if err := r.checkEnd(); err != nil {
		return err
	}
	return r.pick.readMemory()
}

const placeForm = "write gpu01:0, gpu01:0,1, gpu01:0-3, gpu01:GPU-…, gpu01:MIG-…, or gpu01 for the whole host"

// booking is what is asked for, without places.
func (e *editor) booking(r *bookRequest) (one booking.Booking, err error) {
	flag, until := "--until", r.until
	switch {
	case r.length != "":
		flag, until = "--for", r.length
	case until == "":
		if e.defaultLength == "" || e.defaultLength == "none" {
			return one, failure.Usage(
				"for instance --for 2d6h, or --until \"fri 18:00\"; booking.default_duration in gpuboard.yml is taken when neither is given", "for how long?")
		}
		flag, until = "booking.default_duration", e.defaultLength
	}
	from, end, notes, err := e.Times(r.from, until)
	if err != nil {
		return one, e.failed(aboutEnd(err, flag))
	}
	e.note(notes...)
	kind := booking.Kind(cmp.Or(r.kind, string(booking.Reserved)))
	return booking.Booking{From: from, Until: end, Comment: r.comment, Kind: kind}, nil
}

func (e *editor) book(ctx context.Context, r *bookRequest, args []string) error {
	one, err := e.booking(r)
	if err != nil {
		return err
	}
	wanted, err := e.wanted(r, one, args)
	if err != nil {
		return err
	}
	if e.board != nil && !one.From.After(e.Now) {
		if e.board.Late(e.Now) {
			e.note("the board was made " + snapshot.Length(e.board.Age(e.Now)) +
				" ago: what it calls free may be in use by now")
		}
		e.unusable(wanted)
	}
	if e.OverRunning = r.overRunning; r.overRunning == overNow {
		e.OverRunning = booking.Consent(e.Jobs(wanted))
	}
	return e.finish(ctx, r, "booked", func(data []byte) (booking.Change, error) {
		if e.OverRunning != "" { // what runs there may have changed while the lock was waited for
			if err := e.look(); err != nil {
				return booking.Change{}, err
			}
		}
		list := wanted
		if r.gpus > 0 {
			if list, err = e.choose(data, r, one, wanted); err != nil {
				return booking.Change{}, err
			}
		}
		return e.Book(data, list...)
	})
}

// aboutEnd names the flag that an end was read from.
func aboutEnd(err error, flag string) error {
	if r, ok := errors.AsType[*booking.Refusal](err); ok && r.Reason == booking.BadEnd {
		return failure.Usage("", "%s: %w", flag, r.Err)
	}
	return err
}

// wanted makes the bookings that the arguments name. With --gpus the arguments are hosts.
func (e *editor) wanted(r *bookRequest, one booking.Booking, args []string) ([]booking.Booking, error) {
	var list []booking.Booking
	for _, arg := range args {
		host, targets, err := booking.ParsePlace(arg)
		if err != nil {
			return nil, failure.Usage(placeForm, "%w", err)
		}
		for _, target := range targets {
			if r.gpus > 0 && !target.All {
				return nil, failure.Usage("name hosts alone with --gpus, or GPUs without it",
					"%s names a GPU, and --gpus is to pick them", arg)
			}
			b := one
			b.Host, b.Target, b.Written = host, target, e.Written
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b booking.Booking) int { return cmp.Compare(a.Host, b.Host) })
	if e.board == nil || e.Force {
		return list, nil
	}
	problems := booking.Check(&booking.Calendar{Bookings: list}, e.Fleet, e.Now)
	if len(problems) == 0 {
		return list, nil
	}
	first := problems[0]
	undiscovered := slices.IndexFunc(e.board.Problems, func(p snapshot.Problem) bool {
		return strings.HasPrefix(p.Code, "discovery:") || p.Code == "bad:unreadable" && p.Host == "" // the drops
	})
	meant := e.meant(r, args, first.Host)
	if undiscovered >= 0 {
		hint := "--force books it all the same"
		if meant != "" {
			hint = "did you mean " + meant
		}
		err := fmt.Errorf("%s, or is not known now: %s", first.Message, e.board.Problems[undiscovered].Message)
		return nil, failure.New(failure.ExitTryAgain, err, hint)
	}
	hint := "gpuboard status lists what there is; --force books it all the same"
	switch {
	case meant != "":
		hint = "did you mean " + meant
	case len(e.Fleet.Hosts) == 0:
		hint = "gpuboard generate reads which hosts there are; --force books it all the same"
	case len(args) > 1 && args[0] != first.Host && strings.Trim(first.Host, "0123456789") == "":
		hint = "a GPU is written behind its host and a colon: gpuboard book " + args[0] + ":" + first.Host
	}
	return nil, failure.New(failure.ExitUsage, errors.New(first.Message), hint)
}

// meant is the command with the host that an unknown name is a letter or two away from, or with the day; "" for
// neither.
func (e *editor) meant(r *bookRequest, args []string, host string) string {
	if _, known := e.Fleet.Hosts[host]; known {
		return "" // and its GPU is not
	}
	near := e.Fleet.Near(host)
	_, day := booking.FlagFor(host, e.Now, e.Zone)
	var places []string
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, ":")
		switch {
		case !strings.EqualFold(name, host):
			places = append(places, arg)
		case near != "":
			places = append(places, near+arg[len(name):])
		}
	}
	switch {
	case near != "":
		return r.instead(places)
	case day != "" && len(places) > 0 && r.length+r.until == "":
		return r.instead(places, "--until", day)
	}
	return ""
}

// misplaced is an error if some of the words are a time, which stands behind a flag, and no place.
func (e *editor) misplaced(r *bookRequest, args []string) error {
	if places, times := e.cutTimes(r, args); times != nil {
		return failure.Usage("did you mean "+r.instead(places, times...), "a time of several words needs quotes")
	}
	flag, said, places := e.timeAmong("", args)
	if flag == "" {
		return nil
	}
	ends := r.length+r.until != ""
	if ends && flag == "until" {
		flag = "from"
	}
	hint := "--from, --until and --for say when"
	if more, _, _ := e.timeAmong("", places); more == "" && (!ends || flag == "from" && r.from == "") {
		words := []string{"--" + flag, said}
		if len(places) == 0 && r.gpus == 0 {
			words = append([]string{"--gpus", "1"}, words...)
		}
		hint = "did you mean " + r.instead(places, words...)
	}
	if !strings.ContainsAny(said, "0123456789 ") {
		hint += "; a host of this name is " + said + ":*"
	}
	return failure.Usage(hint, "%q is a time, and not a host", said)
}

// cutTimes finds the times of which a flag has the first word and the places have the others, for want of quotes. It
// returns the other places, and the flags; nil for none.
func (e *editor) cutTimes(r *bookRequest, args []string) (places, flags []string) {
	places = args
	for _, given := range []struct{ flag, begins string }{{"--from", r.from}, {"--until", r.until},
		{"--for", r.length}} {
		if given.begins == "" || strings.Contains(given.begins, "/") { // a date with slashes is refused for these
			continue
		}
		if flag, said, rest := e.timeAmong(given.begins+" ", places); flag != "" {
			places, flags = rest, append(flags, given.flag, said)
		}
	}
	return places, flags
}

// timeAmong finds the words among places that are a time (see [booking.FlagFor]), which may be several, behind what it
// begins with, and returns the other ones. A known host is no time.
func (e *editor) timeAmong(begins string, args []string) (flag, said string, places []string) {
	const most = 5 // as in "on friday at 6 pm"
	for n := min(len(args), most); n > 0; n-- {
		for i := range len(args) - n + 1 {
			if slices.ContainsFunc(args[i:i+n], e.atKnownHost) {
				continue
			}
			if flag, said = booking.FlagFor(begins+strings.Join(args[i:i+n], " "), e.Now, e.Zone); flag != "" {
				return flag, said, slices.Concat(args[:i], args[i+n:])
			}
		}
	}
	return "", "", args
}

func (e *editor) atKnownHost(place string) bool {
	host, _, _ := strings.Cut(strings.ToLower(place), ":")
	_, known := e.Fleet.Hosts[host]
	return known
}

// choose picks free GPUs that nobody has booked until the end.
func (e *editor) choose(
	data []byte, r *bookRequest, one booking.Booking, hosts []booking.Booking,
) ([]booking.Booking, error) {
	wish := board.Wish{Request: r.pick.Request, GPUs: r.gpus, OneHost: r.oneHost, From: one.From, Until: one.Until}
	for _, b := range hosts {
		wish.Hosts = append(wish.Hosts, b.Host)
	}
	offer := wish.Offer(e.board, e.Read(data), e.Now)
	if offer.Units == nil {
		err := fmt.Errorf("%s can be booked; you want %d, and there are %d of this kind", r.pick.count(offer.Open),
			r.gpus, offer.Fit)
		return nil, failure.New(failure.ExitNoMatch, err, e.nextHint(r, one, offer.Next))
	}

	var list []booking.Booking
	for _, o := range offer.Units {
		b := one
		b.Host = o.Host.Name
		b.Target, _ = o.GPU.Target()
		list = append(list, b)
	}
	return list, nil
}

// nextHint is the command that books as much from a later moment on; zero if that is not known.
func (e *editor) nextHint(r *bookRequest, one booking.Booking, next time.Time) string {
	if next.IsZero() {
		return r.pick.hint()
	}
	replaced, more := []string{"from"}, []string{"--from", e.typed(next)}
	if r.until != "" && !one.Until.IsZero() {
		replaced = append(replaced, "until")
		more = append(more, "--until", e.typed(next.Add(one.Until.Sub(one.From))))
	}
	return fmt.Sprintf("%s can be booked from %s on: %s", r.pick.count(r.gpus), e.moment(next),
		r.again(replaced, more...))
}

// typed is a moment as --from and --until take it, up to the minute in which it lies.
func (e *editor) typed(t time.Time) string {
	return booking.WholeMinute(t).In(e.Zone).Format("2006-01-02 15:04")
}

// unusable notes which of the wanted GPUs are stuck or lost.
func (e *editor) unusable(wanted []booking.Booking) {
	for i := range e.board.Hosts {
		h := &e.board.Hosts[i]
		for g := range h.Units() {
			broken := g.State == board.Stuck || g.State == board.Lost
			if broken &&
				slices.ContainsFunc(wanted,
					func(w booking.Booking) bool { return w.Host == h.Name && g.CoveredBy(w.Target) }) {
				why := text.Why(e.board, g, text.Options{Width: 200, Zone: e.Zone})
				e.note(fmt.Sprintf("%s:%s is %s", h.Name, g.Label(), why))
			}
		}
	}
}

// finish makes a change, or with --dry-run shows it, and says what came of it.
func (e *editor) finish(
	ctx context.Context, r *bookRequest, verb string, edit func([]byte) (booking.Change, error),
) error {
	c, err := e.change(ctx, r.dryRun, edit)
	if refusal, ok := errors.AsType[*booking.Refusal](err); ok && len(refusal.Jobs) > 0 {
		return e.inUse(r, refusal)
	}
	if err != nil {
		return e.failed(err)
	}
	e.note(e.jobs(c.Running)...)
	for _, line := range e.standing(c.Over) {
		fmt.Fprintf(e.app.stderr, "gpuboard: %s\n", failure.Printable(line))
	}
	return e.done(verb, c, r.asJSON, r.dryRun)
}

// inUse says what others run, and how to book over that and nothing else.
func (e *editor) inUse(r *bookRequest, refusal *booking.Refusal) error {
	if r.asJSON {
		if err := e.print("refused", booking.Change{Running: refusal.Jobs}, true, r.dryRun); err != nil {
			return err
		}
	}
	lines := e.jobs(refusal.Jobs)
	if refusal.Reason == booking.RunningChanged {
		lines[0] = "who is using it has changed since you looked: " + lines[0]
	}
	again := r.again([]string{"over-running"}, "--over-running="+booking.Consent(refusal.Jobs))
	return failure.New(
		failure.ExitError,
		errors.New(strings.Join(lines, "\n")),
		"ask who may be using it, or book it all the same, over these jobs: "+again,
	)
}

// onWebHost runs a command on the web host by ssh where booking.ssh names one, unless a
// flag names a file on this machine. done is false where it does not.
func (a *app) onWebHost(c *cobra.Command, cfg *config.Config, args []string) (done bool, err error) {
	if slices.ContainsFunc(args, source.Elsewhere) {
		return true, a.elsewhere(c, cfg, args, nil)
	}
	host := cfg.String("booking.ssh")
	if host == "" || c.Flags().Changed("comments") || c.Flags().Changed("data") {
		return false, nil
	}
	if strings.HasPrefix(host, "-") || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return true, failure.Usage("for instance booking.ssh: ada@web.example.org",
			"booking.ssh from %s: %q is not a host as ssh takes it", cfg.Origin("booking.ssh"), host)
	}
	return true, a.bySSH(c, cfg, host, args)
}

// remoteCommand is the same command without what concerns this machine alone.
func remoteCommand(c *cobra.Command, cfg *config.Config, args []string) string {
	words := commandLine(c, "config", "booking-ssh", "booking-name")
	if name := cfg.String("booking.name"); name != "" {
		words = append(words, "--booking-name="+name)
	}
	words = append(words, "--booking-ssh=", "--")
	return shell.Join(append(words, args...)...)
}

// commandLine is a command with its flags as they were given, but for some.
func commandLine(c *cobra.Command, without ...string) []string {
	words := []string{"gpuboard", c.Name()}
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(without, f.Name):
		case f.Value.Type() == "bool" && f.Value.String() == "true":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "bool" || f.NoOptDefVal != "":
			words = append(words, "--"+f.Name+"="+f.Value.String())
		default:
			words = append(words, "--"+f.Name, f.Value.String())
		}
	})
	return words
}
