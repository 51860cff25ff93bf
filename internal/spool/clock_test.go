package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

func hourNames(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for name, h := range hours(t, dir) {
		names = append(names, name+" "+seqs(h.Samples))
	}
	sort.Strings(names)
	return names
}

func wantHours(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := hourNames(t, dir); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("sealed hours:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRebootSealsTheOldBoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon)
	add(t, s, bootA, noon.Add(time.Minute))
	s.Close()
	s = open(t, dir)
	if sn := add(t, s, bootB, noon.Add(2*time.Minute)); sn.Seq != 1 {
		t.Errorf("a new boot begins with %d, want 1", sn.Seq)
	}
	wantHours(t, dir, "hour-20261120T12-aaaaaaaa.jsonl.gz 1 2")
	if b := latest(t, dir); b.BootID != bootB || seqs(b.Samples) != "1" {
		t.Errorf("the bundle is of %s with samples %s", b.BootID, seqs(b.Samples))
	}
	// A boot that comes back (a copied disk, a test) goes on where it was; when nothing
	// but its hour is left, with the seconds since the boot.
	if sn := add(t, s, bootA, noon.Add(3*time.Minute)); sn.Seq != 3 {
		t.Errorf("the first boot goes on with %d, want 3", sn.Seq)
	}
	s.Close()
	s = open(t, dir)
	sn := snap(bootB, noon.Add(4*time.Minute))
	sn.Node.UptimeSeconds = ptr(int64(130))
	if err := s.Add(sn); err != nil || sn.Seq != 130 {
		t.Errorf("after a restart the second boot goes on with %d, %v, want 130", sn.Seq, err)
	}
}

// TestAFullDiskLosesNoOlderSample: a line that could not be written leaves the journal as
// it was, and numbers are not used again.
func TestAFullDiskLosesNoOlderSample(t *testing.T) {
	need.Root(t)
	base := t.TempDir()
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, "size=64k"); err != nil {
		need.Skip(t, fmt.Sprintf("mounting a small file system: %v", err))
	}
	t.Cleanup(func() { unix.Unmount(base, unix.MNT_DETACH) })
	dir := filepath.Join(base, "spool")
	s := open(t, dir)
	add(t, s, bootA, noon)
	ballast := filepath.Join(base, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	journal := filepath.Join(dir, journalName(noon, bootA))
	failed := 0
	for i := range 20 {
		if err := s.Add(snap(bootA, noon.Add(time.Duration(i+1)*time.Minute))); err != nil {
			failed++
		}
		if data, err := os.ReadFile(journal); err != nil || len(data) > 0 && data[len(data)-1] != '\n' {
			t.Fatalf("the journal ends within a line (%v)", err)
		}
	}
	if failed == 0 {
		t.Fatal("every snapshot was taken, so the test proves nothing")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if sn := add(t, s, bootA, noon.Add(30*time.Minute)); sn.Seq != 22 {
		t.Errorf("number %d, want 22", sn.Seq)
	}
	add(t, s, bootA, noon.Add(time.Hour))
	for _, h := range hours(t, dir) {
		if got := h.Samples; got[0].Seq != 1 || got[len(got)-1].Seq != 22 {
			t.Errorf("the hour has samples %s, want 1 to 22", seqs(got))
		}
	}
}

func TestClockGoesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon.Add(59*time.Minute))
	add(t, s, bootA, noon.Add(61*time.Minute))
	add(t, s, bootA, noon.Add(58*time.Minute)) // into an hour that is sealed
	if b := latest(t, dir); b.Snapshot.Seq != 3 || !b.Snapshot.CollectedAt.Equal(noon.Add(58*time.Minute)) {
		t.Errorf("the bundle is number %d of %v", b.Snapshot.Seq, b.Snapshot.CollectedAt)
	}
	add(t, s, bootA, noon.Add(2*time.Hour))
	wantHours(t, dir, "hour-20261120T12-aaaaaaaa.2.jsonl.gz 3", "hour-20261120T12-aaaaaaaa.jsonl.gz 1",
		"hour-20261120T13-aaaaaaaa.jsonl.gz 2")
	for i := range 40 { // a clock that goes back and forth
		add(t, s, bootA, noon.Add(time.Duration(3+i%2)*time.Hour))
	}
	if n := len(hours(t, dir)); n != 4+2*maxVariants {
		t.Errorf("%d hour files", n)
	}
}

func TestAgeAndCaps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	s.maxBytes, s.maxFiles = 1<<20, 10
	for i := range 10_000 {
		if i > 30 && i < 9_970 {
			continue // the link was down for long, and so was the node
		}
		add(t, s, bootA, noon.Add(time.Duration(i)*time.Hour))
		if n := len(hours(t, dir)); n > 10 {
			t.Fatalf("%d hours are kept, and 10 is the bound", n)
		}
	}
	kept := hours(t, dir)
	for age := 1; age <= 10; age++ {
		if name := variant(noon.Add(time.Duration(9_999-age)*time.Hour), bootA, 1); kept[name] == nil {
			t.Errorf("%s is gone, and it is one of the newest", name)
		}
	}
	if b := latest(t, dir); b.Snapshot.Seq != 61 {
		t.Errorf("after 61 snapshots the number is %d", b.Snapshot.Seq)
	}
	s.Close()
	s = open(t, dir)
	s.maxBytes, s.maxFiles = 1000, 100
	add(t, s, bootA, noon.Add(10_001*time.Hour))
	total := int64(0)
	for name := range hours(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 1000 || total == 0 {
		t.Errorf("%d bytes are kept, and 1000 is the bound", total)
	}
}

