package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"gpuboard/internal/shell"
)

const (
	maxKnownHostsBytes = 16 << 20
	maxBadLines        = 200
)

// hostKeys checks the key that a server presents. Every connection uses it.
type hostKeys struct {
	db       *knownhosts.HostKeyDB // nil: no file exists
	addTo    string                // the file to which hints tell to add a key
	origin   map[string]string     // cleaned copy → original file
	warnings []string
}

// loadHostKeys reads every known_hosts file that exists. A line that cannot be
// parsed is skipped with a warning: skipping can only withhold trust, and one bad
// line must not lock out all servers.
func loadHostKeys(s settings) (*hostKeys, error) {
	h := &hostKeys{addTo: "~/.ssh/known_hosts", origin: map[string]string{}}
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
			return nil, configError(CodeKnownHosts, "make it readable: ls -l "+shell.Quote(name), fmt.Errorf("reading known host keys: %w", err))
		case !info.Mode().IsRegular() && name != os.DevNull:
			return nil, configError(CodeKnownHosts, "name a file: --known-hosts FILE", fmt.Errorf("reading known host keys: %s is not a file", name))
		case info.Size() > maxKnownHostsBytes:
			return nil, configError(CodeKnownHosts, "name a smaller file: --known-hosts FILE", fmt.Errorf("reading known host keys: %s is larger than %d bytes", name, maxKnownHostsBytes))
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		return h, nil
	}
	if err := h.parse(files); err != nil {
		return nil, configError(CodeKnownHosts, "look at the line named above", fmt.Errorf("reading known host keys: %w", err))
	}
	return h, nil
}

// parse parses the files. The parser stops at the first bad line, so each file that has
// one is replaced by a private copy in which that line is blank. Line numbers stay as
// they are.
func (h *hostKeys) parse(files []string) (err error) {
	dir, badLine := "", regexp.MustCompile(`^knownhosts: (.*):(\d+): (.*)$`)
	defer func() { os.RemoveAll(dir) }()
	for range maxBadLines {
		if h.db, err = knownhosts.NewDB(files...); err == nil {
			return nil
		}
		match := badLine.FindStringSubmatch(err.Error())
		if match == nil {
			return err
		}
		i := slices.Index(files, match[1])
		line, _ := strconv.Atoi(match[2])
		if i < 0 {
			return err
		}
		raw, readErr := os.ReadFile(files[i])
		lines := bytes.Split(raw, []byte("\n"))
		if readErr != nil || line < 1 || line > len(lines) {
			return err
		}
		if dir == "" {
			if dir, err = os.MkdirTemp("", "gpuboard-known-hosts-"); err != nil {
				return err
			}
		}
		name := h.name(files[i])
		h.warnings = append(h.warnings, fmt.Sprintf("%s:%d: not a host key, skipped: %s", name, line, cut(match[3], 120)))
		lines[line-1] = nil
		files[i] = filepath.Join(dir, strconv.Itoa(i))
		h.origin[files[i]] = name
		if err := os.WriteFile(files[i], bytes.Join(lines, []byte("\n")), 0o600); err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d lines are not host keys", maxBadLines)
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
func (h *hostKeys) check(s settings, _ string, remote net.Addr, key ssh.PublicKey) error {
	print := ssh.FingerprintSHA256(key)
	where := h.addTo
	refused := func(code, hint, format string, args ...any) error {
		return configError(code, hint, fmt.Errorf("checking the host key of %s: %w", s.addr(), fmt.Errorf(format, args...)))
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
		return refused(CodeHostRevoked, "ask whoever runs the server for its new key; do not connect",
			"the key %s is revoked in %s:%d", print, h.name(revoked.Revoked.Filename), revoked.Revoked.Line)
	case knownhosts.IsHostUnknown(err):
		return unknown()
	case errors.As(err, &mismatch) && len(mismatch.Want) > 0:
		known := mismatch.Want[0]
		file := h.name(known.Filename)
		return refused(CodeHostChanged,
			fmt.Sprintf("ask whoever runs the server whether its key is now %s; if so: ssh-keygen -f %s -R %s; %s",
				print, shell.Quote(file), shell.Quote(xknownhosts.Normalize(s.keyAddr())), h.scanCommand(s)),
			"it shows %s, but %s:%d has %s: the server was reinstalled, or somebody is in between", print, file, known.Line, ssh.FingerprintSHA256(known.Key))
	}
	return refused(CodeHostUnknown, h.scanHint(s, print), "%w", err)
}

func (h *hostKeys) name(file string) string {
	if original, ok := h.origin[file]; ok {
		return original
	}
	return file
}

func (h *hostKeys) scanCommand(s settings) string {
	command := fmt.Sprintf("ssh-keyscan -p %d %s", s.port, shell.Quote(s.host))
	if s.hostKeyAlias != "" {
		command += " | sed " + shell.Quote("s/^[^# ]*/"+s.hostKeyAlias+"/")
	}
	return command + " >> " + shell.Quote(h.addTo)
}

func (h *hostKeys) scanHint(s settings, fingerprint string) string {
	return h.scanCommand(s) + "  (then compare with the server's own: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub, or the key that gpuboard receive prints; shown here: " + strings.TrimSpace(fingerprint) + ")"
}
