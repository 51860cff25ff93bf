package spool

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// A sweeping is a directory of drops, and what the generator does with it. At old, the
// files that the test wrote are older than ten minutes.
type sweeping struct {
	t        *testing.T
	data     string
	drops    *Drops
	now, old time.Time
}

func newSweeping(t *testing.T, dirs ...string) *sweeping {
	t.Helper()
	s := &sweeping{t: t, data: t.TempDir(), now: time.Now()}
	s.old = s.now.Add(youngAge + time.Minute)
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(s.data, "drop", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	drops, err := OpenDrops(s.data)
	if err != nil {
		t.Fatal(err)
	}
	s.drops = drops
	return s
}

func (s *sweeping) write(name string, size int) {
	s.t.Helper()
	write(s.t, filepath.Join(s.data, "drop", name), make([]byte, size))
}

// hour is the name of an hour file that began so many hours ago.
func (s *sweeping) hour(ago int, boot string) string {
	return fmt.Sprintf("hour-%s-%s.jsonl.gz", s.now.UTC().Add(-time.Duration(ago)*time.Hour).Format(hourStamp), boot)
}

func (s *sweeping) sweep(host string, now time.Time) Usage {
	s.t.Helper()
	l, err := s.drops.Sweep(host, now, now)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *sweeping) names(dir string) []string {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.data, "drop", dir))
	if err != nil {
		s.t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (s *sweeping) want(dir string, names ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, slices.Sorted(slices.Values(names))...), s.names(dir)); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", dir, diff)
	}
}

func TestSweepKeepsWhatIsInUse(t *testing.T) {
	s := newSweeping(t, "gpu01/in", "gpu02")
	all := []string{LatestName}
	for ago := range 48 {
		all = append(all, s.hour(ago, "0a1b2c3d"))
	}
	all = append(all, s.hour(1, "0a1b2c3d")[:len(s.hour(1, "0a1b2c3d"))-9]+".2.jsonl.gz", s.hour(-20, "ahead"))
	for _, name := range all {
		s.write("gpu01/in/"+name, 100)
		s.write("gpu02/"+name, 100)
	}
	for _, host := range []string{"gpu01", "gpu02"} {
		if l := s.sweep(host, s.old); l.Removed != 0 || l.OverLimit() || l.Files != len(all) ||
			l.Bytes != int64(100*len(all)) {
			t.Errorf("%s: %+v", host, l)
		}
	}
	s.want("gpu01", InnerName)
	s.want("gpu01/in", all...)
	s.want("gpu02", all...)
	// An upload under way, and the temporary of another program that copies files.
	for _, name := range []string{".tmp-1", "." + LatestName + ".AbC123"} {
		s.write("gpu02/"+name, 100)
		all = append(all, name)
	}
	if l := s.sweep("gpu02", s.now); l.Removed != 0 {
		t.Errorf("%+v", l)
	}
	s.want("gpu02", all...)
	if l := s.sweep("gpu02", s.old); l.Removed != 2 {
		t.Errorf("ten minutes later: %+v", l)
	}
	s.want("gpu02", all[:len(all)-2]...)
}

