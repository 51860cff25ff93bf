package sitegen

import (
	"fmt"
	"maps"
	"slices"

	"gpuboard/internal/inventory"
	"gpuboard/internal/legacy"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

// DropHosts lists the hosts that have a drop in a data directory, and those whose files come from
// the older scripts. legacySetting is the setting legacy.
func DropHosts(data, legacySetting string) (inventory.Answer, error) {
	d, err := spool.OpenDrops(data)
	if err != nil {
		return inventory.Answer{}, err
	}
	names, problems := d.Hosts()
	hosts, more := inventory.Drops(names)
	answer := inventory.Answer{Hosts: hosts, Problems: append(problems, more...)}
	dir := LegacyDir(legacySetting, data)
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
