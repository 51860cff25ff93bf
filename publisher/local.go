package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
			ready = true
		}
		if err := p.opts.WriteFile(filepath.Join(drop, name), data); err != nil {
			return &Error{Code: CodeLocal, Err: fmt.Errorf("writing %s: %w", name, err), hint: "look at: df -h " + shellWord(drop) + "; ls -ld " + shellWord(drop)}
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
		return configError(CodeLocalDir, "create it: mkdir -p "+shellWord(dir), fmt.Errorf("opening the data directory: %w", err))
	}
	for _, name := range []string{"drop", filepath.Join("drop", p.opts.Host)} {
		full := filepath.Join(dir, name)
		if err := os.Mkdir(full, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return configError(CodeLocalDir, "look at: ls -ld "+shellWord(filepath.Dir(full)), fmt.Errorf("creating the drop: %w", err))
		}
		// A link planted here would send one host's files into another's drop.
		info, err := os.Lstat(full)
		if err != nil {
			return configError(CodeLocalDir, "", fmt.Errorf("looking at the drop: %w", err))
		}
		if !info.IsDir() {
			return configError(CodeLocalDir, "remove it: rm "+shellWord(full), fmt.Errorf("looking at the drop: %s is not a directory of its own", full))
		}
	}
	return nil
}
