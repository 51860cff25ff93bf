package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(file, []byte("four"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	before := openFiles(t)
	defer func() {
		if after := openFiles(t); after != before {
			t.Errorf("%d files were open before, and %d after", before, after)
		}
	}()
	if _, err := Read(dir, 10); SetAside(err) != "mv -T "+dir+" "+dir+".aside" {
		t.Errorf("%v: %q", err, SetAside(err))
	}
	for path, want := range map[string]error{filepath.Join(dir, "none"): fs.ErrNotExist, fifo: ErrNotRegular,
		dir: ErrNotRegular} {
		if data, err := Read(path, 10); !errors.Is(err, want) || data != nil {
			t.Errorf("%s: %q, %v; want %v", path, data, err, want)
		}
	}
	if f, _, err := OpenIn(root, "fifo"); !errors.Is(err, ErrNotRegular) || f != nil {
		t.Errorf("a FIFO below a root: %v", err)
	}
	f, info, err := OpenIn(root, "file")
	if err != nil || info.Size() != 4 {
		t.Fatalf("a file below a root: %v, %v", info, err)
	}
	f.Close()
	if data, err := Read(file, 3); err == nil || data != nil {
		t.Errorf("a file of 4 bytes, of which 3 are the most: %q, %v", data, err)
	}
	if data, err := Read(file, 4); string(data) != "four" || err != nil {
		t.Errorf("a file of 4 bytes: %q, %v", data, err)
	}
	if _, err := Read("/proc/self/mem", 4); !errors.Is(err, unix.EIO) { // there is nothing at its beginning
		t.Errorf("a file that cannot be read: %v", err)
	}
}
