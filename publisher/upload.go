package publisher

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"time"
)

// Steps of one upload, as they are named in errors.
const (
	stepMkdir  = "making the directory of"
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
	step := stepOpen
	begin := func(next string) { step = next; p.setDeadline(ctx, c) }
	c.tempLeft = true
	err := p.makeDir(c, path.Dir(name), begin)
	if err == nil {
		err = p.writeTemp(c, c.temp, data, begin)
	}
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
	if e, ok := errors.AsType[*Error](failed); ok && e.Code == CodeRemoteFailure && c.statvfs {
		p.setDeadline(ctx, c)
		p.explain(c, e, len(data))
	}
	c.tempLeft = p.unlink(ctx, c, c.temp) != nil
	return failed
}

// makeDir makes the directory of a file, once in a connection. The target's own must exist: a missing one is usually a
// typing error.
func (p *Publisher) makeDir(c *connection, dir string, begin func(step string)) error {
	if dir == "." || c.made[dir] {
		return nil
	}
	if err := p.makeDir(c, path.Dir(dir), begin); err != nil {
		return err
	}
	begin(stepMkdir)
	err := c.sftp.Mkdir(p.opts.Target.in(dir))
	if err != nil && answered(err) { // servers say only "failure" where it exists
		begin(stepMkdir)
		if info, statErr := c.sftp.Stat(p.opts.Target.in(dir)); statErr == nil && info.IsDir() {
			err = nil
		}
	}
	if err == nil {
		if c.made == nil {
			c.made = map[string]bool{}
		}
		c.made[dir] = true
	}
	return err
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
// server offers that. begin is called before each request and sets its deadline. After
// an error the file stays open until the connection ends, which is soon.
func (p *Publisher) writeTemp(c *connection, name string, data []byte, begin func(step string)) error {
	begin(stepOpen)
	file, err := c.sftp.OpenFile(p.opts.Target.in(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	// Each piece has its own deadline, because a slow line is not a dead one.
	for done := 0; done < len(data); {
		begin(stepWrite)
		piece := data[done:min(done+writePiece, len(data))]
		if _, err := file.Write(piece); err != nil {
			return err
		}
		done += len(piece)
	}
	if c.fsync {
		begin(stepSync)
		if err := file.Sync(); err != nil {
			return err
		}
	}
	begin(stepClose)
	return file.Close()
}

// writePiece is one SFTP packet.
const writePiece = 32 << 10

// explain finds the cause of a bare "failure" on a server that answers statvfs. It
// is called before the temporary file is removed, while the disk is still full.
func (p *Publisher) explain(c *connection, failed *Error, size int) {
	vfs, err := c.sftp.StatVFS(cmp.Or(p.opts.Target.Dir, "."))
	if err != nil {
		return
	}
	switch {
	case vfs.Files > 0 && vfs.Favail == 0:
		failed.Code = "remote:noinode"
		failed.Advice = "on the server: df -i; remove files, or make a file system with more inodes"
	case vfs.Bavail*vfs.Frsize < uint64(size):
		failed.Code = "remote:nospace"
		failed.Advice = "on the server: df -h; free some space"
	}
}

// unlink removes a file on the server. The error is one of the connection: a server
// that has no such file, or that lets nobody remove it, is not asked again.
func (p *Publisher) unlink(ctx context.Context, c *connection, name string) error {
	p.setDeadline(ctx, c)
	if err := c.sftp.Remove(p.opts.Target.in(name)); err != nil && !answered(err) {
		return p.transportError(ctx, c, "removing "+name, err)
	}
	return nil
}

// removeStale removes the temporary files of uploads that did not finish.
func (p *Publisher) removeStale(ctx context.Context, c *connection) error {
	for _, temp := range p.records.abandoned(time.Now()) {
		if err := p.unlink(ctx, c, temp); err != nil {
			return err
		}
		p.records.remove(temp)
	}
	return nil
}

// maxExpired bounds how many old files one Publish removes.
const maxExpired = 24

// removeExpired removes expired files from the drop. After an error the rest is left
// for the next push.
func (p *Publisher) removeExpired(src Source, remove func(name string) error) error {
	names := src.Obsolete(p.target)
	names = names[:min(len(names), maxExpired)]
	var err error
	for i, name := range names {
		if err = remove(name); err != nil {
			names = names[:i]
			break
		}
	}
	if len(names) == 0 {
		return err
	}
	return errors.Join(err, src.Withdrawn(p.target, names...))
}
