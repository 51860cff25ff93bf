package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// handshakeTimeout bounds connecting and logging in, also where the budget is small. A
// larger budget gives half of itself: a server under load may take long to fork a session.
const handshakeTimeout = 10 * time.Second

// connection is one SFTP session with the TCP connection below it. Every request
// has a deadline on the TCP connection: nothing else ends a call into pkg/sftp
// when a server stops answering. Closing starts with the TCP connection, because
// the SFTP and SSH layers wait for the peer when they close.
type connection struct {
	base     *watchedConn
	hops     []*ssh.Client // jump hosts first, the server last
	sftp     *sftp.Client
	fsync    bool
	statvfs  bool
	temp     string          // name of the temporary file; no other connection uses it
	tempLeft bool            // the temporary file may exist on the server
	made     map[string]bool // directories below the target's that exist
}

// watchedConn remembers the first bytes that the server sent, and whether a deadline
// passed or a write failed: pkg/sftp reports both as "connection lost".
type watchedConn struct {
	net.Conn
	received atomic.Int64 // bytes
	timedOut atomic.Bool
	broke    atomic.Bool // a write failed
	greeting [64]byte
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if seen := c.received.Load(); seen < int64(len(c.greeting)) {
		copy(c.greeting[seen:], b[:n])
	}
	c.received.Add(int64(n))
	c.note(err)
	return n, err
}

func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.note(err)
	if err != nil {
		// The SSH library would still wait for an answer until the deadline.
		c.broke.Store(true)
		c.Close()
	}
	return n, err
}

func (c *watchedConn) note(err error) {
	if isTimeout(err) {
		c.timedOut.Store(true)
	}
}

// explainRejection refines the code of a connection that was lost before the
// handshake: sshd and receive say in plain text why they refuse to begin one.
func (c *connection) explainRejection(e *Error, addr string, target Target) {
	greeting := string(c.base.greeting[:])
	silent := target.Port == 443 && c.base.received.Load() == 0 // as servers of TLS are
	if strings.HasPrefix(greeting, "HTTP/") || silent {
		e.Code, e.permanent, e.retry, e.loginRefused = "ssh:handshake", true, false, false
		e.Err = fmt.Errorf("logging in to %s: this is a web server", addr)
		target.Port = 0
		e.hint = "without its port, to: is that of sshd: --to " + shell.Quote(target.String())
		target.Port = 2222
		e.hint += "; gpuboard receive usually has: --to " + shell.Quote(target.String())
		return
	}
	if e.Code != CodeLost {
		return
	}
	switch {
	case strings.HasPrefix(greeting, "Not allowed at this time"):
		e.Code = "ssh:penalty"
		e.hint = "too many logins from this address have failed; when many nodes share it, exempt it in the server's sshd_config: PerSourcePenaltyExemptList"
	case strings.HasPrefix(greeting, "Exceeded MaxStartups"):
		e.Code = CodeBusy
	case strings.HasPrefix(greeting, "gpuboard receive: too many"):
		line, _, _ := strings.Cut(greeting, "\r")
		e.Code, e.Err, e.hint = CodeBusy, fmt.Errorf("logging in: %s", snapshot.Text(line, len(greeting))), ""
	}
}

// dial connects and logs in, over jump hosts if there are any. ctx carries the
// budget of the whole push.
func (p *Publisher) dial(ctx context.Context) (_ *connection, err error) {
	route, err := p.route(ctx)
	if err != nil {
		return nil, err
	}
	timeout := max(handshakeTimeout, p.opts.Budget/2)
	for _, hop := range route {
		if hop.connectTimeout > 0 {
			timeout = min(timeout, hop.connectTimeout)
		}
	}
	deadline := time.Now().Add(timeout)
	if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	dialCtx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	// Credentials are loaded before anything is dialed: sshd counts a connection
	// that offers no key as a failed login.
	keys, ids := make([]*hostKeys, len(route)), make([]*identities, len(route))
	for i, hop := range route {
		if keys[i], err = loadHostKeys(hop); err != nil {
			return nil, err
		}
		if ids[i], err = loadIdentities(hop, deadline); err != nil {
			return nil, err
		}
		defer ids[i].close()
	}
	conn, err := (&net.Dialer{}).DialContext(dialCtx, "tcp", route[0].addr())
	if err != nil {
		return nil, p.transportError(ctx, nil, "connecting to "+route[0].addr(), err)
	}
	c := &connection{base: &watchedConn{Conn: conn}, temp: newTempName()}
	// The deadline is set before the handshake: the kernel accepts connections for
	// a stopped sshd, and nothing else ends the wait for its greeting.
	c.base.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { c.base.Close() })
	defer stop()
	defer func() {
		if err != nil {
			c.close()
		}
	}()

	var through net.Conn = c.base
	for i, hop := range route {
		client, err := p.handshake(through, hop, keys[i], ids[i], c)
		if err != nil {
			failed := p.transportError(ctx, c, "logging in to "+hop.addr(), err)
			failed.loginRefused = failed.permanent
			c.explainRejection(failed, hop.addr(), p.opts.Target)
			return nil, failed
		}
		c.hops = append(c.hops, client)
		if i+1 < len(route) {
			next := route[i+1].addr()
			if through, err = client.DialContext(dialCtx, "tcp", next); err != nil {
				failed := p.transportError(ctx, c, "connecting to "+next+" through "+hop.addr(), err)
				if open, ok := errors.AsType[*ssh.OpenChannelError](err); ok && open.Reason == ssh.ConnectionFailed {
					failed.Code, failed.retry = CodeRefused, true
					failed.hint = "test whether sshd listens there: sftp " + p.sftpArgs()
				}
				return nil, failed
			}
		}
	}
	c.sftp, err = openSFTP(dialCtx, c.hops[len(c.hops)-1])
	if err != nil {
		doing := "opening an SFTP session on " + p.opts.Target.Host
		if c.base.broke.Load() {
			// The SSH library's own error reads as if the server denied a session.
			return nil, &Error{Code: CodeLost, retry: true, Err: fmt.Errorf("%s: the connection broke: %w", doing, err)}
		}
		return nil, p.transportError(ctx, c, doing, err)
	}
	if err := c.extensions(p.opts.Target.Host); err != nil {
		return nil, err
	}
	return c, nil
}

