package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
)

// Reason codes of an [Error] that several places use. They are stable, like those that stand where
// the only error with them is made: logs, health.json and tests use them.
const (
	CodeTarget        = "publish:target"      // the target cannot be understood
	CodeSpool         = "publish:spool"       // the spool could not be read or marked
	CodeCancelled     = "publish:cancelled"   // the caller gave up
	CodeLocal         = "local:write"         // the local drop could not be written
	CodeLocalDir      = "local:directory"     // the local drop directory is not usable
	CodeConfig        = "ssh:config"          // ssh_config says something we cannot do
	CodeRefused       = "ssh:refused"         // nothing listens there
	CodeTimeout       = "ssh:timeout"         // no answer within the budget
	CodeLost          = "ssh:lost"            // the connection broke
	CodeBusy          = "ssh:busy"            // the server has too many logins under way
	CodeAuth          = "ssh:auth"            // the server takes none of our keys
	CodeKeyUnreadable = "ssh:key-unreadable"  // the key file is missing or no key
	CodeHostUnknown   = "ssh:hostkey-unknown" // known_hosts has no key for the server
	CodeKnownHosts    = "ssh:known-hosts"     // known_hosts cannot be read
	CodeNoSFTP        = "ssh:no-sftp"         // logged in, but no SFTP session
	CodeRemoteDenied  = "remote:permission"   // the server denies a request we need
	CodeRemoteFailure = "remote:failure"      // the server says only "failure"
	CodeStore         = "store:failed"        // an object store did not take a file
	CodeStoreRefused  = "store:refused"       // somebody must change a key, a right or a bucket first
)

// Error is what [Publisher.Publish] and [New] return: a stable code, whether the
// same push may succeed later, and the next command to type.
type Error struct {
	Code string
	Err  error
	hint string
	// permanent: somebody must change a file or a server first.
	permanent bool
	// retry: a new connection within the same push may succeed.
	retry bool
	// loginRefused: the server has seen the failure and may count it against the
	// node's address. It repeats at every login until somebody changes something.
	loginRefused bool
}

// Error is the message without the code.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is the next thing to do, in one or two lines, or empty.
func (e *Error) Hint() string { return e.hint }

// Temporary reports whether the same push may succeed later by itself (exit code
// 75). Otherwise something must be changed first (exit code 2).
func (e *Error) Temporary() bool { return !e.permanent }

// Code is the reason code of err, or empty when it carries none.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func configError(code, hint string, err error) *Error {
	return &Error{Code: code, permanent: true, hint: hint, Err: err}
}

const noSFTPHint = "on the server, look at sshd's log; a chroot directory and all its parents must belong to root and not be writable by group or others, and Subsystem sftp must be set"

// transportError classifies an error of connecting, logging in or waiting for a
// reply. c is nil before there is a connection.
func (p *Publisher) transportError(ctx context.Context, c *connection, doing string, err error) *Error {
	if typed, ok := errors.AsType[*Error](err); ok {
		return typed
	}
	wrapped := fmt.Errorf("%s: %w", doing, err)
	again := func(code, hint string) *Error { return &Error{Code: code, retry: true, Err: wrapped, hint: hint} }
	var dns *net.DNSError
	var algorithm *ssh.AlgorithmNegotiationError
	var open *ssh.OpenChannelError
	text := err.Error()
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return &Error{Code: CodeCancelled, Err: wrapped}
	case c != nil && c.base.timedOut.Load() || isTimeout(err) || ctx.Err() != nil:
		return &Error{Code: CodeTimeout, retry: true, Err: fmt.Errorf("%s: no answer in time: %w", doing, err),
			hint: "test whether the server answers: sftp " + p.sftpArgs()}
	case errors.As(err, &dns):
		return &Error{Code: "ssh:resolve", retry: dns.IsTemporary, Err: wrapped,
			hint: "check the name: getent hosts " + dns.Name}
	case errors.Is(err, syscall.ECONNREFUSED):
		return again(CodeRefused, "test whether sshd listens there: sftp "+p.sftpArgs())
	case errors.As(err, &algorithm):
		return configError(
			"ssh:algorithm",
			"compare with: sftp -vv "+p.sftpArgs()+"  (a server that offers only SHA-1 signatures needs an update)",
			wrapped,
		)
	case strings.Contains(text, "unable to authenticate"):
		return configError(
			CodeAuth,
			"bring this node's public key to the web host: as /etc/ssh/gpudrop/ACCOUNT where sshd takes snapshots, as HOST.pub in the directory of keys where gpuboard receive does; then try: sftp "+p.sftpArgs(),
			wrapped,
		)
	case strings.Contains(text, "in response to channel open: <nil>"): // cut; or sshd that refuses its chroot, which every retry would repeat
		return &Error{Code: CodeNoSFTP, hint: noSFTPHint, Err: fmt.Errorf("%s: the connection ended while the session opened", doing)}
	case errors.As(err, &open) && open.Reason == ssh.ResourceShortage:
		return again(CodeBusy,
			"the server has no room for another session: look at its memory, and at MaxSessions in its sshd_config")
	case errors.As(err, &open) && open.Reason == ssh.ConnectionFailed: // sshd's answer at its limit of sessions
		return &Error{Code: CodeNoSFTP, Err: wrapped, hint: noSFTPHint + "; MaxSessions limits sessions"}
	case errors.As(err, &open), strings.Contains(text, "in response to channel open"),
		strings.Contains(text, "subsystem request failed"):
		return configError(CodeNoSFTP, noSFTPHint, wrapped)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, sftp.ErrSSHFxConnectionLost), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), strings.Contains(text, "EOF"),
		strings.Contains(text, "connection reset"), strings.Contains(text, "disconnect"):
		return again(CodeLost, "when many nodes push at once, raise MaxStartups in the server's sshd_config")
	}
	return again("ssh:handshake", "compare with: sftp -v "+p.sftpArgs())
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout() // so are os.ErrDeadlineExceeded and context.DeadlineExceeded
}

