package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/doctor"
	"gpuboard/internal/failure"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor [node|web]", Short: "show the settings, and test whether they work", GroupID: groupSetup,
		Args: cobra.MaximumNArgs(1), ValidArgs: []string{doctor.Node, doctor.Web},
		Long: "doctor prints every setting and where it comes from, and tests every part. For each problem\n" +
			"it prints a stable code and what to type. It changes nothing, except that it creates and\n" +
			"removes a test file where the program would write. Run it as the user who runs the program.\n" +
			"If this machine is both a node and a web host, name the side.\n" + exitStatus,
		Example: "  gpuboard doctor web\n  gpuboard doctor node\n  gpuboard doctor web --data /srv/gpuboard/data --site /srv/gpuboard/site\n  gpuboard doctor --json",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			o := doctor.Options{Config: cfg, Node: a.node(cfg), Installed: installed, Crontab: a.crontab}
			report, err := doctor.Examine(c.Context(), o, args...)
			switch {
			case errors.Is(err, context.Canceled):
				return failure.New(failure.ExitTryAgain, errors.New("interrupted"), "")
			case err != nil:
				return err
			case asJSON:
				err = writeJSON(a.stdout, report)
			default:
				err = report.Write(a.stdout)
			}
			if err == nil && !report.OK {
				return silent(failure.ExitDegraded)
			}
			return err
		}),
	}
	a.flags(c, config.NodeAndWebKeys()...)
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return c
}
