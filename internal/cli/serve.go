package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/serve"
	"gpuboard/internal/shell"
	"gpuboard/internal/source"
	"gpuboard/sitegen"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

func (a *app) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "serve the site with the built-in web server", GroupID: groupWeb, Args: cobra.NoArgs,
		Long: "serve is a small web server for the site that generate writes. By default it listens on this\n" +
			"machine only. With --booking people book, extend and release in the browser, below book/.\n" +
			"They log in with a password (--password, a file made by htpasswd -B), or a proxy in front\n" +
			"sends their names (--auth-header). With --private nothing is shown without a login. It\n" +
			"speaks plain HTTP: if passwords cross a network, put a web server with TLS in front.\n" +
			"generate --watch shows a booking at once. If cron or a timer generates the site, serve\n" +
			"makes a generation after a booking, with the settings of the configuration, if it may\n" +
			"write the site.\n" + exitStatus,
		Example: "  gpuboard serve --listen 127.0.0.1:9000\n  gpuboard serve --site /srv/gpuboard/site\n  gpuboard serve --listen :8080\n" +
			"  gpuboard serve --booking --password /etc/gpuboard/users --data /srv/gpuboard/data --site /srv/gpuboard/site",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			if _, err := os.Stat(cfg.String("site")); err != nil {
				return failure.Because("site:missing",
					failure.New(failure.ExitUsage, fmt.Errorf("opening the site: %w", err),
						"make it first: gpuboard generate --site "+cfg.String("site")))
			}
			return a.upgrading(c.Context(), func(ctx context.Context) error {
				o, err := a.serveOptions(ctx, cfg)
				if err != nil {
					return err
				}
				h, err := serve.Handler(o)
				if err != nil {
					return err
				}
				l, err := listen(cfg.String("listen"))
				if err != nil {
					return err
				}
				fmt.Fprintf(a.stderr, "gpuboard: serving http://%s/\n", l.Addr())
				return serve.Run(ctx, l, h)
			})
		}),
	}
	a.flags(c, "site", "listen", "data", "comments", "aliases", "templates", "state", "language", "languages",
		"timezone", "booking.timezone", "booking.end_of_day", "title", "lab",
		"password", "private", "auth_header", "trusted_proxy", "booking.form", "booking.for_others",
		"booking.max_duration", "booking.max_gpus")
	// In the file "booking" is a section, so the setting has a longer name.
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "booking" {
			name = "booking-form"
		}
		return pflag.NormalizedName(name)
	})
	return c
}

// serveOptions makes the options of the server, and refuses settings that contradict.
func (a *app) serveOptions(ctx context.Context, cfg *config.Config) (serve.Options, error) {
	form := cfg.Bool("booking.form")
	o := serve.Options{Site: cfg.String("site"), Log: a.log(), Private: cfg.Bool("private")}
	known := cfg.String("password") != "" || cfg.String("auth_header") != ""
	const how = "--password FILE, made with: htpasswd -cB FILE NAME; or --auth-header NAME behind a proxy that logs people in"
	switch {
	case form && !known:
		return o, failure.Usage(how, "--booking needs to know who people are")
	case o.Private && !known:
		return o, failure.Usage(how, "--private needs to know who people are")
	case known && !form && !o.Private:
		return o, failure.Usage("add --booking, --private, or both",
			"a login is configured, and neither --booking nor --private")
	case !known:
		return o, nil
	}
	proxies, err := serve.ParseProxies(cfg.List("trusted_proxy"))
	if err != nil {
		return o, failure.Usage("", "trusted_proxy from %s: %w", cfg.Origin("trusted_proxy"), err)
	}
	o.Auth, err = serve.NewAuth(serve.AuthOptions{
		Passwords: cfg.String("password"), Header: cfg.String("auth_header"), Proxies: proxies, Now: a.now, Log: o.Log,
	})
	if err != nil {
		return o, failure.Because("serve:password",
			failure.New(failure.ExitUsage, err, "people are added with: htpasswd -B FILE NAME"))
	}
	if cfg.String("password") != "" && !loopback(cfg.String("listen")) {
		fmt.Fprintln(a.stderr,
			"gpuboard: passwords travel in the clear over the network: put a web server with TLS in front, and listen on 127.0.0.1")
	}
	if form {
		o.Booking, err = a.bookingForm(ctx, cfg)
	}
	return o, err
}

