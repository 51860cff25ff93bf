package booking

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The dot files beside comments.json, after its name.
const (
	lockSuffix     = ".lock"
	previousSuffix = ".previous"  // the content before the last change
	lastGoodSuffix = ".last-good" // the last content without an error of syntax
	newSuffix      = ".new-"      // a file that is being written, see File.stage
	exchangeSuffix = ".exchange-" // a complete file, see File.replace
)

// beside is the path of one of these files.
func (f *File) beside(suffix string) string {
	return filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+suffix)
}

// ownership returns the owner, group and mode of the file, or of its directory if there is no file.
func (f *File) ownership() (fs.FileInfo, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Stat(filepath.Dir(f.path))
	}
	return info, err
}

// stage writes and syncs a file with the owner, group and mode of comments.json, whatever
// the umask. Its name is a new one, because a lock that was replaced keeps nobody away.
func (f *File) stage(data []byte) (path string, err error) {
	owner, err := f.ownership()
	if err != nil {
		return "", err
	}
	path = f.beside(newSuffix + rand.Text())
	f.step("stage")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = setOwnership(file, owner)
	}
	if err == nil {
		err = file.Sync()
	}
	return path, errors.Join(err, file.Close())
}

// stageAs writes a file beside the bookings as stage does, in the place of any that has its name.
func (f *File) stageAs(path string, data []byte, at time.Time) error {
	staged, err := f.stage(data)
	if err != nil {
		return err
	}
	if err := errors.Join(touch(staged, at), os.Rename(staged, path)); err != nil {
		_ = os.Remove(staged)
		return err
	}
	return nil
}

// setOwnership copies mode, group and owner from another file, the last two as far as is allowed.
func setOwnership(file *os.File, like fs.FileInfo) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	mode := like.Mode().Perm() & 0o666 // a directory's has x
	want, have := like.Sys().(*syscall.Stat_t), info.Sys().(*syscall.Stat_t)
	if want.Uid != have.Uid || want.Gid != have.Gid {
		if file.Chown(int(want.Uid), int(want.Gid)) != nil {
			_ = file.Chown(-1, int(want.Gid)) // only root may change the owner
		}
	} else if info.Mode().Perm() == mode {
		return nil
	}
	return file.Chmod(mode) // last, because a change of owner may clear bits
}

// linkNew gives a staged file a second name. The error is ErrChanged if that name exists,
// or if another program, under another lock, has removed the staged file.
func (f *File) linkNew(staged, path string) error {
	f.step("link")
	err := os.Link(staged, path)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, errors.ErrUnsupported) { // no hard links here
		if _, err := os.Lstat(path); err == nil {
			return ErrChanged
		}
		return os.Rename(staged, path)
	}
	return err
}

// Prune moves the bookings that ended before a time into an archive beside the file, and
// returns them with the name of the archive. They are in the archive before they leave
// the file, so an interrupted run loses none, and the next run completes it.
func (f *File) Prune(ctx context.Context, by By, end time.Time) (moved []Booking, into string, err error) {
	err = f.Update(ctx, by, func(data []byte) (next []byte, err error) {
		if next, moved, err = prune(data, f.zone, end); err == nil {
			err = f.archive(moved)
		}
		return next, err
	})
	if _, made := errors.AsType[*MadeError](err); err != nil && !made {
		moved = nil
	}
	return moved, archiveName, err
}

// archiveName is the archive beside comments.json.
const archiveName = "comments.archive.json"

// archive appends bookings to the archive, each as a line of JSON, but for those that are in it already.
func (f *File) archive(old []Booking) error {
	path := filepath.Join(filepath.Dir(f.path), archiveName)
	data, _, err := readRegular(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", archiveName, err)
	}
	next, missing := archived(data, old)
	switch {
	case missing == 0:
		return nil
	case len(next) > MaxFileBytes:
		return fmt.Errorf("writing %s: it would grow beyond %d KiB: give it another name first", archiveName,
			MaxFileBytes>>10)
	}
	if err := f.stageAs(path, next, time.Time{}); err != nil {
		return fmt.Errorf("writing %s: %w", archiveName, err)
	}
	return f.syncDir()
}

// archived appends to data the bookings that are not in it yet.
func archived(data []byte, old []Booking) (next []byte, missing int) {
	have := map[string]bool{}
	for line := range bytes.Lines(data) {
		have[string(bytes.TrimSpace(line))] = true
	}
	next = bytes.Clone(data)
	if len(next) > 0 && next[len(next)-1] != '\n' {
		next = append(next, '\n')
	}
	for _, b := range old {
		line, _ := json.Marshal(b.JSON()) // it was read from a text, so it can be written
		if have[string(line)] {
			continue
		}
		missing++
		next = append(append(next, line...), '\n')
	}
	return next, missing
}
