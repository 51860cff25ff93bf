package publisher

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// maxExpired bounds how many old files one Publish removes.
const maxExpired = 24

// An expirer is a [Source] that knows which delivered files have expired, as
// spool.Spool does. Where a node's account may only write, nobody but its owner
// can remove those files.
type expirer interface {
	Obsolete(target string) []string
	Withdrawn(target string, names ...string) error
}

// removeExpired removes old files from the drop with remove, which returns nil for
// a file that is gone or that the server does not let us remove. Errors leave the
// rest for the next push.
func (p *Publisher) removeExpired(src Source, remove func(name string) error) error {
	t, ok := src.(expirer)
	if !ok {
		return nil
	}
	names := t.Obsolete(p.target)
	var done []string
	var err error
	for _, name := range names[:min(len(names), maxExpired)] {
		if !plainName(name) || name == LatestName {
			continue
		}
		if err = remove(name); err != nil {
			break
		}
		done = append(done, name)
	}
	if len(done) > 0 {
		if withdrawn := t.Withdrawn(p.target, done...); err == nil {
			err = withdrawn
		}
	}
	return err
}

// removeRemote returns the function that removes one old file over a connection.
// Where the server refuses, asking again would not help: gpuboard receive removes
// old files itself and lets no node do it.
func (p *Publisher) removeRemote(ctx context.Context, c *connection) func(name string) error {
	end, _ := ctx.Deadline()
	return func(name string) error {
		c.setDeadline(end, p.opts.Budget/2)
		if err := c.sftp.Remove(p.opts.Target.in(name)); err != nil && !answered(err) {
			return p.transportError(ctx, c, "removing "+name, err)
		}
		return nil
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
