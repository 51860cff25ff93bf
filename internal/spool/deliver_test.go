package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/testenv/need"
)

func pending(t *testing.T, s *Spool, target string) ([]string, string) {
	t.Helper()
	files, err := s.Pending(target)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(name, "hour-20261120"), "-aaaaaaaa.jsonl.gz"))
	}
	return files, strings.Join(names, " ")
}

// A file that cannot be read does not keep the others from being delivered.
func TestPendingWithAFileThatCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	for i := range 3 {
		add(t, s, bootA, noon.Add(time.Duration(i)*time.Hour))
	}
	files, _ := pending(t, s, "a")
	linked := files[1]
	if err := os.Link(filepath.Join(dir, linked), filepath.Join(t.TempDir(), "backup")); err != nil {
		t.Fatal(err)
	}
	files, got := pending(t, s, "a")
	if want := "latest.json.gz T13 T12"; got != want {
		t.Errorf("pending is %s, want %s", got, want)
	}
	if _, err := s.Read(files[1]); err == nil || !strings.Contains(err.Error(), "has 2 names") {
		t.Errorf("reading it: %v", err)
	}
}

func TestPending(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	writer, s := open(t, dir), open(t, dir)
	if _, got := pending(t, s, "a"); got != "" {
		t.Errorf("an empty spool has pending %s", got)
	}
	for i := range 4 {
		add(t, writer, bootA, noon.Add(time.Duration(i)*time.Hour))
	}
	files, got := pending(t, s, "a")
	if want := "latest.json.gz T14 T13 T12"; got != want {
		t.Fatalf("pending is %s, want %s", got, want)
	}
	contents := map[string][]byte{}
	for _, name := range files {
		data, err := s.Read(name)
		if on, diskErr := os.ReadFile(filepath.Join(dir, name)); errors.Join(err, diskErr) != nil ||
			!bytes.Equal(data, on) {
			t.Errorf("read %d bytes of %s, and it has %d: %v", len(data), name, len(on), errors.Join(err, diskErr))
		}
		contents[name] = data
	}
	deliver := func(name string) {
		t.Helper()
		if err := s.Delivered("a", name, contents[name]); err != nil {
			t.Fatal(err)
		}
	}
	deliver(files[0])
	deliver(files[2])
	if _, got := pending(t, open(t, dir), "a"); got != "T14 T12" {
		t.Errorf("after two deliveries, in another process, pending is %s", got)
	}
	if _, got := pending(t, s, "b"); got != "latest.json.gz T14 T13 T12" {
		t.Errorf("another target misses %s", got)
	}
	add(t, writer, bootA, noon.Add(3*time.Hour+time.Minute))
	if _, got := pending(t, s, "a"); got != "latest.json.gz T14 T12" {
		t.Errorf("after a new snapshot pending is %s", got)
	}
	// What was read is older than what is there: it stays pending.
	deliver(files[0])
	if _, got := pending(t, s, "a"); got != "latest.json.gz T14 T12" {
		t.Errorf("after the delivery of an old snapshot pending is %s", got)
	}
	// An hour file that the spool has removed is obsolete on the target.
	if err := os.Remove(filepath.Join(dir, files[2])); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(files[2]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading what is gone: %v", err)
	}
	deliver(files[1])
	if old := s.Obsolete("a"); len(old) != 1 || old[0] != files[2] {
		t.Errorf("obsolete is %v, want %s", old, files[2])
	}
	if err := s.Withdrawn("a", files[2]); err != nil {
		t.Fatal(err)
	}
	if has, err := s.delivered("a"); err != nil || len(has.Files) != 2 || len(s.Obsolete("a")) != 0 {
		t.Errorf("deliveries are remembered: %v, %v, want 2, and obsolete is %v", has.Files, err, s.Obsolete("a"))
	}
	// A broken memory sends again; it stops nothing.
	if err := os.WriteFile(s.stateFile("a"), []byte(`{"target":"a","fil`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, got := pending(t, s, "a"); got != "latest.json.gz T14 T12" {
		t.Errorf("with a broken memory pending is %s", got)
	}
	// Nor does a forged one make the publisher remove anything but hour files.
	if err := os.WriteFile(s.stateFile("a"),
		[]byte(`{"target":"a","files":{"../secret":"x","latest.json.gz":"x","passwd":"x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if old := s.Obsolete("a"); len(old) > 0 {
		t.Errorf("obsolete is %v", old)
	}
	for _, name := range []string{"../secret", ".lock", "", "/etc/passwd", ".journal-20261120T12-a"} {
		if _, err := s.Read(name); err == nil {
			t.Errorf("%q can be read", name)
		}
		if err := s.Delivered("a", name, nil); err == nil {
			t.Errorf("%q can be delivered", name)
		}
	}
}

func TestDeliveriesAreNotRememberedForEver(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "spool"))
	for i := range 3 * maxObsolete {
		if err := s.Delivered("a", variant(noon.Add(time.Duration(i)*time.Hour), bootA, 1), nil); err != nil {
			t.Fatal(err)
		}
	}
	old := s.Obsolete("a")
	if len(old) != maxObsolete+1 || old[maxObsolete] != variant(noon.Add((3*maxObsolete-1)*time.Hour), bootA, 1) {
		t.Errorf("%d are remembered, the last %s", len(old), old[len(old)-1])
	}
}

// A disk that fails is no reason to forget what was delivered: it would stay on the target.
func TestDiskErrorOfTheDeliveries(t *testing.T) {
	need.Root(t)
	s := open(t, filepath.Join(t.TempDir(), "spool"))
	hour := variant(noon, bootA, 1)
	if err := s.Delivered("a", hour, nil); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("/proc/self/mem", s.stateFile("a"), "", unix.MS_BIND, ""); err != nil {
		need.Skip(t, fmt.Sprintf("mounting a file that cannot be read: %v", err))
	}
	_, err := s.Pending("a")
	for what, err := range map[string]error{"pending": err, "delivered": s.Delivered("a", hour, nil),
		"withdrawn": s.Withdrawn("a", hour)} {
		if !errors.Is(err, unix.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := unix.Unmount(s.stateFile("a"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if old := s.Obsolete("a"); len(old) != 1 {
		t.Errorf("obsolete is %v", old)
	}
}

// A user has a spool of their own; root may use anybody's.
func TestOpenRefusesTheSpoolOfAnother(t *testing.T) {
	need.Root(t)
	const uid = 12345
	theirs, ours := filepath.Join(t.TempDir(), "theirs"), filepath.Join(t.TempDir(), "ours")
	for _, dir := range []string{theirs, ours} {
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(theirs, uid, uid); err != nil {
		t.Fatal(err)
	}
	open(t, theirs)
	become := func(uid uintptr) {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)); errno != 0 { // of this thread alone
			t.Fatal(errno)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become(uid)
	_, theirErr := Open(theirs)
	_, ourErr := Open(ours)
	become(0)
	if theirErr != nil || !errors.Is(ourErr, ErrNotPrivate) {
		t.Errorf("one's own: %v; another's: %v", theirErr, ourErr)
	}
}

func TestOpenRefusesWhatOthersCanWrite(t *testing.T) {
	base := t.TempDir()
	real := filepath.Join(base, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("a symlink: %v", err)
	}
	if _, err := Open(link + "/"); !errors.Is(err, ErrNotPrivate) {
		t.Errorf("a symlink with a slash: %v", err)
	}
	for _, mode := range []fs.FileMode{0o777, 0o770} {
		if err := os.Chmod(real, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(real); !errors.Is(err, ErrNotPrivate) {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if err := os.Chmod(real, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	write(t, file, nil)
	for _, dir := range []string{file, filepath.Join(file, "spool")} {
		if _, err := Open(dir); err == nil || errors.Is(err, ErrNotPrivate) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	secret := filepath.Join(base, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockName, LatestName, journalName(noon, bootA)} {
		if err := os.RemoveAll(filepath.Join(real, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(secret, filepath.Join(real, name)); err != nil {
			t.Fatal(err)
		}
		s := open(t, real)
		if err := s.Add(snap(bootA, noon)); err == nil {
			t.Errorf("a symlink at %s was taken", name)
		}
		s.Close()
		if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
			t.Errorf("with a symlink at %s the file behind it is %q, %v", name, data, err)
		}
		if err := os.Remove(filepath.Join(real, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// A spool that is gone is no spool from which everything was delivered.
func TestPendingOfASpoolThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if files, err := s.Pending("web"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v; want an error", files, err)
	}
}
