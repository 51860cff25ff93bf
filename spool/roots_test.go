package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/snapshot"
)

// deliver puts a bundle into the drop of a host below a data directory.
func deliver(t *testing.T, data, host string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(data, "drop", host), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "drop", host, LatestName), content)
}

func bundleAt(t *testing.T, host, boot string, seq uint64, at time.Time) []byte {
	t.Helper()
	sn := snap(boot, at)
	sn.Host, sn.Seq = host, seq
	data, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: boot, Snapshot: sn, Samples: []snapshot.Sample{sn.Sample()}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func openRoots(t *testing.T, o RootsOptions, roots ...Root) *Roots {
	t.Helper()
	r := OpenRoots(o, roots...)
	t.Cleanup(func() { r.Close() })
	return r
}

func local(dirs ...string) (roots []Root) {
	for i, dir := range dirs {
		roots = append(roots, Root{Name: fmt.Sprintf("root%d", i), Dir: dir})
	}
	return roots
}

// look wants these problems, as "code file", and these hosts.
func look(t *testing.T, r *Roots, now time.Time, problems, hosts string) []snapshot.Problem {
	t.Helper()
	found := r.Look(context.Background(), now)
	var got []string
	for _, p := range found {
		got = append(got, p.Code+" "+p.File)
	}
	names, _ := r.Hosts()
	if strings.Join(got, ", ") != problems || strings.Join(names, " ") != hosts {
		t.Errorf("problems %q (%v), hosts %q; want %q and %q", got, found, names, problems, hosts)
	}
	return found
}

func wantSeq(t *testing.T, r *Roots, host string, seq uint64) {
	t.Helper()
	b, info, err := r.Latest(host)
	if err != nil || b.Snapshot.Seq != seq || len(info.Raw) == 0 {
		t.Errorf("%s: %+v, %v, want number %d", host, b, err, seq)
	}
}

func TestTheNewestSnapshotOfSeveralRootsCounts(t *testing.T) {
	for _, test := range []struct {
		name         string
		boot0, boot1 string
		seq0, seq1   uint64
		at0, at1     time.Time
		want         uint64
	}{
		{"the second is newer", bootA, bootB, 7, 3, noon, noon.Add(time.Second), 3},
		{"the first is newer", bootA, bootB, 3, 7, noon.Add(time.Second), noon, 3},
		{"equal: the first", bootA, bootB, 3, 7, noon, noon, 3},
		{"one boot: the number, whatever the clock did", bootA, bootA, 8, 7, noon.Add(-time.Hour), noon, 8},
		{"a moment to come proves nothing", bootA, bootB, 3, 7, noon, noon.Add(time.Hour), 3},
		{"and neither does it first", bootA, bootB, 7, 3, noon.Add(time.Hour), noon, 3},
		{"a clock may be a little ahead", bootA, bootB, 3, 7, noon, noon.Add(30 * time.Second), 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := t.TempDir(), t.TempDir()
			deliver(t, a, "gpu01", bundleAt(t, "gpu01", test.boot0, test.seq0, test.at0))
			deliver(t, b, "gpu01", bundleAt(t, "gpu01", test.boot1, test.seq1, test.at1))
			r := openRoots(t, RootsOptions{}, local(a, b)...)
			look(t, r, noon, "", "gpu01")
			wantSeq(t, r, "gpu01", test.want)
		})
	}
}

