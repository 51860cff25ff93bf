package publisher

import "context"

// CheckAccess connects to an sftp or s3 target as [Publisher.Publish] does, creates a temporary file in
// the drop and removes it. connected is called once the login to an SFTP server has succeeded.
// Options.Budget bounds the whole check. The error is an [*Error].
func CheckAccess(ctx context.Context, o Options, connected func()) error {
	p, err := New(o)
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, p.opts.Budget)
	defer cancel()
	if p.bucket != nil {
		const name = "gpuboard-doctor.txt"
		if err := p.bucket.put(ctx, name, []byte("gpuboard doctor\n")); err != nil {
			return err
		}
		return p.bucket.remove(ctx, name)
	}
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	connected()
	stop := context.AfterFunc(ctx, func() { c.Close() })
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
