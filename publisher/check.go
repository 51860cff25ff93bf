package publisher

import (
	"context"
	"fmt"
)

// CheckAccess connects as [Publisher.Publish] does, creates a temporary file in
// the drop and removes it. connected is called once the login has succeeded.
// Options.Budget bounds the whole check. The error is an [*Error].
func CheckAccess(ctx context.Context, o Options, connected func()) error {
	p, err := New(o)
	if err != nil {
		return err
	}
	defer p.Close()
	if o.Target.Scheme != "sftp" {
		return configError(CodeTarget, "write sftp://user@host/path", fmt.Errorf("connecting to %s: not an SFTP target", o.Target))
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Budget)
	defer cancel()
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	connected()
	stop := context.AfterFunc(ctx, func() { c.base.Close() })
	defer stop()
	step := stepOpen
	begin := func(next string) { step = next; p.setDeadline(ctx, c) }
	err = p.writeTemp(c, c.temp, []byte("gpuboard doctor\n"), begin)
	if err != nil {
		_ = p.unlink(ctx, c, c.temp)
	} else {
		begin(stepRemove)
		err = c.sftp.Remove(p.opts.Target.in(c.temp))
	}
	return p.uploadError(ctx, c, step, c.temp, err)
}