func TestHoursExpire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	for i := range 61 {
		add(t, s, bootA, noon.Add(time.Duration(i)*time.Hour))
	}
	kept := hours(t, dir)
	oldest, expired := variant(noon.Add(11*time.Hour), bootA, 1), variant(noon.Add(10*time.Hour), bootA, 1)
	if len(kept) != 49 || kept[oldest] == nil || kept[expired] != nil {
		t.Errorf("%d hours are kept, want 49: those that ended at most 48 hours ago", len(kept))
	}
}

func TestSamplesOfTheFutureAreNotInTheBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon.Add(2*time.Hour))
	add(t, s, bootA, noon) // the clock was set back
	if b := latest(t, dir); seqs(b.Samples) != "2" {
		t.Errorf("the bundle has samples %s, want 2", seqs(b.Samples))
	}
}

// TestAnHourWithTooManySamples: what a reader would refuse is cut to the newest samples.
func TestAnHourWithTooManySamples(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	journal := filepath.Join(dir, journalName(noon, bootA))
	for i := range snapshot.MaxSamples + 1 {
		sample := snapshot.Sample{Seq: uint64(i + 1), At: noon.Add(time.Duration(i) * 500 * time.Millisecond)}
		if err := appendSample(journal, sample); err != nil {
			t.Fatal(err)
		}
	}
	add(t, s, bootA, noon.Add(time.Hour))
	for name, h := range hours(t, dir) {
		if last := h.Samples[len(h.Samples)-1].Seq; last != snapshot.MaxSamples+1 ||
			len(h.Samples) != snapshot.MaxSamples/2+1 {
			t.Errorf("%s has %d samples up to number %d", name, len(h.Samples), last)
		}
	}
}

func TestNamesOfJournals(t *testing.T) {
	if hour, boot, ok := parseJournalName(journalName(noon, bootA)); !ok || boot != bootA || !hour.Equal(noon) {
		t.Errorf("%v, %q, %v", hour, boot, ok)
	}
	for _, name := range []string{"journal-20261120T12-a", ".journal-20261120T12", ".journal-20261120T12-",
		".journal-20261120T12-a b", ".journal-20261199T12-a", ".journal--a"} {
		if _, _, ok := parseJournalName(name); ok {
			t.Errorf("%q is the name of a journal", name)
		}
	}
}

func TestTornJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	for i := range 3 {
		add(t, s, bootA, noon.Add(time.Duration(i)*time.Minute))
	}
	s.Close()
	path := filepath.Join(dir, journalName(noon, bootA))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		data string
		want string
	}{
		{"a torn line", string(whole) + `[{"seq":[4`, "1 2 3 4"},
		{"a line of zeros", string(whole) + strings.Repeat("\x00", 100) + "\n", "1 2 3 4"},
		{"a line twice", string(whole) + strings.Fields(string(whole))[2] + "\n", "1 2 3 4"},
		{"nothing", "", "4"},
	} {
		if err := os.WriteFile(path, []byte(test.data), 0o600); err != nil {
			t.Fatal(err)
		}
		work := filepath.Join(t.TempDir(), "spool")
		if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(work, 0o700); err != nil {
			t.Fatal(err)
		}
		s := open(t, work)
		if sn := add(t, s, bootA, noon.Add(5*time.Minute)); sn.Seq != 4 {
			t.Errorf("%s: number %d, want 4", test.name, sn.Seq)
		}
		add(t, s, bootA, noon.Add(time.Hour))
		if got := fmt.Sprint(hourNames(t, work)); got != "[hour-20261120T12-aaaaaaaa.jsonl.gz "+test.want+"]" {
			t.Errorf("%s: %s, want samples %s", test.name, got, test.want)
		}
	}
}

func TestJournalWithoutASample(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	torn := filepath.Join(dir, journalName(noon, bootB))
	if err := os.WriteFile(torn, []byte(`[{"seq":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	add(t, s, bootA, noon.Add(time.Hour))
	if _, err := os.Stat(torn); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal is still there: %v", err)
	}
	wantHours(t, dir)
}

func TestWithoutBootID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	a := add(t, s, "", noon)
	b := add(t, s, "", noon.Add(time.Minute))
	s.Close()
	c := add(t, open(t, dir), "", noon.Add(2*time.Minute))
	if a.BootID == "" || a.BootID != b.BootID || b.Seq != 2 || c.BootID == a.BootID {
		t.Errorf("stand-ins for the boot id: %q %d, %q %d, %q %d", a.BootID, a.Seq, b.BootID, b.Seq, c.BootID, c.Seq)
	}
}
