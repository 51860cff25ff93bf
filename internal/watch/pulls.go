package watch

import (
	"context"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
	"gpuboard/internal/pull"
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

// after reads nodes after the hosts are listed: in the background, or before the only generation.
func (p *pulls) after(list resolver) resolver {
	if p == nil {
		return list
	}
	return func(ctx context.Context, now time.Time, last inventory.Known) inventory.Inventory {
		inv := list(ctx, now, last)
		targets := p.named
		for _, h := range inv.Hosts {
			if p.every && h.GoneSince.IsZero() {
				targets = append(targets, pull.Target{Host: h.Name, SSH: h.Name, Any: true})
			}
		}
		inv.Problems = append(inv.Problems, p.fleet.Read(ctx, targets)...)
		return inv
	}
}

func (p *pulls) close() {
	if p != nil {
		p.fleet.Close()
	}
}
