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
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/events"
	"gpuboard/internal/failure"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/notify"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
)

// OptionsOf returns the options of the loop that are settings.
func OptionsOf(cfg *config.Config) (Options, error) {
	o := Options{
		Interval: cfg.Duration("interval"), Every: cfg.Duration("generate_every"),
		SiteInMemory: InMemory(cfg.String("site")),
		Paths:        Paths{Data: cfg.String("data"), Comments: cfg.CommentsPath(), Aliases: cfg.AliasesPath()},
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

// InMemory reports whether a path lies on a file system in memory.
func InMemory(path string) bool {
	const tmpfs = 0x01021994 // TMPFS_MAGIC of statfs(2)
	var s syscall.Statfs_t
	return syscall.Statfs(path, &s) == nil && int64(s.Type) == tmpfs
}

// Board returns the board that the configured generator would show now, and writes nothing.
func Board(ctx context.Context, cfg *config.Config, version string, now func() time.Time) (*board.Board, error) {
	o, err := options(cfg, version, now)
	if err != nil {
		return nil, err
	}
	return sitegen.Look(ctx, o, now())
}

// Usage adds up who used how much from the configured generator's history, and writes nothing.
func Usage(ctx context.Context, cfg *config.Config, from, to time.Time) (*data.Usage, error) {
	o, err := options(cfg, "", time.Now)
	if err != nil {
		return nil, err
	}
	if o.OpenHistory == nil {
		return nil, failure.Usage("no_history is true", "there is no history here")
	}
	db := filepath.Join(cfg.String("state"), "history.db")
	if _, err := os.Stat(db); errors.Is(err, fs.ErrNotExist) { // opening would make it
		return nil, failure.Usage(
			"on the web host: --config FILE or --state DIR; what a site publishes goes with --since today, 7d, 30d or 1y",
			"there is no history here: no %s", db,
		)
	}
	w, err := sitegen.Usage(ctx, o, from, to)
	return &data.Usage{Window: w, Energy: o.About.Energy}, err
}

// NewGenerator makes the generator of the configured site. Errors have an exit status. A demonstration has no
// hooks, and its site stays here.
func NewGenerator(
	cfg *config.Config, version string, now func() time.Time, demo bool, ask SSHConfig,
) (*sitegen.Generator, error) {
	o, err := options(cfg, version, now)
	if err != nil {
		return nil, err
	}
	fetched, err := newBucketDrops(cfg.String("drops"), o.Data)
	if err != nil {
		return nil, failure.Usage("", "drops from %s: %w", cfg.Origin("drops"), err)
	}
	pulled := newPulls(cfg, version, now, ask, o.Data)
	list := o.Inventory
	o.Inventory = func(ctx context.Context, now time.Time, last inventory.Known) inventory.Inventory {
		problems := fetched.fetch(ctx)
		inv := list(ctx, now, last)
		inv.Problems = slices.Concat(inv.Problems, problems, pulled.read(ctx, inv.Hosts))
		return inv
	}
	if o.Demo = demo; demo {
		o.About.CommentsPath = "comments.json"
		o.About.BookCommand = "GPUBOARD_CONFIG=" + shell.Quote(cfg.Path) + " gpuboard"
	} else { // what happens in a demonstration happened to nobody
		n, err := cfg.Notifier()
		if err != nil {
			return nil, err
		}
		out, err := newOutlet(cfg, ask)
		if err != nil {
			return nil, err
		}
		if n != nil || out != nil || pulled != nil {
			o.Announcer = announcer{n, cfg.Contacts, out, pulled}
		}
	}
	g, err := sitegen.New(o)
	if err != nil {
		hint := cmp.Or(atomicfile.SetAside(err),
			"other directories: --site DIR, --data DIR, --state DIR; gpuboard doctor web shows those in force")
		return nil, failure.Because("site:failed", failure.New(failure.ExitUsage, err, hint))
	}
	return g, nil
}

// options are those of the configured generator.
func options(cfg *config.Config, version string, now func() time.Time) (o sitegen.Options, err error) {
	data := cfg.String("data")
	info, err := os.Stat(data)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && !info.IsDir():
		return o, failure.Because("data:missing", failure.New(
			failure.ExitUsage,
			fmt.Errorf("there is no data directory %s", data),
			"make it (mkdir -p "+filepath.Join(data, "drop")+"), "+
				"or name another with --data or in a configuration (--config)",
		))
	case err != nil:
		return o, failure.Because("data:unreadable", failure.New(
			failure.ExitUsage,
			fmt.Errorf("looking at the data directory: %w", err),
			"look at: namei -l "+shell.Quote(data),
		))
	}
	comments, err := cfg.LocalComments()
	if err != nil {
		return o, err
	}
	resolver, err := resolverOf(cfg)
	if err != nil {
		return o, err
	}
	sites, err := source.NewSites(source.Options{Config: cfg, Version: version, Now: now}, cfg.Sites())
	if err != nil {
		return o, err
	}
	return sitegen.Options{
		Pretend: cfg.Pretend, Preview: cfg.Preview, Legacy: cfg.String("legacy"), LegacyZone: cfg.LegacyZone(),
		NoHelp: cfg.Bool("no_help"), PublicHelp: cfg.Bool("public_help"),
		CopyEvery: publishEvery(cfg),
		Privacy:   cfg.Privacy(""), Public: cfg.String("public_out"), PublicPrivacy: cfg.Privacy("public_"),
		OpenHistory: openHistory(cfg, now), IdlePercent: cfg.Number("idle_percent"),
		Data: data, Site: cfg.String("site"), State: cfg.String("state"),
		Comments: comments, Aliases: cfg.AliasesPath(), Templates: cfg.String("templates"),
		BookingZone: cfg.BookingZone(false), Inventory: resolver.Resolve, Settings: cfg.Board(), Sites: sites.Read,
		About: render.Site{
			Title: cfg.String("title"), Lab: cfg.String("lab"), Languages: cfg.Languages(), Zone: cfg.Zone(),
			Version: version, BaseURL: cfg.String("base_url"), BookSSH: cfg.String("booking.ssh"),
			Compat: cfg.List("compat"), Interval: cfg.Duration("interval"), CommentsPath: filepath.Base(comments),
			BookCommand: "gpuboard",
			Energy: render.Energy{
				Price: cfg.Number("energy.price_per_kwh"), Currency: cfg.String("energy.currency"),
				CO2Grams: cfg.Number("energy.co2_grams_per_kwh"),
			},
		},
	}, nil
}

// resolverOf asks the configured sources.
func resolverOf(cfg *config.Config) (*inventory.Resolver, error) {
	listed, problems := inventory.List(cfg.Hosts)
	for _, p := range problems {
		return nil, failure.Usage("", "hosts from %s: %s", cfg.Origin("hosts"), p.Message)
	}
	pulled, _ := cfg.Pulled()
	for _, p := range pulled { // what is read should exist
		if !slices.ContainsFunc(listed, func(h inventory.Host) bool { return h.Name == p.Host }) {
			listed = append(listed, inventory.Host{Name: p.Host})
		}
	}
	k := &inventory.Resolver{List: listed, AcceptShrink: cfg.Bool("accept_shrink")}
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
	return k, nil
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
			return nil, &fs.PathError{Op: "opening", Path: db,
				Err: fmt.Errorf("%w: it is a %s", atomicfile.ErrNotRegular, atomicfile.Kind(info.Mode()))}
		}
		return history.Open(ctx, db, now(), history.Options{
			Hourly: cfg.Duration("history.hourly"), IdlePercent: cfg.Number("idle_percent"), Once: cfg.Once,
		})
	}
}

