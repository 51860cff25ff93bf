package remotefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"gpuboard/booking"
	"gpuboard/publisher"
)

// dir is a [booking.Dir] on the server.
type dir struct {
	line *line
	path string
}

var _ booking.Dir = dir{}

func (d dir) at(name string) string { return path.Join(d.path, name) }

// change makes a request that changes something, and says so when nobody knows
// whether it was heard.
func (d dir) change(ctx context.Context, do func(s *publisher.Session) error) error {
	sent := false
	err := d.line.with(ctx, func(s *publisher.Session) error {
		err := do(s)
		sent = !s.Usable()
		return err
	})
	if err != nil && sent {
		return fmt.Errorf("%w: %w", booking.ErrUnsure, err)
	}
	return err
}

func (d dir) Names(ctx context.Context) (names []string, err error) {
	err = d.line.with(ctx, func(s *publisher.Session) error {
		infos, err := s.Names(ctx, d.path)
		for _, info := range infos {
			names = append(names, info.Name())
		}
		return err
	})
	return names, err
}

// Read tells a file that is not there from a directory that is not: the latter
// is no place for bookings.
func (d dir) Read(ctx context.Context, name string) (data []byte, info fs.FileInfo, err error) {
	nowhere := false
	err = d.line.with(ctx, func(s *publisher.Session) (err error) {
		data, info, err = s.Read(ctx, d.at(name), booking.MaxFileBytes+1)
		if errors.Is(err, fs.ErrNotExist) {
			if _, gone := s.Stat(ctx, d.path); errors.Is(gone, fs.ErrNotExist) {
				nowhere, err = true, gone
			}
		}
		return err
	})
	if nowhere {
		return nil, nil, errNowhere{err}
	}
	return data, info, err
}

// errNowhere is about a directory that is not there, which no caller is to take
// for a file that nobody has made yet: it is no [fs.ErrNotExist].
type errNowhere struct{ error }

// As keeps the code and the hint.
func (e errNowhere) As(target any) bool { return errors.As(e.error, target) }

func (d dir) Stage(ctx context.Context, name string, data []byte, like fs.FileInfo) error {
	mode := fs.FileMode(0o664)
	if like != nil {
		mode = like.Mode().Perm()
	}
	return d.change(ctx, func(s *publisher.Session) error {
		if err := s.Create(ctx, d.at(name), data, mode); err != nil {
			return err
		}
		var err error
		if like != nil {
			err = s.KeepOwner(ctx, d.at(name), like)
		}
		if err == nil {
			err = s.Careful(ctx, d.at(name))
		}
		if err != nil && s.Usable() {
			_ = s.Remove(ctx, d.at(name))
		}
		return err
	})
}

func (d dir) Exchange(ctx context.Context, name, taken, staged string) (took, put error) {
	err := d.change(ctx, func(s *publisher.Session) error {
		took, put = s.Exchange(ctx, d.at(name), d.at(taken), d.at(staged))
		if !s.Usable() {
			return errors.Join(took, put)
		}
		return nil
	})
	if err != nil {
		return err, err
	}
	return took, put
}

func (d dir) Link(ctx context.Context, from, to string) error {
	return d.change(ctx, func(s *publisher.Session) error { return s.Link(ctx, d.at(from), d.at(to)) })
}

func (d dir) Put(ctx context.Context, from, to string) error {
	return d.change(ctx, func(s *publisher.Session) error { return s.Put(ctx, d.at(from), d.at(to)) })
}

func (d dir) Rename(ctx context.Context, from, to string) error {
	return d.change(ctx, func(s *publisher.Session) error { return s.Replace(ctx, d.at(from), d.at(to)) })
}

func (d dir) Remove(ctx context.Context, name string) error {
	return d.change(ctx, func(s *publisher.Session) error { return s.Remove(ctx, d.at(name)) })
}
