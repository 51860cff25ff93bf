package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuboard/internal/testenv/need"
)

// TestLimitDrops runs the script that deploy/sshd brings, and fills what it made
// as a node would.
func TestLimitDrops(t *testing.T) {
	t.Parallel()
	need.Root(t)
	for _, program := range []string{"mkfs.ext4", "fallocate", "losetup", "mountpoint"} {
		need.Program(t, program)
	}
	root := t.TempDir()
	drop := filepath.Join(root, "data", "drop")
	in := filepath.Join(drop, "gpu01", "in")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	latest := filepath.Join(in, "latest.json.gz")
	if err := os.WriteFile(latest, []byte("news"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(in, 12345, 54321), os.Chown(latest, 12345, 54321),
		os.Chmod(in, 0o770|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	fstab := filepath.Join(root, "fstab")
	run := func(args ...string) (string, error) {
		c := exec.Command("sh", append([]string{"deploy/sshd/limit-drops.sh"}, args...)...)
		c.Env = append(os.Environ(), "IMAGES="+filepath.Join(root, "images"), "FSTAB="+fstab)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := run(in, "many", "700"); err == nil || len(entriesOf(t, filepath.Join(root, "images"))) != 0 {
		t.Errorf("a size that is none: %v\n%s", err, out)
	}
	out, err := run(in, "32M", "700")
	if err != nil && strings.Contains(out, "mount:") {
		need.Skip(t, "no file system can be mounted from a file here: "+out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mounted := true
	unmount := func() {
		if mounted {
			mounted = false
			// A program that another test is starting may have a copy of an open file for a moment.
			if err := syscall.Unmount(in, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unmount)

	if got := mustReadFile(t, latest); got != "news" {
		t.Errorf("latest.json.gz holds %q", got)
	}
	for path, want := range map[string]string{in: "dgrwxrwx---", latest: "-rw-r-----"} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 12345 || stat.Gid != 54321 ||
			info.Mode().String() != want {
			t.Errorf("%s is %s of %d:%d, want %s", path, info.Mode(), stat.Uid, stat.Gid, want)
		}
	}
	if names := entriesOf(t, in); len(names) != 1 {
		t.Errorf("the drop holds %v", names)
	}
	image := filepath.Join(root, "images", strings.ReplaceAll(in[1:], "/", "-")+".ext4")
	if got, want := mustReadFile(t, fstab), fmt.Sprintf("%s %s ext4 loop,nodev,nosuid,noexec,nofail 0 2\n", image,
		in); got != want {
		t.Errorf("fstab:\n%swant\n%s", got, want)
	}
	if out, err := run(in, "32M", "700"); err == nil || !strings.Contains(out, "has a file system of its own already") {
		t.Errorf("a second time: %v\n%s", err, out)
	}

	// What one node did to the web host: many files, and much in them.
	full := error(nil)
	for n := 0; n < 3000 && full == nil; n++ {
		full = os.WriteFile(filepath.Join(in, fmt.Sprint("x", n)), nil, 0o644)
	}
	if files := len(entriesOf(t, in)); !errors.Is(full, syscall.ENOSPC) || files < 320 || files > 800 {
		t.Errorf("%d files, then: %v", files, full)
	}
	f, err := os.OpenFile(latest, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	full = nil
	written := 0
	for piece := make([]byte, 1<<20); written < 200<<20 && full == nil; {
		var n int
		n, full = f.Write(piece)
		written += n
	}
	if !errors.Is(full, syscall.ENOSPC) || written > 32<<20 {
		t.Errorf("%d bytes, then: %v", written, full)
	}
	f.Close()
	unmount()
	if got := mustReadFile(t, latest); got != "news" {
		t.Errorf("below the file system latest.json.gz has %d bytes", len(got))
	}
}

func entriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
