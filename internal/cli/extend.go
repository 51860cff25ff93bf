package cli

import (
	"github.com/spf13/cobra"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
)

func (a *app) extendCommand() *cobra.Command {
	var r bookRequest
	c := &cobra.Command{
		Use: "extend WHICH", Short: "move the end of your booking", GroupID: groupUse, Args: cobra.ExactArgs(1),
		SuggestFor: []string{"prolong", "renew"},
		Long: "extend moves the end of your booking to a later or an earlier time. WHICH is an ID as\n" +
			"\"gpuboard bookings\" prints it, HOST:GPU, or HOST: the current booking, else the next one. --for\n" +
			"counts from the present end. The time that is added is checked as book checks it.\n" + exitStatus,
		Example: "  gpuboard extend atlas:0 --for 1h --name mira\n  gpuboard extend gpu01:0 --until \"fri 18:00\"",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			if done, err := a.onWebHost(c, cfg, args); done {
				return err
			}
			if err := r.checkEnd(); err != nil {
				return err
			}
			if r.length == "" && r.until == "" {
				return failure.Usage("gpuboard extend "+args[0]+" --for 1d", "how long? give --for or --until")
			}
			e, err := a.editor(cfg, r.name, r.at)
			if err != nil {
				return err
			}
			if err := e.readBoard(c.Context(), cfg, false); err != nil {
				return err
			}
			e.Force = r.force
			flag := "--until"
			if r.length != "" {
				flag = "--for"
			}
			return e.finish(c.Context(), &r, "extended", func(data []byte) (booking.Change, error) {
				change, notes, err := e.Extend(data, args[0], r.length+r.until) // one of the two
				e.note(notes...)
				return change, aboutEnd(err, flag)
			})
		}),
	}
	a.flags(c, bookingKeys()...)
	c.Flags().StringVar(&r.length, "for", "", "how much longer: a `LENGTH` such as 2d6h")
	r.commonFlags(c)
	c.Flags().BoolVar(&r.force, "force", false, "extend somebody else's booking, or despite other bookings")
	c.ValidArgsFunction = a.completeHosts
	return c
}

// commonFlags declares what book and extend have in common.
func (r *bookRequest) commonFlags(c *cobra.Command) {
	c.Flags().StringVar(&r.until, "until", "", "end `TIME`, such as \"fri 18:00\" or tomorrow; never: open-ended")
	r.changeFlags(c)
}

// changeFlags declares what all commands that change bookings have in common.
func (r *bookRequest) changeFlags(c *cobra.Command) {
	c.Flags().StringVarP(&r.name, "name", "n", "", "for this `NAME` (default: booking.name, else your login name)")
	c.Flags().BoolVar(&r.dryRun, "dry-run", false, "show the change to the file without making it")
	c.Flags().BoolVarP(&r.asJSON, "json", "j", false, "print JSON")
	c.Flags().StringVar(&r.at, "now", "", "pretend that it is this `TIME` (RFC 3339)")
	_ = c.Flags().MarkHidden("now")
}

// checkEnd refuses an end that is given twice, or that can mean two things.
func (r *bookRequest) checkEnd() error {
	if r.length != "" && r.until != "" {
		return failure.Usage("", "--for and --until both say when it ends: give one of them")
	}
	if r.length != "" {
		if _, err := booking.ParseDuration(r.length); err != nil {
			return failure.Usage("a moment goes with --until; what has a blank in it needs quotes", "--for: %w", err)
		}
	}
	for _, flag := range []struct{ name, text string }{{"until", r.until}, {"from", r.from}} {
		if clock, ambiguous := booking.HourOrLength(flag.text); ambiguous {
			return failure.Usage("", "--%s: %q can mean a time of day and a length of time: write %q or %q",
				flag.name, flag.text, clock, "in "+flag.text)
		}
	}
	return nil
}
