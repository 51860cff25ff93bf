package remotefile

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"gpuboard/publisher"
)

// dialTries is how often a server is knocked at that turns connections away,
// as sshd does when many come at once.
const dialTries = 4

// A line is a connection that the files on one server share. It is made when
// it is needed, and anew after one that broke; a request that was lost with it
// is not made again, because nobody knows whether it was heard.
type line struct {
	server publisher.Options
	mu     sync.Mutex
	s      *publisher.Session
	once   bool // it was there once
}

// with makes requests, one caller at a time.
func (l *line) with(ctx context.Context, do func(s *publisher.Session) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for try := 1; l.s == nil; try++ {
		s, err := publisher.Dial(ctx, l.server)
		if err == nil {
			l.s, l.once = s, true
			break
		}
		if publisher.Code(err) != publisher.CodeLost || try == dialTries || l.once {
			return err
		}
		if wait(ctx, time.Duration(try)*200*time.Millisecond) != nil {
			return err
		}
	}
	err := do(l.s)
	if !l.s.Usable() {
		_ = l.s.Close()
		l.s = nil
	}
	return err
}

func (l *line) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.s == nil {
		return nil
	}
	err := l.s.Close()
	l.s = nil
	return err
}

// wait sleeps for a random time up to most, or until ctx ends.
func wait(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most/4 + rand.N(most*3/4+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (l *line) stat(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = l.with(ctx, func(s *publisher.Session) (err error) { info, err = s.Stat(ctx, name); return err })
	return info, err
}

func (l *line) create(ctx context.Context, name string, data []byte, mode fs.FileMode) error {
	return l.with(ctx, func(s *publisher.Session) error { return s.Create(ctx, name, data, mode) })
}

func (l *line) replace(ctx context.Context, from, to string) error {
	return l.with(ctx, func(s *publisher.Session) error { return s.Replace(ctx, from, to) })
}

func (l *line) move(ctx context.Context, from, to string) error {
	return l.with(ctx, func(s *publisher.Session) error { return s.Move(ctx, from, to) })
}

func (l *line) remove(ctx context.Context, name string) error {
	return l.with(ctx, func(s *publisher.Session) error { return s.Remove(ctx, name) })
}

// resolve follows links, so that a link to the file stays one.
func (l *line) resolve(ctx context.Context, name string) (real string, err error) {
	err = l.with(ctx, func(s *publisher.Session) error {
		var err error
		if real, err = s.RealPath(ctx, name); err != nil && s.Usable() {
			real = name // it is not there yet
			return nil
		}
		return err
	})
	return real, err
}
