//go:build !linux

package atomicfile

import (
	"errors"
	"io/fs"
)

// spares exist on Linux alone.
type spares struct{}

// SpareIn does nothing here: there is no call that exchanges two files.
func (b *Batch) SpareIn(string) error { return nil }

func (s *spares) close() error { return nil }

func (s *spares) stage(string, parts, fs.FileMode) (bool, error) { return false, nil }

func (s *spares) sync(string) error { return errors.ErrUnsupported }

func (s *spares) read(string) ([]byte, error) { return nil, errors.ErrUnsupported }

func (s *spares) exchange(*folder, string) error { return errors.ErrUnsupported }

func (s *spares) forget(string) error { return nil }
