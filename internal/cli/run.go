package cli

import (
	"github.com/spf13/cobra"

	"gpuboard/internal/config"
)

func (a *app) runCommand() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use: "run", Short: "collect and publish until stopped (started by check)", GroupID: groupNode,
		Args: cobra.NoArgs,
		Long: "run takes a snapshot at every interval and pushes it. Nodes push at different moments within\n" +
			"the interval, so that a thousand of them do not connect at once. Each spool has one loop: a\n" +
			"second one exits with 75. With --once it takes and pushes one snapshot and exits, which\n" +
			"costs less than collect and publish; --every then says how often you run it.\n" + exitStatus,
		Example: "  gpuboard run --once\n  gpuboard run --to sftp://n-gpu01@web.example.org/in\n  gpuboard run --every 1m --to file:///srv/gpuboard/data",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			if err := a.refuseRoot(cfg.String("spool")); err != nil {
				return err
			}
			l, err := a.node(cfg).Loop(once)
			if err != nil {
				return err
			}
			defer l.Close()
			if !once {
				return l.Run(c.Context())
			}
			snap, err := l.Once(c.Context())
			if err != nil {
				return err
			}
			return a.degraded(snap)
		}),
	}
	a.flags(c, config.NodeKeys()...)
	c.Flags().BoolVar(&once, "once", false,
		"take one snapshot, push it and exit (for cron on machines that allow no daemons)")
	return c
}
