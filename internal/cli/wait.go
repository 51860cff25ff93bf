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

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen/text"
)

// leastSiteEvery is the shortest interval between two requests to a web server.
const leastSiteEvery = 2 * time.Second

func (a *app) waitCommand() *cobra.Command {
	w := wanted{limit: 1}
	var from, book string
	var every, timeout time.Duration
	var oneHost, asJSON bool
	c := &cobra.Command{
		Use: "wait", Short: "wait until GPUs are free, and print which", GroupID: groupUse, Args: cobra.NoArgs,
		Long: "wait checks the board until you can use as many GPUs as you want at the same time: free\n" +
			"GPUs, and GPUs that you have booked and nobody uses; on one host if possible. It prints them\n" +
			"as host:index, separated by commas, and MIG slices by UUID. While it waits, it says on\n" +
			"stderr what for. With --book it books them before it prints them; without, somebody else may\n" +
			"take them first.\n" + exitStatus,
		Example: "  gpuboard wait --gpus 1 --timeout 1m\n  gpuboard wait --gpus 2 --model a100 --timeout 8h\n" +
			"  gpuboard wait --gpus 1 --min-memory 40G --book 8h\n" +
			"  gpus=$(gpuboard wait --host gpu01 --format indices) && ssh gpu01 CUDA_VISIBLE_DEVICES=$gpus ./train.sh",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			look := a.look(cfg)
			if err := w.check(c, "host:index", "indices", "uuids", "env"); err != nil {
				return err
			}
			if w.limit < 1 {
				return failure.Usage("", "--gpus: at least 1, not %d", w.limit)
			}
			if timeout < 0 || every <= 0 {
				return failure.Usage("", "--timeout %s --every %s: no time to wait", timeout, every)
			}
			if c.Flags().Changed("book") {
				if i := slices.IndexFunc(w.Hosts, source.Elsewhere); i >= 0 {
					return failure.Usage(
						"without --book, and then gpuboard book "+shell.Quote(w.Hosts[i])+" --gpus NUMBER --for "+
							shell.Quote(book),
						"wait --book books here, and %s is of another cluster", w.Hosts[i])
				}
			}
			s, hosts, err := source.OpenCluster(c.Context(), a.source(cfg), from, w.Hosts)
			if err != nil {
				return err
			}
			w.Hosts = hosts
			for i, name := range w.Hosts {
				var err error
				if w.Hosts[i], err = snapshot.ParseHost(name); err != nil {
					return failure.Usage("", "--host: %w", err)
				}
			}
			if s.Remote() {
				every = max(every, leastSiteEvery)
			}
			// What is not a place in the whole cluster has to be on one host.
			v := &waiter{app: a, source: s, wanted: &w, look: look, every: every,
				oneHost: oneHost || w.shape != "host:index"}
			if c.Flags().Changed("book") {
				if err := v.bookAfterWait(cfg, book); err != nil {
					return err
				}
			}
			open, err := v.run(c.Context(), cfg, timeout)
			if err != nil {
				return err
			}
			inCluster(s.Cluster, open)
			a.warnOfBookings(open, v.mine, look)
			if asJSON {
				type place struct {
					Site  string `json:"site,omitempty"`
					Host  string `json:"host"`
					Index int    `json:"index"`
					Slice *int   `json:"mig_device"`
					UUID  string `json:"uuid"`
					Name  string `json:"name"`
				}
				places := []place{}
				for _, o := range open {
					site, host := siteOf(o)
					places = append(places, place{site, host, o.GPU.Index, o.GPU.SliceIndex(), o.GPU.UUID, o.GPU.Name})
				}
				return writeJSON(a.stdout, places)
			}
			if w.shape != "host:index" {
				fmt.Fprintf(a.stderr, "gpuboard: on %s\n", open[0].Host.Name)
			}
			_, err = fmt.Fprintln(a.stdout, w.format(open))
			return err
		}),
	}
	a.flags(c, append(sourceKeys(), "identity", "known_hosts")...)
	sourceFlag(c, &from)
	w.flags(c)
	c.Flags().IntVar(&w.limit, "gpus", 1, "`NUMBER` of GPUs")
	c.Flags().StringSliceVar(&w.Hosts, "host", nil,
		"only on this `HOST`, NAME/HOST or NAME/ in another cluster (several: separated by commas)")
	c.Flags().BoolVar(&oneHost, "same-host", false, "all of them on one host")
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this `DURATION`, with exit code 5 (default: never)")
	c.Flags().DurationVar(&every, "every", 30*time.Second,
		"`DURATION` between two checks, at least 2s for a site elsewhere")
	c.Flags().StringVar(&book, "book", "", "book them as soon as they are free, for this `LENGTH`, such as 8h")
	c.Flags().StringVar(&w.shape, "format", "host:index", "`FORMAT`: host:index, or of one host indices, uuids or env")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	completes(c, "format", "host:index", "indices", "uuids", "env")
	_ = c.RegisterFlagCompletionFunc("host", a.completeHosts)
	return c
}

