package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/collector"
	"gpuboard/internal/config"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

func (a *app) collectCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "collect", Short: "take one snapshot of this node into the spool", GroupID: groupNode, Args: cobra.NoArgs,
		Long: "collect reads nvidia-smi, ps and /proc once and puts the snapshot into the spool, from\n" +
			"where publish carries it on. What could not be read is said in the snapshot itself, so\n" +
			"that a node with a broken driver still reports.\n" + exitStatus,
		Example: "  gpuboard collect; gpuboard publish --to sftp://n-gpu01@web/in\n  gpuboard collect --json",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			host, err := a.host(cfg)
			if err != nil {
				return err
			}
			snap, err := a.collector(cfg, host, 0).Collect(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				if err := writeJSON(a.stdout, snap); err != nil {
					return err
				}
				return a.degraded(snap)
			}
			s, err := openSpool(cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := spoolError(s.Add(snap)); err != nil {
				return err
			}
			return a.degraded(snap)
		},
	}
	a.flags(c, "host", "spool", "nvidia_smi", "nvidia_smi_timeout", "ps")
	c.Flags().BoolVar(&asJSON, "json", false, "print the snapshot on stdout instead of spooling it")
	return c
}

// host is this node's name, checked once.
func (a *app) host(cfg *config.Config) (string, error) {
	host, err := snapshot.ParseHost(cfg.String("host"))
	if err != nil {
		return "", usagef("name this node with --host NAME", "host from %s: %w", cfg.Origin("host"), err)
	}
	return host, nil
}

func (a *app) collector(cfg *config.Config, host string, every time.Duration) *collector.Collector {
	journal := "" // a single run would start a process each time
	if every > 0 {
		journal = "journalctl"
	}
	return collector.New(collector.Options{
		Host: host, Version: version(), Interval: every,
		NvidiaSMI: cfg.String("nvidia_smi"), PS: cfg.String("ps"),
		SMIBudget: cfg.Duration("nvidia_smi_timeout"),
		Journal:   journal,
		StateFile: filepath.Join(cfg.String("spool"), "nvidia-smi.json"),
		Now:       a.now,
	})
}

func openSpool(cfg *config.Config) (*spool.Spool, error) {
	s, err := spool.Open(cfg.String("spool"))
	if err != nil {
		return nil, because("spool:unusable", fail(exitUsage, err, "give a directory of your own with --spool DIR"))
	}
	return s, nil
}

// degraded says in one line what a snapshot could not say, for cron's mail, and
// ends the command as one that is done and not well.
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
	return silent(exitDegraded)
}

// spoolError gives the errors of the spool their exit codes.
func spoolError(err error) error {
	if errors.Is(err, spool.ErrLocked) {
		return because("loop:busy", fail(exitTempFail, errors.New("the loop of this node is collecting already"), "gpuboard check kill ends it; a node needs the loop or collect, not both"))
	}
	if err != nil {
		return because("spool:unwritable", fail(exitTempFail, fmt.Errorf("spooling the snapshot: %w", err), ""))
	}
	return nil
}
