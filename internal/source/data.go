package source

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
	"gpuboard/sitegen/render"
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
	resolver := inventory.Resolver{List: listed, Drops: func(context.Context) (inventory.Answer, error) {
		return sitegen.DropHosts(dir, cfg.String("legacy"))
	}}
	comments := cmp.Or(cfg.String("comments"), filepath.Join(dir, "comments.json"))
	return sitegen.Look(ctx, sitegen.Options{
		Data: dir, Comments: comments, Bookings: cfg.Bookings(comments), Aliases: cfg.AliasesIn(dir),
		Inventory: resolver.Resolve, Settings: cfg.Board(), About: render.Site{Interval: cfg.Duration("interval")},
		Legacy: cfg.String("legacy"), LegacyZone: cfg.LegacyZone(), BookingZone: cfg.BookingZone(true),
	}, s.opt.Now().UTC())
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
