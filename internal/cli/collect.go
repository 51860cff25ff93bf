package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"gpuboard/collector"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/node"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

func (a *app) collectCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "collect", Short: "take one snapshot of this node into the spool", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "collect reads nvidia-smi, ps and /proc once and puts a snapshot into the spool, from which\n" +
			"publish pushes it. The snapshot records what could not be read, so a node with a broken\n" +
			"driver still reports.\n" + exitStatus,
		Example: "  gpuboard collect --json\n  gpuboard collect; gpuboard publish --to sftp://n-gpu01@web/in",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			snap, err := a.node(cfg).Collect(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				if err := writeJSON(a.stdout, snap); err != nil {
					return err
				}
				return a.degraded(snap)
			}
			s, err := a.openSpool(cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := node.Add(s, snap); err != nil {
				return err
			}
			return a.degraded(snap)
		}),
	}
	a.flags(c, "host", "spool", "nvidia_smi", "nvidia_smi_timeout", "amd_smi", "amd_integrated", "ps")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print the snapshot instead of putting it into the spool")
	return c
}

func (a *app) node(cfg *config.Config) node.Node {
	n := node.Node{Config: cfg, Version: version(), Now: a.now, Getenv: a.getenv, Stderr: a.stderr,
		SSHConfig: sshConfig}
	if d := a.demonstration; d != nil {
		n.SSHConfig = nil // the user's, which is for other servers
		n.Machine = func(o *collector.Options) { d.fleet.Machine(d.machine(o.Host), o) }
	}
	return n
}

// openSpool opens the spool to write to it.
func (a *app) openSpool(cfg *config.Config) (*spool.Spool, error) {
	if err := a.refuseRoot(cfg.String("spool")); err != nil {
		return nil, err
	}
	return a.node(cfg).OpenSpool()
}

// degraded prints what could not be read, in one line, and returns the exit status.
func (a *app) degraded(snap *snapshot.Snapshot) error {
	if len(snap.Errors) == 0 {
		return nil
	}
	p := snap.Errors[0]
	p.Host = snap.Host
	if more := len(snap.Errors) - 1; more > 0 {
		p.Message += fmt.Sprintf(" (+%d more)", more)
	}
	a.complain(p)
	return silent(failure.ExitDegraded)
}
