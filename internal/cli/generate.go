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

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/spool"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// webKeys are the settings of everything that makes a site.
func webKeys() []string {
	return []string{
		"data", "site", "state", "comments", "aliases", "templates", "interval", "hosts_from", "hosts", "accept_shrink",
		"consul.enabled", "consul.service", "consul.tags", "consul.filter", "consul.datacenters", "consul.node_meta",
		"consul.leader", "consul.leader_key",
		"title", "lab", "timezone", "booking.timezone", "base_url", "users", "commands", "public_out", "public_users", "public_commands", "no_help", "public_help",
		"stale_after", "down_after", "clock_tolerance", "free_memory_mib", "free_memory_percent", "no_show_after", "show_expired",
		"legacy", "legacy_zone", "idle_window", "idle_percent", "no_history", "history.raw", "history.five_minutes", "history.hourly",
		"energy.price_per_kwh", "energy.currency", "energy.co2_grams_per_kwh",
	}
}

func (a *app) generateCommand() *cobra.Command {
	var watch, verbose bool
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
					return usagef("for instance --now 2026-11-20T10:42:00Z", "--now: %q is not a time in RFC 3339", at)
				}
				now = func() time.Time { return t }
				cfg.pretend = true
			}
			if cfg.bool("consul.leader") && !watch {
				return usagef("add --watch; where cron runs generate, run it on one host alone", "consul.leader from %s: only a generator that goes on can lead", cfg.origin["consul.leader"])
			}
			cfg.once = !watch
			g, err := a.generator(cfg, false)
			if err != nil {
				return err
			}
			defer g.Close()
			if watch {
				return a.watch(c.Context(), cfg, g, now, verbose)
			}
			report, err := g.Generate(c.Context(), now().UTC())
			if err != nil {
				return generateError(err)
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
			return silent(exitDegraded)
		},
	}
	a.flags(c, webKeys()...)
	c.Flags().BoolVar(&watch, "watch", false, "go on: make a generation whenever something changes, and every interval")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "say what was done")
	c.Flags().StringVar(&at, "now", "", "pretend that it is this `TIME` (RFC 3339), to look back or ahead")
	return c
}

// generateError gives the errors of a generation their exit codes.
func generateError(err error) error {
	switch {
	case errors.Is(err, sitegen.ErrLocked):
		return because("state:in-use", fail(exitTempFail, err, ""))
	case errors.Is(err, os.ErrPermission):
		return because("file:permission", fail(exitError, err, "the user who runs this must own the site and state directories"))
	case errors.Is(err, atomicfile.ErrNotRegular):
		return because("file:kind", fail(exitError, err, "")) // it stays there until somebody removes it
	case errors.Is(err, context.Canceled):
		return fail(exitTempFail, errors.New("interrupted"), "")
	}
	return because("site:failed", fail(exitTempFail, err, "the site is as it was before"))
}

// sayDone says what a generation did.
func (a *app) sayDone(report sitegen.Report) {
	fmt.Fprintf(a.stderr, "gpuboard: %d hosts, %d of %d GPUs free; %d files written, %d unchanged, %d removed\n",
		report.Board.Totals.Hosts, report.Board.Totals.Free(), report.Board.Totals.GPUs, report.Written, report.Same, report.Removed)
}

// generator introduces the rooms of the web host to each other.
func (a *app) generator(cfg *config, demo bool) (*sitegen.Generator, error) {
	zone, err := cfg.zone()
	if err != nil {
		return nil, err
	}
	bookingZone, err := cfg.bookingZone(false)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(cfg.string("data"))
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir():
		return nil, because("data:missing", fail(exitUsage, fmt.Errorf("there is no data directory %s", cfg.string("data")), "make it (mkdir -p "+filepath.Join(cfg.string("data"), "drop")+"), or name another with --data"))
	case err != nil:
		return nil, because("data:unreadable", fail(exitUsage, fmt.Errorf("looking at the data directory: %w", err), "look at: namei -l "+word(cfg.string("data"))))
	}
	comments, err := localComments(cfg)
	if err != nil {
		return nil, err
	}
	resolve, err := a.inventory(cfg)
	if err != nil {
		return nil, err
	}
	private, err := privacy(cfg, "users", "commands")
	if err != nil {
		return nil, err
	}
	public, err := privacy(cfg, "public_users", "public_commands")
	if err != nil {
		return nil, err
	}
	legacyZone, err := cfg.legacyZone()
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
		Announcer: hooks, Pretend: cfg.pretend, Once: cfg.once, Legacy: cfg.string("legacy"), LegacyZone: legacyZone,
		NoHelp: cfg.bool("no_help"), PublicHelp: cfg.bool("public_help"), Privacy: private, Public: cfg.string("public_out"), PublicPrivacy: public,
		OpenHistory: a.history(cfg), IdleWindow: cfg.duration("idle_window"), IdlePercent: cfg.number("idle_percent"),
		Data: cfg.string("data"), Site: cfg.string("site"), State: cfg.string("state"),
		Comments: comments, BookingZone: bookingZone.Location, Aliases: cfg.string("aliases"), Templates: cfg.string("templates"),
		Inventory: resolve,
		Settings:  settings(cfg),
		About: render.Site{
			Title: cfg.string("title"), Lab: cfg.string("lab"), Lang: "en", Zone: zone, Version: version(), BaseURL: cfg.string("base_url"),
			Interval: cfg.duration("interval"), CommentsPath: comments, BookCommand: bookCommand(cfg, demo),
			Energy: render.Energy{Price: cfg.number("energy.price_per_kwh"), Currency: cfg.string("energy.currency"), CO2Grams: cfg.number("energy.co2_grams_per_kwh")},
		},
		Demo: demo,
	})
	if err != nil {
		return nil, because("site:failed", fail(exitUsage, err, ""))
	}
	return g, nil
}

