package cli

import (
	"cmp"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
)

func (a *app) releaseCommand() *cobra.Command {
	var r bookRequest
	c := &cobra.Command{
		Use: "release WHICH…", Short: "end bookings now", GroupID: groupUse, Args: cobra.MinimumNArgs(1),
		SuggestFor: []string{"cancel", "unbook"},
		Long: "release ends your bookings. WHICH is an ID as \"gpuboard bookings\" prints it, HOST:GPU, or\n" +
			"HOST: the booking of the whole host, or else all your bookings there. A current booking\n" +
			"stays in the file with its new end; an upcoming one is removed. If none is current, the next\n" +
			"one is released. For a booking that vanished from the file (booking:vanished), release\n" +
			"records that this was intended.\n" + exitStatus,
		Example: "  gpuboard release atlas:0 --name mira\n  gpuboard release gpu01:0,1\n  gpuboard release mjqxg3di",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			if done, err := a.onWebHost(c, cfg, args); done {
				return err
			}
			e, err := a.editor(cfg, r.name, r.at)
			if err != nil {
				return err
			}
			e.Force = r.force
			args, vanished := e.vanished(args)
			change, err := e.change(c.Context(), r.dryRun,
				func(data []byte) (booking.Change, error) { return e.Release(data, args...) })
			if err == nil && len(vanished) > 0 && !r.dryRun {
				err = e.file.RecordReleases(c.Context(), e.by(), vanished)
				if err != nil && len(change.Done) > 0 {
					err, vanished = e.made(&booking.MadeError{Err: err}), nil
				}
			}
			if err != nil {
				return cmp.Or(e.noTimeToRelease(args, err), e.failed(err))
			}
			for _, entry := range vanished {
				b, _ := entry.Booking()
				change.Done, change.Freed = append(change.Done, b), append(change.Freed, b)
			}
			return e.done("released", change, r.asJSON, r.dryRun)
		}),
	}
	a.flags(c, bookingKeys()...)
	r.changeFlags(c)
	c.Flags().BoolVar(&r.force, "force", false, "release somebody else's booking")
	c.ValidArgsFunction = a.completeHosts
	return c
}

// noTimeToRelease is the error of words among those of release that are a time, and no booking; nil for none.
func (e *editor) noTimeToRelease(args []string, err error) error {
	refusal, ok := errors.AsType[*booking.Refusal](err)
	if !ok || refusal.Reason != booking.NoBooking && refusal.Reason != booking.BadPlace {
		return nil
	}
	flag, said, places := e.timeAmong("", args)
	if flag == "" {
		return nil
	}
	hint := "gpuboard bookings --mine lists yours with their ids"
	if len(places) > 0 {
		hint = "release ends a booking now: " + shell.Join(append([]string{"gpuboard", "release"}, places...)...)
	}
	if flag == "until" && len(places) == 1 {
		hint += "; at that time: " + shell.Join("gpuboard", "extend", places[0], "--until", said)
	}
	return failure.Usage(hint, "%q is a time, and not a booking", said)
}

// vanished takes the IDs of bookings that vanished from the file out of the arguments.
func (e *editor) vanished(args []string) (rest []string, entries []booking.Entry) {
	all := booking.Vanished(e.file.Record(), e.file.Load(e.Options()), e.Options())
	for _, arg := range args {
		i := slices.IndexFunc(all, func(entry booking.Entry) bool {
			b, _ := entry.Booking()
			b.Name, b.By = e.Aliases.Canonical(b.Name), entry.By
			return entry.ID == arg && (e.Force || e.Mine(b))
		})
		if i < 0 {
			rest = append(rest, arg)
		} else {
			entries = append(entries, all[i])
		}
	}
	return rest, entries
}
