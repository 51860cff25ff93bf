// Package remotefile is one text file on a server, reached over SFTP, that many
// programs and people change.
//
// It is a [booking.Store]: programs take turns by a lock file beside it, and
// nobody's save is overwritten knowingly. SFTP has no request that replaces a
// file only if it is still the one that was read. So what is in place is read
// again when the replacement lies ready, and kept under a second name while the
// replacement takes its place: who saved into the file in between finds their
// text put back. What remains is an editor that moves a new file into place
// between these two requests, a moment of one round trip.
package remotefile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"gpuboard/booking"
	"gpuboard/publisher"
)

// Options say where the file lies.
type Options struct {
	// Server is how to get there. Its Target's directory is the path of the file
	// itself; a path without a leading slash starts where the session does.
	Server publisher.Options
	// Owner says who changes the file, for those who have to wait.
	Owner string
	// Now is this machine's clock. It only measures how much time has passed:
	// how old a lock is counts by the server's own clock.
	Now func() time.Time
}

// A File is the file, and the connection to its server. Its methods may be
// called from several goroutines, which share the one lock.
type File struct {
	line  *line
	given string // the path as it was given
	owner string
	now   func() time.Time
	turn  chan struct{} // holds one element while the lock is ours

	mu   sync.Mutex
	real string      // where links lead; "" before the first request
	held func() bool // whether the lock is still ours; nil without one

	// step, when not nil, is called before each request that changes something,
	// so that a test can be somebody else at the worst moment, or die.
	step func(what string)
}

var _ booking.Store = (*File)(nil)

// New checks the options and connects to nothing.
func New(o Options) (*File, error) {
	name := o.Server.Target.Dir
	if o.Server.Target.Scheme != "sftp" || name == "" {
		return nil, fmt.Errorf("opening a file over SFTP: %s names no file: write sftp://user@host/path/comments.json", o.Server.Target)
	}
	// The rest of the way there is about the connection alone.
	o.Server.Target.Dir = ""
	return newFile(&line{server: o.Server}, name, o.Owner, o.Now), nil
}

func newFile(l *line, name, owner string, now func() time.Time) *File {
	return &File{line: l, given: name, owner: owner, now: now, turn: make(chan struct{}, 1)}
}

// Beside is another file in the same directory, over the same connection.
func (f *File) Beside(name string) *File {
	return newFile(f.line, path.Join(path.Dir(f.given), path.Base(name)), f.owner, f.now)
}

// Close ends the connection, also for the files beside. A lock that is held
// then stays until it is old.
func (f *File) Close() error { return f.line.close() }

// path is where the file really lies.
func (f *File) path(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.real == "" {
		real, err := f.line.resolve(ctx, f.given)
		if err != nil {
			return "", err
		}
		f.real = real
	}
	return f.real, nil
}

func (f *File) touch(what string) {
	if f.step != nil {
		f.step(what)
	}
}

// beside is the name of a file that belongs to this one.
func beside(name, suffix string) string {
	return path.Join(path.Dir(name), "."+path.Base(name)+suffix)
}

// Read implements [booking.Place].
func (f *File) Read(ctx context.Context) (data []byte, version string, err error) {
	name, err := f.path(ctx)
	if err != nil {
		return nil, "", err
	}
	data, _, err = f.line.read(ctx, name)
	if err != nil {
		return nil, "", err
	}
	return data, booking.Version(data), nil
}

// ReplaceIf implements [booking.Place]. The file keeps its mode, and its owner
// and group as far as the server lets the account.
func (f *File) ReplaceIf(ctx context.Context, version string, data []byte) (err error) {
	name, err := f.path(ctx)
	if err != nil {
		return err
	}
	token := rand.Text()
	temp, kept := beside(name, ".new-"+token), beside(name, ".was-"+token)
	defer func() {
		if err != nil && !errors.Is(err, errKept) {
			if f.line.remove(ctx, temp) == nil {
				_ = f.line.remove(ctx, kept)
			}
		}
	}()
	current, info, err := f.line.read(ctx, name)
	if err != nil {
		return err
	}
	if booking.Version(current) != version {
		return changed(name)
	}
	mode := fs.FileMode(0o664)
	if info != nil {
		mode = info.Mode().Perm()
	}
	f.touch("stage")
	if err := f.line.create(ctx, temp, data, mode); err != nil {
		return err
	}
	if info == nil {
		return f.appear(ctx, temp, name)
	}
	if err := f.line.with(ctx, func(s *publisher.Session) error { return s.KeepOwner(ctx, temp, info) }); err != nil {
		return err
	}
	return f.replace(ctx, name, temp, kept, version, data)
}

func changed(name string) error { return fmt.Errorf("replacing %s: %w", name, booking.ErrChanged) }

// errKept marks an error after which what somebody wrote is only in the file
// that the error names.
var errKept = errors.New("it could not be put back")

// stillHeld is the last look before the file changes: whoever was asleep for
// long may have lost the lock.
func (f *File) stillHeld(name string) error {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != nil && !held() {
		return fmt.Errorf("replacing %s: %w: the lock was broken", name, booking.ErrLocked)
	}
	return nil
}

// appear gives a first content its name, unless the name is taken by now.
func (f *File) appear(ctx context.Context, temp, name string) error {
	f.touch("staged")
	if err := f.stillHeld(name); err != nil {
		return err
	}
	f.touch("replace")
	err := f.line.move(ctx, temp, name)
	if err == nil {
		f.touch("replaced")
		return nil
	}
	if _, statErr := f.line.stat(ctx, name); statErr == nil {
		return changed(name)
	}
	return err
}

// replace gives new content its name if the file still is the one that was read.
func (f *File) replace(ctx context.Context, name, temp, kept, version string, data []byte) error {
	f.touch("staged")
	if err := f.stillHeld(name); err != nil {
		return err
	}
	linked, err := f.line.link(ctx, name, kept)
	if err != nil {
		return err
	}
	current, _, err := f.line.read(ctx, name)
	if err != nil {
		return err
	}
	if booking.Version(current) != version {
		return changed(name)
	}
	f.touch("replace")
	if err := f.line.replace(ctx, temp, name); err != nil {
		return err
	}
	f.touch("replaced")
	if !linked {
		return nil
	}
	was, _, err := f.line.read(ctx, kept)
	if err == nil && booking.Version(was) == version {
		// As on the web host itself, what the file held before stays beside it.
		_ = f.line.replace(ctx, kept, beside(name, ".previous"))
		return nil
	}
	if err != nil {
		return fmt.Errorf("comparing what was replaced (it is in %s): %w; %w", kept, err, errKept)
	}
	// Somebody saved into the file after it was compared, and what they saved is
	// under the second name. It goes back, unless they saved once more since.
	now, _, err := f.line.read(ctx, name)
	if err != nil {
		return fmt.Errorf("putting back what somebody saved (it is in %s): %w; %w", kept, err, errKept)
	}
	if booking.Version(now) != booking.Version(data) {
		return changed(name)
	}
	if err := f.line.replace(ctx, kept, name); err != nil {
		return fmt.Errorf("putting back what somebody saved (it is in %s): %w; %w", kept, err, errKept)
	}
	return changed(name)
}
