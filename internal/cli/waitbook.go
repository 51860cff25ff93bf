package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// errTaken says that a GPU that is free on the board has been booked since.
var errTaken = errors.New("booked by somebody else since the board was made")

// A bookingAfterWait books the GPUs that wait finds.
type bookingAfterWait struct {
	app     *app // whose stdout is stderr: the answer is the list of GPUs alone
	command *cobra.Command
	cfg     *config.Config
	length  string
	lasts   time.Duration
	name    string // who books; "" for oneself
}

// bookAfterWait checks before the waiting begins that booking is possible.
func (a *app) bookAfterWait(c *cobra.Command, cfg *config.Config, length, name string) (*bookingAfterWait, error) {
	if host := cfg.String("booking.ssh"); host != "" {
		return nil, usagef("ssh "+shell.Quote(host)+" gpuboard wait --book "+shell.Quote(length), "wait --book needs the bookings on this machine, and booking.ssh says that they are on %s", snapshot.Text(host, 80))
	}
	lasts, err := booking.ParseDuration(length)
	if err != nil {
		return nil, usagef("for instance --book 8h", "--book: %w", err)
	}
	quiet := *a
	quiet.stdout = a.stderr
	k := &bookingAfterWait{app: &quiet, command: c, cfg: cfg, length: length, lasts: lasts, name: name}
	_, err = quiet.editor(c, cfg, name, "")
	return k, err
}

// possible reports whether a GPU that can be used now can be booked for as long as
// is wanted. One's own booking of it stays as it is.
func (k *bookingAfterWait) possible(g *board.GPU, now time.Time) bool {
	return g.State != board.Free || g.FreeUntil.IsZero() || !g.FreeUntil.Before(now.Add(k.lasts))
}

// book writes the bookings, all or none. The error is errTaken if a GPU has been
// booked since the board was made.
func (k *bookingAfterWait) book(ctx context.Context, b *board.Board, open []openGPU) error {
	e, err := k.app.editor(k.command, k.cfg, k.name, "")
	if err != nil {
		return err
	}
	e.board, e.Fleet = b, b.Fleet()
	from, until, _, err := e.Times("", k.length)
	if err != nil {
		return e.failed(err)
	}
	var wanted []booking.Booking
	for _, o := range open {
		if target, ok := o.gpu.Target(); ok && o.gpu.State == board.Free {
			wanted = append(wanted, booking.Booking{Host: o.host.Name, Target: target, From: from, Until: until, Kind: booking.Reserved})
		}
	}
	if len(wanted) == 0 {
		return nil // all of them are booked already, by whoever asks
	}
	return e.finish(ctx, &bookRequest{}, "booked", func(data []byte) (booking.Change, error) {
		c, err := e.Book(data, wanted...)
		var r *booking.Refusal
		if errors.As(err, &r) && (r.Reason == booking.Taken || r.Reason == booking.Already) {
			err = fmt.Errorf("%s was %w", r.Bookings[0].Place(), errTaken)
		}
		return c, err
	})
}

// again reports whether waiting on may mend why a booking failed.
func again(err error) bool {
	var f *failure.Error
	if errors.As(err, &f) {
		return f.Exit == exitTempFail
	}
	return errors.Is(err, errTaken) || failure.Explain(err).Exit == exitTempFail
}
