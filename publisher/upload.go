package publisher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/pkg/sftp"
)

// Steps of one upload, as they are named in errors.
const (
	stepOpen   = "creating the temporary file for"
	stepWrite  = "writing"
	stepSync   = "syncing"
	stepClose  = "closing"
	stepRename = "renaming into place"
)

// put replaces one file on the server: a temporary beside it, written, synced,
// closed, then renamed over it. Nothing is renamed after any error: a server
// with a full disk fails the write and then gladly syncs, closes and renames
// what there is.
func (p *Publisher) put(ctx context.Context, l *link, name string, data []byte) error {
	end, _ := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() { l.base.Close() })
	defer stop()
	temp, final := p.opts.Target.in(l.temp), p.opts.Target.in(name)
	step := stepOpen
	arm := func(next string) { step = next; l.arm(end, p.opts.Budget/2) }

	err := func() (err error) {
		arm(stepOpen)
		l.dirty = true
		file, err := l.sftp.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		open := true
		defer func() {
			if err != nil && open && status(err) {
				l.arm(end, p.opts.Budget/2)
				file.Close()
			}
		}()
		if err := l.fill(file, data, arm); err != nil {
			return err
		}
		arm(stepClose)
		open = false
		if err := file.Close(); err != nil {
			return err
		}
		arm(stepRename)
		if err := l.sftp.PosixRename(temp, final); err != nil {
			return err
		}
		l.dirty = false
		return nil
	}()
	if err == nil {
		return nil
	}
	if !status(err) && !errors.Is(err, errShortWrite) {
		return p.transportError(ctx, l.base.timedOut.Load(), step+" "+name, err)
	}
	failed := p.remoteError(step, name, err)
	if failed.Code == CodeRemoteFailure && l.statvfs {
		l.arm(end, p.opts.Budget/2)
		p.explain(l, failed, len(data))
	}
	if p.remove(l, end, l.temp) {
		l.dirty = false
	}
	return failed
}

// fill writes all of a new file, to the disk where the server offers that; arm
// gives each request its time. Piece by piece, because a slow line is not a dead one.
func (l *link) fill(file *sftp.File, data []byte, arm func(step string)) error {
	for done := 0; done < len(data); {
		arm(stepWrite)
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
	if !l.fsync {
		return nil
	}
	arm(stepSync)
	return file.Sync()
}

var errShortWrite = errors.New("the server took less than it was given")

// writePiece is one SFTP packet.
const writePiece = 32 << 10

// explain turns a bare "failure" into its cause where the server lets us ask.
// It asks before the temporary is removed, while what is full is still full.
func (p *Publisher) explain(l *link, failed *Error, size int) {
	dir := p.opts.Target.Dir
	if dir == "" {
		dir = "."
	}
	vfs, err := l.sftp.StatVFS(dir)
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

// remove deletes a temporary, and reports whether it is surely gone.
func (p *Publisher) remove(l *link, end time.Time, temp string) bool {
	return p.unlink(l, end, temp) == nil
}

// unlink deletes a file of ours on the server. It returns nil, too, when there
// is none.
func (p *Publisher) unlink(l *link, end time.Time, name string) error {
	name = p.opts.Target.in(name)
	l.arm(end, p.opts.Budget/2)
	err := l.sftp.Remove(name)
	if errors.Is(err, fs.ErrPermission) {
		// The library looks whether it was a directory, and where it may not look
		// that is the answer, whatever the first one was. Opening tells.
		l.arm(end, p.opts.Budget/2)
		file, there := l.sftp.OpenFile(name, os.O_WRONLY)
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

// sweep removes the temporaries of pushes that died.
func (p *Publisher) sweep(ctx context.Context, l *link) error {
	end, _ := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() { l.base.Close() })
	defer stop()
	for temp, note := range p.notes.dead(time.Now()) {
		if temp != l.temp {
			p.leftovers[temp] = note
		}
	}
	for temp, note := range p.leftovers {
		err := p.unlink(l, end, temp)
		if err != nil && !status(err) {
			return p.transportError(ctx, l.base.timedOut.Load(), "removing a leftover temporary file", err)
		}
		delete(p.leftovers, temp)
		if err == nil {
			p.notes.forget(note)
		}
	}
	return nil
}

// checkFile refuses what no drop takes, before anything is sent.
func checkFile(f File, data []byte) error {
	if f.Name != path.Base(f.Name) || !plainName(f.Name) {
		return configError(CodeFileName, "", fmt.Errorf("publishing %q: not a plain file name", cut(f.Name, 80)))
	}
	if len(data) > MaxFileBytes {
		return configError(CodeTooLarge, "", fmt.Errorf("publishing %s: %d bytes, and a drop takes %d", f.Name, len(data), MaxFileBytes))
	}
	return nil
}

// plainName is what a host or a file may be called when the name becomes a
// path: letters, digits, dot, hyphen and underscore, not starting with a dot.
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
