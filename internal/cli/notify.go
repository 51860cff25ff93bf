package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/notify"
)

// testTimeout is how long a test message may take.
const testTimeout = 30 * time.Second

func (a *app) notifyCommand() *cobra.Command {
	var test, asJSON bool
	c := &cobra.Command{
		Use: "notify", Short: "show the notification hooks, or test them", GroupID: groupWeb, Args: cobra.NoArgs,
		Long: "notify lists the configured hooks, the messages that wait for each, and recent errors. With\n" +
			"--test it sends one message to each hook and prints the result. Events themselves are found\n" +
			"and sent by generate.\n" + exitStatus,
		Example: "  gpuboard notify\n  gpuboard notify --test",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			notifier, err := cfg.Notifier()
			if err != nil {
				return err
			}
			if notifier == nil {
				return failure.Usage(
					"list them under notify: in gpuboard.yml, such as\n  notify:\n    - webhook: https://chat.example.org/hooks/…\n      events: [host-*, gpu-lost]", "there are no hooks")
			}
			if test {
				ctx, cancel := context.WithTimeout(c.Context(), testTimeout)
				defer cancel()
				return a.printHooks(notifier.Test(ctx, a.now().UTC()), true, asJSON)
			}
			states, err := notifier.States()
			if err != nil {
				return err
			}
			return a.printHooks(states, false, asJSON)
		}),
	}
	a.flags(c, "state", "title", "timezone", "base_url")
	c.Flags().BoolVar(&test, "test", false, "send one message to each hook")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return c
}

// printHooks prints a line for each hook, after a test message if tested is true.
func (a *app) printHooks(states []notify.State, tested, asJSON bool) error {
	type line struct {
		Hook    string `json:"hook"`
		Where   string `json:"where"`
		OK      bool   `json:"ok"`
		Error   string `json:"error,omitempty"`
		Waiting *int   `json:"waiting,omitempty"`
	}
	lines := []line{}
	failed := false
	for _, s := range states {
		l := line{Hook: s.Hook, Where: s.Where, OK: s.Err == nil}
		var words []string
		switch {
		case s.Err != nil:
			l.Error, failed = s.Err.Error(), true
			words = append(words, l.Error)
		case tested:
			words = append(words, "took the message")
		}
		if !tested {
			l.Waiting = &s.Waiting
			words = append(words, fmt.Sprintf("%d waiting", s.Waiting))
		}
		lines = append(lines, l)
		if !asJSON {
			fmt.Fprintf(a.stdout, "%s (%s): %s\n", l.Hook, failure.Printable(l.Where),
				failure.Printable(strings.Join(words, "; ")))
		}
	}
	if asJSON {
		if err := writeJSON(a.stdout, lines); err != nil {
			return err
		}
	}
	if failed {
		return silent(failure.ExitDegraded)
	}
	return nil
}