func TestARootThatIsAwayKeepsItsHosts(t *testing.T) {
	a, b := t.TempDir(), filepath.Join(t.TempDir(), "mounted")
	memory := filepath.Join(t.TempDir(), "roots.json")
	deliver(t, a, "gpu01", bundleAt(t, "gpu01", bootA, 1, noon))
	deliver(t, b, "gpu02", bundleAt(t, "gpu02", bootB, 2, noon))
	r := openRoots(t, RootsOptions{Memory: memory}, local(a, b)...)
	look(t, r, noon, "", "gpu01 gpu02")

	away := b + "-away"
	rename(t, b, away)
	found := look(t, r, noon.Add(time.Minute), "root:unreachable root1", "gpu01 gpu02")
	if !strings.Contains(found[0].Message, "its host is shown as it last was") {
		t.Errorf("%q does not say what is shown", found[0].Message)
	}
	wantSeq(t, r, "gpu02", 2)
	deliver(t, a, "gpu01", bundleAt(t, "gpu01", bootA, 5, noon.Add(time.Minute)))
	look(t, r, noon.Add(2*time.Minute), "root:unreachable root1", "gpu01 gpu02")
	wantSeq(t, r, "gpu01", 5) // the others go on

	// A process that begins now has never seen it, and knows of it all the same.
	again := openRoots(t, RootsOptions{Memory: memory}, local(a, b)...)
	look(t, again, noon.Add(2*time.Minute), "root:unreachable root1", "gpu01 gpu02")
	if _, _, err := again.Latest("gpu02"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that there is nothing", err)
	}

	// The mount point without the disk.
	if err := os.Mkdir(b, 0o755); err != nil {
		t.Fatal(err)
	}
	look(t, r, noon.Add(3*time.Minute), "root:unreachable root1", "gpu01 gpu02")
	if err := os.Mkdir(filepath.Join(b, "drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	look(t, r, noon.Add(3*time.Minute), "root:empty root1", "gpu01 gpu02")
	wantSeq(t, r, "gpu02", 2)

	if err := os.RemoveAll(b); err != nil {
		t.Fatal(err)
	}
	rename(t, away, b)
	deliver(t, b, "gpu02", bundleAt(t, "gpu02", bootB, 9, noon.Add(4*time.Minute)))
	look(t, r, noon.Add(4*time.Minute), "", "gpu01 gpu02")
	wantSeq(t, r, "gpu02", 9)

	// A host that is gone from a root that answers is gone.
	deliver(t, b, "gpu03", bundleAt(t, "gpu03", bootB, 9, noon))
	if err := os.RemoveAll(filepath.Join(b, "drop", "gpu02")); err != nil {
		t.Fatal(err)
	}
	look(t, r, noon.Add(5*time.Minute), "", "gpu01 gpu03")
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestARootThatHangsDelaysNobodyForLong(t *testing.T) {
	a, copied := t.TempDir(), t.TempDir()
	deliver(t, a, "gpu01", bundleAt(t, "gpu01", bootA, 1, noon))
	deliver(t, copied, "gpu02", bundleAt(t, "gpu02", bootB, 2, noon))
	release, calls := make(chan struct{}), make(chan struct{}, 10)
	hanging := Root{Name: "far", Dir: copied, Refresh: func(context.Context) ([]snapshot.Problem, error) {
		calls <- struct{}{}
		<-release // as a call to a file system over a network does: no context ends it
		return nil, nil
	}}
	r := openRoots(t, RootsOptions{Budget: 50 * time.Millisecond}, append(local(a), hanging)...)
	for range 3 {
		look(t, r, noon, "root:unreachable far", "gpu01 gpu02")
	}
	wantSeq(t, r, "gpu01", 1)
	wantSeq(t, r, "gpu02", 2) // the copy, as it was
	if hours, _ := r.Hours("gpu02"); len(hours) != 0 {
		t.Errorf("%v", hours)
	}
	if n := len(calls); n != 1 {
		t.Errorf("%d looks hang, want one", n)
	}
	deliver(t, copied, "gpu02", bundleAt(t, "gpu02", bootB, 3, noon))
	close(release)
	for try := 0; ; try++ { // it ends beside us
		if problems := r.Look(context.Background(), noon); len(problems) == 0 {
			break
		} else if try == 100 {
			t.Fatal(problems)
		}
	}
	wantSeq(t, r, "gpu02", 3)
}

func TestACopyThatCannotBeRefreshedIsStillRead(t *testing.T) {
	copied := t.TempDir()
	deliver(t, copied, "gpu02", bundleAt(t, "gpu02", bootB, 2, noon))
	var refuse error
	r := openRoots(t, RootsOptions{}, append(local(t.TempDir()), Root{Name: "far", Dir: copied,
		Refresh: func(context.Context) ([]snapshot.Problem, error) {
			return []snapshot.Problem{{Code: "bad:notregular", Host: "gpu02"}}, refuse
		}})...)
	look(t, r, noon, "", "gpu02")
	if _, problems := r.Hosts(); len(problems) != 1 || problems[0].Host != "gpu02" {
		t.Errorf("problems %v", problems)
	}
	refuse = errors.New("connection refused")
	found := look(t, r, noon, "root:unreachable far", "gpu02")
	if !strings.Contains(found[0].Message, "connection refused") {
		t.Errorf("%q does not say why", found[0].Message)
	}
	wantSeq(t, r, "gpu02", 2)
	// It came as far as a new host, and the copy of the other was deleted by hand.
	deliver(t, copied, "gpu03", bundleAt(t, "gpu03", bootB, 1, noon))
	if err := os.RemoveAll(filepath.Join(copied, "drop", "gpu02")); err != nil {
		t.Fatal(err)
	}
	look(t, r, noon, "root:unreachable far", "gpu02 gpu03")
}

func TestAHostileRootHarmsNoOther(t *testing.T) {
	good, bad := t.TempDir(), t.TempDir()
	for _, host := range []string{"gpu01", "gpu02", "gpu03"} {
		deliver(t, good, host, bundleAt(t, host, bootA, 1, noon))
	}
	deliver(t, bad, "gpu01", []byte("no bundle"))
	deliver(t, bad, "gpu02", bundleAt(t, "gpu03", bootA, 99, noon.Add(time.Second)))
	deliver(t, bad, "gpu04", []byte("no bundle"))
	for _, dir := range []string{"gpu03", "gpu05"} {
		if err := os.MkdirAll(filepath.Join(bad, "drop", dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(good, "drop", "gpu01", LatestName), filepath.Join(bad, "drop", dir, LatestName)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(good, "drop", "gpu01"), filepath.Join(bad, "drop", "gpu06")); err != nil {
		t.Fatal(err)
	}
	r := openRoots(t, RootsOptions{}, local(good, bad)...)
	look(t, r, noon, "", "gpu01 gpu02 gpu03 gpu04 gpu05")
	for _, host := range []string{"gpu01", "gpu02", "gpu03"} {
		wantSeq(t, r, host, 1)
	}
	for host, code := range map[string]string{"gpu04": "bad:gzip", "gpu05": badNotRegular} {
		if _, _, err := r.Latest(host); snapshot.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", host, err, code)
		}
	}
	if _, problems := r.Hosts(); len(problems) != 1 || problems[0].File != "root1" || problems[0].Code != badNotRegular {
		t.Errorf("problems %v, want the link in root1", problems)
	}
	for _, host := range []string{"..", "gpu01/in"} {
		if _, _, err := r.Latest(host); snapshot.CodeOf(err) != snapshot.BadHost {
			t.Errorf("%q: %v, want bad:host", host, err)
		}
	}
}

func TestFinishedHoursOfAllRootsAreRead(t *testing.T) {
	a, dropA := fleet(t) // gpu01 with two finished hours
	b := filepath.Join(t.TempDir(), "b")
	if err := os.CopyFS(b, os.DirFS(a)); err != nil {
		t.Fatal(err)
	}
	first := openRoots(t, RootsOptions{}, local(a)...)
	look(t, first, noon, "", "gpu01")
	all, _ := first.Hours("gpu01")
	if len(all) != 2 {
		t.Fatalf("%v", all)
	}
	// One hour is only in the first, the other in both, and broken in the first.
	if err := os.Remove(filepath.Join(b, "drop", "gpu01", all[0].Name)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dropA, all[1].Name), []byte("broken"))
	r := openRoots(t, RootsOptions{}, local(a, b)...)
	look(t, r, noon, "", "gpu01")
	hours, _ := r.Hours("gpu01")
	if len(hours) != 2 || hours[0].Name != all[0].Name || hours[1].Name != all[1].Name {
		t.Fatalf("%v, want %v", hours, all)
	}
	for i, f := range hours {
		if h, err := r.ReadHour(f); err != nil || seqs(h.Samples) != fmt.Sprint(i+1) {
			t.Errorf("hour %d: %+v, %v", i, h, err)
		}
	}
	rename(t, b, b+"-away")
	look(t, r, noon, "root:unreachable root1", "gpu01")
	if hours, _ := r.Hours("gpu01"); len(hours) != 2 {
		t.Errorf("%v, want those of the root that is away as well", hours)
	}
	if _, err := r.ReadHour(hours[1]); snapshot.CodeOf(err) != "bad:gzip" {
		t.Errorf("%v, want that the only one there is broken", err)
	}
}
