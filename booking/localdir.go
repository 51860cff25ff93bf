package booking

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"gpuboard/atomicfile"
)

// localDir is a [Dir] on this machine.
type localDir struct {
	dir  string
	swap func(a, b string) error // exchanges two files in one step, where that can be done
}

func (d *localDir) at(name string) string { return filepath.Join(d.dir, name) }

func (d *localDir) Names(context.Context) ([]string, error) {
	f, err := os.Open(d.dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d *localDir) Read(_ context.Context, name string) ([]byte, fs.FileInfo, error) {
	return readRegular(d.at(name))
}

func (d *localDir) Stage(_ context.Context, name string, data []byte, like fs.FileInfo) error {
	mode := fs.FileMode(0o664)
	if like != nil {
		mode = like.Mode().Perm()
	}
	if _, err := atomicfile.Write(d.at(name), data, mode); err != nil {
		return err
	}
	if like != nil {
		keepOwner(d.at(name), like)
	}
	return nil
}

// keepOwner gives the new file the owner and group of the old one, as far as
// one may.
func keepOwner(path string, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		if os.Lchown(path, int(st.Uid), int(st.Gid)) != nil {
			_ = os.Lchown(path, -1, int(st.Gid)) // who is no member of the group leaves his own
		}
		_ = os.Chmod(path, old.Mode().Perm()) // a change of owner may have cleared bits
	}
}

// Exchange never leaves a moment without the file where the file system can
// exchange two names. The new content lies under the name for the old one by
// then, so that whoever dies leaves nothing that nobody knows what to do with.
func (d *localDir) Exchange(ctx context.Context, name, taken, staged string) (took, put error) {
	if err := unix.Rename(d.at(staged), d.at(taken)); err != nil {
		return err, err
	}
	err := d.swap(d.at(taken), d.at(name))
	if err == nil {
		return nil, nil
	}
	if back := unix.Rename(d.at(taken), d.at(staged)); back != nil {
		return back, back
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return err, err
	}
	took = unix.Rename(d.at(name), d.at(taken))
	return took, d.Put(ctx, staged, name)
}

func (d *localDir) Link(_ context.Context, from, to string) error {
	return os.Link(d.at(from), d.at(to))
}

func (d *localDir) Put(_ context.Context, from, to string) error {
	return os.Link(d.at(from), d.at(to))
}

func (d *localDir) Rename(_ context.Context, from, to string) error {
	return unix.Rename(d.at(from), d.at(to))
}

func (d *localDir) Remove(_ context.Context, name string) error {
	if err := os.Remove(d.at(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
