package atomicfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// temps counts what unfinished writes left.
func temps(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), ".tmp-") {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.html")
	inode := func() uint64 {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	step := func(data string, perm fs.FileMode, want bool) {
		t.Helper()
		changed, err := Write(path, []byte(data), perm)
		if err != nil || changed != want {
			t.Fatalf("writing %q: changed %v, %v; want %v", data, changed, err, want)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != perm || content(t, path) != data {
			t.Fatalf("there is %q, mode %v, %v", content(t, path), info.Mode(), err)
		}
	}
	step("one", 0o644, true)
	first := inode()
	step("one", 0o644, false)
	if inode() != first {
		t.Error("equal bytes were written anew")
	}
	step("two", 0o644, true)
	if inode() == first {
		t.Error("the file was written in place")
	}
	step("two", 0o600, false) // the mode is set right although the bytes are equal
	step("", 0o644, true)
	step(strings.Repeat("long ", 100_000), 0o644, true)
	step(strings.Repeat("long ", 99_999)+"lung ", 0o644, true)
	if n := temps(t, filepath.Dir(path)); n != 0 {
		t.Errorf("%d temporary files are left", n)
	}
	if _, err := Write(filepath.Join(t.TempDir(), "missing", "x"), nil, 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	if _, err := Write("/proc/self/x", nil, 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory where no file can be made: %v", err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"", ".", "..", "x/", "x/.", "x/.."} {
		if _, err := Write(name, nil, 0o644); err == nil || !strings.Contains(err.Error(), "no file is named") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if changed, err := Write("here", nil, 0o644); !changed || err != nil {
		t.Errorf("a name without a directory: %v, %v", changed, err)
	}
	if _, err := Write(filepath.Join(t.TempDir(), strings.Repeat("x", 255)), nil, 0o644); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	dir := t.TempDir()
	if changed, err := Write(filepath.Join(dir, strings.Repeat("x", 256)), nil, 0o644); changed ||
		!errors.Is(err, unix.ENAMETOOLONG) || temps(t, dir) != 0 {
		t.Errorf("a name that is too long: %v, %v, %d temporary files", changed, err, temps(t, dir))
	}
}

// makeSpecialFiles makes a file of each kind but regular, and returns the kind by name.
func makeSpecialFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink("secret", filepath.Join(dir, "symlink")),
		os.Symlink("nowhere", filepath.Join(dir, "dangling")),
		os.Mkdir(filepath.Join(dir, "directory"), 0o755),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	kinds := map[string]string{"symlink": "symlink", "dangling": "symlink", "directory": "directory", "fifo": "FIFO",
		"socket": "socket"}
	if unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))) == nil {
		kinds["device"] = "device"
	}
	return kinds
}

func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	for name, kind := range makeSpecialFiles(t, dir) {
		before, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := Write(filepath.Join(dir, name), []byte("x"), 0o644); changed ||
			!errors.Is(err, ErrNotRegular) || !strings.HasSuffix(err.Error(), "it is a "+kind) {
			t.Errorf("%s: changed %v, %v; want ErrNotRegular and that it is a %s", name, changed, err, kind)
		}
		b, err := NewBatch(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(name, []byte("x"), 0o644); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s in a batch: %v, want ErrNotRegular", name, err)
		}
		if err := b.Commit(); !errors.Is(err, ErrNotRegular) {
			t.Errorf("committing after that: %v", err)
		}
		after, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s was %v and is %v, %v", name, before.Mode(), after.Mode(), err)
		}
	}
	if got := content(t, filepath.Join(dir, "secret")); got != "secret" {
		t.Errorf("the file behind the symlink is %q", got)
	}
	if n := temps(t, dir); n != 0 {
		t.Errorf("%d temporary files are left", n)
	}
}

func TestModesWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0o077, 0} {
		old := unix.Umask(mask)
		dir := t.TempDir()
		_, err := Write(filepath.Join(dir, "page"), []byte("x"), 0o644)
		b, batchErr := NewBatch(dir)
		if batchErr == nil {
			batchErr = errors.Join(b.Add("hosts/gpu01/page", []byte("x"), 0o644), b.Commit())
		}
		mkdirErr := MkdirAll(filepath.Join(dir, "spool", "in"), 0o775)
		unix.Umask(old)
		if err := errors.Join(err, batchErr, mkdirErr); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{
			"page": 0o644, "hosts": fs.ModeDir | 0o755, "hosts/gpu01": fs.ModeDir | 0o755, "hosts/gpu01/page": 0o644,
			"spool": fs.ModeDir | 0o775, "spool/in": fs.ModeDir | 0o775,
		} {
			info, err := os.Lstat(filepath.Join(dir, name))
			if err != nil || info.Mode() != want {
				t.Errorf("umask %03o: %s has mode %v, %v; want %v", mask, name, info.Mode(), err, want)
			}
		}
	}
}

