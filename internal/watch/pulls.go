package watch

import (
	"context"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
	"gpuboard/internal/pull"
	"gpuboard/internal/snapshot"
)

// pulls are the nodes that this web host reads over SSH.
type pulls struct {
	fleet *pull.Fleet
	named []pull.Target
	every bool // all hosts, also those that nobody has named
}

// newPulls returns the configured ones, nil for none.
func newPulls(cfg *config.Config, version string, now func() time.Time, ask SSHConfig, data string) *pulls {
	named, every := cfg.Pulled()
	if len(named) == 0 && !every {
		return nil
	}
	p := &pulls{every: every, fleet: &pull.Fleet{
		Options: PullOptions(cfg, version, now, ask), Data: data, State: cfg.String("state"),
		Interval: cfg.Duration("interval"), Once: cfg.Once,
	}}
	for _, n := range named {
		p.named = append(p.named, pull.Target{Host: n.Host, SSH: n.Login})
	}
	return p
}

// PullOptions say how this web host reads nodes.
func PullOptions(cfg *config.Config, version string, now func() time.Time, ask SSHConfig) pull.Options {
	return pull.Options{
		Version: version, Now: now, Identity: cfg.List("identity"), KnownHosts: cfg.List("known_hosts"),
		ResolveConfig: ask,
	}
}

// read reads nodes: in the background, or before the only generation. hosts are those that should exist.
func (p *pulls) read(ctx context.Context, hosts []inventory.Host) []snapshot.Problem {
	if p == nil {
		return nil
	}
	targets := p.named
	for _, h := range hosts {
		if p.every && h.GoneSince.IsZero() {
			targets = append(targets, pull.Target{Host: h.Name, SSH: h.Name, Any: true})
		}
	}
	return p.fleet.Read(ctx, targets)
}

func (p *pulls) close() {
	if p != nil {
		p.fleet.Close()
	}
}