// A waiter waits for GPUs.
type waiter struct {
	app     *app
	source  *source.Source
	wanted  *wanted
	look    text.Options
	every   time.Duration
	oneHost bool
	mine    func(string) bool // set by run
	said    string
	// With --book: how long the booking lasts, as typed and in hours, and who makes it.
	length    string
	lasts     time.Duration
	newEditor func() (*editor, error) // nil to book nothing
}

// run reads the board until there are enough GPUs, or time is up. It goes on waiting while
// the board cannot be read or is too old.
func (v *waiter) run(ctx context.Context, cfg *config.Config, timeout time.Duration) ([]board.Unit, error) {
	aliases, problems := v.source.Aliases()
	for _, p := range problems {
		v.app.complain(p)
	}
	v.wanted.user = cmp.Or(v.wanted.user, v.app.bookingName(cfg))
	v.mine = aliases.Mine(v.wanted.user)
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for first := true; ; first = false {
		p, err := v.source.Read(waiting)
		switch {
		case err != nil && waiting.Err() != nil:
			return nil, v.over(ctx, timeout)
		case err != nil:
			if f, ok := errors.AsType[*failure.Error](err); first && ok && f.Exit == failure.ExitUsage {
				return nil, err // waiting does not mend this
			}
			v.say(err.Error())
		case p.Board.Late(v.app.now()):
			v.say("the board is " + snapshot.Length(p.Board.Age(v.app.now())) +
				" old, so its state is unknown: does gpuboard generate run on the web host?")
		default:
			if open, err := v.try(ctx, p.Board); open != nil || err != nil {
				return open, err
			}
		}
		if err := pause(waiting, v.every); err != nil {
			return nil, v.over(ctx, timeout)
		}
	}
}

// try looks at a board once. It returns GPUs when there are enough and they are booked.
func (v *waiter) try(ctx context.Context, b *board.Board) (open []board.Unit, err error) {
	if open = board.Pick(v.open(b), v.wanted.limit, v.oneHost, v.wanted.Order == "index"); open == nil {
		if err := v.never(b); err != nil {
			return nil, err
		}
		v.say(v.progress(b))
		return nil, nil
	}
	if v.newEditor == nil {
		return open, nil
	}
	// Not under the time limit: a booking that has begun is completed.
	err = v.book(ctx, b, open)
	if err != nil && again(err) && ctx.Err() == nil {
		v.say(err.Error())
		return nil, nil
	}
	return open, err
}

// over is why waiting ends without GPUs: it was interrupted, or time is up.
func (v *waiter) over(ctx context.Context, timeout time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failure.New(failure.ExitNoMatch, fmt.Errorf("no %s within %s", v.goal(), timeout), "")
}

// say writes what is being waited for, once until it changes.
func (v *waiter) say(s string) {
	if s != v.said {
		v.said = s
		fmt.Fprintf(v.app.stderr, "gpuboard: %s\n", failure.Printable(s))
	}
}

// open returns the GPUs that can be used and, with --book, can be booked.
func (v *waiter) open(b *board.Board) []board.Unit {
	if v.newEditor != nil {
		v.wanted.FreeUntil = v.app.now().Add(v.lasts)
	}
	open := slices.DeleteFunc(v.wanted.Choose(b, v.mine), func(o board.Unit) bool {
		_, named := o.GPU.Target()
		return !named
	})
	return board.OneVendor(open, v.wanted.limit)
}

// never returns an error if the cluster has not that many GPUs of the kind.
func (v *waiter) never(b *board.Board) error {
	all, most := 0, 0
	for i := range b.Hosts {
		h := &b.Hosts[i]
		if len(h.GPUs) == 0 && (len(v.wanted.Hosts) == 0 || slices.Contains(v.wanted.Hosts, h.Name)) {
			return nil
		}
		here := 0
		for g := range h.Units() {
			if v.wanted.Fits(h, g) {
				here++
			}
		}
		all, most = all+here, max(most, here)
	}
	switch {
	case all < v.wanted.limit:
		v.app.missingHosts(b, v.wanted.Hosts)
		return failure.New(failure.ExitNoMatch, fmt.Errorf("there will never be %s: the board has %d", v.goal(), all),
			v.wanted.hint())
	case v.oneHost && most < v.wanted.limit:
		return failure.New(failure.ExitNoMatch,
			fmt.Errorf("there will never be %s: no host has more than %d", v.goal(), most), v.wanted.hint())
	}
	return nil
}

