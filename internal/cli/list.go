package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/source"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/text"
)

func (a *app) listCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "show the GPUs of this node and who uses them", GroupID: groupUse, Args: cobra.NoArgs,
		Long: "list queries the driver of this node and shows each GPU: [ ] free, [~] in use, [!] problem,\n" +
			"with its users, programs and times. If a site is configured (site_url, or a data directory\n" +
			"on this machine), it shows bookings, too. --json prints JSON like the site's\n" +
			"api/v1/hosts/HOST.json.\n" + exitStatus,
		Example: "  gpuboard list\n  gpuboard list --json | jq '.gpus[] | select(.state == \"free\") | .index'",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			return a.list(c.Context(), cfg, a.node(cfg), asJSON)
		}),
	}
	a.flags(c, hereKeys()...)
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return c
}

// list prints the GPUs of one node.
func (a *app) list(ctx context.Context, cfg *config.Config, m source.Machine, asJSON bool) error {
	look := a.look(cfg)
	b, _, err := source.ThisNode(ctx, a.source(cfg), m)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = a.stdout.Write(data.HostJSON(b, &b.Hosts[0]))
	} else if len(b.Hosts[0].GPUs) > 0 {
		look.Width = a.width(1000) // what a pipe gets is not cut
		err = text.List(a.stdout, b, look)
	}
	if err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	if err := a.withProblems(b, a.gpusMissing(cfg, b)); err != nil {
		return err
	}
	if len(b.Problems) > 0 {
		return silent(failure.ExitDegraded)
	}
	return nil
}
