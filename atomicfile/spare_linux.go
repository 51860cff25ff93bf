package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// spares keeps a second file for each file that a batch replaces. New bytes go
// into the spare, and one call exchanges the two: no file is made or deleted,
// which on ext4 costs ten times as much as all the writing, because it avoids
// the inodes of files deleted a short while ago and has to look at each.
//
// The spare is the file that was visible before, and a slow reader may still be
// reading it. So it is written only under a write lease (fcntl(2), F_SETLEASE),
// which the kernel gives when nobody else has the file open; and not when it
// has a second name, as in a backup made of hard links. Otherwise the batch
// makes a new file as ever.
type spares struct {
	root   *os.Root
	fd     *os.File // of the directory
	device uint64
}

// SpareIn lets the batch keep spare files in dir, which must be private, and
// is made when it is not there. It does nothing where spares cannot work: on
// another file system than the batch's, or where the kernel has no such call.
func (b *Batch) SpareIn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a place for spare files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the place of spare files: %w", err)
	}
	fd, err := root.Open(".")
	if err != nil {
		root.Close()
		return fmt.Errorf("opening the place of spare files: %w", err)
	}
	s := &spares{root: root, fd: fd}
	here, err1 := root.Stat(".")
	there, err2 := b.root.Stat(".")
	if err := errors.Join(err1, err2); err != nil {
		s.close()
		return fmt.Errorf("looking at the place of spare files: %w", err)
	}
	if s.device = device(here); s.device != device(there) {
		s.close()
		return nil
	}
	b.spares = s
	return nil
}

func device(info fs.FileInfo) uint64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return stat.Dev
}

func (s *spares) close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.fd.Close(), s.root.Close())
}

// spareName is where the spare of a file lies: the directory is flat.
func spareName(rel string) string {
	sum := sha256.Sum256([]byte(rel))
	return hex.EncodeToString(sum[:16])
}

// stage writes data into the spare of rel. It reports false when there is to be
// a new file instead; an error means that the disk took no more.
func (s *spares) stage(rel string, data parts, perm fs.FileMode) (ok bool, err error) {
	f, err := s.root.OpenFile(spareName(rel), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return false, nil
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known || !info.Mode().IsRegular() || stat.Nlink != 1 || stat.Dev != s.device {
		return false, nil
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false, nil // somebody reads it, or there are no leases here
	}
	// The lease ends with the file. Whoever could open it in between knows its
	// name, and the directory is ours alone.
	if err := data.writeTo(f); err != nil {
		return false, err
	}
	if size := int64(data.size()); info.Size() > size {
		if err := f.Truncate(size); err != nil {
			return false, err
		}
	}
	if info.Mode().Perm() != perm.Perm() {
		if err := f.Chmod(perm); err != nil {
			return false, err
		}
	}
	return true, nil
}

// read returns what is in the spare of rel.
func (s *spares) read(rel string) ([]byte, error) {
	f, err := s.root.OpenFile(spareName(rel), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// sync makes one spare durable, where the whole file system cannot be asked.
func (s *spares) sync(rel string) error {
	f, err := s.root.OpenFile(spareName(rel), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// exchange makes the spare of rel visible in its directory, and what was there
// the spare.
func (s *spares) exchange(in *folder, rel string) error {
	dir, err := in.descriptor()
	if err != nil {
		return err
	}
	err = unix.Renameat2(int(s.fd.Fd()), spareName(rel), int(dir.Fd()), path.Base(rel), unix.RENAME_EXCHANGE)
	if err != nil {
		return &os.LinkError{Op: "renameat2", Old: "spare", New: rel, Err: err}
	}
	return nil
}

// forget removes the spare of a file that is removed.
func (s *spares) forget(rel string) error {
	if s == nil {
		return nil
	}
	if err := s.root.Remove(spareName(rel)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
