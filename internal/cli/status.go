package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/internal/spelling"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/text"
)

func (a *app) statusCommand() *cobra.Command {
	var from string
	var detail, asJSON, asCSV, watch bool
	var filter text.Options
	c := &cobra.Command{
		Use: "status [HOST…]", Short: "show the board of the cluster, or of some hosts", GroupID: groupUse,
		Long: "status shows the board. HOST may have * and ? in it; NAME/HOST is a host of another cluster, and\n" +
			"NAME/ all of it. It reads a site by its URL or directory, or builds the board from a data\n" +
			"directory. It compares the board's age with this machine's clock: an old board is marked as old,\n" +
			"and a very old one counts as unknown. It exits with 5 if nothing matches, and with 3 if the\n" +
			"board is too old.\n" + exitStatus,
		Example: "  gpuboard status\n  gpuboard status --from https://gpu.example.org/\n  gpuboard status --free --model a100\n" +
			"  gpuboard status 'gpu0*' --detail\n  gpuboard status --free --watch\n  gpuboard status --user eva --csv",
		ValidArgsFunction: a.completeHosts,
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			switch {
			case asJSON && asCSV:
				return failure.Usage("", "--json and --csv: one of them")
			case watch && (asJSON || asCSV):
				return failure.Usage("gpuboard status --json, as often as it is needed",
					"--watch is for people, and --json and --csv are for programs")
			case watch && !a.terminal():
				return failure.Usage("gpuboard status prints it once: while sleep 20; do gpuboard status; done",
					"--watch draws on a terminal, and this is none")
			}
			look := a.look(cfg)
			look.Detail, look.Free, look.User, look.Model = detail, filter.Free, filter.User, filter.Model
			s, args, err := source.OpenCluster(c.Context(), a.source(cfg), from, args)
			if err != nil {
				return err
			}
			patterns, err := hostPatterns(args)
			if err != nil {
				hint := ""
				if i := slices.IndexFunc(args, func(arg string) bool { return strings.Contains(arg, ":") }); i >= 0 {
					host, _, _ := strings.Cut(args[i], ":")
					hint = "each GPU of a host: gpuboard status " + shell.Quote(host) + " --detail"
				}
				return failure.Usage(hint, "%w", err)
			}
			if watch {
				return a.watchStatus(c.Context(), s, look, patterns)
			}
			p, err := s.Read(c.Context())
			if err != nil {
				return err
			}
			look.Hosts = matching(p.Board, patterns)
			if len(look.Hosts) == 0 {
				p.Board.Sites = s.Others(c.Context())
			}
			dead := a.judge(s, p.Board)
			missing := a.missingHosts(p.Board, look.Hosts)
			for _, arg := range args {
				if c.Flags().Lookup(arg) != nil && missing > 0 {
					fmt.Fprintf(a.stderr, "gpuboard: hint: did you mean --%s?\n", arg)
				}
			}
			shown := filtered(p, look)
			switch {
			case asJSON:
				_, err = a.stdout.Write(shown.JSON())
			case asCSV:
				err = data.WriteCSV(a.stdout, shown.Board)
			default:
				look.Color = look.Color && !p.Board.Late(a.now())
				err = text.Status(a.stdout, p.Board, look)
			}
			switch {
			case err != nil:
				return fmt.Errorf("writing the status: %w", err)
			case dead:
				return silent(failure.ExitDegraded)
			case len(shown.Board.Hosts) == 0 && (missing > 0 || look.Free || look.User != "" || look.Model != ""):
				return silent(failure.ExitNoMatch)
			case missing > 0:
				return silent(failure.ExitDegraded)
			}
			return nil
		}),
	}
	a.flags(c, sourceKeys()...)
	sourceFlag(c, &from)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	c.Flags().BoolVar(&detail, "detail", false, "show each GPU with its processes")
	c.Flags().BoolVar(&filter.Free, "free", false, "free GPUs only")
	c.Flags().StringVar(&filter.User, "user", "", "only GPUs that this `PERSON` uses, has booked, or left memory on")
	c.Flags().StringVar(&filter.Model, "model", "", "only GPUs whose name contains this `TEXT`")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	c.Flags().BoolVar(&asCSV, "csv", false, "print CSV for spreadsheets")
	return c
}

