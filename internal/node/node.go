// Package node is what a GPU node does: collect, spool, push and register; the loop that does all of
// it, and the watchdog that keeps the loop alive.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"gpuboard/collector"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

// A Node makes the parts of a node from its settings.
type Node struct {
	Config  *config.Config
	Version string
	Now     func() time.Time
	Getenv  func(string) string
	Stderr  io.Writer
	// SSHConfig asks OpenSSH for its configuration of a host.
	SSHConfig func(ctx context.Context, host string) ([]byte, error)
	// Machine changes what the collector reads; nil for this machine.
	Machine func(*collector.Options)
}

// Host is the node's name.
func (n Node) Host() (string, error) {
	host, err := snapshot.ParseHost(n.Config.String("host"))
	if err != nil {
		return "", failure.Usage("name this node with --host NAME", "host from %s: %w", n.Config.Origin("host"), err)
	}
	return host, nil
}

// Collector makes the collector of a host, for a loop or for a single snapshot.
func (n Node) Collector(host string, loop bool) *collector.Collector {
	journal := "" // a single run would start a process each time
	if loop {
		journal = "journalctl"
	}
	cfg := n.Config
	o := collector.Options{
		Host: host, Version: n.Version,
		NvidiaSMI: cfg.String("nvidia_smi"), PS: cfg.String("ps"),
		AMDSMI: cfg.String("amd_smi"), AMDIntegrated: cfg.Bool("amd_integrated"),
		SMIBudget: cfg.Duration("nvidia_smi_timeout"),
		Journal:   journal,
		StateFile: filepath.Join(cfg.String("spool"), "nvidia-smi.json"),
		Now:       n.Now,
	}
	if n.Machine != nil {
		n.Machine(&o)
	}
	return collector.New(o)
}

// Collect takes a single snapshot.
func (n Node) Collect(ctx context.Context) (*snapshot.Snapshot, error) {
	host, err := n.Host()
	if err != nil {
		return nil, err
	}
	return n.Collector(host, false).Collect(ctx)
}

// dir is the directory of the spool.
func (n Node) dir() string { return n.Config.String("spool") }

// OpenSpool opens the spool, with errors that have a code.
func (n Node) OpenSpool() (*spool.Spool, error) {
	s, err := spool.Open(n.dir())
	if err != nil {
		return nil, unusable(err)
	}
	return s, nil
}

func unusable(err error) error {
	return &failure.Error{Exit: failure.ExitUsage, Code: "spool:unusable", Err: err,
		Hint: "name another directory with --spool DIR"}
}

// Add adds a snapshot to the spool, with errors that have a code.
func Add(s *spool.Spool, snap *snapshot.Snapshot) error {
	err := s.Add(snap)
	if errors.Is(err, spool.ErrLocked) {
		return &failure.Error{Exit: failure.ExitTryAgain, Code: "loop:busy",
			Err:  errors.New("the loop of this node is collecting already"),
			Hint: "gpuboard check kill ends it; a node needs the loop or collect, not both"}
	}
	if err != nil {
		return &failure.Error{Exit: failure.ExitTryAgain, Code: "spool:unwritable",
			Err: fmt.Errorf("spooling the snapshot: %w", err)}
	}
	return nil
}

// Publisher makes the publisher to the drop. keep holds the connection between pushes. failing is
// [publisher.Options.Failing].
func (n Node) Publisher(keep bool, failing func(error)) (*publisher.Publisher, error) {
	cfg := n.Config
	if cfg.String("to") == "" {
		return nil, failure.Usage("gpuboard publish --to sftp://user@web/path, or set to: in the configuration",
			"no drop to publish to")
	}
	host, err := n.Host()
	if err != nil {
		return nil, err
	}
	target, err := publisher.ParseTarget(cfg.String("to"))
	if err != nil {
		return nil, err
	}
	return publisher.New(publisher.Options{
		Target: target, Host: host, Budget: cfg.Duration("push_timeout"), Keep: keep,
		Identity: cfg.List("identity"), KnownHosts: cfg.List("known_hosts"),
		ResolveConfig: n.SSHConfig,
		StateDir:      filepath.Join(cfg.String("spool"), "push"),
		Log:           slog.New(slog.NewTextHandler(n.Stderr, nil)),
		Failing:       failing,
	})
}

// Registration is what the settings say about the node. The rest is learned from a snapshot.
func (n Node) Registration() (inventory.Registration, error) {
	cfg := n.Config
	host, err := n.Host()
	if err != nil {
		return inventory.Registration{}, err
	}
	reg := inventory.Registration{
		Host: host, Title: cfg.String("register.title"), Group: cfg.String("register.group"),
		Owner: cfg.String("register.owner"),
		Notes: cfg.String("register.notes"), Tags: cfg.List("register.tags"), TTL: cfg.Duration("register.ttl"),
	}
	gpus := cfg.Number("register.gpus")
	if gpus != float64(int(gpus)) || gpus > snapshot.MaxGPUs {
		return reg, failure.Usage("", "register.gpus from %s: %s is not a whole number up to %d",
			cfg.Origin("register.gpus"), cfg.String("register.gpus"), snapshot.MaxGPUs)
	}
	reg.GPUs = int(gpus)
	if to := cfg.String("to"); to != "" {
		target, err := publisher.ParseTarget(to)
		if err != nil {
			return reg, err
		}
		reg.Drop = target.String()
	}
	reg.SSHHost, reg.SSHPort, err = sshAddress(cfg.String("register.ssh_host"))
	if err != nil {
		return reg, failure.Usage("", "register.ssh_host from %s: %w", cfg.Origin("register.ssh_host"), err)
	}
	return reg, nil
}

// sshAddress splits HOST or HOST:PORT. An address with colons needs brackets only before a port.
func sshAddress(s string) (host string, port int, err error) {
	host = s
	if h, p, splitErr := net.SplitHostPort(s); splitErr == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", 0, fmt.Errorf("%q is not a port", p)
		}
		host, port = h, int(n)
	}
	if host == "" || net.ParseIP(host) != nil {
		return host, port, nil
	}
	if host, err = snapshot.ParseHost(host); err != nil {
		return "", 0, err
	}
	return host, port, nil
}

func (n Node) consulReporter(log *failure.Log) (*consulReporter, error) {
	reg, err := n.Registration()
	if err != nil {
		return nil, err
	}
	if every := cmp.Or(n.Config.Duration("every"), MaxAuto); reg.TTL <= every {
		return nil, failure.Usage("",
			"register.ttl from %s: %v is not longer than the interval of %v, so the node would always be late",
			n.Config.Origin("register.ttl"), reg.TTL, every)
	}
	consul, err := n.Config.NewConsul()
	if err != nil {
		return nil, err
	}
	return &consulReporter{consul: consul, registration: reg, settings: n.Config.Board(),
		pushes: n.Config.String("to") != "", log: log}, nil
}

// loopSettings are the settings in the heartbeat, without the spool, in which it lies.
func (n Node) loopSettings() map[string]string {
	settings := map[string]string{}
	for _, name := range config.NodeKeys() {
		if value := n.Config.String(name); name != "spool" && value != "" {
			settings[name] = value
		}
	}
	if host, err := snapshot.ParseHost(settings["host"]); err == nil {
		settings["host"] = host
	}
	return settings
}
