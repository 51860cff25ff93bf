package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/demo"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/serve"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/watch"
	"gpuboard/publisher"
	"gpuboard/publisher/dropbox"
)

const demoEvery = 5 * time.Second

func (a *app) demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "demo", Short: "run a simulated cluster on this machine", GroupID: groupSetup, Args: cobra.NoArgs,
		Long: "demo runs a cluster in a temporary directory: simulated nodes, the generator, and a web server\n" +
			"on this machine. It needs no GPU, sshd or Consul. If this machine has nvidia-smi, it joins the\n" +
			"cluster. Ctrl-C ends the demo and removes its files.\n" + exitStatus,
		Example: "  gpuboard demo\n  gpuboard demo --listen 127.0.0.1:9000",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			l, err := listen(cfg.String("listen"))
			if err != nil && !cfg.Given("listen") {
				l, err = listen("127.0.0.1:0") // the usual port is taken
			}
			if err != nil {
				return err
			}
			defer l.Close()
			// A closed terminal ends it as Ctrl-C does.
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP)
			defer stop()
			return a.demo(ctx, cfg, l)
		}),
	}
	a.flags(c, "listen", "nvidia_smi", "ps", "timezone")
	return c
}

func (a *app) demo(ctx context.Context, cfg *config.Config, l net.Listener) (err error) {
	dir, err := os.MkdirTemp("", "gpuboard-demo-")
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, removeDemo(dir)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	now := a.now().UTC()
	fleet := demo.New(1, now)
	for name, value := range map[string]string{
		"data": filepath.Join(dir, "data"), "site": filepath.Join(dir, "site"), "state": filepath.Join(dir, "state"),
		"lab": "a demonstration", "compat": "all", "interval": demo.Interval.String(),
		// Whoever opens the page may book, under the name of who runs the demonstration.
		"booking.form": "true", "auth_header": "X-Remote-User", "trusted_proxy": "0.0.0.0/0,::/0",
	} {
		cfg.Set(name, value, "demo")
	}
	for _, h := range fleet.Hosts() {
		cfg.Hosts = append(cfg.Hosts, inventory.Entry{Name: h.Name, Group: h.Group, Owner: h.Owner, Note: h.Note, GPUs: h.GPUs})
	}
	path, err := a.demoConfig(cfg, dir, l.Addr().String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	cfg.Path = path
	cfg.Set("hosts", "", path+":1")
	for _, d := range []string{"data/drop", "data/hosts", "keys"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	// receive, which people may try beside it, refuses to start without a key.
	if _, err := dropbox.GenerateKey(filepath.Join(dir, "keys", fleet.Hosts()[0].Name)); err != nil {
		return err
	}
	for name, content := range fleet.Files(now) {
		if _, err := atomicfile.Write(filepath.Join(dir, "data", name), content, 0o644); err != nil {
			return err
		}
	}

	fmt.Fprintln(a.stderr, "gpuboard: making up a month of history")
	if err := a.demoHistory(ctx, cfg, fleet, now); err != nil {
		return err
	}

	g, err := watch.NewGenerator(cfg, version(), a.now, true)
	if err != nil {
		return err
	}
	nodes := a.demoNodes(cfg, fleet)
	for _, n := range nodes {
		if n.drop, err = spool.Open(filepath.Join(cfg.String("data"), "drop", n.host)); err != nil {
			return err
		}
		defer n.drop.Close()
	}
	// The first snapshots are of the start, because the board has to know the GPUs of a
	// node before its driver stops. The month of history has taken a while since then.
	for _, at := range []func() time.Time{func() time.Time { return now }, a.now} {
		for _, n := range nodes {
			if err := n.send(ctx, at()); err != nil {
				return err
			}
		}
		if _, err := g.Generate(ctx, at().UTC()); err != nil {
			return err
		}
	}

	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	run := func(f func() error) {
		all.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	for _, n := range nodes {
		run(func() error {
			for pause(ctx, publisher.UntilPush(n.host, demoEvery, a.now())) == nil {
				if err := n.send(ctx, a.now()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	run(func() error {
		// What is not well is part of the show.
		watch.Run(ctx, watch.Options{Generator: g, GenerationTime: a.now, Now: a.now, Interval: demoEvery, Log: io.Discard,
			Paths: watch.Paths{Data: cfg.String("data"), Comments: cfg.CommentsPath(), Aliases: cfg.AliasesPath()}})
		return nil
	})
	o, err := a.serveOptions(cfg)
	if err != nil {
		return err
	}
	o.Site = cfg.String("site")
	site, err := serve.Handler(o)
	if err != nil {
		return err
	}
	visitor := cmp.Or(a.unixUser(), "visitor")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(cfg.String("auth_header"), visitor)
		site.ServeHTTP(w, r)
	})
	fmt.Fprintf(a.stdout, "http://%s/\n", l.Addr())
	fmt.Fprintf(a.stderr, "gpuboard: %d nodes send a snapshot every %v, and the pages follow every %v. Open the address above, Ctrl-C ends the demo\n"+
		"gpuboard: to type commands, in another terminal: export GPUBOARD_CONFIG=%s\n", len(nodes), demo.Interval, demoEvery, shell.Quote(path))
	run(func() error { return serve.Run(ctx, l, h) })
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	fmt.Fprintln(a.stderr, "gpuboard: cleaning up")
	return nil
}

// removeDemo removes the files of a demonstration. It tries for five seconds, because a loop
// that somebody else has started may push into the directory while it is removed.
func removeDemo(dir string) error {
	for try := 0; ; try++ {
		err := os.RemoveAll(dir)
		if err == nil || try == 50 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// demoConfig writes a configuration with which commands find the demonstration.
func (a *app) demoConfig(cfg *config.Config, dir, listen string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil || os.MkdirAll(cache, 0o700) != nil {
		cache = dir
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "keys: %s\n", config.Quote(filepath.Join(dir, "keys")))
	for _, name := range []string{"data", "site", "state", "timezone", "lab", "interval"} {
		fmt.Fprintf(&b, "%s: %s\n", name, config.Quote(cfg.String(name)))
	}
	fmt.Fprintf(&b, "site_url: http://%s/\nto: file://%s\nnotify: [{name: demo, command: [\"true\"]}]\nhosts:\n", net.JoinHostPort("127.0.0.1", port), cfg.String("data"))
	for _, h := range cfg.Hosts {
		fmt.Fprintf(&b, "  - {name: %s, group: %s, gpus: %d}\n", h.Name, config.Quote(h.Group), h.GPUs)
	}
	path := filepath.Join(cache, "gpuboard-demo-"+port+".yml")
	if _, err := atomicfile.Write(path, []byte(b.String()), 0o600); err != nil {
		return "", fmt.Errorf("writing a configuration for the demonstration: %w", err)
	}
	return path, nil
}

// A demoNode is one simulated machine, or this one.
type demoNode struct {
	host string
	drop *spool.Spool // it has the layout of a spool
	snap func(context.Context, time.Time) (*snapshot.Snapshot, error)
	last time.Time // when the last snapshot was collected
}

// demoNodes says where the snapshots of each node come from.
func (a *app) demoNodes(cfg *config.Config, fleet *demo.Fleet) []*demoNode {
	var nodes []*demoNode
	for _, h := range fleet.Hosts() {
		nodes = append(nodes, &demoNode{host: h.Name, snap: func(_ context.Context, at time.Time) (*snapshot.Snapshot, error) {
			return fleet.Snapshot(h.Name, at), nil
		}})
	}
	if installed(cfg.String("nvidia_smi")) {
		if host, err := snapshot.ParseHost(config.ShortHostname()); err == nil {
			c := a.node(cfg).Collector(host, demoEvery)
			nodes = append(nodes, &demoNode{host: host, snap: func(ctx context.Context, _ time.Time) (*snapshot.Snapshot, error) { return c.Collect(ctx) }})
			fmt.Fprintf(a.stderr, "gpuboard: there is an nvidia-smi: this machine joins as %s\n", host)
		}
	}
	return nodes
}

// send writes a snapshot into the node's drop. A silent host said its last word before
// it fell silent, so it has nothing new to send.
func (n *demoNode) send(ctx context.Context, at time.Time) error {
	s, err := n.snap(ctx, at)
	if err == nil && !s.CollectedAt.Equal(n.last) {
		n.last = s.CollectedAt.Time
		err = n.drop.Add(s)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("node %s: %w", n.host, err)
	}
	return nil
}

// The demonstration begins with a month of history: samples lie demoFar apart
// in it, and demoNear in the last day.
const (
	demoPast = 31 * 24 * time.Hour
	demoDay  = 26 * time.Hour
	demoFar  = 5 * time.Minute
	demoNear = time.Minute
)

// demoHistory fills the history as if the generator had been running.
func (a *app) demoHistory(ctx context.Context, cfg *config.Config, fleet *demo.Fleet, now time.Time) error {
	if cfg.Bool("no_history") {
		return nil
	}
	if err := os.MkdirAll(cfg.String("state"), 0o700); err != nil {
		return err
	}
	// All of it is taken in at once, and so must not count as too old.
	store, err := history.Open(ctx, filepath.Join(cfg.String("state"), "history.db"), now, history.Options{Raw: demoPast + 24*time.Hour})
	if err != nil {
		return err
	}
	defer store.Close()
	var batches []history.Batch
	for _, h := range fleet.Hosts() {
		b := history.Batch{Host: h.Name}
		step := demoFar
		for at := now.Add(-demoPast).Truncate(demoFar); at.Before(now.Add(-demoNear)); at = at.Add(step) {
			if now.Sub(at) <= demoDay {
				step = demoNear
			}
			if fleet.Silent(h.Name, at) {
				continue
			}
			s := fleet.Snapshot(h.Name, at)
			// A boot of its own: the nodes' spools begin to count anew.
			if boot := "before-" + s.BootID; boot != b.Boot {
				batches = append(batches, b)
				b = history.Batch{Host: h.Name, Boot: boot}
			}
			b.Samples = append(b.Samples, s.Sample())
		}
		batches = append(batches, b)
	}
	_, err = store.IngestAll(ctx, now, batches)
	return err
}
