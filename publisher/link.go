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
)

const (
	handshakeTimeout  = 10 * time.Second
	keepaliveInterval = 15 * time.Second
	keepaliveTimeout  = 10 * time.Second
)

// link is one SFTP session and the TCP connection under it. Every operation on
// it is bounded by a deadline on that connection, the only thing that ends a
// call into pkg/sftp when a server stops answering; and it is ended by closing
// that connection first, because a polite close waits for the peer.
type link struct {
	base     *meter
	hops     []*ssh.Client // jump hosts first, the server last
	sftp     *sftp.Client
	fsync    bool
	statvfs  bool
	temp     string // the name of the temporary, used by this link alone
	dirty    bool   // the temporary may exist on the server
	warnings []string
	done     chan struct{} // closed by drop
}

// meter counts bytes and remembers that a deadline passed: pkg/sftp reports
// only "connection lost" for that.
type meter struct {
	net.Conn
	up, down atomic.Int64
	timedOut atomic.Bool
	broke    atomic.Bool // a write failed
	greeting [64]byte    // what was read first
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if seen := m.down.Load(); seen < int64(len(m.greeting)) {
		copy(m.greeting[seen:], b[:n])
	}
	m.down.Add(int64(n))
	m.note(err)
	return n, err
}

func (m *meter) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	m.up.Add(int64(n))
	m.note(err)
	if err != nil {
		// The SSH library waits for the answer all the same, until the deadline.
		m.broke.Store(true)
		m.Close()
	}
	return n, err
}

func (m *meter) note(err error) {
	if err != nil && isTimeout(err) {
		m.timedOut.Store(true)
	}
}

// turnedAway makes something better of a connection that was lost before the
// handshake: sshd says in plain text why it does not even begin one.
func (l *link) turnedAway(e *Error) {
	if e.Code != CodeLost || len(l.hops) > 0 || l.base.down.Load() > int64(len(l.base.greeting)) {
		return // behind a jump host the first words are not the server's; and a handshake says more than this
	}
	switch greeting := string(l.base.greeting[:]); {
	case strings.HasPrefix(greeting, "Not allowed at this time"):
		e.Code = CodePenalty
		e.hint = "too many logins from this address have failed; when many nodes share it, exempt it in the server's sshd_config: PerSourcePenaltyExemptList"
	case strings.HasPrefix(greeting, "Exceeded MaxStartups"):
		e.Code = CodeBusy
	}
}

// dial makes a link, over jump hosts if there are any. ctx carries the budget
// of the whole push.
func (p *Publisher) dial(ctx context.Context) (_ *link, err error) {
	route, err := p.route(ctx)
	if err != nil {
		return nil, err
	}
	shake := handshakeTimeout
	for _, hop := range route {
		if hop.connectTimeout > 0 {
			shake = min(shake, hop.connectTimeout)
		}
	}
	deadline := time.Now().Add(shake)
	if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	dialCtx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	// Before the first knock: a connection that offers no key is held against the
	// address it came from.
	keys := make([]keyring, len(route))
	for i, hop := range route {
		if err := keys[i].load(hop); err != nil {
			return nil, err
		}
		defer keys[i].ids.close()
	}
	conn, err := (&net.Dialer{}).DialContext(dialCtx, "tcp", route[0].addr())
	if err != nil {
		return nil, p.transportError(ctx, false, "connecting to "+route[0].addr(), err)
	}
	l := &link{base: &meter{Conn: conn}, done: make(chan struct{}), temp: newTempName()}
	// Before the handshake: against a stopped sshd the kernel accepts the
	// connection, and nothing else ends the wait for the banner.
	l.base.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { l.base.Close() })
	defer stop()
	defer func() {
		if err != nil {
			l.drop()
		}
	}()

	var through net.Conn = l.base
	for i, hop := range route {
		client, err := p.shake(through, hop, &keys[i], l)
		if err != nil {
			failed := p.transportError(ctx, l.base.timedOut.Load(), "logging in to "+hop.addr(), err)
			failed.shut = failed.kind == kindConfig
			l.turnedAway(failed)
			return nil, failed
		}
		l.hops = append(l.hops, client)
		if i+1 < len(route) {
			next := route[i+1].addr()
			if through, err = client.DialContext(dialCtx, "tcp", next); err != nil {
				return nil, p.transportError(ctx, l.base.timedOut.Load(), "connecting to "+next+" through "+hop.addr(), err)
			}
		}
	}
	l.sftp, err = sftp.NewClient(l.hops[len(l.hops)-1])
	if err != nil {
		doing := "opening an SFTP session on " + p.opts.Target.Host
		if l.base.broke.Load() {
			// What the SSH library says then reads as if the server denied a session.
			return nil, &Error{Code: CodeLost, again: true, Err: fmt.Errorf("%s: the connection broke: %w", doing, err)}
		}
		return nil, p.transportError(ctx, l.base.timedOut.Load(), doing, err)
	}
	if err := l.extensions(p.opts.Target.Host); err != nil {
		return nil, err
	}
	return l, nil
}