// watchStatus draws the board on a terminal as often as it is made. It ends with the context.
func (a *app) watchStatus(ctx context.Context, s *source.Source, look text.Options, patterns []string) error {
	for first := true; ; first = false {
		p, err := s.Read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		every, shown := leastSiteEvery, &bytes.Buffer{}
		if err != nil {
			fmt.Fprintf(shown, "%s\n", failure.Printable(err.Error()))
		} else {
			now := *a
			now.stderr = shown
			now.judge(s, p.Board)
			look.Hosts = matching(p.Board, patterns)
			now.missingHosts(p.Board, look.Hosts)
			look.Width, look.Color = a.width(80), a.colors() && !p.Board.Late(a.now())
			every = max(every, p.Board.Every())
			err = text.Status(shown, p.Board, look)
		}
		if err == nil || !first {
			_, height := a.screen()
			_, err = fmt.Fprint(a.stdout, screenOf(shown.String(), height))
		}
		if err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
		if pause(ctx, every) != nil {
			return nil
		}
	}
}

// screenOf draws lines over what a terminal shows, as many as it has room for.
func screenOf(s string, height int) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if room := height - 2; room > 0 && len(lines) > room+1 { // the last line is where the cursor waits
		lines = append(lines[:room:room], fmt.Sprintf("and %d more lines", len(lines)-room))
	}
	const home, toEndOfLine, toEndOfScreen = "\x1b[H", "\x1b[K", "\x1b[J"
	return home + strings.Join(lines, toEndOfLine+"\n") + toEndOfLine + "\n" + toEndOfScreen
}

func sourceFlag(c *cobra.Command, from *string) {
	c.Flags().StringVar(from, "from", "",
		"where the board is: `URL` or directory of a site, or a data directory (default: site_url of the configuration, else the directories configured here)")
}

// judge says on stderr how old a board is. Very old boards are made unknown, and dead is true.
func (a *app) judge(s *source.Source, b *board.Board) (dead bool) {
	name, age := failure.Printable(s.Name), b.Age(a.now())
	old := fmt.Sprintf("gpuboard: %s is %s old and due every %s", name, snapshot.Length(age),
		snapshot.Length(b.Every()))
	switch {
	case b.Dead(a.now()):
		b.Expire()
		fmt.Fprintf(a.stderr, "%s: its generator has stopped, so the current state is unknown\n", old)
		return true
	case b.Late(a.now()):
		fmt.Fprintf(a.stderr, "%s: it may be wrong by now\n", old)
	case age < -time.Minute:
		fmt.Fprintf(a.stderr, "gpuboard: %s is dated %s in the future: this machine's clock or the site's is wrong\n",
			name, snapshot.Length(age))
	}
	return false
}

// missingHosts says which of the hosts that were asked for are not there.
func (a *app) missingHosts(b *board.Board, names []string) (missing int) {
	var known []string
	for i := range b.Hosts {
		known = append(known, b.Hosts[i].Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			missing++
			fmt.Fprintf(a.stderr, "gpuboard: there is no host %s on this board%s\n", name,
				spelling.DidYouMean(name, known))
		}
	}
	return missing
}

// filtered is the board with only what the options show, and with the totals of the whole.
func filtered(p *data.Published, o text.Options) *data.Published {
	b := *p.Board
	b.Hosts = nil
	for _, h := range p.Board.Hosts {
		gpus, shown := text.Shown(&h, o)
		if !shown {
			continue
		}
		h.GPUs = gpus
		b.Hosts = append(b.Hosts, h)
	}
	q := *p
	q.Board = &b
	return &q
}
