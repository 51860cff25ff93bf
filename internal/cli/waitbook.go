package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

// errTaken says that what is free on the board has been booked since.
var errTaken = errors.New("booked by somebody else since the board was made")

// bookingName is who somebody is in the bookings unless they say otherwise.
func (a *app) bookingName(cfg *config.Config) string {
	if name := cfg.String("booking.name"); name != "" {
		return name
	}
	return a.bookingUser()
}

// A claim books what wait finds, so that it is still free when its user comes.
type claim struct {
	app     *app // whose stdout is stderr: the answer is the list of GPUs alone
	command *cobra.Command
	cfg     *config.Config
	length  string
	lasts   time.Duration
	name    string // who books; "" for oneself
}

// claim checks before the waiting begins that booking is possible at the end
// of it.
func (a *app) claim(c *cobra.Command, cfg *config.Config, length, name string) (*claim, error) {
	if host := cfg.String("booking.ssh"); host != "" {
		return nil, usagef("ssh "+word(host)+" gpuboard wait --book "+word(length), "wait --book needs the bookings on this machine, and booking.ssh says that they are on %s", snapshot.Text(host, 80))
	}
	lasts, err := booking.ParseDuration(length)
	if err != nil {
		return nil, usagef("for instance --book 8h", "--book: %w", err)
	}
	talk := *a
	talk.stdout = a.stderr
	k := &claim{app: &talk, command: c, cfg: cfg, length: length, lasts: lasts, name: name}
	_, err = talk.desk(c, cfg, name, "")
	return k, err
}

// takes reports whether a GPU that can be used now can be booked for as long
// as is wanted. One's own booking of it stays as it is.
func (k *claim) takes(g *board.GPU, now time.Time) bool {
	return g.State != board.Free || g.FreeUntil.IsZero() || !g.FreeUntil.Before(now.Add(k.lasts))
}

// book writes the bookings, all or none; errTaken when somebody was quicker.
func (k *claim) book(ctx context.Context, b *board.Board, open []openGPU) error {
	d, err := k.app.desk(k.command, k.cfg, k.name, "")
	if err != nil {
		return err
	}
	m := &bookingMaker{desk: d, request: &bookRequest{length: k.length}, fleet: &knownFleet{board: b}}
	from, until, err := m.times()
	if err != nil {
		return err
	}
	var wants []booking.Booking
	for _, o := range open {
		if target, ok := o.gpu.Target(); ok && o.gpu.State == board.Free {
			w := m.wanted(o.host.Name, target, from, until)
			w.Name = m.written
			if !strings.EqualFold(m.login, m.me) {
				w.By = m.login
			}
			wants = append(wants, w)
		}
	}
	if len(wants) == 0 {
		return nil // all of them are booked already, by whoever asks
	}
	return m.change(ctx, func(data []byte) (outcome, error) {
		cal := m.parse(data)
		for _, w := range wants {
			if m.taken(cal, w) {
				return outcome{}, fmt.Errorf("%s was %w", placeOf(w), errTaken)
			}
		}
		over, err := m.allowed(cal, wants)
		if err != nil {
			return outcome{}, err
		}
		next, added, err := booking.Add(data, m.in, wants...)
		return outcome{before: data, after: next, done: added, over: over}, err
	}, "booked")
}

// again reports whether waiting on may mend why a booking failed.
func again(err error) bool {
	var f *failure.Error
	if errors.As(err, &f) {
		return f.Exit == exitTempFail
	}
	return errors.Is(err, errTaken) || failure.Explain(err).Exit == exitTempFail
}
