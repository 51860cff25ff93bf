package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pkg/sftp"

	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
)

// Reason codes of an [Error] that several places use. They are stable, like those that stand where
// the only error with them is made: logs, health.json and tests use them.
const (
	CodeTarget        = "publish:target"            // the target cannot be understood
	CodeSpool         = "publish:spool"             // the spool could not be read or marked
	CodeLocal         = "local:write"               // the local drop could not be written
	CodeLocalDir      = "local:directory"           // the local drop directory is not usable
	CodeLost          = sshclient.CodeLost          // the connection broke
	CodeKeyUnreadable = sshclient.CodeKeyUnreadable // the key file is missing or no key
	CodeNoSFTP        = sshclient.CodeNoSFTP        // logged in, but no SFTP session
	CodeRemoteDenied  = "remote:permission"         // the server denies a request we need
	CodeRemoteFailure = "remote:failure"            // the server says only "failure"
	CodeStore         = "store:failed"              // an object store did not take a file
	CodeStoreRefused  = "store:refused"             // somebody must change a key, a right or a bucket first
)

// Error is what [Publisher.Publish] and [New] return: a stable code, whether the
// same push may succeed later, and the next command to type.
type Error = sshclient.Error

// Code is the reason code of err, or empty when it carries none.
func Code(err error) string { return sshclient.Code(err) }

// transportError classifies an error of connecting, logging in or waiting for a reply.
func (p *Publisher) transportError(ctx context.Context, c *connection, doing string, err error) *Error {
	return p.ssh().Explain(ctx, c.Conn, doing, err)
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
		return &Error{Code: "remote:temp-gone", Retry: true, Err: wrapped,
			Advice: "another publisher of this host, or a cleanup, removed the temporary file"}
	case strings.Contains(err.Error(), snapshot.BadForeign):
		_, owner, _ := strings.Cut(err.Error(), "this key is for ")
		owner, _, _ = strings.Cut(owner, ",")
		return sshclient.Permanent(CodeRemoteDenied,
			"if "+snapshot.Text(owner, 80)+" is the former name of this node, in keys/ on the web host: mv "+
				shell.Quote(owner+".pub")+" "+shell.Quote(p.opts.Host+".pub")+
				"; else this node needs a key of its own: ssh-keygen -t ed25519 -N '' -C HOST -f HOST, and HOST.pub into keys/",
			"%w", wrapped)
	case errors.Is(err, os.ErrNotExist):
		return sshclient.Permanent("remote:directory",
			"create "+dir+", which to: names, on the server, writable by the node's account", "%w", wrapped)
	case errors.Is(err, os.ErrPermission), errors.As(err, &s) && s.FxCode() == sftp.ErrSSHFxOpUnsupported:
		return sshclient.Permanent(CodeRemoteDenied, "on the server, make "+dir+
			" writable by the node's account and allow the requests open, close, write, fsync, posix-rename, remove, realpath",
			"%w", wrapped)
	}
	return &Error{Code: CodeRemoteFailure, Err: wrapped,
		Advice: "the server gives no reason; check free space, quota and read-only file systems there: df -h; df -i"}
}
