package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

// checkCommand is the cron watchdog, with the seed's words: check HOST starts
// what does not run, check kill stops it.
func (a *app) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check [HOST|kill]", Short: "start the loop if it does not run; kill stops it (for cron)", GroupID: groupNode,
		Long: "check looks whether the loop of this node (gpuboard run) is alive, by its lock and its\n" +
			"heartbeat, and starts it if it is not; then it waits for the first push. It says Running or\n" +
			"Launched. A loop with other settings than those that check is given is started anew with\n" +
			"them, unless it is a systemd unit; check HOST alone only asks. When no push has worked yet,\n" +
			"or pushes have failed for more than a few intervals, one line on stderr says why, and the\n" +
			"exit code is 3. It takes about 8 ms of a processor when all is well. check kill\n" +
			"ends the loop and everything it started, and returns when all of it is gone.\n" + exitStatus,
		Example: "  gpuboard check gpu01 --to sftp://n-gpu01@web/in\n  gpuboard check kill",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			if len(args) == 1 && args[0] == "kill" {
				return a.checkKill(c.Context(), cfg)
			}
			var flags []string
			c.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name+"="+f.Value.String()) })
			if len(args) == 1 {
				host, err := snapshot.ParseHost(args[0])
				if err != nil {
					return failure.Usage("gpuboard check HOST, where HOST is this node's name", "%w", err)
				}
				cfg.Set("host", host, "HOST")
				flags = append(flags, "--host="+host)
			}
			return a.checkAlive(c.Context(), cfg, flags)
		}),
	}
	a.flags(c, config.NodeKeys()...)
	return c
}

func (a *app) checkAlive(ctx context.Context, cfg *config.Config, flags []string) error {
	loop, err := a.node(cfg).Check(ctx, flags)
	if err != nil {
		return err
	}
	done, why := "Running", ""
	switch {
	case loop.Replaced:
		done = "Relaunched"
	case loop.Launched:
		done = "Launched"
	}
	if len(loop.Changed) > 0 {
		why = ", which had other settings: " + strings.Join(loop.Changed, ", ")
	}
	fmt.Fprintf(a.stdout, "%s %s (pid %d)%s\n", done, loop.Host, loop.PID, why)
	if loop.NotPushing(a.now()) || loop.Launched && loop.Push.Error != "" {
		fmt.Fprintf(a.stderr, "gpuboard: %s: %s\n", loop.Host, failure.Line(loop.Push.Failure()+" (gpuboard doctor node says what to do)", loop.Push.Code))
		return silent(failure.ExitDegraded)
	}
	return nil
}

func (a *app) checkKill(ctx context.Context, cfg *config.Config) error {
	was, err := a.node(cfg).Stop(ctx)
	if err != nil {
		return err
	}
	if was {
		fmt.Fprintln(a.stdout, "Stopped")
	} else {
		fmt.Fprintln(a.stdout, "Not running")
	}
	return nil
}