// settings are the numbers behind the states.
func settings(cfg *config) board.Settings {
	return board.Settings{
		StaleAfter: cfg.duration("stale_after"), DownAfter: cfg.duration("down_after"), ClockTolerance: cfg.duration("clock_tolerance"),
		FreeMemoryMiB: int64(cfg.number("free_memory_mib")), FreeMemoryPercent: cfg.number("free_memory_percent"),
		NoShow: cfg.duration("no_show_after"), ShowExpired: cfg.duration("show_expired"), ShortNames: cfg.shortNames,
	}
}

func commentsPath(cfg *config) string {
	if path := cfg.string("comments"); path != "" {
		return path
	}
	return filepath.Join(cfg.string("data"), "comments.json")
}

// localComments is commentsPath, and refuses an address.
func localComments(cfg *config) (string, error) {
	path := commentsPath(cfg)
	if strings.Contains(path, "://") {
		return "", usagef("on the web host name the file with --comments FILE; elsewhere set booking.ssh to the web host", "comments from %s is %s, and not a file on this machine", cfg.origin["comments"], path)
	}
	return path, nil
}

// bookCommand is what people type before "book". A demonstration's bookings lie
// where nobody's configuration looks for them.
func bookCommand(cfg *config, demo bool) string {
	if demo {
		return "GPUBOARD_COMMENTS=" + word(commentsPath(cfg)) + " gpuboard"
	}
	return "gpuboard"
}

// inventory wires the sources that are configured to the resolver of the last
// known answer.
func (a *app) inventory(cfg *config) (func(context.Context, time.Time) inventory.Inventory, error) {
	entries := cfg.hosts
	if !strings.HasPrefix(cfg.origin["hosts"], cfg.path+":") || cfg.path == "" {
		entries = nil // a flag or a variable names them anew
		for _, name := range cfg.list("hosts") {
			entries = append(entries, inventory.Entry{Name: name})
		}
	}
	listed, problems := inventory.List(entries)
	for _, p := range problems {
		return nil, usagef("", "hosts from %s: %s", cfg.origin["hosts"], p.Message)
	}
	k := &inventory.Resolver{StateFile: filepath.Join(cfg.string("state"), "inventory.json"), List: listed, AcceptShrink: cfg.bool("accept_shrink")}

	sources := cfg.list("hosts_from")
	use := func(source string) bool { return len(sources) == 0 || slices.Contains(sources, source) }
	for _, s := range sources {
		switch s {
		case "consul", "list", "drops":
		default:
			return nil, usagef("", "hosts_from from %s: %q is not a source; there are consul, list and drops", cfg.origin["hosts_from"], s)
		}
	}
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
			return dropHosts(cfg, cfg.string("data"))
		}
	}
	return k.Resolve, nil
}

// asksConsul reports whether Consul is one of the sources of the inventory.
func (a *app) asksConsul(cfg *config) bool {
	if sources := cfg.list("hosts_from"); len(sources) > 0 {
		return slices.Contains(sources, "consul")
	}
	return cfg.bool("consul.enabled") || a.getenv("CONSUL_HTTP_ADDR") != ""
}

// dropHosts lists the hosts that have a drop, or files of the older scripts.
func dropHosts(cfg *config, data string) (inventory.Answer, error) {
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
func (a *app) history(cfg *config) func(context.Context, time.Time) (*history.Store, error) {
	if cfg.bool("no_history") {
		return nil
	}
	return func(ctx context.Context, _ time.Time) (*history.Store, error) {
		return history.Open(ctx, filepath.Join(cfg.string("state"), "history.db"), a.now(), history.Options{
			Raw: cfg.duration("history.raw"), Five: cfg.duration("history.five_minutes"), Hourly: cfg.duration("history.hourly"), Once: cfg.once,
		})
	}
}

// privacy reads how much of people a site shows.
func privacy(cfg *config, users, commands string) (board.Privacy, error) {
	p := board.Privacy{Users: board.UserPrivacy(cfg.string(users)), Programs: board.ProgramPrivacy(cfg.string(commands))}
	switch p.Users {
	case board.UsersFull, board.UsersInitials, board.UsersHash, board.UsersNone:
	default:
		return p, usagef("", "%s from %s: %q is none of full, initials, hash, none", users, cfg.origin[users], p.Users)
	}
	switch p.Programs {
	case board.ProgramsShown, board.ProgramsHidden:
	default:
		return p, usagef("", "%s from %s: %q is neither program nor none", commands, cfg.origin[commands], p.Programs)
	}
	return p, nil
}
