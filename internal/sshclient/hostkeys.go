package sshclient

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"gpuboard/internal/shell"
)

const maxKnownHostsBytes = 16 << 20

// hostKeys checks the key that a server presents. Every connection uses it.
type hostKeys struct {
	db    *knownhosts.HostKeyDB // nil: no file exists
	addTo string                // the file to which hints tell to add a key
}

// loadHostKeys reads every known_hosts file that exists.
func loadHostKeys(s settings) (*hostKeys, error) {
	h := &hostKeys{addTo: "~/.ssh/known_hosts"}
	if len(s.userKnown) > 0 {
		h.addTo = s.userKnown[0]
	}
	var files []string
	for _, name := range slices.Concat(s.userKnown, s.globalKnown) {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, Permanent(CodeKnownHosts, "make it readable: ls -l "+shell.Quote(name),
				"reading known host keys: %w", err)
		case !info.Mode().IsRegular() && name != os.DevNull:
			return nil, Permanent(CodeKnownHosts, "name a file: --known-hosts FILE",
				"reading known host keys: %s is not a file", name)
		case info.Size() > maxKnownHostsBytes:
			return nil, Permanent(CodeKnownHosts, "name a smaller file: --known-hosts FILE",
				"reading known host keys: %s is larger than %d bytes", name, maxKnownHostsBytes)
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		return h, nil
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil { // it names the file and the line
		return nil, Permanent(CodeKnownHosts, "remove that line, or name another file: --known-hosts FILE",
			"reading known host keys: %w", err)
	}
	h.db = db
	return h, nil
}

// algorithms returns the host key algorithms for which a key is known, so that a
// server with several keys presents one that can be checked; nil when none is
// known. For an RSA key those are the SHA-2 signatures, never SHA-1.
func (h *hostKeys) algorithms(s settings) []string {
	if h.db == nil {
		return nil
	}
	return slices.DeleteFunc(h.db.HostKeyAlgorithms(s.keyAddr()), func(a string) bool {
		return a == ssh.KeyAlgoRSA || a == ssh.CertAlgoRSAv01
	})
}

// check is the host key callback of one hop.
func (h *hostKeys) check(s settings, remote net.Addr, key ssh.PublicKey) error {
	print := ssh.FingerprintSHA256(key)
	where := h.addTo
	refused := func(code, hint, format string, args ...any) error {
		return Permanent(code, hint, "checking the host key of %s: %w", s.addr(), fmt.Errorf(format, args...))
	}
	unknown := func() error {
		return refused(CodeHostUnknown, h.scanHint(s, print),
			"no key of it is known (%s); it shows a %s key, %s", where, key.Type(), print)
	}
	if h.db == nil {
		return unknown()
	}
	err := h.db.HostKeyCallback()(s.keyAddr(), remote, key)
	var revoked *xknownhosts.RevokedError
	var mismatch *xknownhosts.KeyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return refused("ssh:hostkey-revoked", "do not connect; ask the server's administrator for its new key",
			"the key %s is revoked in %s:%d", print, revoked.Revoked.Filename, revoked.Revoked.Line)
	case knownhosts.IsHostUnknown(err):
		return unknown()
	case errors.As(err, &mismatch) && len(mismatch.Want) > 0:
		known := mismatch.Want[0]
		return refused("ssh:hostkey-changed",
			fmt.Sprintf("ask whoever runs the server whether its key is now %s; if so: ssh-keygen -f %s -R %s; %s",
				print, shell.Quote(known.Filename), shell.Quote(xknownhosts.Normalize(s.keyAddr())), h.scanCommand(s)),
			"it shows %s, but %s:%d has %s: the server was reinstalled, or somebody is in between", print,
			known.Filename, known.Line, ssh.FingerprintSHA256(known.Key))
	}
	return refused(CodeHostUnknown, h.scanHint(s, print), "%w", err)
}

func (h *hostKeys) scanCommand(s settings) string {
	command := fmt.Sprintf("ssh-keyscan -p %d %s", s.port, shell.Quote(s.host))
	if s.hostKeyAlias != "" {
		command += " | sed " + shell.Quote("s/^[^# ]*/"+s.hostKeyAlias+"/")
	}
	return command + " >> " + shell.Quote(h.addTo)
}

func (h *hostKeys) scanHint(s settings, fingerprint string) string {
	return h.scanCommand(s) +
		"  (then compare with the server's own: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub, or the key that gpuboard receive prints; shown here: " + strings.TrimSpace(fingerprint) + ")"
}
