package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/pull"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/watch"
)

func (a *app) pullCommand() *cobra.Command {
	var asJSON, command bool
	var key string
	c := &cobra.Command{
		Use: "pull user@HOST", Short: "show the GPUs of another node, read over SSH", GroupID: groupWeb,
		Args: cobra.MaximumNArgs(1),
		Long: "pull logs in as ssh does, runs one command of sh, and shows what list would show on that node.\n" +
			"Nothing is installed or written there. With pull: in the configuration, generate reads nodes so.\n" +
			"--authorize prints the line of authorized_keys with which a key may run that command alone.\n" +
			exitStatus,
		Example: "  gpuboard pull user@gpu07\n  gpuboard pull --authorize ~/.ssh/id_ed25519.pub",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			switch {
			case command:
				_, err := fmt.Fprintln(a.stdout, pull.Command())
				return err
			case key != "":
				public, err := atomicfile.Read(key, 16<<10)
				if err != nil {
					return fmt.Errorf("reading the public key: %w", err)
				}
				_, err = fmt.Fprintln(a.stdout, pull.Authorized(string(public)))
				return err
			case len(args) == 0:
				return failure.Usage("gpuboard pull user@gpu07", "pull needs a node")
			}
			host, err := config.HostOfLogin(args[0])
			if err != nil {
				return failure.Usage("gpuboard pull user@gpu07", "%w", err)
			}
			node := pulled{pull.Target{Host: host, SSH: args[0]}, watch.PullOptions(cfg, version(), a.now, sshConfig)}
			return a.list(c.Context(), cfg, node, asJSON)
		}),
	}
	a.flags(c, append(judgingKeys(), "identity", "known_hosts")...)
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	c.Flags().BoolVar(&command, "print-command", false, "print what is run on a node")
	c.Flags().StringVar(&key, "authorize", "", "print the line of authorized_keys for the key in `FILE`")
	return c
}

// pulled is a node that is read over SSH.
type pulled struct {
	target  pull.Target
	options pull.Options
}

func (p pulled) Host() (string, error) { return p.target.Host, nil }

func (p pulled) Collect(ctx context.Context) (*snapshot.Snapshot, error) {
	return pull.Once(ctx, p.target, p.options)
}
