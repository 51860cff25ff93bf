package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/watch"
	"gpuboard/sitegen"
)

func (a *app) generateCommand() *cobra.Command {
	var goOn, verbose, dryRun bool
	var at string
	c := &cobra.Command{
		Use: "generate", Short: "write the site; accept HOST takes in what is older", GroupID: groupWeb,
		Args: cobra.NoArgs,
		Long: "generate writes the site once, or with --watch again and again. It does not touch files\n" +
			"whose content is the same, and prints nothing if all is well. Problems are shown on the\n" +
			"page, in health.json and on stderr, and the exit code is then 3.\n" + exitStatus,
		Example: "  gpuboard generate -v --site ./site --state ./state\n  gpuboard generate --data /srv/gpuboard/data --site /srv/gpuboard/site\n  gpuboard generate --watch --interval 20s",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			now, err := a.pretended(at)
			if err != nil {
				return err
			}
			cfg.Pretend = at != ""
			if cfg.Bool("consul.leader") && !goOn {
				return failure.Usage("add --watch; where cron runs generate, run it on one host alone",
					"consul.leader from %s: only a generator that goes on can lead", cfg.Origin("consul.leader"))
			}
			cfg.Once = !goOn
			if err := a.refuseRoot(cfg.String("state")); err != nil {
				return err
			}
			if dryRun {
				drop, err := preview(cfg, goOn)
				if err != nil {
					return err
				}
				defer drop()
			}
			g, err := watch.NewGenerator(cfg, version(), a.now, a.demonstration != nil, sshConfig)
			if err != nil {
				return err
			}
			defer g.Close()
			if goOn {
				lock, err := atomicfile.Lock(watchLock(cfg), 0o600)
				if errors.Is(err, atomicfile.ErrLocked) {
					return failure.Because("state:in-use",
						failure.New(failure.ExitTryAgain,
							fmt.Errorf("another generate --watch runs with the state directory %s",
								cfg.String("state")), "end it first, or name another with --state DIR and --site DIR"))
				}
				if err != nil {
					return fmt.Errorf("taking the lock of the state directory: %w", err)
				}
				defer atomicfile.Unlock(lock)
				o, err := watch.OptionsOf(cfg)
				if err != nil {
					return err
				}
				o.Generator, o.GenerationTime, o.Now, o.Log = g, now, a.now, a.stderr
				if verbose {
					o.Done = func(report sitegen.Report, gap time.Duration) {
						a.sayDone(report,
							fmt.Sprintf("; the next one begins %v after this one began",
								gap.Round(100*time.Millisecond)))
					}
				}
				watch.Run(c.Context(), o)
				return nil
			}
			collectLess(cfg.String("data"))
			report, err := watch.Generate(c.Context(), g, now())
			if err != nil {
				return err
			}
			if last, _ := g.Close(); report.Board != nil { // what history says, the next generation finds
				report.Board.Problems = append(report.Board.Problems, last...)
			}
			for _, change := range report.Changes {
				if !strings.HasSuffix(change, ".gz") { // what is compressed is the file before it
					fmt.Fprintln(a.stdout, change)
				}
			}
			if verbose {
				a.sayDone(report, "")
			}
			if !report.Degraded() {
				return nil
			}
			for _, p := range report.Board.Problems {
				a.complain(p)
			}
			return silent(failure.ExitDegraded)
		}),
	}
	a.flags(c, config.WebKeys()...)
	c.Flags().BoolVarP(&goOn, "watch", "w", false, "keep running: generate at every interval and change")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what was done")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print which files of the site would change, and change none")
	c.Flags().StringVar(&at, "now", "", "pretend that it is this `TIME` (RFC 3339), to look back or ahead")
	return c
}

// preview makes the configuration one of a generation that changes nothing: its state is a copy, which drop removes.
func preview(cfg *config.Config, goOn bool) (drop func(), err error) {
	if goOn {
		return nil, failure.Usage("leave out one of them", "--dry-run shows one generation, and --watch makes many")
	}
	dir, err := os.MkdirTemp("", "gpuboard-preview-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for a copy of the state: %w", err)
	}
	if err := betweenGenerations(func() error { return sitegen.CopyState(dir, cfg.String("state")) }); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	cfg.Set("state", dir, "--dry-run")
	cfg.Pretend, cfg.Preview = true, true
	return func() { _ = os.RemoveAll(dir) }, nil
}

// collectLess lets a process that ends soon collect garbage half as often, which saves a tenth of its time and takes
// some megabytes, unless the fleet is large.
func collectLess(data string) {
	if os.Getenv("GOGC") != "" {
		return
	}
	if drops, err := os.ReadDir(filepath.Join(data, "drop")); err == nil && len(drops) <= 100 {
		debug.SetGCPercent(200)
	}
}

// pretended is the clock of a command with --now; at is "" for the real one.
func (a *app) pretended(at string) (func() time.Time, error) {
	if at == "" {
		return a.now, nil
	}
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, failure.Usage("for instance --now 2026-11-20T10:42:00Z", "--now: %q is not a time in RFC 3339", at)
	}
	return func() time.Time { return t }, nil
}

func (a *app) sayDone(report sitegen.Report, more string) {
	fmt.Fprintf(a.stderr, "gpuboard: %s, %s free; %d files written, %d unchanged, %d removed%s\n",
		board.Number(report.Board.Totals.Hosts, "host"), report.Board.Totals.FreeOf(),
		report.Written, report.Same, report.Removed, more)
}

// generationPatience is how long a command waits for the end of a generation.
const generationPatience = 30 * time.Second

// betweenGenerations does what a generation in progress refuses with [sitegen.ErrLocked], again and again until it has
// ended.
func betweenGenerations(do func() error) error {
	err := do()
	for end := time.Now().Add(generationPatience); errors.Is(err, sitegen.ErrLocked) && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		err = do()
	}
	if errors.Is(err, sitegen.ErrLocked) {
		return failure.Because("state:in-use", failure.New(failure.ExitTryAgain, err, "try again"))
	}
	return err
}

func (a *app) acceptCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "accept HOST", Short: "accept what a host sends now, though it is older", GroupID: groupWeb,
		Args: cobra.ExactArgs(1),
		Long: "accept forgets the numbers of the snapshots that a host has sent. The next generation shows\n" +
			"the snapshot that lies in its drop now. It is for a host that stays host:replayed because\n" +
			"the machine was put back to an earlier state, or because its numbers were once too large.\n" + exitStatus,
		Example: "  gpuboard accept gpu03",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			host, err := snapshot.ParseHost(args[0])
			if err != nil {
				return failure.Usage("gpuboard accept HOST", "%v", err)
			}
			state := cfg.String("state")
			if !config.IsDir(state) {
				return failure.Usage("on the web host: --state DIR or --config FILE",
					"accepting %s: there is no directory %s", host, state)
			}
			if err := a.refuseRoot(state); err != nil {
				return err
			}
			known := false
			err = betweenGenerations(func() (err error) {
				known, err = sitegen.Accept(state, host)
				if err != nil && !errors.Is(err, sitegen.ErrLocked) {
					err = fmt.Errorf("accepting %s: %w", host, err)
				}
				return err
			})
			if err == nil && !known {
				return failure.Usage("gpuboard status", "no snapshot of %s is remembered in %s", host, state)
			}
			return err
		}),
	}
	a.flags(c, "state")
	return c
}
