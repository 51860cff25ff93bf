package sitegen_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/history"
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