func TestSweepRemovesWhatDoesNotBelong(t *testing.T) {
	s := newSweeping(t, "gpu01/empty", "gpu01/full", "gpu02")
	outside := filepath.Join(s.data, "comments.json")
	write(t, outside, []byte("{}"))
	keep := []string{LatestName, s.hour(2, "b"), "full"}
	for _, name := range []string{LatestName, s.hour(2, "b"), "full/file"} {
		s.write("gpu01/"+name, 10)
	}
	s.write("gpu02/"+LatestName, 10)
	for _, name := range []string{"notes.txt", ".tmp-old", ".htaccess", "hour-20269999T05-b.jsonl.gz",
		"hour-x.jsonl.gz", "latest.json.gz.bak", s.hour(50, "b")} {
		s.write("gpu01/"+name, 10)
	}
	// A reader takes no file of this size, whatever its name and age.
	s.write("gpu01/"+s.hour(3, "b"), snapshot.MaxFileBytes+1)
	s.write("gpu01/.tmp-new", snapshot.MaxFileBytes+1)
	for name, to := range map[string]string{"link": outside, "dirlink": filepath.Join(s.data, "drop", "gpu02"),
		s.hour(4, "b"): "../gpu02/" + LatestName} {
		if err := os.Symlink(to, filepath.Join(s.data, "drop", "gpu01", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(s.data, "drop", "gpu01", s.hour(5, "b")), 0o644); err != nil {
		t.Fatal(err)
	}
	l := s.sweep("gpu01", s.old)
	if l.Stray != 15 || l.Removed != 14 || l.RemoveErr == nil {
		t.Errorf("%+v; one directory is not empty, and the rest has to go", l)
	}
	s.want("gpu01", keep...)
	s.want("gpu01/full", "file")
	s.want("gpu02", LatestName)
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("outside the drops: %v", err)
	}
}

// TestSweepKeepsHoursFor48Hours: as long as the node does.
func TestSweepKeepsHoursFor48Hours(t *testing.T) {
	s := newSweeping(t, "gpu01")
	s.write("gpu01/hour-20261120T05-0a1b2c3d.jsonl.gz", 10)
	over := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	s.sweep("gpu01", over.Add(48*time.Hour))
	s.want("gpu01", "hour-20261120T05-0a1b2c3d.jsonl.gz")
	s.sweep("gpu01", over.Add(48*time.Hour+time.Second))
	s.want("gpu01")
}

// TestSweepBoundsADrop: too many, or too large, hours and other files.
func TestSweepBoundsADrop(t *testing.T) {
	t.Run("hours", func(t *testing.T) {
		s := newSweeping(t, "gpu01")
		s.write("gpu01/"+LatestName, 10)
		for ago := range 60 {
			for boot := range 7 {
				s.write("gpu01/"+s.hour(ago, fmt.Sprint("b", boot)), 10)
			}
		}
		if l := s.sweep("gpu01", s.now); !l.OverLimit() || l.Files != 421 || l.Removed != 420-defaultMaxFiles {
			t.Errorf("%+v", l)
		}
		names := s.names("gpu01")
		if len(names) != defaultMaxFiles+1 || !slices.Contains(names, s.hour(0, "b0")) ||
			slices.Contains(names, s.hour(59, "b0")) {
			t.Errorf("%d files are left, from %s to %s; the newest hours have to stay", len(names), names[0],
				names[len(names)-2])
		}
		if l := s.sweep("gpu01", s.now); l.OverLimit() || l.Removed != 0 {
			t.Errorf("the next time: %+v", l)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		s := newSweeping(t, "gpu01")
		for n := range 80 {
			path := filepath.Join(s.data, "drop", "gpu01", s.hour(n%60, fmt.Sprint("b", n/60)))
			write(t, path, nil)
			if err := os.Truncate(path, snapshot.MaxFileBytes); err != nil {
				t.Fatal(err)
			}
		}
		if l := s.sweep("gpu01", s.now); !l.OverLimit() || l.Removed != 16 || l.RemovedBytes != 16<<20 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("many of no use", func(t *testing.T) {
		// New ones go at once here, except the newest: they are more than a drop may hold.
		s := newSweeping(t, "gpu01")
		s.write("gpu01/"+LatestName, 10)
		for n := range maxSwept + 500 {
			s.write(fmt.Sprint("gpu01/x", n), 0)
		}
		// Several have one time: the kernel's clock for files has a resolution of milliseconds.
		newest, later := filepath.Join(s.data, "drop", "gpu01",
			fmt.Sprint("x", maxSwept+499)), time.Now().Add(time.Second)
		if err := os.Chtimes(newest, later, later); err != nil {
			t.Fatal(err)
		}
		l := s.sweep("gpu01", s.now)
		if !l.More || !l.OverLimit() || l.Files != maxSwept || l.Removed < maxSwept-2 {
			t.Errorf("%+v", l)
		}
		if l := s.sweep("gpu01", s.now); l.More || !l.OverLimit() || l.Removed < 500-1 {
			t.Errorf("the second time: %+v", l)
		}
		s.want("gpu01", LatestName, fmt.Sprint("x", maxSwept+499))
	})
	t.Run("a length that is no size", func(t *testing.T) {
		s := newSweeping(t, "gpu01")
		for n := range 3 {
			s.write(fmt.Sprint("gpu01/x", n), 0)
			if err := os.Truncate(filepath.Join(s.data, "drop/gpu01", fmt.Sprint("x", n)), 8<<40); err != nil {
				t.Skip("this file system has no file of 8 TiB:", err)
			}
		}
		if l := s.sweep("gpu01", s.now); l.Bytes != 24<<40 || l.Removed != 3 {
			t.Errorf("%+v", l)
		}
	})
}

func TestUsageChangesNothing(t *testing.T) {
	s := newSweeping(t, "gpu01")
	for n := range 400 {
		s.write(fmt.Sprint("gpu01/x", n), 10)
	}
	l, err := s.drops.Usage("gpu01", s.old)
	if err != nil || !l.OverLimit() || l.Stray != 400 || l.Removed != 0 || l.RemoveErr != nil {
		t.Errorf("%+v, %v", l, err)
	}
	if n := len(s.names("gpu01")); n != 400 {
		t.Errorf("%d files are left", n)
	}
	for _, host := range []string{"none", "../x", "gpu01/in"} {
		if l, err := s.drops.Usage(host, s.old); l.Files != 0 || (host == "none") != (err == nil) {
			t.Errorf("%s: %+v, %v", host, l, err)
		}
	}
	if most := int64(math.MaxInt64); maxCounted > most/(2*maxSwept) { // of both directories
		t.Error("a sum of sizes may overflow")
	}
}

// TestSweepLeavesWhatIsNotANodes: what an administrator put beside "in", and the
// spool of a collector on the same machine.
func TestSweepLeavesWhatIsNotANodes(t *testing.T) {
	s := newSweeping(t, "gpu01/in", "gpu02/in", "gpu03")
	for _, name := range []string{"gpu01/README", "gpu01/in/x", "gpu02/README", "gpu02/in/x", "gpu03/.lock"} {
		s.write(name, 10)
	}
	if err := os.Chmod(filepath.Join(s.data, "drop/gpu03"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.sweep("gpu03", s.old)
	s.want("gpu03", ".lock")
	s.sweep("gpu02", s.old)
	s.want("gpu02", InnerName) // both are the same user's
	need.Root(t)
	if err := os.Chown(filepath.Join(s.data, "drop/gpu01/in"), 12345, -1); err != nil {
		t.Fatal(err)
	}
	s.sweep("gpu01", s.old)
	s.want("gpu01", InnerName, "README")
	s.want("gpu01/in")
}

// TestSweepFollowsNoSymlink: a drop, and "in", that are symlinks.
func TestSweepFollowsNoSymlink(t *testing.T) {
	s := newSweeping(t, "gpu01", "gpu02")
	s.write("gpu02/notes.txt", 10)
	if err := os.Symlink("gpu02", filepath.Join(s.data, "drop/gpu03")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../gpu02", filepath.Join(s.data, "drop/gpu01/in")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.drops.Sweep("gpu03", s.old, s.old); err == nil {
		t.Error("a drop that is a symlink is swept")
	}
	s.sweep("gpu01", s.old)
	s.want("gpu01")
	s.want("gpu02", "notes.txt")
}

func TestLimitsOfADrop(t *testing.T) {
	most := Usage{Files: MaxDropFiles, Bytes: MaxDropBytes}
	if most.OverLimit() {
		t.Error("a drop with as much as it may have exceeds its limits")
	}
	for _, u := range []Usage{{Files: most.Files + 1}, {Bytes: most.Bytes + 1}, {More: true}} {
		if !u.OverLimit() {
			t.Errorf("%+v does not exceed the limits", u)
		}
	}
}

// TestUploadInAFullDrop: where a drop holds too much, the newest unfinished file stays, because a push
// may be writing it, and so does what was pushed.
func TestUploadInAFullDrop(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	drop := filepath.Join(dir, "drop", "gpu01")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range snapshot.MaxDropEntries + 10 {
		path := filepath.Join(drop, fmt.Sprintf("a%04d", i))
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	bundle, err := snapshot.EncodeBundle(
		&snapshot.Bundle{Host: "gpu01", BootID: "b",
			Snapshot: &snapshot.Snapshot{Seq: 1, CollectedAt: snapshot.TimeOf(now)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{LatestName, ".tmp-latest.json.gz-upload"} {
		if err := os.WriteFile(filepath.Join(drop, name), bundle, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drops, err := OpenDrops(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b, _, err := drops.Latest("gpu01"); err != nil || b.Snapshot.Seq != 1 {
		t.Errorf("the bundle of a full drop: %v", err)
	}
	l, err := drops.Sweep("gpu01", now, now)
	if err != nil || l.Removed != snapshot.MaxDropEntries+10 {
		t.Errorf("swept %+v, %v", l, err)
	}
	entries, err := os.ReadDir(drop)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".tmp-latest.json.gz-upload" ||
		entries[1].Name() != LatestName {
		t.Errorf("what stays is %v, %v", entries, err)
	}
}
