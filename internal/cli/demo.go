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

	"gpuboard/internal/config"
	"gpuboard/internal/demo"
	"gpuboard/internal/failure"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/serve"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/publisher/dropbox"
)

func (a *app) demoCommand() *cobra.Command {
	verbose, sites := false, 0
	c := &cobra.Command{
		Use: "demo", Short: "run a simulated cluster on this machine", GroupID: groupSetup, Args: cobra.NoArgs,
		Long: "demo runs a cluster in a temporary directory. Only its machines are simulated: nvidia-smi, ps\n" +
			"and /proc. For each of them, and for the web host, demo runs what a lab runs: run, receive,\n" +
			"generate and serve. It needs no GPU, sshd or Consul. If this machine has nvidia-smi, it joins\n" +
			"the cluster. Ctrl-C ends the demo and removes its files.\n" + exitStatus,
		Example: "  gpuboard demo\n  gpuboard demo --verbose\n  gpuboard demo --sites 3\n  gpuboard demo --listen 127.0.0.1:9000",
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
			log := io.Discard
			if verbose {
				log = a.stderr
			}
			switch {
			case sites < 0 || sites > maxDemoSites:
				return failure.Usage("", "--sites: from 1 to %d, not %d", maxDemoSites, sites)
			case sites > 0:
				return a.demoSites(ctx, cfg, log, l, sites)
			}
			return a.demo(ctx, cfg, log, l, 1)
		}),
	}
	a.flags(c, "listen", "nvidia_smi", "ps", "timezone")
	c.Flags().BoolVar(&verbose, "verbose", false, "print each command that it runs, and what that says")
	c.Flags().IntVar(&sites, "sites", 0, "run this `NUMBER` of clusters, and a front page of them all")
	return c
}

// A demonstration is a fleet that does not exist. It runs the commands that a lab types.
type demonstration struct {
	*app
	log    io.Writer // for what the commands say
	start  time.Time
	fleet  *demo.Fleet
	dir    string
	config string // the path of the web host's configuration
	// background runs something until the demonstration ends. An error ends it.
	background func(run func() error)
}

const maxDemoSites = 9

// demoSites runs several demonstrations, and a generator without hosts that shows them all.
func (a *app) demoSites(ctx context.Context, asked *config.Config, log io.Writer, l net.Listener, sites int) error {
	quiet := *a
	quiet.stdout, quiet.stderr = io.Discard, log
	return a.demonstrate(ctx, log, func(ctx context.Context, front *demonstration) error {
		settings := fmt.Sprintf("title: All clusters\ndata: %[1]s/data\nsite: %[1]s/site\nstate: %[1]s/state\n"+
			"no_history: true\ninterval: 5s\nlisten: %[2]s\nsites:\n", front.dir, l.Addr())
		for i := range sites {
			cluster, err := listen("127.0.0.1:0")
			if err != nil {
				return err
			}
			settings += fmt.Sprintf("  - cluster%d=http://%s/\n", i+1, cluster.Addr())
			front.background(func() error {
				defer cluster.Close()
				return quiet.demo(ctx, asked, log, cluster, int64(i+1))
			})
		}
		front.config = filepath.Join(front.dir, "gpuboard.yml")
		err := os.WriteFile(front.config, []byte(settings), 0o600)
		if err == nil {
			err = os.MkdirAll(filepath.Join(front.dir, "data", "drop"), 0o700)
		}
		if err == nil {
			err = front.command(ctx, a.now, "generate", "--config", front.config)
		}
		if err != nil {
			return err
		}
		front.goOn(ctx, "generate", "--watch", "--config", front.config)
		fmt.Fprintf(a.stdout, "http://%s/\n", l.Addr())
		fmt.Fprintln(a.stderr,
			"gpuboard: the clusters appear as soon as each has made up a month of history. Ctrl-C ends the demo")
		l.Close() // for serve
		return front.command(ctx, a.now, "serve", "--config", front.config)
	})
}

// demo runs a demonstration until the context ends. asked are the settings of the command.
func (a *app) demo(ctx context.Context, asked *config.Config, log io.Writer, l net.Listener, seed int64) error {
	return a.demonstrate(ctx, log, func(ctx context.Context, d *demonstration) error {
		d.fleet = demo.New(seed, d.start)
		return d.show(ctx, asked, l)
	})
}