// answered reports whether err is the server's answer to a request, so that the
// connection itself works.
func answered(err error) bool {
	if s, ok := errors.AsType[*sftp.StatusError](err); ok {
		return s.FxCode() != sftp.ErrSSHFxConnectionLost && s.FxCode() != sftp.ErrSSHFxNoConnection
	}
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
}

// remoteError classifies the server's answer to one request.
func (p *Publisher) remoteError(step, name string, err error) *Error {
	wrapped := fmt.Errorf("%s %s: %w", step, name, err)
	dir := cmp.Or(p.opts.Target.Dir, "the account's start directory")
	var s *sftp.StatusError
	switch {
	case errors.Is(err, os.ErrNotExist) && step == stepRename:
		return &Error{Code: "remote:temp-gone", retry: true, Err: wrapped,
			hint: "another publisher of this host, or a cleanup, removed the temporary file"}
	case strings.Contains(err.Error(), snapshot.BadForeign):
		_, owner, _ := strings.Cut(err.Error(), "this key is for ")
		owner, _, _ = strings.Cut(owner, ",")
		return configError(
			CodeRemoteDenied,
			"if "+snapshot.Text(owner, 80)+" is the former name of this node, in keys/ on the web host: mv "+
				shell.Quote(owner+".pub")+" "+shell.Quote(p.opts.Host+".pub")+
				"; else this node needs a key of its own: ssh-keygen -t ed25519 -N '' -C HOST -f HOST, and HOST.pub into keys/",
			wrapped,
		)
	case errors.Is(err, os.ErrNotExist):
		return configError(
			"remote:directory",
			"create "+dir+", which to: names, on the server, writable by the node's account",
			wrapped,
		)
	case errors.Is(err, os.ErrPermission), errors.As(err, &s) && s.FxCode() == sftp.ErrSSHFxOpUnsupported:
		return configError(
			CodeRemoteDenied,
			"on the server, make "+dir+" writable by the node's account and allow the requests open, close, write, fsync, posix-rename, remove, realpath",
			wrapped,
		)
	}
	return &Error{Code: CodeRemoteFailure, Err: wrapped, hint: "the server gives no reason; check free space, quota and read-only file systems there: df -h; df -i"}
}

// sftpArgs returns the arguments with which sftp makes the same connection.
func (p *Publisher) sftpArgs() string {
	var b strings.Builder
	for _, key := range p.opts.Identity {
		b.WriteString("-i " + shell.Quote(key) + " ")
	}
	if len(p.opts.KnownHosts) > 0 {
		b.WriteString("-o UserKnownHostsFile=" + shell.Quote(strings.Join(p.opts.KnownHosts, " ")) + " ")
	}
	t := p.opts.Target
	if t.Port != 0 {
		fmt.Fprintf(&b, "-P %d ", t.Port)
	}
	if t.User != "" {
		b.WriteString(t.User + "@")
	}
	return b.String() + t.Host
}
