// Package dropbox is the SFTP server of `gpuboard receive`: it accepts each node's
// files into that node's own drop.
//
// A node is identified by its key. In its own directory it may create a temporary
// file, write it, close it, rename it to one of the names that a drop holds, and
// remove temporary files. It can read, list and change nothing else. Sizes, counts,
// connections and times are bounded.
package dropbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/spool"
)

// Limits bound what nodes can use.
type Limits struct {
	FileBytes        int64         // one file
	DropBytes        int64         // all files of one host together
	DropFiles        int           // their number, temporaries included
	Connections      int           // at once
	PerHost          int           // at once for one host
	Handshakes       int           // at once not yet logged in
	SourceHandshakes int           // of them from one address, or one /64 of IPv6
	HandshakeTimeout time.Duration // until logged in
	IdleTimeout      time.Duration // without a byte from the client
}

// DefaultLimits suit a thousand nodes that keep their connections.
func DefaultLimits() Limits {
	return Limits{
		FileBytes: 1 << 20, DropBytes: 64 << 20, DropFiles: 256,
		Connections: 2048, PerHost: 4, Handshakes: 256, SourceHandshakes: 64,
		HandshakeTimeout: 20 * time.Second, IdleTimeout: 5 * time.Minute,
	}
}

// Options say where files go and who may bring them.
type Options struct {
	Data string // the data directory; drop/<host>/ is made beneath it
	// Keys is a directory of public keys named <host>.pub, which is read anew while running.
	Keys string
	// HostKey is the server's private key; it is made, with mode 0600, when it does not exist.
	HostKey string
	Listen  string // address
	Limits  Limits // the zero value: [DefaultLimits]
	// OnListen is called once, when connections are accepted, with the server's
	// public key as it stands in known_hosts, such as "ssh-ed25519 AAAA…", and its
	// fingerprint, such as "SHA256:…".
	OnListen func(addr net.Addr, publicKey, fingerprint string)
	Log      *slog.Logger
	Now      func() time.Time
}

type server struct {
	opts    Options
	drops   *spool.Drops
	keys    *authorizedKeys
	config  *ssh.ServerConfig
	public  ssh.PublicKey
	limiter *limiter
	log     *slog.Logger
	all     sync.WaitGroup // connections
}

// Serve listens until ctx ends, closes all connections and returns nil. It returns an
// error when it cannot start: no data directory, no host key, no key of any host, or an
// address that is taken.
func Serve(ctx context.Context, o Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.opts.Listen)
	if err != nil {
		return fmt.Errorf("listening for nodes: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	s.opts.OnListen(listener.Addr(), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.public))),
		ssh.FingerprintSHA256(s.public))
	ctx, end := context.WithCancel(ctx)
	defer s.all.Wait()
	defer end() // closes the connections
	s.accept(ctx, listener)
	return nil
}

func newServer(o Options) (*server, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Limits = cmp.Or(o.Limits, DefaultLimits())
	s := &server{opts: o, log: o.Log}
	s.limiter = newLimiter(o.Limits, o.Now)
	s.keys = &authorizedKeys{dir: o.Keys, now: o.Now, log: o.Log}
	if err := s.keys.check(); err != nil {
		return nil, err
	}
	signer, err := hostKey(o.HostKey)
	if err != nil {
		return nil, err
	}
	s.config, s.public = s.serverConfig(signer), signer.PublicKey()
	if s.drops, err = openDrops(o.Data); err != nil {
		return nil, err
	}
	return s, nil
}

// openDrops opens data/drop; the data directory itself must exist.
func openDrops(data string) (*spool.Drops, error) {
	if err := os.Mkdir(filepath.Join(data, "drop"), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("creating the drops: %w", err)
	}
	drops, err := spool.OpenDrops(data)
	if err != nil {
		return nil, fmt.Errorf("opening the drops: %w", err)
	}
	return drops, nil
}

// accept handles connections until the listener is closed, which happens when ctx ends.
func (s *server) accept(ctx context.Context, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Probably out of file descriptors: wait until some are freed.
			s.log.Warn("accepting a connection", "err", err)
			time.Sleep(acceptPause)
			continue
		}
		login, why := s.limiter.accept(source(conn.RemoteAddr()), func() { conn.Close() })
		if why != "" {
			s.log.Debug("refusing a connection", "from", conn.RemoteAddr().String(), "why", why)
			conn.SetWriteDeadline(time.Now().Add(acceptPause)) // the kernel takes the line at once, or it is not sent
			fmt.Fprintf(conn, "gpuboard receive: %s\r\n", why)
			conn.Close()
			continue
		}
		s.all.Go(func() {
			defer s.limiter.closed(login)
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.handle(conn, login)
		})
	}
}

const acceptPause = 100 * time.Millisecond
