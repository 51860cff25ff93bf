package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/shell"
	"gpuboard/internal/sshclient"
)

// tempAge is the age from which a temporary file in a local drop counts as left over by a
// publisher that was killed.
const tempAge = 10 * time.Minute

// putLocal writes one file of a file target. It creates drop/<host>/ below the data
// directory. The data directory itself must exist: a missing one is usually a typing
// error or an unmounted disk.
func (p *Publisher) putLocal(name string, data []byte) error {
	dir := p.opts.Target.Dir
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if err == nil {
			err = fmt.Errorf("%s is not a directory", dir)
		}
		return dropError("create it: mkdir -p "+shell.Quote(dir), fmt.Errorf("opening the data directory: %w", err))
	}
	drop := filepath.Join(dir, "drop", p.opts.Host)
	for _, full := range []string{filepath.Dir(drop), drop} {
		if err := os.Mkdir(full, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return dropError("look at: ls -ld "+shell.Quote(filepath.Dir(full)),
				fmt.Errorf("creating the drop: %w", err))
		}
		// A symlink here would send one host's files into another host's drop.
		info, err := os.Lstat(full)
		if err != nil {
			return dropError("", fmt.Errorf("looking at the drop: %w", err))
		}
		if !info.IsDir() {
			return sshclient.Permanent(CodeLocalDir, "remove it: rm "+shell.Quote(full),
				"looking at the drop: %s is not a directory of its own", full)
		}
	}
	if _, err := atomicfile.Sweep(drop, tempAge, time.Now()); err != nil {
		p.opts.Log.Warn("removing temporary files of the drop", "dir", drop, "err", err)
	}
	// The generator may be another user.
	if _, err := atomicfile.Write(filepath.Join(drop, name), data, 0o644); err != nil {
		return &Error{Code: CodeLocal, Err: fmt.Errorf("writing %s: %w", name, err),
			Advice: "look at: df -h " + shell.Quote(drop) + "; ls -ld " + shell.Quote(drop)}
	}
	return nil
}

// dropError classifies an error about the directory of a local drop. A full or
// failing disk may recover; anything else somebody has to fix.
func dropError(hint string, err error) *Error {
	if passing(err) {
		return &Error{Code: CodeLocal, Err: err, Advice: hint}
	}
	return sshclient.Permanent(CodeLocalDir, hint, "%w", err)
}

// passing reports whether err is of a disk that may recover.
func passing(err error) bool {
	return slices.ContainsFunc(
		[]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.ESTALE},
		func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// removeLocal removes one expired file of a local drop. A disk that may recover is tried
// again by the next push. A refusal, like one of an SFTP server, does not keep the other
// files; the generator removes old files, too.
func (p *Publisher) removeLocal(name string) error {
	err := os.Remove(filepath.Join(p.opts.Target.Dir, "drop", p.opts.Host, name))
	switch {
	case passing(err):
		return err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		p.opts.Log.Warn("removing an expired file of the drop", "err", err)
	}
	return nil
}
