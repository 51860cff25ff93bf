package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/pkg/sftp"
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
	failed := s.p.answered(doing, name, err, "read and write there, and allow it these requests: realpath, stat, lstat, open, read, write, close, setstat, fsync, rename, posix-rename, hardlink, remove, opendir, readdir")
	if failed.Code == CodeRemoteFailure {
		failed.hint = hintFailure
	}
	return failed
}

// RealPath is the path without links, as the server resolves it.
func (s *Session) RealPath(ctx context.Context, name string) (real string, err error) {
	err = s.request(ctx, "resolving", name, func(func()) (err error) {
		real, err = s.l.sftp.RealPath(name)
		return err
	})
	return real, err
}

// Stat describes what a name stands for; links are followed.
func (s *Session) Stat(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = s.request(ctx, "looking at", name, func(func()) (err error) {
		info, err = s.l.sftp.Stat(name)
		return err
	})
	return info, err
}

// Names lists a directory.
func (s *Session) Names(ctx context.Context, dir string) (infos []fs.FileInfo, err error) {
	err = s.request(ctx, "listing", dir, func(func()) (err error) {
		infos, err = s.l.sftp.ReadDirContext(ctx, dir)
		return err
	})
	return infos, err
}

// Read returns what a regular file holds, of a longer one the first limit
// bytes, and never nil without an error.
func (s *Session) Read(ctx context.Context, name string, limit int64) (data []byte, info fs.FileInfo, err error) {
	err = s.request(ctx, "reading", name, func(arm func()) error {
		// Before it is opened: to open a FIFO would be to wait for its other end.
		if info, err = s.l.sftp.Stat(name); err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return configError(CodeRemoteDenied, "", fmt.Errorf("reading %s: it is not a regular file", name))
		}
		arm()
		file, err := s.l.sftp.Open(name)
		if err != nil {
			return err
		}
		arm()
		var content bytes.Buffer
		content.Grow(int(min(max(info.Size(), 0), limit)) + bytes.MinRead) // one round trip for most files
		_, err = content.ReadFrom(io.LimitReader(armed{file, arm}, limit))
		data = content.Bytes()
		arm()
		return errors.Join(err, file.Close())
	})
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, info, err
}

// armed gives each piece of a long read its own deadline.
type armed struct {
	io.Reader
	arm func()
}

func (a armed) Read(b []byte) (int, error) {
	a.arm()
	return a.Reader.Read(b)
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

func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	stat, ok := info.Sys().(*sftp.FileStat)
	if !ok {
		return 0, 0, false
	}
	return int(stat.UID), int(stat.GID), true
}

// KeepOwner gives a file the owner and group of another as far as the server
// lets the account.
func (s *Session) KeepOwner(ctx context.Context, name string, like fs.FileInfo) error {
	uid, gid, ok := ownerOf(like)
	if !ok {
		return nil
	}
	have, err := s.Stat(ctx, name)
	if err != nil {
		return err
	}
	mine, group, ok := ownerOf(have)
	if !ok || mine == uid && group == gid {
		return nil
	}
	err = s.request(ctx, "giving away", name, func(arm func()) error {
		if s.l.sftp.Chown(name, uid, gid) != nil {
			arm()
			if err := s.l.sftp.Chown(name, mine, gid); err != nil && !status(err) {
				return err // who is no member of the group leaves his own
			}
		}
		arm()
		if err := s.l.sftp.Chmod(name, like.Mode().Perm()); err != nil && !status(err) {
			return err // a change of owner may have cleared bits
		}
		return nil
	})
	return err
}

// Replace moves a file over another in one step.
func (s *Session) Replace(ctx context.Context, from, to string) error {
	return s.request(ctx, "moving "+from+" to", to, func(func()) error { return s.l.sftp.PosixRename(from, to) })
}

// Move moves a file to a name that must not be taken.
func (s *Session) Move(ctx context.Context, from, to string) error {
	return s.request(ctx, "moving "+from+" to", to, func(func()) error { return s.l.sftp.Rename(from, to) })
}

// Link gives a file a second name, which must not be taken. The error wraps
// [errors.ErrUnsupported] when the server has no such request.
func (s *Session) Link(ctx context.Context, from, to string) error {
	if !s.l.hardlink {
		return fmt.Errorf("linking %s to %s: %w", from, to, errors.ErrUnsupported)
	}
	return s.request(ctx, "linking "+from+" to", to, func(func()) error { return s.l.sftp.Link(from, to) })
}

// put gives a file a name that must not be taken, by a link or by the plain
// rename, which on OpenSSH is a link and a removal.
func (s *Session) put(from, to string) error {
	if s.l.hardlink {
		return s.l.sftp.Link(from, to)
	}
	return s.l.sftp.Rename(from, to)
}

// Put gives a file a name that must not be taken; the error then wraps
// [fs.ErrExist]. Its old name may stay as well.
func (s *Session) Put(ctx context.Context, from, to string) error {
	err := s.request(ctx, "moving "+from+" to", to, func(func()) error { return s.put(from, to) })
	return s.taken(ctx, to, err)
}

// taken looks whether a name was refused because it is taken, which OpenSSH
// calls a failure like any other.
func (s *Session) taken(ctx context.Context, name string, err error) error {
	if Code(err) != CodeRemoteFailure {
		return err
	}
	if _, statErr := s.lstat(ctx, name); statErr == nil {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

// Exchange moves name to aside, and gives staged that name as Put does, with
// nothing in between: the two requests go out together, and are heard together
// or not at all. It tells what came of each.
func (s *Session) Exchange(ctx context.Context, name, aside, staged string) (took, put error) {
	err := s.request(ctx, "exchanging", name, func(func()) error {
		took, put = s.l.out.pair(
			func() error { return s.l.sftp.PosixRename(name, aside) },
			func() error { return s.put(staged, name) })
		for _, err := range []error{took, put} {
			if err != nil && !status(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err, err
	}
	if took != nil {
		took = s.answered("moving "+name+" to", aside, took)
	}
	if put != nil {
		put = s.taken(ctx, name, s.answered("moving "+staged+" to", name, put))
	}
	return took, put
}

// Careful finds out, once, whether the server refuses to give a file a name that
// is taken; staged is a file of the caller's own. Without that, and with nothing
// but the promise of the protocol's draft, what stands there could be lost.
func (s *Session) Careful(ctx context.Context, staged string) error {
	if s.l.careful {
		return nil
	}
	probe := staged + ".probe"
	var err error
	if s.l.hardlink {
		err = s.Link(ctx, staged, probe)
	} else {
		err = s.Create(ctx, probe, nil, 0o600)
	}
	if err != nil {
		if s.l.hardlink && s.Usable() {
			return configError(CodeOverwrites, "let the account make hard links there (hardlink@openssh.com), on a file system that has them; or book on the web host itself",
				fmt.Errorf("%w: without hard links somebody's save could be overwritten", err))
		}
		return err
	}
	again := s.request(ctx, "moving "+probe+" to", staged, func(func()) error { return s.put(probe, staged) })
	if !s.Usable() {
		return again
	}
	if err := s.Remove(ctx, probe); err != nil {
		return err
	}
	if again == nil {
		return configError(CodeOverwrites, "use OpenSSH's internal-sftp on the server, or book on the web host itself",
			fmt.Errorf("giving %s a name that is taken: the server does not refuse it, so somebody's save could be overwritten", probe))
	}
	s.l.careful = true
	return nil
}

// Remove deletes a file. One that is not there is no error.
func (s *Session) Remove(ctx context.Context, name string) error {
	err := s.request(ctx, "removing", name, func(func()) error { return s.l.sftp.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
