package publisher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// A Session is one SFTP connection for a few requests about single files, made
// with the same care as a push: the server's key is checked, posix-rename is
// required, and every request has a deadline.
//
// What the server answers is an [*Error] around it, so that [errors.Is] finds
// [fs.ErrNotExist] and [fs.ErrPermission]. After an error of the connection the
// session is of no more use; [Session.Usable] tells. One goroutine at a time
// may call its methods.
type Session struct {
	p *Publisher
	l *link
}

// Dial connects. Options.Target names the server; its directory is not used.
// Options.Budget bounds each request that comes with a context without a deadline.
func Dial(ctx context.Context, o Options) (*Session, error) {
	p, err := New(o)
	if err != nil {
		return nil, err
	}
	if o.Target.Scheme != "sftp" {
		return nil, configError(CodeTarget, "write sftp://user@host/path", fmt.Errorf("connecting to %s: not an SFTP target", o.Target))
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Budget)
	defer cancel()
	l, err := p.dial(ctx)
	if err != nil {
		p.end()
		return nil, err
	}
	for _, warning := range l.warnings {
		p.opts.Log.Warn("reading known hosts", "problem", warning)
	}
	return &Session{p, l}, nil
}

// Close ends the session. It does not wait for the server.
func (s *Session) Close() error {
	s.p.end()
	s.l.drop()
	return nil
}

// Usable reports whether requests may still be answered.
func (s *Session) Usable() bool { return s.l.usable() }

// request makes one or more requests, each armed with a deadline of its own,
// and sorts what came of them.
func (s *Session) request(ctx context.Context, doing, name string, f func(arm func()) error) error {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(s.p.opts.Budget)
	}
	stop := context.AfterFunc(ctx, func() { s.l.base.Close() })
	defer func() {
		if !stop() { // the connection is being closed, although this request may have been answered
			s.l.drop()
		}
	}()
	arm := func() { s.l.arm(end, s.p.opts.Budget) }
	arm()
	err := f(arm)
	var own *Error
	if err != nil && !errors.As(err, &own) && !errors.Is(err, errShortWrite) && !status(err) {
		err = s.p.transportError(ctx, s.l.base.timedOut.Load(), doing+" "+name, err)
		s.l.drop()
		return err
	}
	s.l.base.SetDeadline(time.Time{}) // a deadline that passes between requests would end the session
	if err == nil || own != nil || errors.Is(err, errShortWrite) {
		return err
	}
	return s.answered(doing, name, err)
}

// answered sorts what the server said to a request.
func (s *Session) answered(doing, name string, err error) error {
	failed := s.p.answered(doing, name, err, "write there, and allow it these requests: lstat, open, write, close, setstat, fsync, remove")
	if failed.Code == CodeRemoteFailure {
		failed.hint = hintFailure
	}
	return failed
}

// Create makes a file that must not exist yet, with all of its content, synced
// to the server's disk where it offers that. An error that wraps [fs.ErrExist]
// means that the name is taken. After any other error nothing is left of it,
// unless the connection broke.
func (s *Session) Create(ctx context.Context, name string, data []byte, mode fs.FileMode) error {
	for try := 1; ; try++ {
		made, err := s.create(ctx, name, data, mode)
		switch {
		case err == nil || !s.Usable():
			return err
		case made:
			_ = s.Remove(ctx, name)
			return err
		case Code(err) != CodeRemoteFailure:
			return err
		}
		// OpenSSH says no more than "failure" about a name that is taken. When it
		// is free again by the time of the question, the answer was about that too.
		_, statErr := s.lstat(ctx, name)
		if statErr == nil {
			return fmt.Errorf("making %s: %w", name, fs.ErrExist)
		}
		if !errors.Is(statErr, fs.ErrNotExist) || try == createTries {
			return err
		}
	}
}

const createTries = 8

func (s *Session) create(ctx context.Context, name string, data []byte, mode fs.FileMode) (made bool, err error) {
	err = s.request(ctx, "making", name, func(arm func()) error {
		file, err := s.l.sftp.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		made = true
		open := true
		defer func() {
			if open {
				arm()
				file.Close()
			}
		}()
		arm()
		if err := file.Chmod(mode.Perm()); err != nil && !status(err) {
			return err // one who may not change modes keeps what the server gave
		}
		err = s.l.fill(file, data, func(string) { arm() })
		if errors.Is(err, errShortWrite) {
			return fmt.Errorf("making %s: %w", name, err)
		}
		if err != nil {
			return err
		}
		arm()
		open = false
		return file.Close()
	})
	return made, err
}

func (s *Session) lstat(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = s.request(ctx, "looking at", name, func(func()) (err error) {
		info, err = s.l.sftp.Lstat(name)
		return err
	})
	return info, err
}

// Remove deletes a file. One that is not there is no error.
func (s *Session) Remove(ctx context.Context, name string) error {
	err := s.request(ctx, "removing", name, func(func()) error { return s.l.sftp.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
