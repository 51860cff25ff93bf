// Package dropbox is the SFTP server of `gpuboard receive`: it accepts each node's
// files into that node's own drop.
//
// A node is identified by its key. In its own directory it may create a temporary
// file, write it, close it, rename it to one of the names that a drop holds, and
// remove temporary files. It can read, list and change nothing else. Sizes, counts,
// connections and times are bounded.
package dropbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Limits bound what nodes can use. Zero fields take the defaults of [DefaultLimits].
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
	// After AuthFailures failed logins within AuthWindow (wrong keys and connections
	// that stayed silent), an address is limited to one connection a second for as
	// long. The nodes that share the address can still log in.
	AuthFailures int
	AuthWindow   time.Duration
	Grace        time.Duration // for uploads under way when the server is told to stop
}

// DefaultLimits suit a thousand nodes that keep their connections.
func DefaultLimits() Limits {
	return Limits{
		FileBytes: 1 << 20, DropBytes: 64 << 20, DropFiles: 256,
		Connections: 2048, PerHost: 4, Handshakes: 256, SourceHandshakes: 64,
		HandshakeTimeout: 20 * time.Second, IdleTimeout: 5 * time.Minute,
		AuthFailures: 20, AuthWindow: time.Minute, Grace: 2 * time.Second,
	}
}

// Options say where files go and who may bring them.
type Options struct {
	Data string // the data directory; drop/<host>/ is made beneath it
	// Keys is a directory of public keys named <host>.pub; empty: none.
	Keys string
	// AuthorizedKeys is a file with a line per host, such as
	// host="gpu01" ssh-ed25519 AAAA…; empty: none. Both are read anew while running.
	AuthorizedKeys string
	// HostKey is the server's private key; it is made, with mode 0600, when it does not exist.
	HostKey string
	Listen  string // address; default 127.0.0.1:2222
	Limits  Limits
	// OnListen is called once, when connections are accepted, with the server's
	// public key as it stands in known_hosts, such as "ssh-ed25519 AAAA…".
	OnListen func(addr net.Addr, publicKey string)
	Log      *slog.Logger
	Now      func() time.Time // default the system clock
}

type server struct {
	opts    Options
	limits  Limits
	data    *os.Root
	keys    *authorizedKeys
	config  *ssh.ServerConfig
	public  ssh.PublicKey
	limiter *limiter
	log     *slog.Logger

	mu    sync.Mutex
	conns map[net.Conn]*session
	all   sync.WaitGroup
}

// Serve listens until ctx ends, then lets uploads under way finish for a moment
// and returns nil. It returns an error when it cannot start: no data directory,
// no host key, no key of any host, or an address that is taken.
func Serve(ctx context.Context, o Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	defer s.data.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.opts.Listen)
	if err != nil {
		return fmt.Errorf("listening for nodes: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	if s.opts.OnListen != nil {
		s.opts.OnListen(listener.Addr(), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.public))))
	}
	err = s.accept(ctx, listener)
	s.shutDown()
	return err
}

func newServer(o Options) (*server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:2222"
	}
	s := &server{opts: o, limits: withDefaults(o.Limits), log: o.Log, conns: map[net.Conn]*session{}}
	s.limiter = newLimiter(s.limits, o.Now, o.Log)
	s.keys = newAuthorizedKeys(o.Keys, o.AuthorizedKeys, o.Now, o.Log)
	if err := s.keys.check(); err != nil {
		return nil, err
	}
	signer, err := hostKey(o.HostKey)
	if err != nil {
		return nil, err
	}
	s.config, s.public = s.serverConfig(signer), signer.PublicKey()
	if s.data, err = openDrops(o.Data); err != nil {
		return nil, err
	}
	return s, nil
}

func withDefaults(l Limits) Limits {
	d := DefaultLimits()
	setDefault(&l.FileBytes, d.FileBytes)
	setDefault(&l.DropBytes, d.DropBytes)
	setDefault(&l.DropFiles, d.DropFiles)
	setDefault(&l.Connections, d.Connections)
	setDefault(&l.PerHost, d.PerHost)
	setDefault(&l.Handshakes, d.Handshakes)
	setDefault(&l.SourceHandshakes, d.SourceHandshakes)
	setDefault(&l.HandshakeTimeout, d.HandshakeTimeout)
	setDefault(&l.IdleTimeout, d.IdleTimeout)
	setDefault(&l.AuthFailures, d.AuthFailures)
	setDefault(&l.AuthWindow, d.AuthWindow)
	setDefault(&l.Grace, d.Grace)
	return l
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// openDrops opens data/drop; the data directory itself must exist.
func openDrops(data string) (*os.Root, error) {
	root, err := os.OpenRoot(data)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	defer root.Close()
	if err := root.Mkdir("drop", 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("creating the drops: %w", err)
	}
	drops, err := root.OpenRoot("drop")
	if err != nil {
		return nil, fmt.Errorf("opening the drops: %w", err)
	}
	return drops, nil
}

func (s *server) accept(ctx context.Context, listener net.Listener) error {
	pause := 5 * time.Millisecond
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			var closed *net.OpError
			if errors.Is(err, net.ErrClosed) || !errors.As(err, &closed) {
				return fmt.Errorf("accepting nodes: %w", err)
			}
			// Probably out of file descriptors: wait until some are freed.
			s.log.Warn("accepting a connection", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		login, why := s.limiter.accept(source(conn.RemoteAddr()), func() { conn.Close() })
		if why != "" {
			s.log.Debug("refusing a connection", "from", conn.RemoteAddr().String(), "why", why)
			conn.Close()
			continue
		}
		s.all.Go(func() {
			defer s.limiter.closed(login)
			defer conn.Close()
			s.handle(conn, login)
		})
	}
}

// shutDown waits for uploads under way, at most for the grace period, and then closes
// all connections.
func (s *server) shutDown() {
	end := time.Now().Add(s.limits.Grace)
	for time.Now().Before(end) && s.uploading() {
		time.Sleep(10 * time.Millisecond)
	}
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
}

func (s *server) uploading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.conns {
		if session != nil && session.busy() {
			return true
		}
	}
	return false
}
