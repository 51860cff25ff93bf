package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gpuboard/internal/shell"
)

// putLocal returns the writer for a file target. It makes drop/<host>/ beneath
// the data directory, which must exist: a missing one is more often a typing
// error or an unmounted disk than a wish.
func (p *Publisher) putLocal() func(name string, data []byte) error {
	ready := false
	drop := filepath.Join(p.opts.Target.Dir, "drop", p.opts.Host)
	return func(name string, data []byte) error {
		if !ready {
			if err := p.makeDrop(); err != nil {
				return err
			}
			if p.opts.Sweep != nil {
				if err := p.opts.Sweep(drop); err != nil {
					p.opts.Log.Warn("sweeping the drop", "dir", drop, "err", err) // it harms nobody
				}
			}
			ready = true
		}
		if err := p.opts.WriteFile(filepath.Join(drop, name), data); err != nil {
			return &Error{Code: CodeLocal, Err: fmt.Errorf("writing %s: %w", name, err), hint: "look at: df -h " + shell.Quote(drop) + "; ls -ld " + shell.Quote(drop)}
		}
		return nil
	}
}

func (p *Publisher) makeDrop() error {
	dir := p.opts.Target.Dir
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if err == nil {
			err = fmt.Errorf("%s is not a directory", dir)
		}
		return dropError("create it: mkdir -p "+shell.Quote(dir), fmt.Errorf("opening the data directory: %w", err))
	}
	for _, name := range []string{"drop", filepath.Join("drop", p.opts.Host)} {
		full := filepath.Join(dir, name)
		if err := os.Mkdir(full, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return dropError("look at: ls -ld "+shell.Quote(filepath.Dir(full)), fmt.Errorf("creating the drop: %w", err))
		}
		// A link planted here would send one host's files into another's drop.
		info, err := os.Lstat(full)
		if err != nil {
			return dropError("", fmt.Errorf("looking at the drop: %w", err))
		}
		if !info.IsDir() {
			return configError(CodeLocalDir, "remove it: rm "+shell.Quote(full), fmt.Errorf("looking at the drop: %s is not a directory of its own", full))
		}
	}
	return nil
}

// dropError sorts what is wrong with the directory of a local drop: a full or a
// failing disk may be well by itself later, all else is somebody's to mend.
func dropError(hint string, err error) *Error {
	for _, passing := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.ESTALE} {
		if errors.Is(err, passing) {
			return &Error{Code: CodeLocal, Err: err, hint: hint}
		}
	}
	return configError(CodeLocalDir, hint, err)
}
