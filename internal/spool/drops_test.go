package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

// fleet makes a data directory with one honest host, gpu01, and returns it with
// the directory of its drop.
func fleet(t *testing.T) (data, drop string) {
	t.Helper()
	data = t.TempDir()
	drop = filepath.Join(data, "drop", "gpu01")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	for i := range 3 {
		add(t, s, bootA, noon.Add(time.Duration(i)*time.Hour))
	}
	files, err := s.Pending("drop")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		content, err := s.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(drop, name), content)
	}
	return data, drop
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func drops(t *testing.T, data string) *Drops {
	t.Helper()
	d, err := OpenDrops(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func bundleOf(t *testing.T, host string, seq uint64, at time.Time) []byte {
	t.Helper()
	sn := snap(bootA, at)
	sn.Seq = seq
	data, err := snapshot.EncodeBundle(
		&snapshot.Bundle{Host: host, BootID: bootA, Snapshot: sn, Samples: []snapshot.Sample{sn.Sample()}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDrops(t *testing.T) {
	data, drop := fleet(t)
	d := drops(t, data)
	hosts, problems := d.Hosts()
	if fmt.Sprint(hosts) != "[gpu01]" || len(problems) != 0 {
		t.Errorf("hosts %v, problems %v", hosts, problems)
	}
	b, raw, err := d.Latest("gpu01")
	if err != nil {
		t.Fatal(err)
	}
	content := read(t, filepath.Join(drop, LatestName))
	if b.Snapshot.Seq != 3 || !bytes.Equal(raw, content) {
		t.Errorf("number %d, %d bytes", b.Snapshot.Seq, len(raw))
	}
	if again, _, err := d.Latest("gpu01"); err != nil || again != b {
		t.Errorf("an unchanged file was decoded again (%v)", err)
	}
	write(t, filepath.Join(drop, "new"), bundleOf(t, "gpu01", 4, noon.Add(3*time.Hour)))
	if err := os.Rename(filepath.Join(drop, "new"), filepath.Join(drop, LatestName)); err != nil {
		t.Fatal(err)
	}
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 4 {
		t.Errorf("after a new delivery: %v, %v", b, err)
	}
	if err := os.Rename(filepath.Join(drop, LatestName), filepath.Join(drop, "away")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Latest("gpu01"); !errors.Is(err, fs.ErrNotExist) || len(d.cache) != 0 {
		t.Errorf("without a file: %v, %d are kept", err, len(d.cache))
	}
	if err := os.Rename(filepath.Join(drop, "away"), filepath.Join(drop, LatestName)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(drop, "NOTES"), nil) // sorts before the hours
	found := d.Hours("gpu01")
	if len(found) != 2 || !found[0].Start.Equal(noon) || found[0].Boot != "aaaaaaaa" {
		t.Fatalf("hours %+v", found)
	}
	for i, f := range found {
		h, err := d.ReadHour(f)
		if err != nil || seqs(h.Samples) != fmt.Sprint(i+1) {
			t.Errorf("hour %d: %+v, %v", i, h, err)
		}
	}
	for _, f := range []HourFile{{Host: "gpu01", Name: "latest.json.gz"}, {Host: "gpu02", Name: found[0].Name},
		{Host: "gpu01", Name: "in/" + found[0].Name}, {Host: "gpu01", Name: "hour-20261120T05-b1.jsonl.gz"}} {
		if h, err := d.ReadHour(f); h != nil || err == nil ||
			!errors.Is(err, fs.ErrNotExist) != (f.Name == LatestName) {
			t.Errorf("%+v: %v, %v", f, h, err)
		}
	}
	write(t, filepath.Join(drop, "hour-20269999T05-b.jsonl.gz"), nil)
	if found := d.Hours("gpu01"); len(found) != 2 {
		t.Errorf("an hour that cannot be: %v", found)
	}
	for _, host := range []string{"gpu02", "../gpu01"} { // without a drop, and none
		if found := d.Hours(host); found != nil {
			t.Errorf("hours of %s: %v", host, found)
		}
	}
	for _, host := range []string{"gpu02", "in"} {
		if _, _, err := d.Latest(host); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it does not exist", host, err)
		}
	}
	for _, host := range []string{"..", "../gpu01", "GPU01", "", "gpu01/in", "gpu01\x00"} {
		if _, _, err := d.Latest(host); snapshot.CodeOf(err) != snapshot.BadHost {
			t.Errorf("%q: %v, want bad:host", host, err)
		}
	}
}

func hourFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "hour-*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no hours in %s (%v)", dir, err)
	}
	return names[0]
}

func TestDropDirectoryComesLater(t *testing.T) {
	data := t.TempDir()
	d := drops(t, data)
	if hosts, problems := d.Hosts(); hosts != nil || problems != nil {
		t.Errorf("without a drop directory: %v, %v", hosts, problems)
	}
	if _, _, err := d.Latest("gpu01"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a drop directory: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(data, "drop", "gpu01"), 0o755); err != nil {
		t.Fatal(err)
	}
	if hosts, _ := d.Hosts(); fmt.Sprint(hosts) != "[gpu01]" {
		t.Errorf("after it came: %v", hosts)
	}
}

func TestDropDirectoryIsAFile(t *testing.T) {
	data := t.TempDir()
	d := drops(t, data)
	write(t, filepath.Join(data, "drop"), nil)
	if hosts, problems := d.Hosts(); hosts != nil || len(problems) != 1 || problems[0].Code != badUnreadable {
		t.Errorf("%v, %v", hosts, problems)
	}
	if _, _, err := d.Latest("gpu01"); snapshot.CodeOf(err) != badUnreadable ||
		!strings.HasPrefix(err.Error(), "reading snapshot of gpu01: ") {
		t.Errorf("latest: %v", err)
	}
	if _, err := OpenDrops(data); err == nil {
		t.Error("it was opened")
	}
}

// Within one boot the number decides, between two boots the time, and the future loses.
func TestNewer(t *testing.T) {
	bundle := func(boot string, seq uint64, minutes int) *snapshot.Bundle {
		return &snapshot.Bundle{BootID: boot,
			Snapshot: &snapshot.Snapshot{Seq: seq,
				CollectedAt: snapshot.TimeOf(noon.Add(time.Duration(minutes) * time.Minute))}}
	}
	limit := noon.Add(10 * time.Minute)
	for _, tt := range []struct {
		a, b  *snapshot.Bundle
		limit time.Time
		want  bool
	}{
		{bundle(bootA, 2, 0), bundle(bootA, 1, 5), limit, true},
		{bundle(bootA, 1, 5), bundle(bootA, 2, 0), limit, false},
		{bundle(bootA, 1, 5), bundle(bootA, 1, 0), limit, false},
		{bundle(bootA, 1, 5), bundle(bootB, 2, 0), limit, true},
		{bundle(bootA, 1, 0), bundle(bootB, 1, 0), limit, false},
		{bundle(bootA, 1, 11), bundle(bootB, 1, 0), limit, false},
		{bundle(bootA, 1, 0), bundle(bootB, 1, 11), limit, true},
		{bundle(bootA, 1, 12), bundle(bootB, 1, 11), limit, true},
		{bundle(bootA, 1, 11), bundle(bootB, 1, 0), time.Time{}, true},
	} {
		if got := Newer(tt.a, tt.b, tt.limit); got != tt.want {
			t.Errorf("%s %v before %s %v: %v", tt.a.BootID, tt.a.Snapshot.CollectedAt, tt.b.BootID,
				tt.b.Snapshot.CollectedAt, got)
		}
	}
}

func TestHostsRefused(t *testing.T) {
	data, _ := fleet(t)
	root := filepath.Join(data, "drop")
	for _, name := range []string{"GPU07", "a_b", "x\x1b[31m", "page.html", "-", strings.Repeat("a", 70), ".hidden"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("gpu01", filepath.Join(root, "alias")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "file"), nil)
	d := drops(t, data)
	hosts, problems := d.Hosts()
	if fmt.Sprint(hosts) != "[gpu01]" || len(problems) != 8 {
		t.Errorf("hosts %v, problems %d: %v", hosts, len(problems), problems)
	}
	for _, p := range problems {
		if p.Code != badName && p.Code != badNotRegular || strings.Contains(p.Message, "\x1b") {
			t.Errorf("problem %+v", p)
		}
	}
	if _, _, err := d.Latest("alias"); snapshot.CodeOf(err) != badNotRegular {
		t.Errorf("a drop that is a symlink: %v", err)
	}
	if _, err := d.Make("../elsewhere"); err == nil {
		t.Error("a drop is made outside")
	}
	if _, err := os.Lstat(filepath.Join(data, "elsewhere")); err == nil {
		t.Error("a directory is made outside before its name is refused")
	}
	for i := range 200 {
		if err := os.Mkdir(filepath.Join(root, fmt.Sprintf("bad_%d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, problems := d.Hosts(); len(problems) != snapshot.MaxErrors+1 ||
		!strings.Contains(problems[snapshot.MaxErrors].Message, "+144 more") {
		t.Errorf("%d problems, the last %v", len(problems), problems[len(problems)-1])
	}
}

func TestHostileFiles(t *testing.T) {
	data, drop := fleet(t)
	secret := filepath.Join(t.TempDir(), "secret")
	good := bundleOf(t, "gpu01", 50, noon)
	write(t, secret, good)
	other := filepath.Join(data, "drop", "gpu02")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(other, LatestName), good)
	path := filepath.Join(drop, LatestName)
	hour := filepath.Base(hourFile(t, drop))
	d := drops(t, data)
	for _, test := range []struct {
		name string
		make func(path string) error
		code string
	}{
		{"an absolute symlink", func(p string) error { return os.Symlink(secret, p) }, badNotRegular},
		{"a symlink within", func(p string) error { return os.Symlink("../gpu02/"+LatestName, p) }, badNotRegular},
		{"a symlink to another file of the drop", func(p string) error { return os.Symlink(hour, p) }, badNotRegular},
		{"a dangling symlink", func(p string) error { return os.Symlink("nowhere", p) }, badNotRegular},
		{"a symlink to a directory", func(p string) error { return os.Symlink("/", p) }, badNotRegular},
		{"a hard link", func(p string) error { return os.Link(filepath.Join(other, LatestName), p) }, badNotRegular},
		{"a FIFO", func(p string) error { return unix.Mkfifo(p, 0o644) }, badNotRegular},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o755) }, badNotRegular},
		{"a socket", func(p string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}, badNotRegular},
		{"a sparse file of 8 TiB",
			func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o644), os.Truncate(p, 8<<40)) },
			snapshot.BadTooLarge},
		{"an empty file", func(p string) error { return os.WriteFile(p, nil, 0o644) }, snapshot.BadEmpty},
		{"noise", func(p string) error { return os.WriteFile(p, []byte("noise"), 0o644) }, snapshot.BadGzip},
		{"half a bundle", func(p string) error { return os.WriteFile(p, good[:len(good)/2], 0o644) }, snapshot.BadGzip},
		{"another host's", func(p string) error { return os.WriteFile(p, bundleOf(t, "gpu02", 1, noon), 0o644) },
			snapshot.BadForeign},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			err := test.make(path)
			if test.name == "a sparse file of 8 TiB" && errors.Is(err, unix.EFBIG) {
				need.Skip(t, "the file system has no files of 8 TiB")
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time from the cache, where there is one
				b, _, err := d.Latest("gpu01")
				if b != nil || snapshot.CodeOf(err) != test.code {
					t.Errorf("got %v, %v; want %s", b, err, test.code)
				}
			}
			// The same at the name of an hour.
			f := HourFile{Host: "gpu01", Name: "hour-20261120T09-aaaaaaaa.jsonl.gz", Start: noon.Add(-3 * time.Hour),
				Boot: "aaaaaaaa"}
			if err := os.Rename(path, filepath.Join(drop, f.Name)); err != nil {
				t.Fatal(err)
			}
			if h, err := d.ReadHour(f); h != nil || snapshot.CodeOf(err) == "" {
				t.Errorf("as an hour: %v, %v", h, err)
			}
			found := d.Hours("gpu01")
			if test.code == badNotRegular && test.name != "a hard link" && len(found) != 2 {
				t.Errorf("as an hour it is listed: %v", found)
			}
			if err := os.RemoveAll(filepath.Join(drop, f.Name)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if unix.Mknod(path, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) == nil {
		if _, _, err := d.Latest("gpu01"); snapshot.CodeOf(err) != badNotRegular {
			t.Errorf("a device: %v", err)
		}
	}
}

func TestForeignHour(t *testing.T) {
	data, drop := fleet(t)
	other := filepath.Join(data, "drop", "gpu02")
	if err := os.Rename(drop, other); err != nil {
		t.Fatal(err)
	}
	d := drops(t, data)
	found := d.Hours("gpu02")
	if _, err := d.ReadHour(found[0]); snapshot.CodeOf(err) != snapshot.BadForeign {
		t.Errorf("another host's hour: %v", err)
	}
	if err := os.Rename(other, drop); err != nil {
		t.Fatal(err)
	}
	name := hourFile(t, drop)
	for _, to := range []string{"hour-20261120T03-aaaaaaaa.jsonl.gz", "hour-20261120T12-bbbbbbbb.jsonl.gz"} {
		write(t, filepath.Join(drop, to), read(t, name))
	}
	found = d.Hours("gpu01")
	bad := 0
	for _, f := range found {
		if _, err := d.ReadHour(f); snapshot.CodeOf(err) == snapshot.BadParse {
			bad++
		}
	}
	if len(found) != 4 || bad != 2 {
		t.Errorf("of %d hours %d are refused for their names, want 2 of 4", len(found), bad)
	}
}

func TestManyFiles(t *testing.T) {
	data, drop := fleet(t)
	for i := range 10_000 {
		f, err := os.Create(filepath.Join(drop, fmt.Sprintf("junk%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	d := drops(t, data)
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 3 {
		t.Errorf("latest among 10,000 files: %v", err)
	}
	if found := d.Hours("gpu01"); len(found) > 2 {
		t.Errorf("hours among 10,000 files: %v", found)
	}
}

func BenchmarkLatestUnchanged(b *testing.B) {
	data := b.TempDir()
	drop := filepath.Join(data, "drop", "gpu01")
	sn := snap(bootA, noon)
	sn.Seq = 1
	content, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: "gpu01", BootID: bootA, Snapshot: sn})
	if err := errors.Join(err, os.MkdirAll(drop, 0o755),
		os.WriteFile(filepath.Join(drop, LatestName), content, 0o644)); err != nil {
		b.Fatal(err)
	}
	d, err := OpenDrops(data)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.Latest("gpu01"); err != nil {
			b.Fatal(err)
		}
	}
}
