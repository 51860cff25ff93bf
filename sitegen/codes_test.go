package sitegen_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
)

func codesOn(r sitegen.Report) (codes []string) {
	for _, p := range r.Board.Problems {
		codes = append(codes, p.Code)
	}
	return codes
}

// stumbling drops are those of a version of ours with a defect that the data of
// one host finds, and of another that cannot be read for a reason without a code.
type stumbling struct{ *spool.Drops }

func (s stumbling) Latest(host string) (*snapshot.Bundle, []byte, error) {
	switch host {
	case "atlas":
		panic("index out of range")
	case "boreas":
		return nil, nil, os.ErrDeadlineExceeded
	}
	return s.Drops.Latest(host)
}

// TestPanicHarmsOneHost: the other hosts are as they would be.
func TestPanicHarmsOneHost(t *testing.T) {
	l := newLab(t)
	drops, err := spool.OpenDrops(l.path("data"))
	if err != nil {
		t.Fatal(err)
	}
	r := l.generate(start, func(o *sitegen.Options) { o.Drops = stumbling{drops} })
	for host, want := range map[string]string{"atlas": "bad:internal", "boreas": "bad:unreadable"} {
		h := hostOf(r.Board, host)
		if len(h.Problems) == 0 || h.Problems[0].Code != want {
			t.Errorf("%s has the problems %+v, want %s", host, h.Problems, want)
		}
	}
	well := 0
	for _, h := range r.Board.Hosts {
		if h.State == "up" {
			well++
		}
	}
	if well < len(l.hosts)/2 {
		t.Errorf("%d of %d hosts are well", well, len(l.hosts))
	}
}

// ending drops end a generation while it looks for finished hours.
type ending struct {
	*spool.Drops
	end func()
}

func (e ending) Hours(host string) []spool.HourFile {
	e.end()
	return e.Drops.Hours(host)
}

// TestAGenerationThatIsEnded: what is left out for it is not published.
func TestAGenerationThatIsEnded(t *testing.T) {
	l := newLab(t)
	o := l.options()
	drops, err := spool.OpenDrops(l.path("data"))
	if err != nil {
		t.Fatal(err)
	}
	if o.History, err = history.Open(t.Context(), l.path("history.db"), start, history.Options{}); err != nil {
		t.Fatal(err)
	}
	defer o.History.Close()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	o.Drops = ending{drops, end}
	g, err := sitegen.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(ctx, start); !errors.Is(err, context.Canceled) || len(l.site()) != 0 {
		t.Errorf("%v, and %d files of the site", err, len(l.site()))
	}
}

// TestStateThatCannotBeWritten: the site is there, and whoever runs gpuboard hears of it.
func TestStateThatCannotBeWritten(t *testing.T) {
	for _, name := range []string{"memory.json", "lastgood.tar", "events.json"} {
		l := newLab(t)
		l.write("state/"+name+"/x", "")
		g, err := sitegen.New(l.options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(t.Context(), start); err == nil || l.site()["index.html"] == "" {
			t.Errorf("%s is a directory: %v, and %d files of the site", name, err, len(l.site()))
		}
	}
}

// TestSiteThatCannotBeWritten: a directory in the place of a page, and a file in that of the site.
func TestSiteThatCannotBeWritten(t *testing.T) {
	l := newLab(t)
	l.write("site/status.txt/x", "somebody else's")
	g, err := sitegen.New(l.options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(t.Context(), start); err == nil {
		t.Error("the generation is said to be written")
	}
	l = newLab(t)
	l.write("site", "a file")
	if _, err := sitegen.New(l.options()); err == nil {
		t.Error("a file is the site")
	}
}

// TestOldInventory: it is said from when a list of hosts is that is older than a minute.
func TestOldInventory(t *testing.T) {
	l := newLab(t)
	for age, old := range map[time.Duration]bool{0: false, time.Minute: false, time.Minute + 1: true} {
		r := l.generate(start, func(o *sitegen.Options) {
			o.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
				return inventory.Inventory{Hosts: []inventory.Host{{Name: "atlas"}}, AsOf: now.Add(-age)}
			}
		})
		if got := r.Board.InventoryAsOf; got.IsZero() == old || old && !got.Equal(start.Add(-age)) {
			t.Errorf("%v old: as of %s", age, got)
		}
	}
}

// TestBookingsThatCannotBeKept: they are shown, and it is said that there is no copy.
func TestBookingsThatCannotBeKept(t *testing.T) {
	l := newLab(t)
	l.write("state/"+booking.LastGoodName+"/x", "")
	if r := l.generate(start); !slices.Contains(codesOn(r), "state:unwritable") || len(r.Board.Bookings) == 0 {
		t.Errorf("problems %v, %d bookings", codesOn(r), len(r.Board.Bookings))
	}
}

// TestHistoryThatCannotBeWritten: the board goes on without.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	l := newLab(t)
	s, err := history.Open(t.Context(), l.path("history.db"), start, history.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := l.generate(start, func(o *sitegen.Options) { o.History = s })
	if !slices.Contains(codesOn(r), "history:unwritable") || r.Written == 0 {
		t.Errorf("problems %v, %d files written", codesOn(r), r.Written)
	}
}

// TestLeftoversThatCannotBeSwept: what cannot be swept is said, and harms nothing.
func TestLeftoversThatCannotBeSwept(t *testing.T) {
	need.Root(t)
	l := newLab(t)
	l.write("state/kept/x", "")
	kept := l.path("state/kept")
	if err := syscall.Mount("none", kept, "tmpfs", 0, ""); err != nil {
		need.Skip(t, "no file system can be mounted here: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(kept, syscall.MNT_DETACH) })
	left := "state/kept/.tmp-x-" + strings.Repeat("A", 26)
	l.write(left, "half")
	if err := os.Chtimes(l.path(left), start.Add(-time.Hour), start.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", kept, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	r := l.generate(start)
	if !slices.Contains(codesOn(r), "state:leftovers") || r.Written == 0 {
		t.Errorf("problems %v, %d files written", codesOn(r), r.Written)
	}
}