// goal is what is waited for, in words.
func (v *waiter) goal() string {
	w := v.wanted
	s := w.count(w.limit)
	if w.Model != "" {
		s += " like " + w.Model
	}
	if w.minMemory != "" {
		s += " with " + w.minMemory
	}
	if len(w.Hosts) > 0 {
		s += " on " + strings.Join(w.Hosts, " or ")
	} else if v.oneHost && w.limit > 1 {
		s += " on one host"
	}
	return s
}

// progress says how far it is and who is going to be free next.
func (v *waiter) progress(b *board.Board) string {
	open := v.open(b)
	s := fmt.Sprintf("waiting for %s; %d can be used", v.goal(), len(open))
	if n := len(open); n > 0 && n <= 4 {
		var names []string
		for _, o := range open {
			names = append(names, o.String())
		}
		s += " (" + strings.Join(names, ", ") + ")"
	}
	booked := v.wanted.List(b,
		func(_ *board.Host, g *board.GPU) bool { return !board.OpenTo(g, v.mine) && !g.FreeFrom.IsZero() })
	if len(booked) > 0 {
		next := slices.MinFunc(booked, func(a, b board.Unit) int { return a.GPU.FreeFrom.Compare(b.GPU.FreeFrom) })
		s += fmt.Sprintf("; next by its booking: %s:%s %s", next.Host.Name, next.GPU.Label(),
			next.GPU.FreeFrom.In(v.look.Zone).Format("Mon 15:04"))
		if next.GPU.Booking != nil {
			s += " (" + next.GPU.Booking.Name + ")"
		}
	}
	return s
}

// pause waits, or returns the context's error if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errTaken says that a GPU that is free on the board has been booked since.
var errTaken = errors.New("booked by somebody else since the board was made")

// bookAfterWait prepares the booking, to report its errors before the waiting begins.
func (v *waiter) bookAfterWait(cfg *config.Config, length string) (err error) {
	if host := cfg.String("booking.ssh"); host != "" {
		return failure.Usage("ssh "+shell.Quote(host)+" gpuboard wait --book "+shell.Quote(length),
			"wait --book needs the bookings on this machine, and booking.ssh says that they are on %s",
			snapshot.Text(host, 80))
	}
	if v.lasts, err = booking.ParseDuration(length); err != nil {
		return failure.Usage("for instance --book 8h", "--book: %w", err)
	}
	v.length = length
	quiet := *v.app
	quiet.stdout = v.app.stderr
	v.newEditor = func() (*editor, error) { return quiet.editor(cfg, v.wanted.user, "") }
	_, err = v.newEditor()
	return err
}

// book writes the bookings, all or none. The error is errTaken if a GPU has been booked since.
func (v *waiter) book(ctx context.Context, b *board.Board, open []board.Unit) error {
	e, err := v.newEditor()
	if err != nil {
		return err
	}
	e.board, e.Fleet = b, b.Fleet()
	from, until, _, err := e.Times("", v.length)
	if err != nil {
		return e.failed(err)
	}
	var wanted []booking.Booking
	for _, o := range open {
		if target, ok := o.GPU.Target(); ok && o.GPU.State == board.Free {
			wanted = append(wanted,
				booking.Booking{Host: o.Host.Name, Target: target, From: from, Until: until, Kind: booking.Reserved})
		}
	}
	if len(wanted) == 0 {
		return nil // all of them are booked already, by whoever asks
	}
	return e.finish(ctx, &bookRequest{}, "booked", func(data []byte) (booking.Change, error) {
		c, err := e.Book(data, wanted...)
		if r, ok := errors.AsType[*booking.Refusal](err); ok &&
			(r.Reason == booking.Taken || r.Reason == booking.Already) {
			err = fmt.Errorf("%s was %w", r.Bookings[0].Place(), errTaken)
		}
		return c, err
	})
}

// again reports whether waiting on may mend why a booking failed.
func again(err error) bool {
	return errors.Is(err, errTaken) || failure.Explain(err).Exit == failure.ExitTryAgain
}
