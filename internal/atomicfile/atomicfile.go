// Package atomicfile replaces files so that no reader ever sees half of one.
//
// A file is written under a temporary name in its own directory, synced, and then
// renamed over the old one; the directory is synced after that. A file that already
// has the same content is left alone. Modes are set exactly, whatever the umask.
// Only regular files are replaced: a symlink, directory, FIFO, socket or device
// with that name is an error that wraps [ErrNotRegular].
package atomicfile

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is wrapped by errors about names of anything but a regular file.
var ErrNotRegular = errors.New("not a regular file")

// tempPrefix begins the names of unfinished files. The dot hides them from web
// servers and globs; [Sweep] recognizes them by the rest.
const tempPrefix = ".tmp-"

// Write makes data the content of the file at path, with the permission bits
// perm, and reports whether the file changed. The directory must exist. After
// an error the old file is unchanged, except when the sync of the directory failed:
// then changed is true.
func Write(path string, data []byte, perm fs.FileMode) (changed bool, err error) {
	return write(path, data, perm, true)
}

// WriteUnsynced is Write without syncing, for a file that a power failure may lose,
// such as a heartbeat. Readers still see the old file or the new one. After a power
// failure the file may be the old one, empty or absent.
func WriteUnsynced(path string, data []byte, perm fs.FileMode) (changed bool, err error) {
	return write(path, data, perm, false)
}

func write(path string, data []byte, perm fs.FileMode, durable bool) (changed bool, err error) {
	dir, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return false, fmt.Errorf("writing %q: no file is named", path)
	}
	root, err := os.OpenRoot(cmp.Or(dir, "."))
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", path, err)
	}
	defer root.Close()
	same, err := hasContent(root, name, data, perm)
	if err != nil || same {
		return false, wrap("writing", path, err)
	}
	temp, err := stage(root, name, data, perm, durable)
	if err != nil {
		return false, wrap("writing", path, err)
	}
	if err := root.Rename(temp, name); err != nil {
		root.Remove(temp)
		return false, wrap("writing", path, err)
	}
	if !durable {
		return true, nil
	}
	return true, wrap("writing", path, SyncDirIn(root, "."))
}

// MkdirAll makes a directory and its missing parents, each with exactly the
// permission bits perm. Existing directories keep theirs.
func MkdirAll(path string, perm fs.FileMode) error {
	path = filepath.Clean(path)
	err := os.Mkdir(path, perm)
	if errors.Is(err, fs.ErrNotExist) {
		if err := MkdirAll(filepath.Dir(path), perm); err != nil {
			return err
		}
		err = os.Mkdir(path, perm)
	}
	if err == nil {
		return wrap("making directory", path, os.Chmod(path, perm))
	}
	switch info, statErr := os.Stat(path); {
	case statErr == nil && info.IsDir():
		return nil // it was there, or another process has made it meanwhile
	case statErr != nil && !errors.Is(statErr, fs.ErrNotExist):
		err = statErr // it says more than that the path exists: for instance that the disk fails
	}
	return wrap("making directory", path, err)
}

// Sweep removes temporary files of this package below dir that are older than
// olderThan at now: a killed process leaves them behind. It returns how many there
// were. It follows no symlinks. Errors do not stop it; it returns them joined.
func Sweep(dir string, olderThan time.Duration, now time.Time) (removed int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("sweeping %s: %w", dir, err)
	}
	defer root.Close()
	var errs []error
	walkErr := fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		if !entry.Type().IsRegular() || !IsTemp(entry.Name()) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // its writer renamed it just now
		}
		if err == nil && now.Sub(info.ModTime()) > olderThan {
			if err = root.Remove(name); err == nil {
				removed++
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		return nil
	})
	return removed, wrap("sweeping", dir, errors.Join(append(errs, walkErr)...))
}

// IsTemp reports whether a file name is one that this package gives to unfinished
// files: ".tmp-<name>-<random>".
func IsTemp(name string) bool {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	cut := strings.LastIndexByte(rest, '-')
	return ok && cut > 0 && len(rest)-cut-1 == len(rand.Text())
}

// stage writes data into a new temporary file beside rel, syncs it if durable, and returns its name.
func stage(root *os.Root, rel string, data []byte, perm fs.FileMode, durable bool) (temp string, err error) {
	dir, name := path.Split(rel)
	// The name is cut so that the temporary name does not exceed the file system's limit.
	temp = dir + tempPrefix + name[:min(len(name), 200)] + "-" + rand.Text()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		root.Remove(temp)
		return "", err
	}
	return temp, nil
}

// hasContent reports whether rel is a regular file with this content, and corrects its mode if so.
func hasContent(root *os.Root, rel string, data []byte, perm fs.FileMode) (bool, error) {
	info, err := root.Lstat(rel)
	if err != nil {
		return false, nil // it is missing, or the write finds the same error
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%w: it is a %s", ErrNotRegular, Kind(info.Mode()))
	}
	if info.Size() != int64(len(data)) {
		return false, nil
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil // an unreadable file is replaced
	}
	defer f.Close()
	if !sameContent(f, data) {
		return false, nil
	}
	if info.Mode().Perm() != perm.Perm() {
		return true, f.Chmod(perm)
	}
	return true, nil
}

func sameContent(r io.Reader, data []byte) bool {
	buf := make([]byte, min(len(data)+1, 32<<10))
	for {
		n, err := r.Read(buf)
		if n > len(data) || !bytes.Equal(buf[:n], data[:n]) {
			return false
		}
		data = data[n:]
		if err != nil {
			return err == io.EOF && len(data) == 0
		}
	}
}

// SyncDir syncs a directory, which makes its names durable.
func SyncDir(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return SyncDirIn(root, ".")
}

// SyncDirIn syncs a directory below root, unless its file system cannot do that (EINVAL, ENOTSUP).
func SyncDirIn(root *os.Root, rel string) error {
	d, err := root.Open(rel)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// Kind names the type of a file: "file" for a regular one, or directory, symlink,
// FIFO, socket or device.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	default:
		return "device"
	}
}

func wrap(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: doing, Path: name, Err: err}
}