// extensions refuses a server on which a file cannot be replaced atomically:
// remove and rename leaves a gap in which readers find nothing, and plain
// rename does not replace.
func (l *link) extensions(host string) error {
	if _, ok := l.sftp.HasExtension("posix-rename@openssh.com"); !ok {
		return configError(CodeNoPosixRename,
			"use OpenSSH's internal-sftp or `gpuboard receive` on the server, and do not deny posix-rename there",
			fmt.Errorf("opening an SFTP session on %s: it does not offer posix-rename@openssh.com, without which readers would see a file missing or torn", host))
	}
	_, l.fsync = l.sftp.HasExtension("fsync@openssh.com")
	_, l.statvfs = l.sftp.HasExtension("statvfs@openssh.com")
	return nil
}

// keyring is what one hop is recognised by, and what we show it.
type keyring struct {
	hosts *hostKeys
	ids   *identities
}

func (k *keyring) load(hop settings) (err error) {
	if k.hosts, err = loadHostKeys(hop); err != nil {
		return err
	}
	k.ids, err = loadIdentities(hop)
	return err
}

func (p *Publisher) shake(conn net.Conn, hop settings, ring *keyring, l *link) (*ssh.Client, error) {
	keys, ids := ring.hosts, ring.ids
	l.warnings = append(l.warnings, keys.warnings...)
	var refused error // the library wraps what the callback returns in its own words
	config := &ssh.ClientConfig{
		User: hop.user,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(ids.signers...)},
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			refused = keys.check(hop, name, l.base.RemoteAddr(), key)
			return refused
		},
		HostKeyAlgorithms: keys.algorithms(hop),
		ClientVersion:     "SSH-2.0-gpuboard",
	}
	c, channels, requests, err := ssh.NewClientConn(conn, hop.keyAddr(), config)
	if err == nil {
		return ssh.NewClient(c, channels, requests), nil
	}
	if refused != nil {
		return nil, refused
	}
	var algorithm *ssh.AlgorithmNegotiationError
	if errors.As(err, &algorithm) && algorithm.What == "host key" && modern(algorithm.RequestedAlgorithms) {
		return nil, configError(CodeHostUnknown, keys.scanCommand(hop),
			fmt.Errorf("checking the host key of %s: the server has no key of the kind that known_hosts holds: %w", hop.addr(), err))
	}
	if len(ids.problems) > 0 && !errors.Is(err, io.EOF) {
		if e := p.transportError(context.Background(), l.base.timedOut.Load(), "logging in to "+hop.addr(), err); e.Code == CodeAuth {
			// The key that would have worked is probably the one we could not use.
			first := ids.problems[0]
			return nil, &Error{Code: first.Code, kind: kindConfig, hint: first.hint, Err: fmt.Errorf("%w; and %w", e.Err, first.Err)}
		}
	}
	return nil, err
}

// modern reports that a server could sign with something better than SHA-1,
// which is all that "ssh-rsa" and "ssh-dss" (RFC 4253, 6.6) know.
func modern(algorithms []string) bool {
	return slices.ContainsFunc(algorithms, func(a string) bool { return a != ssh.KeyAlgoRSA && a != "ssh-dss" })
}

// drop ends the link at once and for good. It never waits for the peer.
func (l *link) drop() {
	if !l.usable() {
		return
	}
	close(l.done)
	l.base.Close()
	if l.sftp != nil {
		l.sftp.Close()
	}
	for i := len(l.hops) - 1; i >= 0; i-- {
		l.hops[i].Close()
	}
}

// usable reports whether requests may still be answered.
func (l *link) usable() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// arm gives the next request its time: a share of the budget, so that a kept
// connection that died leaves time to dial anew.
func (l *link) arm(end time.Time, share time.Duration) {
	deadline := time.Now().Add(share)
	if end.Before(deadline) {
		deadline = end
	}
	l.base.SetDeadline(deadline)
}

// keepAlive asks the idle connection now and then whether the server is there,
// which also keeps the entry in a NAT box alive.
func (p *Publisher) keepAlive(l *link) {
	ticker := time.NewTicker(p.opts.keepalive)
	defer ticker.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-ticker.C:
		}
		if !p.mu.TryLock() {
			continue // a push is under way; it finds out by itself
		}
		if p.link == l {
			l.base.SetDeadline(time.Now().Add(min(keepaliveTimeout, p.opts.Budget/4)))
			stop := context.AfterFunc(p.life, func() { l.base.Close() })
			_, _, err := l.hops[len(l.hops)-1].SendRequest("keepalive@openssh.com", true, nil)
			stop()
			if err != nil {
				l.drop()
				p.link = nil
			} else {
				l.base.SetDeadline(time.Time{})
			}
		}
		p.mu.Unlock()
	}
}
