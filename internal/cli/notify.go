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
				return failure.Usage("list them under notify: in gpuboard.yml, such as\n  notify:\n    - webhook: https://chat.example.org/hooks/…\n      events: [host-*, gpu-lost]", "there are no hooks")
			}
			if test {
				ctx, cancel := context.WithTimeout(c.Context(), testTimeout)
				defer cancel()
				return a.sayHooks(notifier.Test(ctx, a.now().UTC()), nil, "took the message", asJSON)
			}
			waiting, err := notifier.Waiting()
			if err != nil {
				return err
			}
			hooks := notifier.Hooks()
			for _, t := range notifier.Failures() {
				for i := range hooks {
					if hooks[i].Hook == t.Hook {
						hooks[i].Err = t.Err
					}
				}
			}
			return a.sayHooks(hooks, waiting, "", asJSON)
		}),
	}
	a.flags(c, "state", "title", "timezone", "base_url")
	c.Flags().BoolVar(&test, "test", false, "send one message to each hook")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// sayHooks prints a line for each hook. waiting is nil where nobody asked.
func (a *app) sayHooks(list []notify.Outcome, waiting map[string]int, fine string, asJSON bool) error {
	type line struct {
		Hook    string `json:"hook"`
		Where   string `json:"where"`
		OK      bool   `json:"ok"`
		Error   string `json:"error,omitempty"`
		Waiting *int   `json:"waiting,omitempty"`
	}
	lines := []line{}
	failed := false
	for _, o := range list {
		l := line{Hook: o.Hook, Where: o.Where, OK: o.Err == nil}
		if o.Err != nil {
			l.Error, failed = o.Err.Error(), true
		}
		if waiting != nil {
			l.Waiting = new(waiting[o.Hook])
		}
		lines = append(lines, l)
	}
	if asJSON {
		if err := writeJSON(a.stdout, lines); err != nil {
			return err
		}
	} else {
		for _, l := range lines {
			var words []string
			if l.Error != "" {
				words = append(words, l.Error)
			} else if fine != "" {
				words = append(words, fine)
			}
			if l.Waiting != nil {
				words = append(words, fmt.Sprintf("%d waiting", *l.Waiting))
			}
			fmt.Fprintf(a.stdout, "%s (%s): %s\n", l.Hook, failure.Printable(l.Where), failure.Printable(strings.Join(words, "; ")))
		}
	}
	if failed {
		return silent(failure.ExitDegraded)
	}
	return nil
}
