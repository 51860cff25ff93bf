package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
	"gpuboard/internal/legacy"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/sitegen"
)

// IsData reports whether a directory is the data directory of a board: nodes push into it, or bookings
// lie there. One that only happens to be called data is none.
func IsData(cfg *config.Config, dir string) bool {
	return config.IsDir(filepath.Join(dir, "drop")) || config.IsFile(filepath.Join(dir, "comments.json")) ||
		sitegen.LegacyDir(cfg.String("legacy"), dir) != ""
}

// mergeData makes a board of a data directory as generate would, as far as that
// is possible without what the generator remembers: no history, no Consul.
func (s *Source) mergeData(ctx context.Context) (*board.Board, error) {
	cfg, dir := s.cfg, s.data
	listed, _ := inventory.List(cfg.Hosts)
	resolver := inventory.Resolver{List: listed, Drops: func(context.Context) (inventory.Answer, error) { return sitegen.DropHosts(dir, cfg.String("legacy")) }}
	now := s.opt.Now().UTC()
	hosts := resolver.Resolve(ctx, now)
	aliases, problems := Aliases(cfg, dir)
	in := board.Input{
		Now: now, Interval: cfg.Duration("interval"), Hosts: hosts.Hosts, Reports: map[string]board.Report{},
		Person: aliases.Canonical, Settings: cfg.Board(), Problems: append(hosts.Problems, problems...),
	}
	comments := cmp.Or(cfg.String("comments"), filepath.Join(dir, "comments.json"))
	in.Calendar = cfg.Bookings(comments).Load(booking.Options{Aliases: aliases, Now: now, DayStarts: cfg.BookingZone(true).DayStarts})
	drops, err := spool.OpenDrops(dir)
	if err != nil {
		return nil, failure.New(failure.ExitError, fmt.Errorf("opening the drops: %w", err), "")
	}
	older := olderSnapshots(cfg, dir, now)
	for _, h := range hosts.Hosts {
		var r board.Report
		bundle, _, err := drops.Latest(h.Name)
		switch {
		case err == nil:
			r.Snapshot = bundle.Snapshot
		case errors.Is(err, fs.ErrNotExist) && older[h.Name].Snapshot != nil:
			r.Snapshot = older[h.Name].Snapshot
		case !errors.Is(err, fs.ErrNotExist):
			r.Problems = []snapshot.Problem{{Code: cmp.Or(snapshot.CodeOf(err), "bad:unreadable"), Message: err.Error()}}
		}
		in.Reports[h.Name] = r
	}
	b, _ := board.Merge(in)
	return b, nil
}

// Aliases reads which names mean the same person: from the configured file, or from the one in a
// data directory.
func Aliases(cfg *config.Config, data string) (booking.Aliases, []snapshot.Problem) {
	if data == "" && cfg.String("aliases") == "" {
		return nil, nil
	}
	content, err := atomicfile.Read(cfg.AliasesIn(data), booking.MaxAliasBytes)
	if errors.Is(err, fs.ErrNotExist) && cfg.String("aliases") == "" {
		return nil, nil
	}
	if err != nil {
		return nil, []snapshot.Problem{{Code: "aliases:unreadable", File: "aliases.csv", Message: err.Error()}}
	}
	return booking.ParseAliases(content)
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
