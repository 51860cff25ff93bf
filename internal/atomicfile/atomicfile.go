// Package atomicfile replaces files so that no reader ever sees half of one.
//
// A file is written under a temporary name in its own directory, made durable,
// and only then renamed over the old one; the directory is made durable after
// that. A file that already holds the same bytes is left alone. Modes are as
// asked for, whatever the umask. Only a regular file is ever replaced: a
// symlink, directory, FIFO, socket or device that stands at the name is an
// error that wraps [ErrNotRegular].
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is wrapped by errors about names at which something other than
// a regular file stands.
var ErrNotRegular = errors.New("not a regular file")

// tempPrefix begins the names of files that are not finished yet. The dot keeps
// web servers and globs away from them, the rest lets [Sweep] know them again.
const tempPrefix = ".tmp-"

// Write makes data the content of the file at path, with the permission bits
// perm, and reports whether the file changed. The directory must exist. After
// an error the old file is still there, whole; only when the error is about the
// directory's last fsync is changed true beside it.
func Write(path string, data []byte, perm fs.FileMode) (changed bool, err error) {
	return write(path, data, perm, true)
}

// WriteUnsynced is Write for what may be lost when the power fails, such as a heartbeat:
// readers see the old file or the new one, whole, but the disk is not waited
// for. After a power failure the file may be the old one, empty or absent.
func WriteUnsynced(path string, data []byte, perm fs.FileMode) (changed bool, err error) {
	return write(path, data, perm, false)
}

func write(path string, data []byte, perm fs.FileMode, durable bool) (changed bool, err error) {
	dir, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return false, fmt.Errorf("writing %q: no file is named", path)
	}
	if dir == "" {
		dir = "."
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", path, err)
	}
	defer root.Close()
	same, err := holds(root, name, parts{data}, perm)
	if err != nil || same {
		return false, wrap("writing", path, err)
	}
	temp, err := stage(root, name, parts{data}, perm, durable)
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
	return true, wrap("writing", path, syncDir(root, "."))
}

// Remove removes the file at path, durably. That it was not there is no error;
// a directory is.
func Remove(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("removing %s: %w", path, ErrNotRegular)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return wrap("removing", path, syncDir(root, "."))
}

// MkdirAll makes a directory and those above it that are missing, each with
// exactly the permission bits perm. Directories that exist keep theirs.
func MkdirAll(path string, perm fs.FileMode) error {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("making directory %s: %w", path, unix.ENOTDIR)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("making directory %s: %w", path, err)
	}
	if parent := filepath.Dir(path); parent != path {
		if err := MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, perm); err != nil {
		// Another process may have been quicker.
		if info, statErr := os.Stat(path); errors.Is(err, fs.ErrExist) && statErr == nil && info.IsDir() {
			return nil
		}
		return fmt.Errorf("making directory %s: %w", path, err)
	}
	if err := os.Chmod(path, perm); err != nil {
		return fmt.Errorf("making directory %s: %w", path, err)
	}
	return nil
}

// Sweep removes temporary files of this package below dir that are older than
// olderThan at now, which a killed process left behind, and returns how many
// there were. It follows no symlinks. Errors do not stop it; they come back
// joined.
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

// IsTemp reports whether name, without its directory, is one that this package
// gives to unfinished files: ".tmp-<name>-<random>".
func IsTemp(name string) bool {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	cut := strings.LastIndexByte(rest, '-')
	return ok && cut > 0 && len(rest)-cut-1 == len(rand.Text())
}

// stage writes data into a new temporary file beside rel and returns its name.
// With durable it is fsynced; without, the caller syncs the file system later.
func stage(root *os.Root, rel string, data parts, perm fs.FileMode, durable bool) (temp string, err error) {
	dir, name := path.Split(rel)
	// A name may be as long as the file system allows; the temporary one has to fit too.
	unfinished := dir + tempPrefix + name[:min(len(name), 200)] + "-" + rand.Text()
	f, err := root.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			f.Close() // the second Close of a closed file does nothing
			root.Remove(unfinished)
		}
	}()
	if err = data.writeTo(f); err != nil {
		return "", err
	}
	if err = f.Chmod(perm); err != nil {
		return "", err
	}
	if durable {
		if err = f.Sync(); err != nil {
			return "", err
		}
	}
	if err = f.Close(); err != nil {
		return "", err
	}
	return unfinished, nil
}

// holds reports whether a regular file with these bytes is there, and sets its
// mode right if so.
func holds(root *os.Root, rel string, data parts, perm fs.FileMode) (bool, error) {
	info, err := root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%w: it is a %s", ErrNotRegular, Kind(info.Mode()))
	}
	if info.Size() != int64(data.size()) {
		return false, nil
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil // unreadable is not equal; whether it may be replaced is the directory's affair
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return false, nil
	}
	if equal, err := data.isRead(f); err != nil || !equal {
		return false, nil
	}
	if info.Mode().Perm() != perm.Perm() {
		return true, f.Chmod(perm)
	}
	return true, nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return syncAndClose(d)
}

func syncDir(root *os.Root, rel string) error {
	d, err := root.Open(rel)
	if err != nil {
		return err
	}
	return syncAndClose(d)
}

// syncAndClose syncs a directory. File systems that cannot fsync a directory say
// EINVAL or ENOTSUP; nothing more can be done there.
func syncAndClose(d *os.File) error {
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// Kind names what is in the place of a regular file: directory, symlink, FIFO,
// socket or device.
func Kind(mode fs.FileMode) string {
	switch {
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
	return fmt.Errorf("%s %s: %w", doing, name, err)
}
