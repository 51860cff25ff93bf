package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// acceptPatience is how long accept waits for the end of a generation.
const acceptPatience = 30 * time.Second

func (a *app) acceptCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "accept HOST", Short: "accept what a host sends now, though it is older", GroupID: groupWeb, Args: cobra.ExactArgs(1),
		Long: "accept forgets the numbers of the snapshots that a host has sent. The next generation shows\n" +
			"the snapshot that lies in its drop now. It is for a host that stays host:replayed because\n" +
			"the machine was put back to an earlier state, or because its numbers were once too large.\n" + exitStatus,
		Example: "  gpuboard accept gpu03",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			host, err := snapshot.ParseHost(args[0])
			if err != nil {
				return failure.Usage("gpuboard accept HOST", "%v", err)
			}
			state := cfg.String("state")
			if !config.IsDir(state) {
				return failure.Usage("on the web host: --state DIR or --config FILE", "accepting %s: there is no directory %s", host, state)
			}
			if err := a.refuseRoot(state); err != nil {
				return err
			}
			known, err := sitegen.Accept(state, host)
			for end := time.Now().Add(acceptPatience); errors.Is(err, sitegen.ErrLocked) && time.Now().Before(end); {
				time.Sleep(100 * time.Millisecond)
				known, err = sitegen.Accept(state, host)
			}
			if errors.Is(err, sitegen.ErrLocked) {
				return failure.Because("state:in-use", failure.New(failure.ExitTryAgain, err, "try again"))
			}
			if err == nil && !known {
				return failure.Usage("gpuboard status", "no snapshot of %s is remembered in %s", host, state)
			}
			if err != nil {
				return fmt.Errorf("accepting %s: %w", host, err)
			}
			return nil
		}),
	}
	a.flags(c, "state")
	return c
}
