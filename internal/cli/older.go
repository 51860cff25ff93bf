package cli

import (
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/legacy"
	"gpuboard/sitegen"
)

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