func (a *app) bookingForm(ctx context.Context, cfg *config.Config) (*serve.BookingOptions, error) {
	limits, err := cfg.BookingLimits()
	if err != nil {
		return nil, err
	}
	path, err := bookingsFile(cfg)
	if err != nil {
		return nil, err
	}
	pages, err := page.NewBookPages(
		render.Site{Title: cfg.String("title"), Lab: cfg.String("lab"), Languages: cfg.Languages(), Zone: cfg.Zone(),
			Version: version()}, sitegen.OwnLook(cfg.String("templates")))
	if err != nil {
		return nil, failure.Because("templates:parse", failure.New(failure.ExitUsage, err, ""))
	}
	aliases := func() booking.Aliases {
		known, problems := source.Aliases(cfg, cfg.String("data"))
		if known == nil && len(problems) > 0 {
			a.complain(problems[0])
		}
		return known
	}
	return &serve.BookingOptions{
		File: func() serve.File { return cfg.Bookings(path) }, Zone: cfg.Zone(), FileZone: cfg.BookingZone(false),
		Aliases: aliases, Limits: limits,
		ForOthers: cfg.Bool("booking.for_others"), Pages: pages, Now: a.now, Changed: a.generateOnce(ctx, cfg),
	}, nil
}

// watchLock is the file that generate --watch locks as long as it runs.
func watchLock(cfg *config.Config) string { return filepath.Join(cfg.String("state"), "watch.lock") }

// generateOnce returns a function that makes a generation after a booking in the form, where cron or a timer makes
// the generations. It returns at once. Bookings that are made during a generation get one more.
//
// The interval is that of the site, because the crontab may give it as a flag.
func (a *app) generateOnce(ctx context.Context, cfg *config.Config) func(interval time.Duration) {
	asked := make(chan time.Duration, 1)
	go func() {
		for interval := range asked {
			if err := generateNow(ctx, cfg, interval); err != nil {
				a.log().Warn("the booking is on the pages after the next generation", "error", err)
			}
		}
	}()
	return func(interval time.Duration) {
		if !generatesHere(cfg) {
			return
		}
		select {
		case asked <- interval:
		default: // a generation that has not begun yet will show this booking, too
		}
	}
}

// mayWrite is W_OK of access(2).
const mayWrite = 2

// generatesHere reports whether generations are made on this machine, with the settings of a file, by a process that
// ends after each. generate --watch finds a booking by itself. What a crontab gives as flags is not known here: without
// it a generation could publish names that the crontab's masks.
func generatesHere(cfg *config.Config) bool {
	watched, err := atomicfile.Held(watchLock(cfg))
	if err != nil || watched || cfg.Path == "" {
		return false
	}
	_, err = os.Stat(filepath.Join(cfg.String("state"), "generate.lock"))
	return err == nil && syscall.Access(cfg.String("site"), mayWrite) == nil
}

// loopback reports whether an address to listen on is reached from this machine alone.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// listen listens on an address for a web server.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		err = failure.New(failure.ExitError, fmt.Errorf("listening: %w", err), listenHint(addr, err))
		return nil, failure.Because("listen:address", err)
	}
	return l, nil
}

// listenHint is what to do where an address cannot be listened on.
func listenHint(addr string, err error) string {
	if errors.Is(err, fs.ErrPermission) {
		program, _ := os.Executable()
		return "this account may use ports from 1024 on: --listen :8080; for lower ones: " +
			"sudo setcap cap_net_bind_service=+ep " + shell.Quote(program)
	}
	if addr != "" && strings.Trim(addr, "0123456789") == "" {
		return "write a colon before the port: --listen :" + addr
	}
	if addr != "" && !strings.Contains(addr, ":") {
		return "write a port behind it: --listen " + addr + ":8080"
	}
	return "see who listens there: ss -ltnp; or choose another address with --listen"
}

func (a *app) log() *slog.Logger { return slog.New(slog.NewTextHandler(a.stderr, nil)) }
