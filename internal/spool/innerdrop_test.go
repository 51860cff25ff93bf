package spool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

func TestInnerDrop(t *testing.T) {
	data, drop := fleet(t)
	in := filepath.Join(drop, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	d := drops(t, data)
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 3 {
		t.Errorf("with an empty inner drop: %v", err)
	}
	write(t, filepath.Join(in, LatestName), bundleOf(t, "gpu01", 9, noon.Add(5*time.Hour)))
	name := filepath.Base(hourFile(t, drop))
	if err := os.Rename(filepath.Join(drop, name), filepath.Join(in, name)); err != nil {
		t.Fatal(err)
	}
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 9 {
		t.Errorf("of two bundles the older was taken: %v", err)
	}
	if err := os.Remove(filepath.Join(drop, LatestName)); err != nil {
		t.Fatal(err)
	}
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 9 {
		t.Errorf("of the inner drop alone: %v", err)
	}
	write(t, filepath.Join(drop, LatestName), []byte("broken"))
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 9 {
		t.Errorf("beside a broken one: %v", err)
	}
	found := d.Hours("gpu01")
	if len(found) != 2 {
		t.Fatalf("hours %+v", found)
	}
	for _, f := range found {
		if h, err := d.ReadHour(f); err != nil || !h.Start.Equal(f.Start) {
			t.Errorf("%s: %v, %v", f.Name, h, err)
		}
	}
}

// A broken bundle in the inner drop is not hidden by an older one in the outer drop.
func TestBrokenInnerDrop(t *testing.T) {
	data, drop := fleet(t)
	if err := os.Mkdir(filepath.Join(drop, InnerName), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(drop, InnerName, LatestName), []byte("broken"))
	if b, _, err := drops(t, data).Latest("gpu01"); b != nil || snapshot.CodeOf(err) == "" {
		t.Errorf("%v, %v", b, err)
	}
}

// A bundle that the system refuses is read once it can be, although the file is the same.
func TestLatestThatCannotBeReadYet(t *testing.T) {
	data, drop := fleet(t)
	d := drops(t, data)
	second := filepath.Join(data, "second name")
	if err := os.Link(filepath.Join(drop, LatestName), second); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Latest("gpu01"); !Passing(err) {
		t.Errorf("a file with two names: %v", err)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 3 {
		t.Errorf("with one name again: %v, %v", b, err)
	}
}

func TestInnerDropThatIsASymlink(t *testing.T) {
	data, drop := fleet(t)
	if err := os.Rename(drop, filepath.Join(data, "drop", "gpu02")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../gpu02", filepath.Join(drop, InnerName)); err != nil {
		t.Fatal(err)
	}
	d := drops(t, data)
	if _, _, err := d.Latest("gpu01"); snapshot.CodeOf(err) != badNotRegular {
		t.Errorf("latest through a symlink: %v", err)
	}
	if found := d.Hours("gpu01"); len(found) != 0 {
		t.Errorf("hours through a symlink: %v", found)
	}
}

// TestLargerNumberWinsAcrossBothPlaces: wherever the newer of the drop's two bundles is, it
// is read, and a clock that was set back does not make it the older one.
func TestLargerNumberWinsAcrossBothPlaces(t *testing.T) {
	for name, newest := range map[string]string{"outer": LatestName, "inner": filepath.Join(InnerName, LatestName)} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			drop := filepath.Join(data, "drop", "gpu01")
			if err := os.MkdirAll(filepath.Join(drop, InnerName), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(drop, LatestName), bundleOf(t, "gpu01", 8, noon))
			write(t, filepath.Join(drop, InnerName, LatestName), bundleOf(t, "gpu01", 8, noon))
			write(t, filepath.Join(drop, newest), bundleOf(t, "gpu01", 9, noon.Add(-time.Hour)))
			if b, _, err := drops(t, data).Latest("gpu01"); err != nil || b.Snapshot.Seq != 9 {
				t.Errorf("latest is %v, %v; want number 9, though its clock was set back", b, err)
			}
		})
	}
}
