package dropbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

const (
	maxHosts        = 10_000
	maxKeyFileBytes = 16 << 10
	reloadAfter     = 5 * time.Second
)

// authorizedKeys maps public keys to hosts. A key that is listed for two hosts is
// accepted for neither, because each could write as the other.
type authorizedKeys struct {
	dir string // of files HOST.pub
	now func() time.Time
	log *slog.Logger

	mu     sync.Mutex
	hosts  map[string]string // marshalled key → host
	read   time.Time
	report string // the problems as they were last logged
}

// check loads the keys for the first time and requires at least one.
func (k *authorizedKeys) check() error {
	hosts, problems := k.load()
	if len(hosts) == 0 {
		return fmt.Errorf("reading the nodes' keys: %w",
			errors.Join(
				append(problems, errors.New("no key of any host found: put gpu01.pub into the directory of keys"))...))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.install(hosts, problems)
	return nil
}

// host returns the host that a key belongs to.
func (k *authorizedKeys) host(key ssh.PublicKey) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if age := k.now().Sub(k.read); age >= reloadAfter || age < 0 {
		k.install(k.load())
	}
	host, ok := k.hosts[string(key.Marshal())]
	return host, ok
}

func (k *authorizedKeys) install(hosts map[string]string, problems []error) {
	k.hosts, k.read = hosts, k.now()
	report := fmt.Sprint(problems)
	if report != k.report {
		for _, problem := range problems {
			k.log.Warn("reading the nodes' keys", "problem", problem.Error())
		}
		k.report = report
	}
}

// load reads the directory. A key that cannot be read is reported and left out, so
// that it locks out one host only.
func (k *authorizedKeys) load() (map[string]string, []error) {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return nil, []error{err}
	}
	var problems []error
	hosts, shared := map[string]string{}, map[string]bool{}
	for _, entry := range entries {
		host, ok := strings.CutSuffix(entry.Name(), ".pub")
		if !ok || strings.HasPrefix(host, ".") {
			continue
		}
		file := filepath.Join(k.dir, entry.Name())
		if name, err := snapshot.ParseHost(host); err != nil || name != host {
			problems = append(problems, fmt.Errorf("%s: %q is not a host name", file, host))
			continue
		}
		keys, bad := readKeys(file)
		problems = append(problems, bad...)
		for _, key := range keys {
			id := string(key.Marshal())
			other, known := hosts[id]
			switch {
			case known && other != host:
				problems = append(problems,
					fmt.Errorf("%s: the key of %s is also that of %s; neither may log in: give each host its own", file,
						host, other))
				shared[id] = true
			case len(hosts) >= maxHosts:
				problems = append(problems, fmt.Errorf("%s: more than %d keys", file, maxHosts))
			default:
				hosts[id] = host
			}
		}
	}
	for id := range shared {
		delete(hosts, id)
	}
	return hosts, problems
}

// readKeys reads a file with a public key on each line. Options before a key are an
// error, because nothing here would enforce them.
func readKeys(file string) (keys []ssh.PublicKey, problems []error) {
	raw, err := atomicfile.Read(file, maxKeyFileBytes)
	if err != nil {
		return nil, []error{err}
	}
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey(line)
		if err == nil && len(options) > 0 {
			err = fmt.Errorf("option %q is not known here", options[0])
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", file, n, err))
			continue
		}
		keys = append(keys, key)
	}
	return keys, problems
}

// hostKey reads the server's key, or generates one. As with sshd, a key that others
// can read is refused.
func hostKey(name string) (ssh.Signer, error) {
	if name == "" {
		return nil, errors.New("reading the host key: no file is named")
	}
	if _, err := GenerateKey(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	raw, err := atomicfile.Read(name, maxKeyFileBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the host key: %w", err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("reading the host key: others can read %s: chmod 600 it", name)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the host key %s: %w", name, err)
	}
	return signer, nil
}