// openSFTP opens an SFTP session, and gives up when ctx ends. A deadline of the connection is not enough: if the
// server ends the connection just after the login, golang.org/x/crypto/ssh may register the new channel after it has
// closed all others, and then nothing ends the wait for it.
func openSFTP(ctx context.Context, client *ssh.Client) (*sftp.Client, error) {
	type result struct {
		client *sftp.Client
		err    error
	}
	opened := make(chan result, 1)
	go func() {
		c, err := sftp.NewClient(client)
		opened <- result{c, err}
	}()
	select {
	case r := <-opened:
		return r.client, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// extensions refuses a server that cannot replace a file atomically: between
// remove and rename readers find no file, and a plain rename does not replace.
func (c *connection) extensions(host string) error {
	if _, ok := c.sftp.HasExtension("posix-rename@openssh.com"); !ok {
		return configError("ssh:no-posix-rename",
			"use OpenSSH's internal-sftp or `gpuboard receive` on the server, and do not deny posix-rename there",
			fmt.Errorf("opening an SFTP session on %s: it does not offer posix-rename@openssh.com, without which readers would see a file missing or torn", host))
	}
	_, c.fsync = c.sftp.HasExtension("fsync@openssh.com")
	_, c.statvfs = c.sftp.HasExtension("statvfs@openssh.com")
	return nil
}

func (p *Publisher) handshake(conn net.Conn, hop settings, keys *hostKeys, ids *identities, c *connection) (*ssh.Client, error) {
	config := &ssh.ClientConfig{
		User: hop.user,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(ids.signers...)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			return keys.check(hop, c.base.RemoteAddr(), key)
		},
		HostKeyAlgorithms: keys.algorithms(hop),
		ClientVersion:     "SSH-2.0-gpuboard",
	}
	client, channels, requests, err := ssh.NewClientConn(conn, hop.keyAddr(), config)
	if err == nil {
		return ssh.NewClient(client, channels, requests), nil
	}
	if algorithm, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok && algorithm.What == "host key" && modern(algorithm.RequestedAlgorithms) {
		return nil, configError(CodeHostUnknown, keys.scanCommand(hop),
			fmt.Errorf("checking the host key of %s: the server has no key of the kind that known_hosts holds: %w", hop.addr(), err))
	}
	if len(ids.problems) > 0 && !errors.Is(err, io.EOF) {
		if e := p.transportError(context.Background(), c, "logging in to "+hop.addr(), err); e.Code == CodeAuth {
			// The key that could not be read is probably the one that is needed.
			first := ids.problems[0]
			return nil, &Error{Code: first.Code, permanent: true, hint: first.hint, Err: fmt.Errorf("%w; and %w", e.Err, first.Err)}
		}
	}
	return nil, err
}

// modern reports whether a server offers a signature better than SHA-1, the only
// one of "ssh-rsa" and "ssh-dss" (RFC 4253, 6.6).
func modern(algorithms []string) bool {
	return slices.ContainsFunc(algorithms, func(a string) bool { return a != ssh.KeyAlgoRSA && a != "ssh-dss" })
}

// close ends the connection at once, without waiting for the peer.
func (c *connection) close() {
	c.base.Close()
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
	c.base.SetDeadline(deadline)
}
