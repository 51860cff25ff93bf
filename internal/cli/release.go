package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

func (a *app) releaseCommand() *cobra.Command {
	var name, at string
	var force, dryRun, asJSON bool
	c := &cobra.Command{
		Use: "release WHICH…", Short: "end bookings now", GroupID: groupUse, Args: cobra.MinimumNArgs(1),
		Long: "release ends your bookings. WHICH is an id as \"gpuboard bookings\" prints it, HOST:GPU, or\n" +
			"HOST for the booking of the whole host, or else all of yours there. One in force keeps its\n" +
			"entry in the file, which then says until when it was used; one that has not begun is taken\n" +
			"out. With neither in force, the next to come is meant. Of a booking that vanished from the file\n" +
			"(booking:vanished) it is recorded that this was meant.\n" + exitStatus,
		Example: "  gpuboard release gpu01:0,1\n  gpuboard release mjqxg3di",
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			if done, err := a.onWebHost(c, cfg, args); done {
				return err
			}
			d, err := a.desk(c, cfg, name, at)
			if err != nil {
				return err
			}
			args, gone := d.gone(args, force)
			var freed []booking.Booking
			out, err := d.apply(c.Context(), dryRun, func(data []byte) (out outcome, err error) {
				out, freed, err = d.release(data, args, force)
				return out, err
			})
			if err == nil && len(gone) > 0 && !dryRun {
				err = d.file.Agree(c.Context(), d.by(), gone)
			}
			if err != nil {
				return d.failed(err)
			}
			for _, e := range gone {
				b, _ := e.Booking()
				out.done, freed = append(out.done, b), append(freed, b)
			}
			return d.tell("released", out, freed, asJSON, dryRun)
		},
	}
	a.flags(c, bookingKeys()...)
	c.Flags().StringVar(&name, "name", "", "release bookings of this `NAME` (default: booking.name, else your login name)")
	c.Flags().BoolVar(&force, "force", false, "release somebody else's booking")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change in the file, and change nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&at, "now", "", "pretend that it is this `TIME` (RFC 3339)")
	_ = c.Flags().MarkHidden("now")
	c.ValidArgsFunction = a.completeHosts
	return c
}

// gone takes those arguments out that name a booking which vanished from the
// file, by its id.
func (d *desk) gone(args []string, force bool) (rest []string, gone []booking.Entry) {
	vanished := booking.Vanished(d.file.Record(), d.load(), booking.Options{Aliases: d.aliases, Now: d.now})
	for _, arg := range args {
		i := slices.IndexFunc(vanished, func(e booking.Entry) bool {
			b, _ := e.Booking()
			b.Name, b.By = d.aliases.Canonical(b.Name), e.By
			return e.ID == arg && (force || d.mine(b))
		})
		if i < 0 {
			rest = append(rest, arg)
		} else {
			gone = append(gone, vanished[i])
		}
	}
	return rest, gone
}

// release ends what the arguments name, and returns the stretches of time that
// are given back by that.
func (d *desk) release(data []byte, args []string, force bool) (out outcome, freed []booking.Booking, err error) {
	out = outcome{before: data, after: data}
	seen := map[string]bool{}
	for _, arg := range args {
		found, err := d.find(d.parse(out.before), arg, force, true)
		if err != nil {
			return out, nil, err
		}
		// From the last on: of equal entries the ids count up, and what is left of
		// them is counted anew.
		for _, b := range slices.Backward(found) {
			if seen[b.ID] {
				continue
			}
			seen[b.ID] = true
			next, was, err := booking.Release(out.after, d.in, b.ID, d.now)
			if err != nil {
				return out, nil, err
			}
			was.Name = b.Name
			out.after, out.done = next, append(out.done, was)
			back := b
			back.ID = was.ID
			if back.From.Before(d.now) {
				back.From = d.now
			}
			freed = append(freed, back)
		}
	}
	slices.Reverse(out.done)
	slices.Reverse(freed)
	return out, freed, nil
}

// find returns the bookings that an argument of release or --extend names: an
// id, or those on a host or GPU that are in force, else the next ones to come.
// Others' are only for those who insist. all is whether a host alone may mean
// every booking on it.
func (d *desk) find(cal *booking.Calendar, arg string, force, all bool) ([]booking.Booking, error) {
	if i := slices.IndexFunc(cal.Bookings, func(b booking.Booking) bool { return b.ID == arg }); i >= 0 {
		b := cal.Bookings[i]
		switch {
		case !b.Until.IsZero() && !b.Until.After(d.now):
			return nil, fail(exitError, fmt.Errorf("%s of %s is over: it ended %s", placeOf(b), b.Name, d.moment(b.Until)), "")
		case !d.mine(b) && !force:
			return nil, d.notMine(b)
		}
		return []booking.Booking{b}, nil
	}
	host, targets, err := parseWhere(arg)
	if err != nil {
		return nil, err
	}
	var found []booking.Booking
	for _, target := range targets {
		here := d.standing(cal, host, func(t booking.Target) bool { return t == target })
		if len(here) == 0 && all && target.All {
			here = d.standing(cal, host, func(booking.Target) bool { return true })
		}
		own := slices.DeleteFunc(slices.Clone(here), func(b booking.Booking) bool { return !d.mine(b) })
		switch {
		case len(own) > 0:
			found = append(found, current(own, d.now)...)
		case len(here) == 0:
			return nil, d.nothing(cal, arg, host, target)
		case force:
			found = append(found, current(here, d.now)...)
		default:
			return nil, d.notMine(current(here, d.now)[0])
		}
	}
	return found, nil
}

// standing are the bookings of a host that are not over.
func (d *desk) standing(cal *booking.Calendar, host string, of func(booking.Target) bool) []booking.Booking {
	var list []booking.Booking
	for _, b := range cal.Bookings {
		if b.Host == host && of(b.Target) && (b.Until.IsZero() || b.Until.After(d.now)) {
			list = append(list, b)
		}
	}
	return list
}

// current keeps those in force; with none of them, the first to come on each GPU.
func current(list []booking.Booking, now time.Time) []booking.Booking {
	var active, next []booking.Booking
	for _, b := range list { // in order of target and start
		if b.ActiveAt(now) {
			active = append(active, b)
		} else if len(next) == 0 || next[len(next)-1].Target != b.Target {
			next = append(next, b)
		}
	}
	if len(active) > 0 {
		return active
	}
	return next
}

func (d *desk) moment(t time.Time) string { return t.In(d.zone).Format("Mon 2 Jan 2006 15:04 MST") }

func (d *desk) notMine(b booking.Booking) error {
	return fail(exitError, fmt.Errorf("%s is booked by %s, not by %s: %s", placeOf(b), b.Name, d.me, d.when(b)),
		"--name says who you are, and --force changes somebody else's booking")
}

// nothing explains why there is nothing to change, with what may have been meant.
func (d *desk) nothing(cal *booking.Calendar, arg, host string, target booking.Target) error {
	err := fmt.Errorf("there is no booking %s", snapshot.Text(arg, 80))
	if !target.All || strings.Contains(arg, ":") {
		err = fmt.Errorf("nobody has booked %s", snapshot.Text(arg, 80))
	}
	hint := "gpuboard bookings --mine lists yours with their ids"
	var here []booking.Booking
	for _, b := range d.standing(cal, host, func(booking.Target) bool { return true }) {
		if d.mine(b) {
			here = append(here, b)
		}
	}
	if len(here) > 0 {
		hint = "you have booked " + places(here)
	}
	return fail(exitError, err, hint)
}
