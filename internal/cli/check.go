package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

func (a *app) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check [HOST|kill]", Short: "keep the loop running (for cron); kill stops it", GroupID: groupNode,
		Long: "check tests whether the loop of this node (gpuboard run) is alive, starts it if it is not,\n" +
			"and waits for the first push. It prints Running or Launched. If the loop has other settings\n" +
			"than check, or is of another version, check restarts it, unless it is a systemd unit. HOST\n" +
			"is the name of this node; with no other setting, check leaves a loop that runs as it is. If\n" +
			"the newest snapshot could not be taken or pushed, it prints the reason on stderr and exits\n" +
			"with 3. It takes about 8 ms of CPU time. check kill stops the loop and everything it\n" +
			"started.\n" + exitStatus,
		Example: "  gpuboard check gpu01\n  gpuboard check gpu01 --to sftp://n-gpu01@web/in\n  gpuboard check kill",
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
	if err := a.refuseRoot(cfg.String("spool")); err != nil {
		return err
	}
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
	switch {
	case len(loop.Changed) > 0:
		why = ", which had other settings: " + strings.Join(loop.Changed, ", ")
	case loop.Other != "":
		why = ", which was version " + loop.Other
	}
	fmt.Fprintf(a.stdout, "%s %s (pid %d)%s\n", done, loop.Host, loop.PID, why)
	for _, name := range loop.Changed {
		a.otherSetting(cfg, name, loop.Was[name])
	}
	if loop.Launched && cfg.String("to") == "" {
		hint := "add --to sftp://USER@WEB/ to this command"
		if cfg.Path != "" {
			hint = cfg.Edit("to", "sftp://USER@WEB/")
		}
		fmt.Fprintf(a.stderr, "gpuboard: note: no drop is set, so snapshots stay on this node\n"+
			"gpuboard: hint: %s\n", hint)
	}
	if loop.Push.Error != "" {
		hint := loop.Push.Hint
		if hint == "" {
			hint = "gpuboard doctor node --host=" + loop.Host + a.node(cfg).Flags(loop.Settings)
		}
		fmt.Fprintf(a.stderr, "gpuboard: %s: %s\ngpuboard: hint: %s\n", loop.Host,
			failure.Line(loop.Push.Failure(), loop.Push.Code), hint)
		return silent(failure.ExitDegraded)
	}
	return nil
}

// otherSetting says that the loop had another value until now, as after a check that somebody typed beside cron's.
func (a *app) otherSetting(cfg *config.Config, name, was string) {
	hint := "to keep the former one, give it in this command, also in cron"
	if cfg.Path != "" && name != "host" {
		hint = "to keep the former one, " + cfg.Edit(name, was)
	}
	fmt.Fprintf(a.stderr, "gpuboard: note: the loop ran with another %s until now: %[1]s was %s, and is %s (%s)\n"+
		"gpuboard: hint: %s\n", name, cmp.Or(was, "empty"), cmp.Or(cfg.String(name), "empty"), cfg.Origin(name),
		failure.Printable(hint))
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
