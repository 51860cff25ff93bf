package booking

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// What lies beside comments.json, as dot files with its name.
const (
	lockSuffix     = ".lock"
	previousSuffix = ".previous"  // what the file held before its last change
	lastGoodSuffix = ".last-good" // the last content without an error of syntax
	madeSuffix     = ".made-"     // an empty file that has no name yet, see File.make
	newSuffix      = ".new"       // not whole yet
	exchangeSuffix = ".exchange-" // whole, see File.replace
)

func (f *File) beside(suffix string) string {
	return filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+suffix)
}

// like returns the owner, group and mode of the file, or of its directory if there
// is no file yet.
func (f *File) like() (fs.FileInfo, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Stat(filepath.Dir(f.path))
	}
	return info, err
}

// stage makes a file beside comments.json with the same owner, group and mode,
// whatever the umask, and syncs its content to the disk.
func (f *File) stage(path string, data []byte) (err error) {
	like, err := f.like()
	if err != nil {
		return err
	}
	f.step("stage")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close() // the second Close of a closed file does nothing
			_ = os.Remove(path)
		}
	}()
	if _, err := file.Write(data); err != nil {
		return err
	}
	if err := belong(file, like); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

// belong gives a file the owner and the group of another, as far as one may, and
// its mode.
func belong(file *os.File, like fs.FileInfo) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	mode := like.Mode().Perm() & 0o666 // a directory's has x
	want, ok := like.Sys().(*syscall.Stat_t)
	have, same := info.Sys().(*syscall.Stat_t)
	if ok && same && (want.Uid != have.Uid || want.Gid != have.Gid) {
		if file.Chown(int(want.Uid), int(want.Gid)) != nil {
			_ = file.Chown(-1, int(want.Gid)) // only root may change the owner
		}
	} else if info.Mode().Perm() == mode {
		return nil
	}
	return file.Chmod(mode) // last: a change of owner may clear bits
}

// appear gives a staged file a name at which there is none yet; ErrChanged when
// there is. Its old name stays.
func (f *File) appear(staged, path string) error {
	f.step("link")
	err := os.Link(staged, path)
	if errors.Is(err, fs.ErrExist) {
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

// ReadBeside reads another file in the same directory; nil when there is none.
func (f *File) ReadBeside(name string) ([]byte, error) {
	data, _, err := readRegular(filepath.Join(filepath.Dir(f.path), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// WriteBeside makes data the content of another file in the same directory,
// whole and on the disk. It is called within [File.Update], whose lock it needs.
func (f *File) WriteBeside(name string, data []byte) error {
	if err := f.stage(f.beside(newSuffix), data); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := os.Rename(f.beside(newSuffix), filepath.Join(filepath.Dir(f.path), name)); err != nil {
		_ = os.Remove(f.beside(newSuffix))
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return f.syncDir()
}
