package booking

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// LastGoodName is the copy of comments.json in the generator's state directory.
const LastGoodName = "comments.last-good.json"

// Load reads comments.json at path for the board. If the file is good, it keeps copies:
// beside the file, if it has the rights, and in the directory stateDir; "" for none.
// If the one beside cannot be kept for another reason, that is a problem of the calendar.
//
// If the file has an error of syntax, cannot be read, or is empty or missing although
// there were bookings, the calendar has the bookings of the newest copy instead. The
// calendar is never nil. The error is only about the copy in stateDir.
func Load(path, stateDir string, zone Zone, opts Options) (*Calendar, error) {
	f := Open(path, zone).WithCopy(stateDir)
	data, cal := f.load(opts)
	if cal.Broken || data == nil {
		return cal, nil
	}
	// The commands use the copy beside the file. This process may have no rights to
	// write there, so it has a copy of its own. Who holds the lock keeps one, too.
	err := f.keepGood(data, opts.Now)
	if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) && !errors.Is(err, ErrLocked) {
		cal.Problems = append(cal.Problems, snapshot.Problem{Code: "booking:unkept", File: cal.File,
			Message: snapshot.Text("the last good bookings cannot be kept beside the file: "+reason(err),
				snapshot.MaxTextBytes)})
	}
	if stateDir == "" {
		return cal, nil
	}
	copied := filepath.Join(stateDir, LastGoodName)
	_, err = atomicfile.Write(copied, data, 0o600)
	if err == nil {
		err = touch(copied, opts.Now)
	}
	if err != nil {
		return cal, fmt.Errorf("keeping the last good bookings: %w", err)
	}
	return cal, nil
}

// Load reads the file as the function of this name does, and writes nothing.
func (f *File) Load(opts Options) *Calendar {
	_, cal := f.load(opts)
	return cal
}

func (f *File) load(opts Options) ([]byte, *Calendar) {
	data, err := f.Read()
	if data == nil && err == nil && !isDir(filepath.Dir(f.path)) {
		err = unix.ENOENT
	}
	cal, _ := f.judge(data, err, opts)
	if !opts.Now.IsZero() {
		cal.Problems = append(cal.Problems, f.vanished(cal, opts)...)
	}
	return data, cal
}

// judge reads what [File.Read] returned. Where that is broken, or empty although there were bookings, those of the
// last good content count. good is the path of that content; "" for none.
func (f *File) judge(data []byte, err error, opts Options) (cal *Calendar, good string) {
	r := read(f.path, data, f.zone, opts)
	cal = r.cal
	if err != nil {
		cal.Broken = true
		cal.Problems = []snapshot.Problem{{Code: "booking:unreadable", File: cal.File,
			Message: snapshot.Text("the bookings cannot be read: "+reason(err), snapshot.MaxTextBytes)}}
	} else if len(cal.Problems) > 0 && f.foreign() {
		for i := range cal.Problems {
			cal.Problems[i].Message = notQuoted
		}
	}
	if !cal.Broken && !r.blank() {
		return cal, ""
	}
	path, content, at := f.lastGood()
	was := Parse(f.path, content, f.zone, opts)
	switch {
	case content == nil, !cal.Broken && len(was.Bookings) == 0:
		return cal, ""
	case !cal.Broken:
		cal.Broken = true
		cal.Problems = []snapshot.Problem{f.emptied(path, data, len(was.Bookings))}
	}
	cal.LastGood, cal.Bookings = at, was.Bookings
	for i := range cal.Bookings {
		cal.Bookings[i].Line, cal.Bookings[i].Col = 0, 0 // they are not those of the present file
	}
	return cal, path
}

