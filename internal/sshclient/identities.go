package sshclient

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/shell"
)

const (
	maxKeyBytes  = 64 << 10
	agentTimeout = 5 * time.Second
)

// identities are the keys that are offered to one hop.
type identities struct {
	signers  []ssh.Signer
	problems []*Error // why a configured key is not among the signers
	agent    net.Conn
}

func (i *identities) close() {
	if i.agent != nil {
		i.agent.Close()
	}
}

// loadIdentities asks the agent first and then reads key files, as ssh does. The agent may
// sign until end.
func loadIdentities(s settings, end time.Time) (*identities, error) {
	ids := &identities{}
	held := ids.fromAgent(s.agent, end)
	var fromFiles []ssh.Signer
	var named []ssh.PublicKey
	for _, name := range s.identity {
		signer, public, err := readKey(name)
		if public != nil {
			named = append(named, public)
		}
		switch {
		case err == nil:
			fromFiles = append(fromFiles, signer)
		case offers(held, public):
			// The file has a passphrase, and the agent holds the key: the usual case.
		case errors.Is(err, fs.ErrNotExist) && !s.explicitKeys:
			// One of ssh's default names, most of which do not exist.
		default:
			ids.problems = append(ids.problems, err)
		}
	}
	for _, signer := range held {
		if !s.identitiesOnly ||
			slices.ContainsFunc(named, func(key ssh.PublicKey) bool { return sameKey(key, signer.PublicKey()) }) {
			ids.signers = append(ids.signers, signer)
		}
	}
	for _, signer := range fromFiles {
		if !offers(ids.signers, signer.PublicKey()) {
			ids.signers = append(ids.signers, signer)
		}
	}
	if len(ids.signers) > 0 {
		return ids, nil
	}
	ids.close()
	if len(ids.problems) > 0 {
		return nil, ids.problems[0]
	}
	return nil, Permanent("ssh:no-key",
		"make one: ssh-keygen -t ed25519 -N '' -f ~/.ssh/id_ed25519, and bring its .pub to the web host; or name one: --identity FILE",
		"logging in to %s: no private key found and no agent holds one", s.addr())
}

// fromAgent returns the keys of an agent, which sign until end. Its socket may be "", or that
// of one that is gone.
func (i *identities) fromAgent(socket string, end time.Time) []ssh.Signer {
	conn, err := net.DialTimeout("unix", socket, agentTimeout)
	if err != nil {
		return nil
	}
	conn.SetDeadline(time.Now().Add(agentTimeout))
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		conn.Close()
		return nil
	}
	conn.SetDeadline(end)
	i.agent = conn
	return signers
}

// readKey returns the signer of a key file, or an error, and in either case the
// public key where it can be known.
func readKey(name string) (ssh.Signer, ssh.PublicKey, *Error) {
	public := readPublic(name + ".pub")
	info, err := os.Stat(name)
	if err != nil {
		return nil, public, Permanent(CodeKeyUnreadable, "name the private key: --identity FILE",
			"reading key: %w", err)
	}
	if private, named := strings.CutSuffix(name, ".pub"); named && readPublic(name) != nil {
		return nil, nil, Permanent(CodeKeyUnreadable, "name the private key: --identity "+shell.Quote(private),
			"reading key %s: this is the public key", name)
	}
	if own, ok := info.Sys().(*syscall.Stat_t); ok && int(own.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 {
		return nil, public, Permanent("ssh:key-mode", "chmod 600 "+shell.Quote(name),
			"reading key %s: mode %04o lets others read it", name, info.Mode().Perm())
	}
	raw, err := atomicfile.Read(name, maxKeyBytes)
	if err != nil {
		return nil, public, Permanent(CodeKeyUnreadable, "name the private key: --identity FILE",
			"reading key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if locked, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		if locked.PublicKey != nil {
			public = locked.PublicKey
		}
		return nil, public, Permanent("ssh:key-passphrase",
			"ssh-add "+shell.Quote(name)+", or use a key without a passphrase for this one account: --identity FILE",
			"reading key %s: it has a passphrase, and no agent holds it", name)
	}
	if err != nil {
		return nil, public, Permanent(CodeKeyUnreadable, "check it: ssh-keygen -y -f "+shell.Quote(name),
			"reading key %s: %w", name, err)
	}
	return signer, signer.PublicKey(), nil
}

// readPublic returns the key of a file, or nil if it has none.
func readPublic(name string) ssh.PublicKey {
	raw, err := atomicfile.Read(name, maxKeyBytes)
	if err != nil {
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	if err != nil {
		return nil
	}
	return key
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

func offers(signers []ssh.Signer, key ssh.PublicKey) bool {
	return key != nil && slices.ContainsFunc(signers, func(s ssh.Signer) bool { return sameKey(s.PublicKey(), key) })
}
