// Package remotefile is one text file on a server, reached over SFTP, that many
// programs and people change.
//
// It is a [booking.Store]: programs take turns by a lock file beside it, and
// nobody's save is ever replaced. SFTP has no request that exchanges two files,
// nor one that replaces a file only if it is still the one that was read. So what
// is in place is taken away, and the new content put where nothing is, by two
// requests that the server hears together; see [booking.Keeper] for the rest.
package remotefile

import (
	"context"
	"fmt"
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

	mu     sync.Mutex
	real   string // where links lead; "" before the first request
	keeper *booking.Keeper

	// step and wrap, when not nil, let a test be somebody else at the worst
	// moment, or die: step is called at locking and unlocking, and wrap sees
	// each request about the file.
	step func(what string)
	wrap func(booking.Dir) booking.Dir
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
		var d booking.Dir = dir{f.line, path.Dir(real)}
		if f.wrap != nil {
			d = f.wrap(d)
		}
		f.real, f.keeper = real, booking.NewKeeper(d, path.Base(real))
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
	if _, err := f.path(ctx); err != nil {
		return nil, "", err
	}
	return f.keeper.Read(ctx)
}

// ReplaceIf implements [booking.Place]. The file keeps its mode, and its owner
// and group as far as the server lets the account.
func (f *File) ReplaceIf(ctx context.Context, version string, data []byte) error {
	if _, err := f.path(ctx); err != nil {
		return err
	}
	return f.keeper.ReplaceIf(ctx, version, data)
}

// Recover implements [booking.Beside].
func (f *File) Recover(ctx context.Context) error {
	if _, err := f.path(ctx); err != nil {
		return err
	}
	return f.keeper.Recover(ctx)
}