// emptied is the problem of a file that had bookings and has none. It is public, so it names no
// directory: for a copy in another one, doctor says what to type.
func (f *File) emptied(good string, data []byte, n int) snapshot.Problem {
	what := "empty"
	if data == nil {
		what = "gone"
	}
	stood, counts := fmt.Sprintf("%d bookings stood", n), "count"
	if n == 1 {
		stood, counts = "1 booking stood", "counts"
	}
	name := filepath.Base(f.path)
	restore := "with: " + shell.Join("cp", filepath.Base(good), name)
	if filepath.Dir(good) != filepath.Dir(f.path) {
		restore = "with the command that gpuboard doctor web names"
	}
	return snapshot.Problem{Code: "booking:emptied", File: name, Message: snapshot.Text(fmt.Sprintf(
		"the file is %s, and %s in it, which still %s: restore it %s; or start anew with: echo '{}' > %s",
		what, stood, counts, restore, shell.Quote(name)), snapshot.MaxTextBytes)}
}

// Intact returns an error that wraps [ErrBroken] if a content must not be changed: it
// has an error of syntax, or it is empty although there were bookings. If there is a
// copy of the last good content, the error is a [*RestorableError]. nil data is a file
// that does not exist.
func (f *File) Intact(data []byte) error {
	cal, good := f.judge(data, nil, Options{})
	err := cal.changeable()
	if err == nil || good == "" {
		return err
	}
	return &RestorableError{Err: err,
		Hint: "correct it by hand, or restore the last good version: " + shell.Join("cp", good, f.path) +
			"; or begin without bookings: echo '{}' > " + shell.Quote(f.path)}
}

// A RestorableError is about a file that one of the commands in the hint repairs.
type RestorableError struct {
	Err  error
	Hint string
}

func (e *RestorableError) Error() string { return e.Err.Error() }
func (e *RestorableError) Unwrap() error { return e.Err }

// lastGood finds the newest copy of the last good content; nil if there is none.
func (f *File) lastGood() (path string, data []byte, at time.Time) {
	f.step("last good")
	paths := []string{f.beside(lastGoodSuffix)}
	if f.state != "" {
		paths = append(paths, filepath.Join(f.state, LastGoodName))
	}
	for _, p := range paths {
		content, info, err := readRegular(p)
		if err == nil && info.ModTime().After(at) {
			path, data, at = p, content, info.ModTime()
		}
	}
	return path, data, at
}

// keepGood keeps a copy of a content beside the file, if the file still has it. The
// modification time of the copy becomes at, when it was last read; zero leaves it.
func (f *File) keepGood(data []byte, at time.Time) error {
	path := f.beside(lastGoodSuffix)
	if have, _, err := readRegular(path); err == nil && bytes.Equal(have, data) {
		return touch(path, at)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	lock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer atomicfile.Unlock(lock)
	if err := f.recover(); err != nil {
		return err
	}
	if now, err := f.Read(); err != nil || !bytes.Equal(now, data) {
		return err // the program that changed the file has kept a copy
	}
	return f.writeGood(data, at)
}

// writeGood writes the copy of keepGood. The caller holds the lock.
func (f *File) writeGood(data []byte, at time.Time) error {
	f.step("keep")
	return f.stageAs(f.beside(lastGoodSuffix), data, at)
}

// touch sets the modification time of a file, unless that belongs to somebody else.
func touch(path string, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	if err := os.Chtimes(path, at, at); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// notQuoted stands in the place of what is wrong in the file of somebody else.
const notQuoted = "the file is wrong here; what it says is not shown, because it is a link to a file of another account"

// foreign reports whether the file is a link to one of an account other than the link's,
// which may not be able to read it. Links of root and of this account are trusted.
func (f *File) foreign() bool {
	if f.link == "" {
		return false
	}
	link, err := os.Lstat(f.link)
	file, fileErr := os.Stat(f.path)
	if err != nil || fileErr != nil {
		return true
	}
	by, of := link.Sys().(*syscall.Stat_t), file.Sys().(*syscall.Stat_t)
	return by.Uid != 0 && by.Uid != uint32(os.Geteuid()) && by.Uid != of.Uid
}

// reason is an error without the path, which the problem has already.
func reason(err error) string {
	var pathError *fs.PathError
	var linkError *os.LinkError
	var restorable *RestorableError
	switch {
	case errors.As(err, &restorable):
		return strings.TrimPrefix(err.Error(), ErrBroken.Error()+": ")
	case errors.As(err, &linkError):
		return linkError.Err.Error()
	case errors.As(err, &pathError):
		return pathError.Err.Error()
	}
	return err.Error()
}
