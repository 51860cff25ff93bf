package cli

import (
	"context"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/notify"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// How long a test message may take, and how often a hook may fail before that
// is a problem of the board: one lost connection is none.
const (
	testTimeout  = 30 * time.Second
	failuresSaid = 3
)

func (a *app) notifyCommand() *cobra.Command {
	var test, asJSON bool
	c := &cobra.Command{
		Use: "notify", Short: "show the hooks that hear of changes, or try them", GroupID: groupWeb, Args: cobra.NoArgs,
		Long: "notify lists the hooks of the configuration, what waits for each, and what went wrong. With\n" +
			"--test it sends one message to each hook and says what happened. Events themselves are\n" +
			"found and sent by generate.\n" + exitStatus,
		Example: "  gpuboard notify --test\n  gpuboard notify --json",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			carrier, err := a.carrier(cfg)
			if err != nil {
				return err
			}
			if carrier == nil {
				return failure.Usage("list them under notify: in gpuboard.yml, such as\n  notify:\n    - webhook: https://chat.example.org/hooks/…\n      events: [host-*, gpu-lost]", "there are no hooks")
			}
			if test {
				ctx, cancel := context.WithTimeout(c.Context(), testTimeout)
				defer cancel()
				return a.sayHooks(carrier.Test(ctx, a.now().UTC()), nil, "took the message", asJSON)
			}
			waiting, err := carrier.Waiting()
			if err != nil {
				return err
			}
			hooks := carrier.Hooks()
			for _, t := range carrier.Failures() {
				for i := range hooks {
					if hooks[i].Hook == t.Hook {
						hooks[i].Err = t.Err
					}
				}
			}
			return a.sayHooks(hooks, waiting, "", asJSON)
		},
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

// carrier makes what carries events out, nil where no hooks are configured.
func (a *app) carrier(cfg *config.Config) (*notify.Notifier, error) {
	if len(cfg.Hooks) == 0 {
		return nil, nil
	}
	o := notify.Options{
		Outbox: filepath.Join(cfg.String("state"), "outbox.json"), Zone: cfg.Zone(),
		Title: cfg.String("title"), SiteURL: cfg.String("base_url"),
	}
	for _, h := range cfg.Hooks {
		if h.URLFile != "" {
			url, err := readSecret(h.URLFile)
			if err != nil {
				return nil, failure.Because("notify:config", failure.New(failure.ExitUsage, fmt.Errorf("%s: reading the webhook of hook %s: %w", h.Origin, h.Name, err), ""))
			}
			h.URL = url
		}
		if h.Kind == notify.Mail && h.From == "" {
			h.From = sender()
		}
		o.Hooks = append(o.Hooks, h.Hook)
	}
	c, err := notify.New(o)
	if err != nil {
		return nil, failure.Because("notify:config", failure.New(failure.ExitUsage, fmt.Errorf("notify: %w", err), ""))
	}
	return c, nil
}

// readSecret reads the one line of a file that is kept from others.
func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if len(data) > 4096 {
		return "", fmt.Errorf("%s is too long for an address", path)
	}
	return strings.TrimSpace(string(data)), nil
}

// sender is the address that mail comes from when nobody said.
func sender() string {
	host, err := os.Hostname()
	address := "gpuboard@" + host
	if _, bad := mail.ParseAddress(address); err != nil || bad != nil {
		return "gpuboard@localhost"
	}
	return address
}

// announcer is what the generator hands events to; nil where there are no hooks.
func (a *app) announcer(cfg *config.Config) (sitegen.Announcer, error) {
	c, err := a.carrier(cfg)
	if c == nil || err != nil {
		return nil, err
	}
	return announcer{c}, nil
}

// announcer has a carrier's troubles told as problems of the board.
type announcer struct {
	*notify.Notifier
}

// Troubles says which hooks have not been reached for a while.
func (n announcer) Troubles() []snapshot.Problem { return problemsOf(n.Notifier.Failures()) }

// Deliver sends what waits, and says which hooks are not reached.
func (n announcer) Deliver(ctx context.Context, now time.Time) []snapshot.Problem {
	return problemsOf(n.Notifier.Deliver(ctx, now))
}

func problemsOf(list []notify.Failure) (problems []snapshot.Problem) {
	for _, t := range list {
		switch {
		case t.Hook == "":
			problems = append(problems, snapshot.Problem{Code: "notify:outbox", Message: snapshot.Text(t.Err.Error(), snapshot.MaxTextBytes)})
		case t.Refused || t.Tries >= failuresSaid:
			problems = append(problems, snapshot.Problem{Code: "notify:failing", File: "hook " + t.Hook,
				Message: snapshot.Text(fmt.Sprintf("%v (%d waiting, tried again from %s)", t.Err, t.Waiting, t.Next.UTC().Format("15:04 UTC")), snapshot.MaxTextBytes)})
		}
	}
	return problems
}