// demonstrate runs something in a temporary directory until it, or what it has begun in the background, ends.
func (a *app) demonstrate(
	ctx context.Context, log io.Writer, run func(context.Context, *demonstration) error,
) (err error) {
	d := &demonstration{app: a, log: log, start: a.now().UTC()}
	if d.dir, err = os.MkdirTemp("", "gpuboard-demo-"); err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, removeDemo(d.dir), os.RemoveAll(d.config)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	d.background = func(run func() error) {
		all.Go(func() {
			if err := run(); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	err = run(ctx, d)
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case !errors.Is(cause, context.Canceled):
		return cause
	}
	fmt.Fprintln(a.stderr, "gpuboard: cleaning up")
	return nil
}

// show sets everything up and serves the site.
func (d *demonstration) show(ctx context.Context, asked *config.Config, l net.Listener) error {
	web, err := d.setUpWeb(asked.String("timezone"), l.Addr())
	if err != nil {
		return err
	}
	if err := d.changeMachines(); err != nil {
		return err
	}
	started := make(chan struct{})
	d.background(func() error {
		defer close(started)
		return d.startNodes(ctx, asked)
	})
	d.background(func() error {
		for pause(ctx, web.Duration("interval")) == nil {
			if err := d.changeMachines(); err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Fprintln(d.stderr, "gpuboard: making up a month of history")
	if err := d.history(ctx); err != nil {
		return err
	}
	<-started
	if err := d.command(ctx, d.now, "generate", "--config", d.config); err != nil {
		return err
	}
	d.goOn(ctx, "generate", "--watch", "-v", "--config", d.config)

	o, err := d.serveOptions(ctx, web)
	if err != nil {
		return err
	}
	site, err := serve.Handler(o)
	if err != nil {
		return err
	}
	visitor := cmp.Or(d.unixUser(), "visitor")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(web.String("auth_header"), visitor)
		site.ServeHTTP(w, r)
	})
	fmt.Fprintf(d.stdout, "http://%s/\n", l.Addr())
	fmt.Fprintf(d.stderr, "gpuboard: each node sends a snapshot every %v, and the pages follow every %v. "+
		"Open the address above, Ctrl-C ends the demo\n"+
		"gpuboard: to type commands, in another terminal: export GPUBOARD_CONFIG=%s\n",
		demo.Interval, web.Duration("interval"), shell.Quote(d.config))
	return serve.Run(ctx, l, h)
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

// command runs a command of this program. That it finds problems is no error: the demo has some.
func (d *demonstration) command(ctx context.Context, now func() time.Time, args ...string) error {
	fmt.Fprintln(d.log, "gpuboard: gpuboard", shell.Join(args...))
	a := &app{stdin: d.stdin, stdout: io.Discard, stderr: d.log, now: now, getenv: d.env, args: args, demonstration: d}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if code, ok := errors.AsType[silent](err); ok && code == failure.ExitDegraded {
		return nil
	}
	return err
}

// goOn runs a command in the background.
func (d *demonstration) goOn(ctx context.Context, args ...string) {
	d.background(func() error { return d.command(ctx, d.now, args...) })
}

// env is the environment of the commands.
func (d *demonstration) env(name string) string {
	switch {
	case name == "GOMAXPROCS":
		return "as it is" // receive would lower it for all
	case strings.HasPrefix(name, "GPUBOARD_"): // for other directories
		return ""
	}
	return d.getenv(name)
}

func (d *demonstration) setUpWeb(zone string, listen net.Addr) (*config.Config, error) {
	_, port, err := net.SplitHostPort(listen.String())
	if err != nil {
		return nil, err
	}
	path := filepath.Join(d.dir, "gpuboard.yml")
	err = os.WriteFile(path, d.fleet.Settings(d.dir, port, zone), 0o600)
	for _, name := range []string{"data/drop", "data/hosts", "site", "state/keys"} {
		if err == nil {
			err = os.MkdirAll(filepath.Join(d.dir, name), 0o700)
		}
	}
	for name, content := range d.fleet.Files(d.start) {
		if err == nil {
			err = os.WriteFile(filepath.Join(d.dir, "data", name), content, 0o644)
		}
	}
	if err != nil {
		return nil, err
	}
	// Pages show the path of the configuration, in commands, and not where the files lie.
	cache, err := os.UserCacheDir()
	if err != nil || os.MkdirAll(cache, 0o700) != nil {
		cache = d.dir
	}
	d.config = filepath.Join(cache, "gpuboard-demo-"+port+".yml")
	_ = os.Remove(d.config) // of a demonstration that was killed
	if err := os.Symlink(path, d.config); err != nil {
		return nil, fmt.Errorf("naming the configuration of the demonstration: %w", err)
	}
	return config.LoadFile(d.config, d.env)
}

// startNodes starts the SFTP server and the loops of the nodes. The board has to know the GPUs of a node before its
// driver stops, so there is a generation of the first snapshots.
func (d *demonstration) startNodes(ctx context.Context, asked *config.Config) error {
	free, err := listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	free.Close() // for receive
	server, state := free.Addr(), filepath.Join(d.dir, "state")
	known, err := dropbox.GenerateKey(filepath.Join(state, "receive_host_key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, "known_hosts"), []byte(names(server)[0]+" "+known+"\n"), 0o600)
	}
	hosts := d.fleet.Hosts()
	if host, err := snapshot.ParseHost(config.ShortHostname()); err == nil && installed(asked.String("nvidia_smi")) {
		fmt.Fprintf(d.stderr, "gpuboard: there is an nvidia-smi: this machine joins as %s\n", host)
		hosts = append(hosts, inventory.Entry{Name: host})
	}
	for _, h := range hosts {
		if err == nil {
			_, err = dropbox.GenerateKey(filepath.Join(state, "keys", h.Name))
		}
	}
	if err != nil {
		return err
	}
	d.goOn(ctx, "receive", "--config", d.config, "--listen", server.String())
	run := func(host string, more ...string) []string {
		return append([]string{
			"run", "--config", d.config, "--host", host, "--spool", filepath.Join(d.machine(host), "spool"),
			"--every", demo.Interval.String(), "--to", "sftp://" + host + "@" + server.String() + "/",
			"--identity", filepath.Join(state, "keys", host), "--known-hosts", filepath.Join(d.dir, "known_hosts"),
			"--nvidia-smi", asked.String("nvidia_smi"), "--ps", asked.String("ps"),
		}, more...)
	}
	for _, h := range hosts {
		now := d.now
		if d.fleet.Silent(h.Name, d.start) {
			now = func() time.Time { return d.fleet.Snapshot(h.Name, d.start).CollectedAt.Time }
		}
		if err := d.command(ctx, now, run(h.Name, "--once")...); err != nil {
			return err
		}
	}
	if err := d.command(ctx, d.now, "generate", "--no-history", "--config", d.config); err != nil {
		return err
	}
	for _, h := range hosts {
		if !d.fleet.Silent(h.Name, d.start) {
			d.goOn(ctx, run(h.Name)...)
		}
	}
	return nil
}

// machine is the directory of a made-up machine.
func (d *demonstration) machine(host string) string { return filepath.Join(d.dir, "nodes", host) }

// changeMachines makes each machine what it is now.
func (d *demonstration) changeMachines() error {
	for _, h := range d.fleet.Hosts() {
		if err := demo.WriteMachine(d.machine(h.Name), d.fleet.Snapshot(h.Name, d.now())); err != nil {
			return err
		}
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

// history fills the history as if the generator had been running.
func (d *demonstration) history(ctx context.Context) error {
	store, err := history.Open(ctx, filepath.Join(d.dir, "state/history.db"), d.start, history.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	end := d.start.Add(-demoNear)
	for from := d.start.Add(-demoPast).Truncate(demoFar); from.Before(end); {
		to := from.Add(24 * time.Hour) // a day at a time, because history takes nothing that is older than three
		if to.After(end) {
			to = end
		}
		if err := store.IngestAll(ctx, to, d.samples(from, to)); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// samples are what the hosts sampled from a time until another.
func (d *demonstration) samples(from, to time.Time) (batches []history.Batch) {
	for _, h := range d.fleet.Hosts() {
		b := history.Batch{Host: h.Name}
		step := demoFar
		for at := from; at.Before(to); at = at.Add(step) {
			if d.start.Sub(at) <= demoDay {
				step = demoNear
			}
			if d.fleet.Silent(h.Name, at) {
				continue
			}
			s := d.fleet.Snapshot(h.Name, at)
			// A boot of its own: the nodes' spools begin to count anew.
			if boot := "before-" + s.BootID; boot != b.Boot {
				batches = append(batches, b)
				b = history.Batch{Host: h.Name, Boot: boot}
			}
			b.Samples = append(b.Samples, s.Sample())
		}
		batches = append(batches, b)
	}
	return batches
}