func TestMkdirAllRefusesFiles(t *testing.T) {
	if err := MkdirAll(t.TempDir(), 0o755); err != nil {
		t.Errorf("a directory that exists: %v", err)
	}
	dir := t.TempDir()
	if err := MkdirAll(dir+"/missing/../made/", 0o755); err != nil {
		t.Errorf("a path that is not clean: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, filepath.Join(path, "below")} {
		if err := MkdirAll(name, 0o755); err == nil {
			t.Errorf("%s is said to be a directory", name)
		}
	}
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(loop, 0o755); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a directory that cannot be looked at: %v", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.MkdirAll(filepath.Join(dir, "hosts"), 0o755); err != nil {
		t.Fatal(err)
	}
	age := func(name string, age time.Duration) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(dir, name), now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	for _, name := range []string{"a", "hosts/b", "young"} {
		temp, err := stage(root, name, []byte("half"), 0o644, false)
		if err != nil {
			t.Fatal(err)
		}
		age(temp, 2*time.Hour)
		if name == "young" {
			age(temp, time.Minute)
			left = append(left, temp)
		}
	}
	for _, name := range []string{".tmp-mine", "tmp-a-ABCDEFGHIJKLMNOPQRSTUVWXYZ", ".htaccess", "page"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		age(name, 2*time.Hour)
		left = append(left, name)
	}
	directory := tempPrefix + "hosts-" + rand.Text()
	if err := os.Mkdir(filepath.Join(dir, directory), 0o755); err != nil {
		t.Fatal(err)
	}
	age(directory, 2*time.Hour)
	left = append(left, directory)
	if _, err := Sweep(filepath.Join(dir, "missing"), time.Hour, now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	if n, err := Sweep(dir, time.Hour, now); n != 2 || err != nil {
		t.Errorf("swept %d, %v; want 2", n, err)
	}
	for _, name := range left {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s was swept: %v", name, err)
		}
	}
}

// A reader that opened the old file reads it to its end, whatever is written meanwhile.
func TestSlowReaderKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	old := bytes.Repeat([]byte("old "), 50_000)
	if _, err := Write(path, old, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []byte
	buf := make([]byte, 10_000)
	for i := 0; ; i++ {
		n, err := f.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			break
		}
		if _, err := Write(path, fmt.Appendf(nil, "new %d", i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, old) {
		t.Errorf("the reader saw %d bytes, not the %d of the old file", len(got), len(old))
	}
}

// torn reads path from four goroutines while write replaces it, until there were
// at least 10,000 reads, and counts those that were not one whole generation.
func torn(t *testing.T, path string, write func([]byte) error) (bad int64) {
	t.Helper()
	generation := func(i int) []byte {
		return bytes.Repeat([]byte{byte('a' + i%26)}, 40_000+1000*(i%7))
	}
	if err := write(generation(0)); err != nil {
		t.Fatal(err)
	}
	var reads, wrong atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				data, err := os.ReadFile(path)
				whole := err == nil && len(data) > 0 && len(data) == 40_000+1000*((len(data)-40_000)/1000) &&
					bytes.Count(data, data[:1]) == len(data)
				if whole {
					whole = false
					for i := range 26 * 7 {
						if byte('a'+i%26) == data[0] && len(data) == 40_000+1000*(i%7) {
							whole = true
							break
						}
					}
				}
				if !whole {
					wrong.Add(1)
				}
				reads.Add(1)
			}
		})
	}
	var err error
	for i := 1; err == nil && (reads.Load() < 10_000 || i < 50); i++ {
		err = write(generation(i))
	}
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return wrong.Load()
}

func TestNoTornReads(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "page")
	for name, write := range map[string]func([]byte) error{
		"Write": func(data []byte) error { _, err := Write(path, data, 0o644); return err },
		"Batch": func(data []byte) error {
			b, err := NewBatch(dir)
			if err != nil {
				return err
			}
			return errors.Join(b.Add("page", data, 0o644), b.Commit())
		},
	} {
		if bad := torn(t, path, write); bad != 0 {
			t.Errorf("%s: %d torn reads", name, bad)
		}
	}
	// The check has to be able to fail: writing in place must not pass it.
	if bad := torn(t, path, func(data []byte) error { return os.WriteFile(path, data, 0o644) }); bad == 0 {
		t.Error("writing in place passes the same check, so the check is worth nothing")
	}
}

func TestWriteUnsynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "beat.json")
	for i, want := range []bool{true, false, true} {
		text := []string{"one", "one", "two"}[i]
		changed, err := WriteUnsynced(path, []byte(text), 0o600)
		if err != nil || changed != want || content(t, path) != text {
			t.Errorf("%s: changed %v, %v, the file holds %q", text, changed, err, content(t, path))
		}
	}
	if n := temps(t, filepath.Dir(path)); n != 0 {
		t.Errorf("%d temporary files are left", n)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteUnsynced(path, []byte("x"), 0o600); !errors.Is(err, ErrNotRegular) {
		t.Errorf("%v, want that a link is refused", err)
	}
}

func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := SyncDir(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}
