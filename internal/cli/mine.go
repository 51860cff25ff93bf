package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen/text"
)

const (
	// mineLimit is how long mine may take, 200 ms with starting and ending: a login waits for it.
	mineLimit = 180 * time.Millisecond
	// mostNotices is how many lines mine prints at most.
	mostNotices = 20
)

func (a *app) mineCommand() *cobra.Command {
	var from, name string
	var within, limit time.Duration
	var verbose, asJSON bool
	c := &cobra.Command{
		Use: "mine", Short: "say what concerns you now, for a profile script", GroupID: groupUse, Args: cobra.NoArgs,
		Long: "mine prints a line for each of these: your booking begins or ends soon or is not used, a GPU that\n" +
			"you have is idle or has a problem, somebody else uses what you have booked, you use what somebody\n" +
			"else has booked. A command that helps ends the line. Where there is nothing to say, and where\n" +
			"the board does not answer within 200 ms, mine prints nothing and exits with 0; --verbose says why.\n" +
			exitStatus,
		Example: "  gpuboard mine\n  gpuboard mine --within 1h --from https://gpu.example.org/",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), limit)
			defer cancel()
			type answer struct {
				list []concern
				err  error
			}
			answered := make(chan answer, 1)
			go func() { // a directory of a file server may not answer at all
				list, err := a.concerns(ctx, c, from, name, within)
				answered <- answer{list, err}
			}()
			var got answer
			select {
			case got = <-answered:
			case <-ctx.Done():
				got.err = ctx.Err()
			}

			if errors.Is(got.err, context.DeadlineExceeded) {
				got.err = errors.New("no answer in time")
			}
			switch {
			case got.err != nil && verbose:
				fmt.Fprintf(a.stderr, "gpuboard: nothing is known: %s\n", failure.Printable(got.err.Error()))
			case len(got.list) == 0 && verbose:
				fmt.Fprintln(a.stderr, "gpuboard: nothing concerns you now")
			}
			if asJSON && got.err == nil {
				return writeJSON(a.stdout, append([]concern{}, got.list...))
			}
			return printConcerns(a.stdout, got.list)
		},
	}
	a.flags(c, "data", "site", "comments", "aliases", "timezone", "booking.name", "booking.ssh")
	sourceFlag(c, &from)
	c.Flags().StringVarP(&name, "name", "n", "", "your `NAME` (default: booking.name, else your login name)")
	c.Flags().DurationVar(&within, "within", 12*time.Hour, "say a booking this `DURATION` before it begins or ends")
	c.Flags().DurationVar(&limit, "limit", mineLimit, "`DURATION` that it may take")
	_ = c.Flags().MarkHidden("limit") // for tests, on machines of any speed
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON; nothing if the board does not answer")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "say why nothing is printed")
	return c
}

// A concern is a notice with what helps: words, and a command.
type concern struct {
	text.Notice
	Command string `json:"command"`
	advice  string
}

func printConcerns(w io.Writer, list []concern) error {
	for i, n := range list {
		line := failure.Printable(n.Place + ": " + n.Text + "; " + n.advice + ": " + n.Command)
		if i == mostNotices {
			line = fmt.Sprintf("and %d more: gpuboard mine --json", len(list)-i)
		}
		if _, err := fmt.Fprintln(w, line); err != nil || i == mostNotices {
			return err
		}
	}
	return nil
}

// concerns reads the configuration and the board.
func (a *app) concerns(
	ctx context.Context, c *cobra.Command, from, name string, within time.Duration,
) (list []concern, err error) {
	cfg, err := a.load(c)
	if err != nil {
		return nil, err
	}
	s, err := source.Open(a.source(cfg), from)
	if err != nil {
		return nil, err
	}
	p := a.asking(cfg, name)
	is, now := p.Aliases.Mine(p.Person), a.now()
	b, err := s.Concerning(ctx, is)
	if err == nil && b.Late(now) {
		err = fmt.Errorf("%s is %s old: its generator has stopped", s.Name, snapshot.Length(b.Age(now)))
	}
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(b.Bookings,
		func(b board.Booking) bool { return !p.Mine(booking.Booking{Name: b.Name, By: b.By}) })
	for _, n := range text.Notices(b, is, own, now, within, cfg.Zone()) {
		_, elsewhere := bookingsFile(cfg)
		here := elsewhere == nil || cfg.String("booking.ssh") != ""
		list = append(list, helped(c, n, here, p.Person))
	}
	return list, nil
}

// helped adds to a notice what helps. here is whether bookings can be changed on this machine.
func helped(c *cobra.Command, n text.Notice, here bool, person string) concern {
	advice, words := "to see more", []string{"status", n.Host, "--detail"}
	byID := n.Booking != "" && !strings.HasPrefix(n.Booking, "-") // which commands take for a flag
	switch {
	case n.Kind == text.GPUTaken:
		advice, words = "for a free one", []string{"status", "--free"}
	case byID && n.Kind == text.BookingEnding:
		advice, words = "to keep it", []string{"extend", n.Booking, "--for", "1d"}
	case byID && slices.Contains([]string{text.BookingBegins, text.BookingNoShow, text.GPUIdle}, n.Kind):
		advice, words = "to give it back", []string{"release", n.Booking}
	}
	if !here && words[0] != "status" {
		return concern{n, shell.Join(slices.Concat([]string{"gpuboard"}, words, []string{"--name", person})...),
			advice + ", on the web host"}
	}

	return concern{n, shell.Join(slices.Concat([]string{"gpuboard"}, words, flagsFor(c, words[0]))...), advice}
}
