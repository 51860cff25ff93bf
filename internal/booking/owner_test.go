package booking_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/booking"
	"gpuboard/internal/testenv/need"
)

// modes lists the files of a directory with their modes and groups.
func modes(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]fs.FileInfo{}
	for _, e := range entries {
		if all[e.Name()], err = e.Info(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Whatever the umask of the one who books first, all that lies beside the
// bookings has their mode, and that of their directory where there are none yet.
func TestFilesBesideBookingsHaveTheirMode(t *testing.T) {
	for _, tc := range []struct {
		name      string
		file, dir fs.FileMode
		want      fs.FileMode
	}{
		{"a file for all in the group", 0o660, 0o755, 0o660},
		{"a file for its owner", 0o600, 0o755, 0o600},
		{"a file for everybody to read", 0o644, 0o755, 0o644},
		{"no file, a directory for the group", 0, 0o775, 0o664},
		{"no file, a private directory", 0, 0o700, 0o600},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "comments.json")
		if tc.file != 0 {
			write("{}")(t, file)
			if err := os.Chmod(file, tc.file); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, tc.dir); err != nil {
			t.Fatal(err)
		}
		cmd := as(t, "colleague", file, "ada")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		all := modes(t, dir)
		if all["comments.json"] == nil || all[".comments.json.lock"] == nil || all[".comments.json.previous"] == nil {
			t.Errorf("%s: there are only %v", tc.name, all)
		}
		for name, info := range all {
			if info.Mode().Perm() != tc.want {
				t.Errorf("%s: %s has mode %v, want %v", tc.name, name, info.Mode(), tc.want)
			}
		}
	}
}

// letEverybodyIn lets other users reach a temporary directory of a test.
func letEverybodyIn(t *testing.T, dir string) {
	t.Helper()
	for at := dir; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// Two people of one group, each with umask 077, change the same bookings.
func TestUsersOfOneGroupChangeTheSameFile(t *testing.T) {
	need.Root(t)
	const lab, ada, bob = 54000, 54001, 54002
	dir := t.TempDir()
	letEverybodyIn(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program") // where go keeps it, others may not look
	copyFile(t, self, program)
	data := filepath.Join(dir, "data")
	file := filepath.Join(data, "comments.json")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	write("{}")(t, file)
	for path, mode := range map[string]fs.FileMode{data: 0o770, file: 0o660} {
		if err := os.Chown(path, 0, lab); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	book := func(uid int, name string) {
		t.Helper()
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), "BOOKING_TEST_AS=colleague", "BOOKING_TEST_FILE="+file,
			"BOOKING_TEST_NAME="+name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid),
			Groups: []uint32{lab}}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	book(ada, "ada")
	book(bob, "bob")
	book(ada, "eva")
	wantBookings(t, file, 6)
	for name, info := range modes(t, data) {
		if st := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o660 || st.Gid != lab {
			t.Errorf("%s has mode %v and group %d", name, info.Mode(), st.Gid)
		}
	}
	// root changes nothing about whose file it is.
	if err := os.Chown(file, bob, lab); err != nil {
		t.Fatal(err)
	}
	if err := makeBookings(file, "root", 1); err != nil {
		t.Fatal(err)
	}
	if st := modes(t, data)["comments.json"].Sys().(*syscall.Stat_t); st.Uid != bob || st.Gid != lab {
		t.Errorf("after root booked, the file is of %d:%d", st.Uid, st.Gid)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A lock that was made with a stricter mode gets that of the bookings from the
// next one who may change it; a second name of somebody's file gets nothing.
func TestLockTakesTheModeOfTheBookings(t *testing.T) {
	file := newFile(t)
	f := booking.Open(file, booking.Zone{})
	write("{}")(t, file)
	if err := os.Chmod(file, 0o664); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	for _, linked := range []bool{false, true} {
		write("")(t, other)
		if err := os.Chmod(other, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(beside(file, ".lock"))
		if err := os.Link(other, beside(file, ".lock")); err != nil {
			t.Fatal(err)
		}
		want := fs.FileMode(0o600)
		if !linked {
			remove(t, other)
			want = 0o664
		}
		if err := f.Update(t.Context(), testBy, unchanged); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(beside(file, ".lock"))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("linked %v: mode %v, want %v, %v", linked, info.Mode(), want, err)
		}
	}
}

// Nobody may open the lock before it has its mode.
func TestLockAppearsWhole(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	file := newFile(t)
	f := booking.Open(file, booking.Zone{})
	write("{}")(t, file)
	if err := os.Chmod(file, 0o664); err != nil {
		t.Fatal(err)
	}
	staged := 0
	f.OnStep(func(what string) {
		if what != "link" {
			return
		}
		if staged++; staged == 1 { // the lock comes before all else
			for name, info := range modes(t, filepath.Dir(file)) {
				if strings.Contains(name, ".new-") && info.Mode().Perm() != 0o664 {
					t.Errorf("%s has mode %v", name, info.Mode())
				}
			}
			if _, err := os.Lstat(beside(file, ".lock")); err == nil {
				t.Error("the lock is there before it is whole")
			}
		}
	})
	if err := f.Update(t.Context(), testBy, unchanged); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(beside(file, ".lock")); err != nil || staged == 0 {
		t.Errorf("the lock was not made: %v", err)
	}
}

// Two processes that want the lock first: the one that comes second uses the file of the first.
func TestLockOfAnotherProcess(t *testing.T) {
	file := newFile(t)
	write("{}")(t, file)
	f, links := booking.Open(file, booking.Zone{}), 0
	f.OnStep(func(what string) {
		if what != "link" {
			return
		}
		if links++; links == 1 { // the lock comes before all else
			write("the first one's")(t, beside(file, ".lock"))
		}
	})
	if err := f.Update(t.Context(), testBy, unchanged); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(beside(file, ".lock")); err != nil || string(text) != "the first one's" {
		t.Errorf("the lock holds %q, %v", text, err)
	}
}

// Whoever loads bookings whose copy belongs to somebody else cannot say when it was read
// last, and needs not.
func TestCopyOfSomebodyElse(t *testing.T) {
	need.Root(t)
	file := newFile(t)
	letEverybodyIn(t, filepath.Dir(file))
	write(`{"a": [{"name": "x"}]}`)(t, file)
	load := func(now time.Time) error {
		cal, err := booking.Load(file, "", booking.Zone{}, booking.Options{Now: now})
		if err == nil && len(cal.Problems) > 0 {
			err = errors.New(problems(cal.Problems))
		}
		return err
	}
	if err := errors.Join(os.Chmod(file, 0o644), load(at(t, friday))); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, and so does its user
		if err := unix.Setfsuid(54001); err != nil {
			loaded <- err
			return
		}
		loaded <- load(at(t, friday).Add(time.Hour))
	}()
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(beside(file, ".last-good")); err != nil || !info.ModTime().Equal(at(t, friday)) {
		t.Errorf("the copy is of %v, %v", info.ModTime(), err)
	}
}
