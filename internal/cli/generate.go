package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/shell"
	"gpuboard/internal/spool"
	"gpuboard/internal/watch"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

func (a *app) generateCommand() *cobra.Command {
	var goOn, verbose bool
	var at string
	c := &cobra.Command{
		Use: "generate", Short: "write the site from snapshots, bookings and the inventory", GroupID: groupWeb, Args: cobra.NoArgs,
		Long: "generate makes one generation of the site, or with --watch one after another. Files whose\n" +
			"bytes are the same are not touched. It is silent when all is well; what is not well is on\n" +
			"the page, in health.json and on stderr, and the exit code is 3.\n" + exitStatus,
		Example: "  gpuboard generate --data /srv/gpuboard/data --site /srv/gpuboard/site\n  gpuboard generate --watch --interval 20s",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			now := a.now
			if at != "" {
				t, err := time.Parse(time.RFC3339, at)
				if err != nil {
					return failure.Usage("for instance --now 2026-11-20T10:42:00Z", "--now: %q is not a time in RFC 3339", at)
				}
				now = func() time.Time { return t }
				cfg.Pretend = true
			}
			if cfg.Bool("consul.leader") && !goOn {
				return failure.Usage("add --watch; where cron runs generate, run it on one host alone", "consul.leader from %s: only a generator that goes on can lead", cfg.Origin("consul.leader"))
			}
			cfg.Once = !goOn
			g, err := a.generator(cfg, false)
			if err != nil {
				return err
			}
			defer g.Close()
			if goOn {
				return a.watch(c.Context(), cfg, g, now, verbose)
			}
			report, err := watch.Generate(c.Context(), g, now())
			if err != nil {
				return err
			}
			if verbose {
				a.sayDone(report)
			}
			if !report.Degraded() {
				return nil
			}
			for _, p := range report.Board.Problems {
				a.complain(p)
			}
			return silent(failure.ExitDegraded)
		},
	}
	a.flags(c, config.WebKeys()...)
	c.Flags().BoolVar(&goOn, "watch", false, "go on: make a generation whenever something changes, and every interval")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "say what was done")
	c.Flags().StringVar(&at, "now", "", "pretend that it is this `TIME` (RFC 3339), to look back or ahead")
	return c
}

// watch makes generations until the context ends.
func (a *app) watch(ctx context.Context, cfg *config.Config, g *sitegen.Generator, at func() time.Time, verbose bool) error {
	aliases := cfg.String("aliases")
	if aliases == "" {
		aliases = filepath.Join(cfg.String("data"), "aliases.csv")
	}
	o := watch.Options{
		Generator: g, GenerationTime: at, Now: a.now, Interval: cfg.Duration("interval"), Log: a.stderr,
		Paths: watch.Paths{Data: cfg.String("data"), Comments: commentsPath(cfg), Aliases: aliases},
	}
	if verbose {
		o.Done = a.sayDone
	}
	if a.asksConsul(cfg) || cfg.Bool("consul.leader") {
		consul, err := a.consul(cfg)
		if err != nil {
			return err
		}
		if a.asksConsul(cfg) {
			o.Consul = consul
		}
		if cfg.Bool("consul.leader") {
			o.Leader = consul.NewLeader(cfg.String("consul.leader_key"))
		}
	}
	watch.Run(ctx, o)
	return nil
}

// sayDone says what a generation did.
func (a *app) sayDone(report sitegen.Report) {
	fmt.Fprintf(a.stderr, "gpuboard: %d hosts, %d of %d GPUs free; %d files written, %d unchanged, %d removed\n",
		report.Board.Totals.Hosts, report.Board.Totals.Free(), report.Board.Totals.GPUs, report.Written, report.Same, report.Removed)
}

// generator introduces the rooms of the web host to each other.
func (a *app) generator(cfg *config.Config, demo bool) (*sitegen.Generator, error) {
	if err := a.refuseRoot(cfg.String("state")); err != nil {
		return nil, err
	}
	info, err := os.Stat(cfg.String("data"))
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir():
		return nil, failure.Because("data:missing", failure.New(failure.ExitUsage, fmt.Errorf("there is no data directory %s", cfg.String("data")), "make it (mkdir -p "+filepath.Join(cfg.String("data"), "drop")+"), or name another with --data"))
	case err != nil:
		return nil, failure.Because("data:unreadable", failure.New(failure.ExitUsage, fmt.Errorf("looking at the data directory: %w", err), "look at: namei -l "+shell.Quote(cfg.String("data"))))
	}
	comments, err := localComments(cfg)
	if err != nil {
		return nil, err
	}
	resolve, err := a.inventory(cfg)
	if err != nil {
		return nil, err
	}
	var hooks sitegen.Announcer
	if !demo { // what happens in it happened to nobody
		if hooks, err = a.announcer(cfg); err != nil {
			return nil, err
		}
	}
	g, err := sitegen.New(sitegen.Options{
		Announcer: hooks, Pretend: cfg.Pretend, Once: cfg.Once, Legacy: cfg.String("legacy"), LegacyZone: cfg.LegacyZone(),
		NoHelp: cfg.Bool("no_help"), PublicHelp: cfg.Bool("public_help"), Privacy: cfg.Privacy(), Public: cfg.String("public_out"), PublicPrivacy: cfg.PublicPrivacy(),
		OpenHistory: a.history(cfg), IdleWindow: cfg.Duration("idle_window"), IdlePercent: cfg.Number("idle_percent"),
		Data: cfg.String("data"), Site: cfg.String("site"), State: cfg.String("state"),
		Comments: comments, BookingZone: cfg.BookingZone(false).Location, Aliases: cfg.String("aliases"), Templates: cfg.String("templates"),
		Inventory: resolve,
		Settings:  cfg.Board(),
		About: render.Site{
			Title: cfg.String("title"), Lab: cfg.String("lab"), Lang: "en", Zone: cfg.Zone(), Version: version(), BaseURL: cfg.String("base_url"),
			Compat: cfg.List("compat"), Interval: cfg.Duration("interval"), CommentsPath: comments, BookCommand: bookCommand(cfg, demo),
			Energy: render.Energy{Price: cfg.Number("energy.price_per_kwh"), Currency: cfg.String("energy.currency"), CO2Grams: cfg.Number("energy.co2_grams_per_kwh")},
		},
		Demo: demo,
	})
	if err != nil {
		return nil, failure.Because("site:failed", failure.New(failure.ExitUsage, err, ""))
	}
	return g, nil
}

