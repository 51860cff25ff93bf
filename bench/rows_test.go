package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// What others keep is the same: rows and lines answer alike, and with what was
// put into them.
func TestRivalStoresAnswerAlike(t *testing.T) {
	s, ctx := &suite{dir: t.TempDir()}, context.Background()
	o, err := s.others()
	if err != nil {
		t.Fatal(err)
	}
	const step = 5 * time.Minute
	r, from := rand.New(rand.NewPCG(1, 2)), noon
	to := from
	want := newMeans(from, from.Add(2*time.Hour), step)
	for ; to.Before(from.Add(2 * time.Hour)); to = to.Add(every) {
		batches := tick(r, 1, 1, to)
		for _, g := range readings(batches[0]) {
			want.add(to.Unix(), g.utilization)
		}
		if err := o.keep(ctx, moment{to, batches}); err != nil {
			t.Fatal(err)
		}
	}
	o.seal()
	rows, err := o.rows.series(ctx, 0, from, to, step)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	lines, err := o.lines.series(dec, from, to, step)
	if err != nil {
		t.Fatal(err)
	}
	if all := want.values(); slices.Max(all) < 40 || !slices.Equal(rows, all) || !slices.Equal(lines, all) {
		t.Errorf("rows have %v, lines %v, want %v", rows, lines, all)
	}
	rivals, besides, err := o.sizes()
	if err != nil {
		t.Fatal(err)
	}
	if rivals[0].value <= 1 || besides[0].value <= 1 || besides[1].value <= rivals[1].value || o.count != 360*8*6 {
		t.Errorf("%v and %v of %d values", rivals, besides, o.count)
	}
}

// A table that is there already is no table of this run.
func TestExistingTableIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.db")
	first, err := newTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if second, err := newTable(path); err == nil {
		second.close()
		t.Error("two tables in one file")
	}
}
