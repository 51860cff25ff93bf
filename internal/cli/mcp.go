package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/mcp"
	"gpuboard/internal/source"
	"gpuboard/sitegen/data"
)

func (a *app) mcpCommand() *cobra.Command {
	var from, name string
	var allow bool
	c := &cobra.Command{
		Use: "mcp", Short: "answer an agent (Model Context Protocol over stdio)", GroupID: groupSetup,
		Args: cobra.NoArgs,
		Long: "mcp is started by a program for agents, and answers its questions: which GPUs are free, and from\n" +
			"when on, who uses them, and your bookings. With --allow-booking it also books, extends and\n" +
			"releases in your name, by the rules of these commands; never in another's, and never with\n" +
			"--force.\n" + exitStatus,
		Example: "  gpuboard mcp\n  gpuboard mcp --from https://gpu.example.org/\n  gpuboard mcp --allow-booking",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			o := mcp.Options{
				Version: version(),
				Policy:  func() booking.Policy { return a.asking(cfg, name) },
				Read: func(ctx context.Context) (*data.Published, string, error) {
					return a.readForAgent(ctx, cfg, from)
				},
			}
			if allow {
				if _, err := bookingsFile(cfg); err != nil && cfg.String("booking.ssh") == "" {
					return err
				}
				o.Run = func(ctx context.Context, words ...string) ([]byte, string, error) {
					return a.runForAgent(ctx, c, words)
				}
			}
			if f, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				fmt.Fprintln(a.stderr,
					"gpuboard: note: this waits for messages of a program for agents, which starts it; Ctrl-C ends it\n"+
						"gpuboard: hint: people type gpuboard status")
			}
			return mcp.Serve(c.Context(), a.stdin, a.stdout, o)
		}),
	}
	a.flags(c, bookingKeys()...)
	sourceFlag(c, &from)
	c.Flags().StringVarP(&name, "name", "n", "", "your `NAME` (default: booking.name, else your login name)")
	c.Flags().BoolVar(&allow, "allow-booking", false, "let the agent book, extend and release in your name")
	return c
}

// readForAgent reads the board. One that is too old to say anything is an error, and an old one has a note.
func (a *app) readForAgent(ctx context.Context, cfg *config.Config, from string) (*data.Published, string, error) {
	s, err := source.Open(a.source(cfg), from)
	if err != nil {
		return nil, "", err
	}
	p, err := s.WithBookings(ctx)
	if err != nil {
		return nil, "", err
	}
	var said bytes.Buffer
	judge := *a
	judge.stderr = &said
	if judge.judge(s, p.Board) {
		return nil, "", failure.New(failure.ExitDegraded, errors.New(plain(said.String())), "")
	}
	return p, plain(said.String()), nil
}

// runForAgent runs a command as somebody would who types it, with the flags of mcp that it takes as well.
func (a *app) runForAgent(ctx context.Context, c *cobra.Command, words []string) ([]byte, string, error) {
	var printed, said bytes.Buffer
	run := *a
	run.stdin, run.stdout, run.stderr = strings.NewReader(""), &printed, &said
	run.args = slices.Concat(words[:1], flagsFor(c, words[0]), words[1:])
	switch code := run.run(ctx); {
	case code == failure.ExitOK || code == failure.ExitDegraded && printed.Len() > 0:
		return printed.Bytes(), plain(said.String()), nil
	case said.Len() == 0:
		return nil, "", fmt.Errorf("%s: exit status %d", words[0], code)
	}
	return nil, "", errors.New(plain(said.String()))
}

// plain is what commands say on stderr without what marks it as theirs.
func plain(said string) string {
	return strings.TrimSpace(strings.NewReplacer("gpuboard: error: ", "", "gpuboard: ", "").Replace(said))
}

// flagsFor are the flags that were given to a command, as far as the other command has them, too.
func flagsFor(c *cobra.Command, other string) []string {
	o, _, _ := c.Root().Find([]string{other})
	without := []string{"json"}
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "config" && o.Flags().Lookup(f.Name) == nil {
			without = append(without, f.Name)
		}
	})
	return commandLine(c, without...)[2:]
}
