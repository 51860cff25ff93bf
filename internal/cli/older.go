package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
	"gpuboard/internal/legacy"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// This file has the hosts that still run the older scripts.

// withOlder answers with the hosts that have a drop, by their names, and those of
// the older scripts.
func withOlder(names []string, problems []snapshot.Problem, cfg *config.Config, data string) (inventory.Answer, error) {
	hosts, more := inventory.Drops(names)
	answer := inventory.Answer{Hosts: hosts, Problems: append(problems, more...)}
	dir := sitegen.LegacyDir(cfg.String("legacy"), data)
	if dir == "" {
		return answer, nil
	}
	found, err := legacy.Hosts(dir)
	if err != nil {
		return inventory.Answer{}, fmt.Errorf("looking for the older scripts' files: %w", err)
	}
	have := map[string]bool{}
	for i := range answer.Hosts {
		h := &answer.Hosts[i]
		have[h.Name] = true
		describe(h, found.Hosts[h.Name])
	}
	hosts, more = inventory.Drops(slices.DeleteFunc(slices.Sorted(maps.Keys(found.Hosts)), func(name string) bool { return have[name] }))
	for i := range hosts {
		describe(&hosts[i], found.Hosts[hosts[i].Name])
	}
	answer.Hosts = append(answer.Hosts, hosts...)
	answer.Problems = append(answer.Problems, more...)
	return answer, nil
}

// describe gives a host what hosts.json says: its full name, or a title.
func describe(h *inventory.Host, old legacy.Host) {
	if old.Address == "" || old.Address == h.Name {
		return
	}
	if name, err := snapshot.ParseHost(old.Address); err == nil {
		h.Address = name
		return
	}
	h.Title = snapshot.Text(old.Address, snapshot.MaxNameBytes)
}

// olderSnapshots are the newest snapshots of hosts in a data directory that run
// the older scripts, for a board that is merged without a generator.
func olderSnapshots(cfg *config.Config, data string, now time.Time) map[string]legacy.Host {
	dir := sitegen.LegacyDir(cfg.String("legacy"), data)
	if dir == "" {
		return nil
	}
	found, err := legacy.Read(dir, now, cfg.LegacyZone())
	if err != nil {
		return nil // the hosts are listed as never heard of
	}
	return found.Hosts
}
