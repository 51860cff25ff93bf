package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/sftp"

	"gpuboard/internal/shell"
	"gpuboard/internal/sshclient"
)

// connection is one SFTP session. Every request has a deadline on the TCP connection:
// nothing else ends a call into pkg/sftp when a server stops answering. Closing starts
// with the TCP connection, because the SFTP and SSH layers wait for the peer when they close.
type connection struct {
	*sshclient.Conn
	sftp     *sftp.Client
	fsync    bool
	statvfs  bool
	temp     string          // name of the temporary file; no other connection uses it
	tempLeft bool            // the temporary file may exist on the server
	made     map[string]bool // directories below the target's that exist
}

// ssh returns how the server is connected to.
func (p *Publisher) ssh() sshclient.Options {
	t := p.opts.Target
	withoutPort, receive := t, t
	withoutPort.Port, receive.Port = 0, 2222
	return sshclient.Options{
		User: t.User, Host: t.Host, Port: t.Port, Program: "sftp",
		// A server under load may take long to fork a session.
		Timeout: p.opts.Budget / 2, Identity: p.opts.Identity, KnownHosts: p.opts.KnownHosts,
		ResolveConfig: p.opts.ResolveConfig,
		KeyHint:       "bring this node's public key to the web host: as /etc/ssh/gpudrop/ACCOUNT where sshd takes snapshots, as HOST.pub in the directory of keys where gpuboard receive does",
		WebHint: "without its port, to: is that of sshd: --to " + shell.Quote(withoutPort.String()) +
			"; gpuboard receive usually has: --to " + shell.Quote(receive.String()),
	}
}

// dial connects, logs in and opens an SFTP session. ctx carries the budget of the whole push.
func (p *Publisher) dial(ctx context.Context) (_ *connection, err error) {
	conn, err := sshclient.Dial(ctx, p.ssh())
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, temp: newTempName()}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	dialCtx, cancel := context.WithDeadline(ctx, conn.Until)
	defer cancel()
	c.sftp, err = sshclient.Await(dialCtx, func() (*sftp.Client, error) { return sftp.NewClient(conn.Client()) })
	if err != nil {
		doing := "opening an SFTP session on " + p.opts.Target.Host
		if conn.Broke() {
			// The SSH library's own error reads as if the server denied a session.
			return nil, &Error{Code: CodeLost, Retry: true, Err: fmt.Errorf("%s: the connection broke: %w", doing, err)}
		}
		return nil, p.transportError(ctx, c, doing, err)
	}
	if err := c.extensions(p.opts.Target.Host); err != nil {
		return nil, err
	}
	return c, nil
}

// extensions refuses a server that cannot replace a file atomically: between
// remove and rename readers find no file, and a plain rename does not replace.
func (c *connection) extensions(host string) error {
	if _, ok := c.sftp.HasExtension("posix-rename@openssh.com"); !ok {
		return sshclient.Permanent("ssh:no-posix-rename",
			"use OpenSSH's internal-sftp or `gpuboard receive` on the server, and do not deny posix-rename there",
			"opening an SFTP session on %s: it does not offer posix-rename@openssh.com, without which readers would see a file missing or torn", host)
	}
	_, c.fsync = c.sftp.HasExtension("fsync@openssh.com")
	_, c.statvfs = c.sftp.HasExtension("statvfs@openssh.com")
	return nil
}

// close ends the connection at once, without waiting for the peer.
func (c *connection) close() {
	c.Conn.Close()
	if c.sftp != nil {
		c.sftp.Close()
	}
}

// setDeadline bounds the next request by half of the budget, so that time is left to
// dial again when a kept connection has died, and by the end of ctx.
func (p *Publisher) setDeadline(ctx context.Context, c *connection) {
	deadline := time.Now().Add(p.opts.Budget / 2)
	if end, _ := ctx.Deadline(); end.Before(deadline) {
		deadline = end
	}
	c.SetDeadline(deadline)
}
