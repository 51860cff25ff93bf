package sshclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/shell"
)

// Reason codes of an [Error] that several places use. They are stable.
const (
	CodeCancelled     = "publish:cancelled"   // the caller gave up
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
)

// An Error has a stable code, whether the same may succeed later, and the next command to type.
type Error struct {
	Code string
	Err  error
	// Advice is the next thing to do, in one or two lines, or empty.
	Advice string
	// Permanent: somebody must change a file or a server first.
	Permanent bool
	// Retry: a new connection soon may succeed.
	Retry bool
	// LoginRefused: the server has seen the failure and may count it against the
	// address. It repeats at every login until somebody changes something.
	LoginRefused bool
}

// Error is the message without the code.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is the next thing to do, in one or two lines, or empty.
func (e *Error) Hint() string { return e.Advice }

// Temporary reports whether the same may succeed later by itself (exit code
// 75). Otherwise something must be changed first (exit code 2).
func (e *Error) Temporary() bool { return !e.Permanent }

// Code is the reason code of err, or empty when it carries none.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Permanent makes an error that lasts until somebody changes a file or a server.
func Permanent(code, advice, format string, args ...any) *Error {
	return &Error{Code: code, Permanent: true, Advice: advice, Err: fmt.Errorf(format, args...)}
}

const noSFTPHint = "on the server, look at sshd's log; a chroot directory and all its parents must belong to root and not be writable by group or others, and Subsystem sftp must be set"

// Explain classifies an error of connecting, logging in or waiting for a
// reply. c is nil before there is a connection.
func (o Options) Explain(ctx context.Context, c *Conn, doing string, err error) *Error {
	if typed, ok := errors.AsType[*Error](err); ok {
		return typed
	}
	wrapped := fmt.Errorf("%s: %w", doing, err)
	again := func(code, hint string) *Error { return &Error{Code: code, Retry: true, Err: wrapped, Advice: hint} }
	var dns *net.DNSError
	var algorithm *ssh.AlgorithmNegotiationError
	var open *ssh.OpenChannelError
	text := err.Error()
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		return &Error{Code: CodeCancelled, Err: wrapped}
	case c != nil && c.timedOut.Load() || isTimeout(err) || ctx.Err() != nil:
		return &Error{Code: CodeTimeout, Retry: true, Err: fmt.Errorf("%s: no answer in time: %w", doing, err),
			Advice: "test whether the server answers: " + o.command("")}
	case errors.As(err, &dns):
		return &Error{Code: "ssh:resolve", Retry: dns.IsTemporary, Err: wrapped,
			Advice: "check the name: getent hosts " + dns.Name}
	case errors.Is(err, syscall.ECONNREFUSED):
		return again(CodeRefused, "test whether sshd listens there: "+o.command(""))
	case errors.As(err, &algorithm):
		return Permanent("ssh:algorithm",
			"compare with: "+o.command("-vv ")+"  (a server that offers only SHA-1 signatures needs an update)",
			"%s: %w", doing, err)
	case strings.Contains(text, "unable to authenticate"):
		return Permanent(CodeAuth, o.KeyHint+"; then try: "+o.command(""), "%s: %w", doing, err)
	case strings.Contains(text, "in response to channel open: <nil>"): // cut; or sshd that refuses its chroot, which every retry would repeat
		return &Error{Code: CodeNoSFTP, Advice: noSFTPHint,
			Err: fmt.Errorf("%s: the connection ended while the session opened", doing)}
	case errors.As(err, &open) && open.Reason == ssh.ResourceShortage:
		return again(CodeBusy,
			"the server has no room for another session: look at its memory, and at MaxSessions in its sshd_config")
	case errors.As(err, &open) && open.Reason == ssh.ConnectionFailed: // sshd's answer at its limit of sessions
		return &Error{Code: CodeNoSFTP, Err: wrapped, Advice: noSFTPHint + "; MaxSessions limits sessions"}
	case errors.As(err, &open), strings.Contains(text, "in response to channel open"),
		strings.Contains(text, "subsystem request failed"):
		return Permanent(CodeNoSFTP, noSFTPHint, "%s: %w", doing, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), strings.Contains(text, "EOF"),
		strings.Contains(text, "connection lost"),
		strings.Contains(text, "connection reset"), strings.Contains(text, "disconnect"):
		return again(CodeLost, "when many nodes push at once, raise MaxStartups in the server's sshd_config")
	}
	return again("ssh:handshake", "compare with: "+o.command("-v "))
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout() // so are os.ErrDeadlineExceeded and context.DeadlineExceeded
}

// command returns the command that makes the same connection by hand.
func (o Options) command(flags string) string {
	port, then := "-P", ""
	if o.Program == "ssh" {
		flags, port, then = flags+"-o BatchMode=yes ", "-p", " true"
	}
	var b strings.Builder
	b.WriteString(o.Program + " " + flags)
	for _, key := range o.Identity {
		b.WriteString("-i " + shell.Quote(key) + " ")
	}
	if len(o.KnownHosts) > 0 {
		b.WriteString("-o UserKnownHostsFile=" + shell.Quote(strings.Join(o.KnownHosts, " ")) + " ")
	}
	if o.Port != 0 {
		fmt.Fprintf(&b, "%s %d ", port, o.Port)
	}
	if o.User != "" {
		b.WriteString(o.User + "@")
	}
	return b.String() + o.Host + then
}
