package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/notify"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
)

// OptionsOf returns the options of the loop that are settings.
func OptionsOf(cfg *config.Config) (Options, error) {
	o := Options{
		Interval: cfg.Duration("interval"),
		Paths:    Paths{Data: cfg.String("data"), Comments: cfg.CommentsPath(), Aliases: cfg.AliasesPath()},
	}
	if cfg.Bool("consul.leader") {
		consul, err := cfg.NewConsul()
		if err != nil {
			return o, err
		}
		o.Leader = consul.NewLeader(cfg.String("consul.leader_key"))
	}
	return o, nil
}

// NewGenerator makes the generator of the configured site. Errors have an exit status. A demonstration has no hooks.
func NewGenerator(cfg *config.Config, version string, now func() time.Time, demo bool) (*sitegen.Generator, error) {
	info, err := os.Stat(cfg.String("data"))
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir():
		return nil, failure.Because("data:missing", failure.New(failure.ExitUsage, fmt.Errorf("there is no data directory %s", cfg.String("data")), "make it (mkdir -p "+filepath.Join(cfg.String("data"), "drop")+"), or name another with --data or in a configuration (--config)"))
	case err != nil:
		return nil, failure.Because("data:unreadable", failure.New(failure.ExitUsage, fmt.Errorf("looking at the data directory: %w", err), "look at: namei -l "+shell.Quote(cfg.String("data"))))
	}
	comments, err := cfg.LocalComments()
	if err != nil {
		return nil, err
	}
	resolve, err := resolver(cfg)
	if err != nil {
		return nil, err
	}
	var hooks sitegen.Announcer
	if !demo { // what happens in it happened to nobody
		n, err := cfg.Notifier()
		if err != nil {
			return nil, err
		}
		if n != nil {
			hooks = announcer{n}
		}
	}
	shown, command := comments, "gpuboard" // what people type before "book"
	if demo {
		shown, command = "comments.json", "GPUBOARD_CONFIG="+shell.Quote(cfg.Path)+" gpuboard"
	}
	g, err := sitegen.New(sitegen.Options{
		Announcer: hooks, Pretend: cfg.Pretend, Legacy: cfg.String("legacy"), LegacyZone: cfg.LegacyZone(),
		NoHelp: cfg.Bool("no_help"), PublicHelp: cfg.Bool("public_help"), Privacy: cfg.Privacy(""), Public: cfg.String("public_out"), PublicPrivacy: cfg.Privacy("public_"),
		OpenHistory: openHistory(cfg, now), IdleWindow: cfg.Duration("idle_window"), IdlePercent: cfg.Number("idle_percent"),
		Data: cfg.String("data"), Site: cfg.String("site"), State: cfg.String("state"),
		Comments: comments, BookingZone: cfg.BookingZone(false).Location, DayStarts: cfg.BookingZone(false).DayStarts, Aliases: cfg.AliasesPath(), Templates: cfg.String("templates"),
		Inventory: resolve,
		Settings:  cfg.Board(),
		About: render.Site{
			Title: cfg.String("title"), Lab: cfg.String("lab"), Languages: cfg.Languages(), Zone: cfg.Zone(), Version: version, BaseURL: cfg.String("base_url"),
			Compat: cfg.List("compat"), Interval: cfg.Duration("interval"), CommentsPath: shown, BookCommand: command,
			Energy: render.Energy{Price: cfg.Number("energy.price_per_kwh"), Currency: cfg.String("energy.currency"), CO2Grams: cfg.Number("energy.co2_grams_per_kwh")},
		},
		Demo: demo,
	})
	if err != nil {
		hint := cmp.Or(atomicfile.SetAside(err), "other directories: --site DIR, --data DIR, --state DIR; gpuboard doctor web shows those in force")
		return nil, failure.Because("site:failed", failure.New(failure.ExitUsage, err, hint))
	}
	return g, nil
}

// resolver makes the inventory of the configured sources.
func resolver(cfg *config.Config) (func(context.Context, time.Time) inventory.Inventory, error) {
	listed, problems := inventory.List(cfg.Hosts)
	for _, p := range problems {
		return nil, failure.Usage("", "hosts from %s: %s", cfg.Origin("hosts"), p.Message)
	}
	k := &inventory.Resolver{StateFile: filepath.Join(cfg.String("state"), "inventory.json"), List: listed, AcceptShrink: cfg.Bool("accept_shrink")}

	sources := cfg.List("hosts_from")
	use := func(source string) bool { return len(sources) == 0 || slices.Contains(sources, source) }
	if !use("list") {
		k.List = nil
	}
	if cfg.AsksConsul() {
		consul, err := cfg.NewConsul()
		if err != nil {
			return nil, err
		}
		k.Consul = consul.Query
	}
	if use("drops") {
		k.Drops = func(context.Context) (inventory.Answer, error) {
			return sitegen.DropHosts(cfg.String("data"), cfg.String("legacy"))
		}
	}
	return k.Resolve, nil
}

// openHistory returns how to open the store of samples, or nil for none. A store that cannot be
// opened is a problem on the board.
func openHistory(cfg *config.Config, now func() time.Time) func(context.Context, time.Time) (*history.Store, error) {
	if cfg.Bool("no_history") {
		return nil
	}
	return func(ctx context.Context, _ time.Time) (*history.Store, error) {
		db, err := filepath.Abs(filepath.Join(cfg.String("state"), "history.db"))
		if err != nil {
			return nil, err
		}
		if info, err := os.Lstat(db); err == nil && !info.Mode().IsRegular() {
			return nil, &fs.PathError{Op: "opening", Path: db, Err: fmt.Errorf("%w: it is a %s", atomicfile.ErrNotRegular, atomicfile.Kind(info.Mode()))}
		}
		return history.Open(ctx, db, now(), history.Options{
			Raw: cfg.Duration("history.raw"), Five: cfg.Duration("history.five_minutes"), Hourly: cfg.Duration("history.hourly"), Once: cfg.Once,
		})
	}
}

// failuresSaid is how often delivery to a hook fails before that is a problem of the board. A
// single lost connection is not one.
const failuresSaid = 3

// announcer reports the failures of a notifier as problems of the board.
type announcer struct {
	*notify.Notifier
}

// Troubles reports the hooks that have not been reached for a while.
func (n announcer) Troubles() []snapshot.Problem { return problemsOf(n.Notifier.Failures()) }

// Deliver sends what waits, and reports the hooks that cannot be reached.
func (n announcer) Deliver(ctx context.Context, now time.Time) []snapshot.Problem {
	return problemsOf(n.Notifier.Deliver(ctx, now))
}

func problemsOf(list []notify.State) (problems []snapshot.Problem) {
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
