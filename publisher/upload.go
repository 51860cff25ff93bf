package publisher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Steps of one upload, as they are named in errors.
const (
	stepOpen   = "creating the temporary file for"
	stepWrite  = "writing"
	stepSync   = "syncing"
	stepClose  = "closing"
	stepRename = "renaming into place"
	stepRemove = "removing"
)

// put replaces one file on the server: it writes a temporary file beside it, syncs
// and closes that, and renames it over the old one. Nothing is renamed after an
// error: a server whose disk is full fails the write, and then syncs, closes and
// renames the incomplete file without complaint.
func (p *Publisher) put(ctx context.Context, c *connection, name string, data []byte) error {
	end, _ := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() { c.base.Close() })
	defer stop()
	step := stepOpen
	begin := func(next string) { step = next; c.setDeadline(end, p.opts.Budget/2) }
	c.tempLeft = true
	err := p.writeTemp(c, c.temp, data, begin)
	if err == nil {
		begin(stepRename)
		err = c.sftp.PosixRename(p.opts.Target.in(c.temp), p.opts.Target.in(name))
	}
	if err == nil {
		c.tempLeft = false
		return nil
	}
	failed := p.uploadError(ctx, c, step, name, err)
	if !answered(err) {
		return failed
	}
	var e *Error
	if errors.As(failed, &e) && e.Code == CodeRemoteFailure && c.statvfs {
		c.setDeadline(end, p.opts.Budget/2)
		p.explain(c, e, len(data))
	}
	c.tempLeft = p.unlink(c, end, c.temp) != nil
	return failed
}

// uploadError returns the error of one step of an upload; nil for nil.
func (p *Publisher) uploadError(ctx context.Context, c *connection, step, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case answered(err):
		return p.remoteError(step, name, err)
	}
	return p.transportError(ctx, c, step+" "+name, err)
}

// writeTemp creates a file with all of its content, and syncs it to disk where the
// server offers that. begin is called before each request and sets its deadline.
func (p *Publisher) writeTemp(c *connection, name string, data []byte, begin func(step string)) (err error) {
	begin(stepOpen)
	file, err := c.sftp.OpenFile(p.opts.Target.in(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if err != nil && !closed && answered(err) {
			file.Close() // under the deadline of the request that failed
		}
	}()
	// Each piece has its own deadline, because a slow line is not a dead one.
	for done := 0; done < len(data); {
		begin(stepWrite)
		piece := data[done:min(done+writePiece, len(data))]
		n, err := file.Write(piece)
		if err != nil {
			return err
		}
		if n != len(piece) {
			return fmt.Errorf("%d of %d bytes taken: %w", n, len(piece), errShortWrite)
		}
		done += n
	}
	if c.fsync {
		begin(stepSync)
		if err := file.Sync(); err != nil {
			return err
		}
	}
	begin(stepClose)
	closed = true
	return file.Close()
}

var errShortWrite = errors.New("the server took less than it was given")

// writePiece is one SFTP packet.
const writePiece = 32 << 10

// explain finds the cause of a bare "failure" on a server that answers statvfs. It
// is called before the temporary file is removed, while the disk is still full.
func (p *Publisher) explain(c *connection, failed *Error, size int) {
	dir := p.opts.Target.Dir
	if dir == "" {
		dir = "."
	}
	vfs, err := c.sftp.StatVFS(dir)
	if err != nil {
		return
	}
	switch {
	case vfs.Files > 0 && vfs.Favail == 0:
		failed.Code = CodeRemoteInodes
		failed.hint = "on the server: df -i; remove files, or make a file system with more inodes"
	case vfs.Bavail*vfs.Frsize < uint64(size):
		failed.Code = CodeRemoteSpace
		failed.hint = "on the server: df -h; free some space"
	}
}

// unlink deletes a file on the server. A file that does not exist is no error.
func (p *Publisher) unlink(c *connection, end time.Time, name string) error {
	name = p.opts.Target.in(name)
	c.setDeadline(end, p.opts.Budget/2)
	err := c.sftp.Remove(name)
	if errors.Is(err, fs.ErrPermission) {
		// After any failure the library checks whether the name is a directory. Where
		// that check is denied, "permission denied" hides the first answer. Opening
		// the file tells whether it exists.
		c.setDeadline(end, p.opts.Budget/2)
		file, there := c.sftp.OpenFile(name, os.O_WRONLY)
		if there == nil {
			file.Close()
		} else if errors.Is(there, fs.ErrNotExist) {
			return nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeStale removes the temporary files of uploads that did not finish.
func (p *Publisher) removeStale(ctx context.Context, c *connection) error {
	end, _ := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() { c.base.Close() })
	defer stop()
	for temp, record := range p.records.stale(time.Now()) {
		if temp != c.temp {
			p.stale[temp] = record
		}
	}
	for temp, record := range p.stale {
		err := p.unlink(c, end, temp)
		if err != nil && !answered(err) {
			return p.transportError(ctx, c, "removing a leftover temporary file", err)
		}
		delete(p.stale, temp)
		if err == nil {
			p.records.remove(record)
		}
	}
	return nil
}

// checkFile refuses a file that no drop accepts, before anything is sent.
func checkFile(f File, data []byte) error {
	if !plainName(f.Name) {
		return configError(CodeFileName, "", fmt.Errorf("publishing %q: not a plain file name", cut(f.Name, 80)))
	}
	if len(data) > MaxFileBytes {
		return configError(CodeTooLarge, "", fmt.Errorf("publishing %s: %d bytes, and a drop takes %d", f.Name, len(data), MaxFileBytes))
	}
	return nil
}

// plainName reports whether a name may become part of a path: letters, digits,
// dots, hyphens and underscores, not starting with a dot or a hyphen.
func plainName(s string) bool {
	if s == "" || len(s) > 255 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