func commentsPath(cfg *config.Config) string {
	if path := cfg.String("comments"); path != "" {
		return path
	}
	return filepath.Join(cfg.String("data"), "comments.json")
}

// localComments is commentsPath, and refuses an address.
func localComments(cfg *config.Config) (string, error) {
	path := commentsPath(cfg)
	if strings.Contains(path, "://") {
		return "", failure.Usage("on the web host name the file with --comments FILE; elsewhere set booking.ssh to the web host", "comments from %s is %s, and not a file on this machine", cfg.Origin("comments"), path)
	}
	return path, nil
}

// bookCommand is what people type before "book". A demonstration's bookings lie
// where nobody's configuration looks for them.
func bookCommand(cfg *config.Config, demo bool) string {
	if demo {
		return "GPUBOARD_COMMENTS=" + shell.Quote(commentsPath(cfg)) + " gpuboard"
	}
	return "gpuboard"
}

// inventory wires the sources that are configured to the resolver of the last
// known answer.
func (a *app) inventory(cfg *config.Config) (func(context.Context, time.Time) inventory.Inventory, error) {
	entries := cfg.Hosts
	if !cfg.InFile("hosts") {
		entries = nil // a flag or a variable names them anew
		for _, name := range cfg.List("hosts") {
			entries = append(entries, inventory.Entry{Name: name})
		}
	}
	listed, problems := inventory.List(entries)
	for _, p := range problems {
		return nil, failure.Usage("", "hosts from %s: %s", cfg.Origin("hosts"), p.Message)
	}
	k := &inventory.Resolver{StateFile: filepath.Join(cfg.String("state"), "inventory.json"), List: listed, AcceptShrink: cfg.Bool("accept_shrink")}

	sources := cfg.List("hosts_from")
	use := func(source string) bool { return len(sources) == 0 || slices.Contains(sources, source) }
	if !use("list") {
		k.List = nil
	}
	if a.asksConsul(cfg) {
		consul, err := a.consul(cfg)
		if err != nil {
			return nil, err
		}
		k.Consul = consul.Query
	}
	if use("drops") {
		k.Drops = func(context.Context) (inventory.Answer, error) {
			return dropHosts(cfg, cfg.String("data"))
		}
	}
	return k.Resolve, nil
}

// asksConsul reports whether Consul is one of the sources of the inventory.
func (a *app) asksConsul(cfg *config.Config) bool {
	if sources := cfg.List("hosts_from"); len(sources) > 0 {
		return slices.Contains(sources, "consul")
	}
	return cfg.Bool("consul.enabled") || a.getenv("CONSUL_HTTP_ADDR") != ""
}

// dropHosts lists the hosts that have a drop, or files of the older scripts.
func dropHosts(cfg *config.Config, data string) (inventory.Answer, error) {
	d, err := spool.OpenDrops(data)
	if errors.Is(err, os.ErrNotExist) {
		return withOlder(nil, nil, cfg, data) // nobody has sent anything yet
	}
	if err != nil {
		return inventory.Answer{}, err
	}
	defer d.Close()
	names, problems := d.Hosts()
	return withOlder(names, problems, cfg, data)
}

// history returns how to open the store of samples in the state directory, nil
// for none. Without it there is a board all the same, so what is wrong with it
// is only said, on the board.
func (a *app) history(cfg *config.Config) func(context.Context, time.Time) (*history.Store, error) {
	if cfg.Bool("no_history") {
		return nil
	}
	return func(ctx context.Context, _ time.Time) (*history.Store, error) {
		return history.Open(ctx, filepath.Join(cfg.String("state"), "history.db"), a.now(), history.Options{
			Raw: cfg.Duration("history.raw"), Five: cfg.Duration("history.five_minutes"), Hourly: cfg.Duration("history.hourly"), Once: cfg.Once,
		})
	}
}
