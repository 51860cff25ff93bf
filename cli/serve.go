package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"gpuboard/serve"
)

func (a *app) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "serve the site, where there is no other web server", GroupID: groupWeb, Args: cobra.NoArgs,
		Long: "serve is a small web server for the site that generate writes. It serves files alone and\n" +
			"listens on this machine alone, unless told otherwise: access control is the business of\n" +
			"a web server in front of it.\n" + exitStatus,
		Example: "  gpuboard serve --site /srv/gpuboard/site\n  gpuboard serve --listen :8080",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			if _, err := os.Stat(cfg.string("site")); err != nil {
				return fail(exitUsage, fmt.Errorf("opening the site: %w", err), "make it first: gpuboard generate --site "+cfg.string("site"))
			}
			h, err := serve.Handler(serve.Options{Site: cfg.string("site"), Log: a.log()})
			if err != nil {
				return err
			}
			return a.listenAndServe(c.Context(), cfg.string("listen"), h)
		},
	}
	a.flags(c, "site", "listen")
	return c
}

// listenAndServe says where it listens, on stderr, and serves until the end.
func (a *app) listenAndServe(ctx context.Context, addr string, h http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fail(exitError, fmt.Errorf("listening: %w", err), "choose another address with --listen")
	}
	fmt.Fprintf(a.stderr, "gpuboard: serving http://%s/\n", l.Addr())
	return serve.Run(ctx, l, h)
}

func (a *app) log() *slog.Logger { return slog.New(slog.NewTextHandler(a.stderr, nil)) }
