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
	var older legacy.Data
	if dir := LegacyDir(legacySetting, data); dir != "" {
		if older, err = legacy.Hosts(dir); err != nil {
			return inventory.Answer{}, fmt.Errorf("looking for the older scripts' files: %w", err)
		}
	}
	names = slices.AppendSeq(names, maps.Keys(older.Hosts))
	slices.Sort(names)
	hosts, more := inventory.Drops(slices.Compact(names))
	for i := range hosts {
		describe(&hosts[i], older.Hosts[hosts[i].Name])
	}
	return inventory.Answer{Hosts: hosts, Problems: append(problems, more...)}, nil
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
