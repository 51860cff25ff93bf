package publisher

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/sftp"
)

// maxTidied bounds how many old files one Publish removes.
const maxTidied = 24

// A tidier is a [Source] that knows which of the files it delivered are past
// their time. Where the account of a node may only write, nobody but its owner
// can remove them; spool.Spool is one.
type tidier interface {
	Obsolete(target string) []string
	Withdrawn(target string, names ...string) error
}

// tidy removes old files from the drop with remove, which returns nil when the
// file is gone or never will be ours to remove. What fails is left for the next
// time: nothing depends on it.
func (p *Publisher) tidy(src Source, remove func(name string) error) error {
	t, ok := src.(tidier)
	if !ok {
		return nil
	}
	names := t.Obsolete(p.target)
	var done []string
	var err error
	for _, name := range names[:min(len(names), maxTidied)] {
		if !plainName(name) || name == LatestName {
			continue
		}
		if err = remove(name); err != nil {
			break
		}
		done = append(done, name)
	}
	if len(done) > 0 {
		if forgotten := t.Withdrawn(p.target, done...); err == nil {
			err = forgotten
		}
	}
	return err
}

// removeRemote removes one old file over a connection.
func (p *Publisher) removeRemote(ctx context.Context, l *link) func(name string) error {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(p.opts.Budget)
	}
	return func(name string) error {
		l.arm(end, p.opts.Budget/2)
		err := l.sftp.Remove(p.opts.Target.in(name))
		var s *sftp.StatusError
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // a drop box tidies itself, and lets nobody else
		case errors.As(err, &s):
			return nil // the server says no; asking again each time helps nobody
		}
		return p.transportError(ctx, l.base.timedOut.Load(), "removing "+name, err)
	}
}

// removeLocal removes one old file of a local drop.
func (p *Publisher) removeLocal(name string) error {
	err := os.Remove(filepath.Join(p.opts.Target.Dir, "drop", p.opts.Host, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