// failuresSaid is how often delivery to a hook fails before that is a problem of the board. A
// single lost connection is not one.
const failuresSaid = 3

// announcer delivers events and copies the site. What fails is a problem of the board.
type announcer struct {
	notifier *notify.Notifier // nil for no hooks
	contacts func() (func(person string) notify.Contact, []snapshot.Problem)
	outlet   *outlet // nil for no copy
	pulls    *pulls  // nil for none
}

// Accept takes events durably.
func (n announcer) Accept(fresh []events.Event, summary func(of string) string, now time.Time) error {
	if n.notifier == nil {
		return nil
	}
	return n.notifier.Accept(fresh, summary, now)
}

// Troubles reads how people are reached, and reports what is wrong there, the hooks that have not been reached for
// a while, and a copy that failed. People who were known stay so while the file cannot be read.
func (n announcer) Troubles() []snapshot.Problem {
	problems := n.outlet.troubles()
	if n.notifier == nil {
		return problems
	}
	of, more := n.contacts()
	if of != nil {
		n.notifier.SetContacts(of)
	}
	return slices.Concat(problems, more, problemsOf(n.notifier.Failures()))
}

// Deliver sends what waits, begins a copy if one is due, and reports the hooks that cannot be reached.
func (n announcer) Deliver(ctx context.Context, now time.Time) []snapshot.Problem {
	n.outlet.begin(ctx, now)
	if n.notifier == nil {
		return nil
	}
	return problemsOf(n.notifier.Deliver(ctx, now))
}

// Close ends the copy in progress, and the reading of nodes.
func (n announcer) Close() []snapshot.Problem {
	n.pulls.close()
	n.outlet.close()
	return n.outlet.troubles()
}

func problemsOf(list []notify.State) (problems []snapshot.Problem) {
	for _, t := range list {
		switch {
		case t.Hook == "":
			problems = append(problems,
				snapshot.NewProblem("notify:outbox", "%v", t.Err))
		case t.Refused || t.Tries >= failuresSaid:
			problems = append(problems, snapshot.Problem{Code: "notify:failing", File: "hook " + t.Hook,
				Message: snapshot.Text(
					fmt.Sprintf("%v (%d waiting, tried again from %s)", t.Err, t.Waiting,
						t.Next.UTC().Format("15:04 UTC")), snapshot.MaxTextBytes)})
		}
	}
	return problems
}
