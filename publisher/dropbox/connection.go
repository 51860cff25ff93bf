package dropbox

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const writeTimeout = 30 * time.Second

// errKey is the only reason that the owner of an unknown key receives.
var errKey = errors.New("unknown key")

const hostExtension = "host"

func (s *server) serverConfig(signer ssh.Signer) *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		MaxAuthTries:  6,
		ServerVersion: "SSH-2.0-gpuboard",
		// The key alone identifies the host; the user name is ignored.
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			host, ok := s.keys.host(key)
			if !ok {
				s.log.Info("refusing a key", "from", meta.RemoteAddr().String(), "key", ssh.FingerprintSHA256(key))
				return nil, errKey
			}
			return &ssh.Permissions{Extensions: map[string]string{hostExtension: host}}, nil
		},
	}
	config.AddHostKey(signer)
	return config
}

// timeoutConn closes a connection whose client sends nothing, or reads nothing, for
// too long. During the login, the deadline for the whole login applies instead.
type timeoutConn struct {
	net.Conn
	idle        atomic.Int64 // nanoseconds; zero: not logged in
	read, write deadline
}

func (c *timeoutConn) Read(b []byte) (int, error) {
	if idle := c.idle.Load(); idle > 0 {
		c.read.extend(time.Duration(idle), c.Conn.SetReadDeadline)
	}
	return c.Conn.Read(b)
}

func (c *timeoutConn) Write(b []byte) (int, error) {
	if c.idle.Load() > 0 {
		c.write.extend(writeTimeout, c.Conn.SetWriteDeadline)
	}
	return c.Conn.Write(b)
}

// A deadline is that of reads or of writes. To set it for each packet takes 3 % of a push, so it
// is set again after an eighth of its time.
type deadline struct{ set time.Time }

func (d *deadline) extend(timeout time.Duration, set func(time.Time) error) {
	if now := time.Now(); now.Sub(d.set) > timeout/8 {
		d.set = now
		set(now.Add(timeout))
	}
}

// handle serves one connection from login to end.
func (s *server) handle(raw net.Conn, login *attempt) {
	from := login.source
	raw.SetDeadline(time.Now().Add(s.opts.Limits.HandshakeTimeout))
	conn := &timeoutConn{Conn: raw}
	client, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		s.log.Debug("logging a node in", "from", from, "err", err)
		return
	}
	defer client.Close()
	go ssh.DiscardRequests(requests)
	host := client.Permissions.Extensions[hostExtension]
	leave, ok := s.limiter.acceptHost(host)
	if !ok {
		s.log.Warn("refusing a node: too many connections of this host", "host", host, "from", from)
		// Until the node has been told, it counts as a login in progress, and those are limited by address.
		refuse(channels, ssh.ResourceShortage, "too many connections of this host")
		return
	}
	s.limiter.loginEnded(login)
	defer leave()
	drop, err := openDrop(s.drops, host, s.opts.Limits, s.opts.Now)
	if err != nil {
		s.log.Error("opening the drop", "host", host, "err", err)
		refuse(channels, ssh.ConnectionFailed,
			"the drop of this host cannot be opened: the log of gpuboard receive says why")
		return
	}
	defer drop.close()
	conn.idle.Store(int64(s.opts.Limits.IdleTimeout))
	// The SSH library is already reading, under the deadline of the login.
	raw.SetWriteDeadline(time.Now().Add(writeTimeout))
	raw.SetReadDeadline(time.Now().Add(s.opts.Limits.IdleTimeout))
	s.channels(channels, drop, host)
}

// refuse rejects the first session that a node asks for and says why. It waits as long as a login may take.
func refuse(channels <-chan ssh.NewChannel, reason ssh.RejectionReason, why string) {
	if offered, ok := <-channels; ok {
		offered.Reject(reason, why)
	}
}

// channels serves one SFTP session at a time and refuses everything else:
// shells, commands, forwarding.
func (s *server) channels(channels <-chan ssh.NewChannel, drop *session, host string) {
	var taken atomic.Bool
	for offered := range channels {
		if offered.ChannelType() != "session" {
			offered.Reject(ssh.UnknownChannelType, "only SFTP is served here")
			continue
		}
		if !taken.CompareAndSwap(false, true) {
			offered.Reject(ssh.ResourceShortage, "one session at a time")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		s.all.Go(func() {
			defer taken.Store(false)
			defer channel.Close()
			if waitForSFTP(requests) {
				server := sftp.NewRequestServer(channel,
					sftp.Handlers{FileGet: drop, FilePut: drop, FileCmd: drop, FileList: drop})
				err := server.Serve()
				server.Close()
				s.log.Debug("SFTP session ended", "host", host, "err", err)
			}
		})
	}
}

// waitForSFTP answers the requests on a channel until one asks for SFTP, and reports
// whether one did.
func waitForSFTP(requests <-chan *ssh.Request) bool {
	for request := range requests {
		ok := request.Type == "subsystem" && len(request.Payload) == 8 && string(request.Payload[4:]) == "sftp"
		if request.WantReply {
			request.Reply(ok, nil)
		}
		if ok {
			go ssh.DiscardRequests(requests)
			return true
		}
	}
	return false
}
