// Package sshclient makes an SSH connection as ssh itself would: by ssh's configuration, with its keys and its agent,
// through its jump hosts, and never to a host whose key is not known.
package sshclient

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

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/snapshot"
)

// handshakeTimeout bounds connecting and logging in, also where the budget is small. A
// larger budget gives half of itself: a server under load may take long to fork a session.
const handshakeTimeout = 10 * time.Second

// Options say where to connect and how. Zero values mean what ssh would do.
type Options struct {
	User string
	Host string // a name, an address, or an alias of ssh_config
	Port int
	// Timeout bounds connecting and logging in, if it is more than handshakeTimeout.
	Timeout time.Duration
	// Identity and KnownHosts are files that replace those of ssh_config.
	Identity, KnownHosts []string
	// ResolveConfig returns what `ssh -G host` prints. When it is nil or its error wraps
	// [fs.ErrNotExist], because ssh is not installed, no ssh_config is used.
	ResolveConfig func(ctx context.Context, host string) ([]byte, error)

	// Program is which one makes the same connection by hand: ssh or sftp. KeyHint says what to do if the server takes
	// none of the keys, and WebHint if a web server answers.
	Program, KeyHint, WebHint string
}

// A Conn is a connection to a server, over jump hosts if there are any.
type Conn struct {
	*watchedConn
	hops []*ssh.Client // jump hosts first, the server last
	// Until is when what is left of opening the connection has to be done.
	Until time.Time
}

// Client is the connection to the server itself.
func (c *Conn) Client() *ssh.Client { return c.hops[len(c.hops)-1] }

// Watch makes a Conn of a TCP connection on which nobody has logged in yet. Deadlines bound every request on it:
// nothing else ends a call when a server stops answering.
func Watch(conn net.Conn) *Conn { return &Conn{watchedConn: &watchedConn{Conn: conn}} }

// Broke reports whether a write has failed.
func (c *Conn) Broke() bool { return c.broke.Load() }

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
func (o Options) explainRejection(c *Conn, e *Error, addr string) {
	greeting := string(c.greeting[:])
	silent := o.Port == 443 && c.received.Load() == 0 // as servers of TLS are
	if strings.HasPrefix(greeting, "HTTP/") || silent {
		e.Code, e.Permanent, e.Retry, e.LoginRefused = "ssh:handshake", true, false, false
		e.Err = fmt.Errorf("logging in to %s: this is a web server", addr)
		e.Advice = o.WebHint
		return
	}
	if e.Code != CodeLost {
		return
	}
	switch {
	case strings.HasPrefix(greeting, "Not allowed at this time"):
		e.Code = "ssh:penalty"
		e.Advice = "too many logins from this address have failed; when many nodes share it, exempt it in the server's sshd_config: PerSourcePenaltyExemptList"
	case strings.HasPrefix(greeting, "Exceeded MaxStartups"):
		e.Code = CodeBusy
	case strings.HasPrefix(greeting, "gpuboard receive: too many"):
		line, _, _ := strings.Cut(greeting, "\r")
		e.Code, e.Err, e.Advice = CodeBusy, fmt.Errorf("logging in: %s", snapshot.Text(line, len(greeting))), ""
	}
}

// Dial connects and logs in, over jump hosts if there are any. The error is an [*Error].
func Dial(ctx context.Context, o Options) (_ *Conn, err error) {
	route, err := o.route(ctx)
	if err != nil {
		return nil, err
	}
	timeout := max(handshakeTimeout, o.Timeout)
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
		return nil, o.Explain(ctx, nil, "connecting to "+route[0].addr(), err)
	}
	c := Watch(conn)
	c.Until = deadline
	// The deadline is set before the handshake: the kernel accepts connections for
	// a stopped sshd, and nothing else ends the wait for its greeting.
	c.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer func() {
		if err != nil {
			c.Close()
		}
	}()

	var through net.Conn = c.watchedConn
	for i, hop := range route {
		client, err := o.handshake(through, hop, keys[i], ids[i], c)
		if err != nil {
			failed := o.Explain(ctx, c, "logging in to "+hop.addr(), err)
			failed.LoginRefused = failed.Permanent
			o.explainRejection(c, failed, hop.addr())
			return nil, failed
		}
		c.hops = append(c.hops, client)
		if i+1 < len(route) {
			next := route[i+1].addr()
			if through, err = client.DialContext(dialCtx, "tcp", next); err != nil {
				failed := o.Explain(ctx, c, "connecting to "+next+" through "+hop.addr(), err)
				if open, ok := errors.AsType[*ssh.OpenChannelError](err); ok && open.Reason == ssh.ConnectionFailed {
					failed.Code, failed.Retry = CodeRefused, true
					failed.Advice = "test whether sshd listens there: " + o.command("")
				}
				return nil, failed
			}
		}
	}
	return c, nil
}

func (o Options) handshake(conn net.Conn, hop settings, keys *hostKeys, ids *identities, c *Conn) (*ssh.Client, error) {
	config := &ssh.ClientConfig{
		User: hop.user,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(ids.signers...)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			return keys.check(hop, c.RemoteAddr(), key)
		},
		HostKeyAlgorithms: keys.algorithms(hop),
		ClientVersion:     "SSH-2.0-gpuboard",
	}
	client, channels, requests, err := ssh.NewClientConn(conn, hop.keyAddr(), config)
	if err == nil {
		return ssh.NewClient(client, channels, requests), nil
	}
	if algorithm, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok && algorithm.What == "host key" &&
		modern(algorithm.RequestedAlgorithms) {
		return nil, Permanent(CodeHostUnknown, keys.scanCommand(hop),
			"checking the host key of %s: the server has no key of the kind that known_hosts holds: %w",
			hop.addr(), err)
	}
	if len(ids.problems) > 0 && !errors.Is(err, io.EOF) {
		if e := o.Explain(context.Background(), c, "logging in to "+hop.addr(), err); e.Code == CodeAuth {
			// The key that could not be read is probably the one that is needed.
			first := ids.problems[0]
			return nil, &Error{Code: first.Code, Permanent: true, Advice: first.Advice,
				Err: fmt.Errorf("%w; and %w", e.Err, first.Err)}
		}
	}
	return nil, err
}

// modern reports whether a server offers a signature better than SHA-1, the only
// one of "ssh-rsa" and "ssh-dss" (RFC 4253, 6.6).
func modern(algorithms []string) bool {
	return slices.ContainsFunc(algorithms, func(a string) bool { return a != ssh.KeyAlgoRSA && a != "ssh-dss" })
}
