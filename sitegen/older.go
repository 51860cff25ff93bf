package sitegen

import (
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/legacy"
	"gpuboard/internal/snapshot"
)

// NoLegacy as Options.Legacy leaves files of the older scripts alone.
const NoLegacy = "none"

// LegacyDir is where files of the older scripts are read from: the directory
// that is configured, else the data directory if there are any in it; "" for
// nowhere.
func LegacyDir(configured, data string) string {
	switch {
	case configured == NoLegacy:
		return ""
	case configured != "":
		return configured
	case legacy.Found(data):
		return data
	}
	return ""
}

// older reads what the older scripts send. Hosts whose own collector reports
// are not taken from there, which [Generator.report] sees to.
func (g *Generator) older(now time.Time) (map[string]legacy.Host, []snapshot.Problem) {
	dir := LegacyDir(g.opt.Legacy, g.opt.Data)
	if dir == "" {
		return nil, nil
	}
	data, err := legacy.Read(dir, now, g.opt.LegacyZone)
	if err != nil {
		return nil, []snapshot.Problem{{
			Code: "legacy:unreadable", Message: snapshot.Text(err.Error(), snapshot.MaxTextBytes),
		}}
	}
	return data.Hosts, data.Problems
}

// olderReport is the report of a host that has no drop.
func olderReport(old legacy.Host, now time.Time, mem *memory) board.Report {
	if old.Snapshot == nil {
		return board.Report{Snapshot: mem.lastGood(old.Name), Problems: old.Problems}
	}
	s := old.Snapshot
	mem.keep(old.Name,
		&snapshot.Bundle{Host: old.Name, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}}, nil)
	return board.Report{Snapshot: s, SeenAt: mem.see(old.Name, s, now)}
}
