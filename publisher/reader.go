package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"
)

// A Reader reads many small files over one SFTP connection, many at a time, and
// changes nothing on the server: it works for an account of `internal-sftp -R`.
// The server's key is checked as for a push. Requests are made between
// [Reader.Begin] and the end that it returns; within it, by any number of
// goroutines.
type Reader struct {
	p    *Publisher
	l    *link
	once sync.Once // of ending it
}

// DialReader connects. Options.Target names the server; its directory is not
// used. Options.Budget bounds the way there where ctx has no deadline.
func DialReader(ctx context.Context, o Options) (*Reader, error) {
	o.readOnly = true
	s, err := Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Reader{p: s.p, l: s.l}, nil
}

// Close ends the connection. It does not wait for the server.
func (r *Reader) Close() error {
	r.p.end()
	r.drop()
	return nil
}

func (r *Reader) drop() { r.once.Do(r.l.drop) }

// Usable reports whether requests may still be answered.
func (r *Reader) Usable() bool { return r.l.usable() }

// Warnings are lines of known_hosts that could not be read, and the like.
func (r *Reader) Warnings() []string { return r.l.warnings }

// Begin bounds the requests to come: by the deadline of ctx, or the budget, and
// by what the server may send. Past either the connection ends. One at a time.
func (r *Reader) Begin(ctx context.Context, maxBytes int64) (end func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(r.p.opts.Budget)
	}
	r.l.base.limit.Store(r.l.base.down.Load() + maxBytes)
	r.l.base.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { r.l.base.Close() })
	return func() {
		if !stop() { // the connection is being closed, although all may have been answered
			r.drop()
			return
		}
		r.l.base.limit.Store(0)
		r.l.base.SetDeadline(time.Time{})
	}
}

// failed sorts what came of a request. What the server answered wraps
// [fs.ErrNotExist] or [fs.ErrPermission] where it means that; everything else
// ends the connection.
func (r *Reader) failed(ctx context.Context, doing, name string, err error) error {
	var own *Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case !status(err):
		if r.l.base.tooMuch.Load() {
			err = &Error{Code: CodeRemoteFailure, Err: fmt.Errorf("%s %s: the server sent more than it was asked for", doing, name)}
		} else {
			err = r.p.transportError(ctx, r.l.base.timedOut.Load(), doing+" "+name, err)
		}
		r.drop()
		return err
	}
	return r.p.answered(doing, name, err, "read there, and allow it these requests: open, read, close, lstat, fstat, opendir, readdir, realpath")
}

// List lists a directory. Entries are described as they are: links are not followed.
func (r *Reader) List(ctx context.Context, dir string) ([]fs.FileInfo, error) {
	infos, err := r.l.sftp.ReadDirContext(ctx, dir)
	return infos, r.failed(ctx, "listing", dir, err)
}

// Lstat describes a name; a link as a link.
func (r *Reader) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := r.l.sftp.Lstat(name)
	return info, r.failed(ctx, "looking at", name, err)
}

// ErrNotPlain is wrapped by [Reader.Read] for what is no regular file, or
// larger than it may be.
var ErrNotPlain = errors.New("not a file to read")

// Read returns what a regular file of at most limit bytes holds, and how it is
// described while it is open. Look at the name before: opening follows links,
// and of a FIFO it waits for the other end.
func (r *Reader) Read(ctx context.Context, name string, limit int64) (data []byte, info fs.FileInfo, err error) {
	err = func() error {
		file, err := r.l.sftp.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if info, err = file.Stat(); err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() < 0 || info.Size() > limit {
			return &Error{Code: CodeRemoteFailure, Err: fmt.Errorf("reading %s: %w: %v, %d bytes", name, ErrNotPlain, info.Mode(), info.Size())}
		}
		// Files in a drop are replaced and never written to, so this is all of it;
		// to ask for the end of the file would be another round trip.
		data = make([]byte, info.Size())
		n, err := io.ReadFull(file, data)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			data, err = data[:n], nil
		}
		return err
	}()
	return data, info, r.failed(ctx, "reading", name, err)
}
