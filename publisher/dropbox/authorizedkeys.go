package dropbox

import (
	"bufio"
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
	maxKeysBytes    = 16 << 20
	reloadAfter     = 5 * time.Second
)

// authorizedKeys maps public keys to hosts. A key that is listed for two hosts is
// accepted for neither, because each could write as the other.
type authorizedKeys struct {
	dir, file string
	now       func() time.Time
	log       *slog.Logger

	mu     sync.Mutex
	hosts  map[string]string // marshalled key → host
	read   time.Time
	report string // the problems as they were last logged
}

func newAuthorizedKeys(dir, file string, now func() time.Time, log *slog.Logger) *authorizedKeys {
	return &authorizedKeys{dir: dir, file: file, now: now, log: log}
}

// check loads the keys for the first time and requires at least one.
func (k *authorizedKeys) check() error {
	if k.dir == "" && k.file == "" {
		return errors.New("reading the nodes' keys: neither a directory nor a file of keys is named")
	}
	hosts, problems := k.load()
	if len(hosts) == 0 {
		return fmt.Errorf("reading the nodes' keys: %w", errors.Join(append(problems, errors.New("no key of any host found: put gpu01.pub into the directory of keys"))...))
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
	report := ""
	if len(problems) > 0 {
		report = errors.Join(problems...).Error()
	}
	if report != k.report {
		for _, problem := range problems {
			k.log.Warn("reading the nodes' keys", "problem", problem.Error())
		}
		k.report = report
	}
}

// load reads both sources. A key that cannot be read is reported and left out, so
// that it locks out one host only.
func (k *authorizedKeys) load() (map[string]string, []error) {
	hosts := map[string]string{}
	var problems []error
	shared := map[string]bool{}
	add := func(where, host string, key ssh.PublicKey) {
		if name, err := snapshot.ParseHost(host); err != nil || name != host {
			problems = append(problems, fmt.Errorf("%s: %q is not a host name", where, host))
			return
		}
		id := string(key.Marshal())
		if other, ok := hosts[id]; ok && other != host {
			problems = append(problems, fmt.Errorf("%s: the key of %s is also that of %s; neither may log in: give each host its own", where, host, other))
			shared[id] = true
			return
		}
		if len(hosts) >= maxHosts {
			problems = append(problems, fmt.Errorf("%s: more than %d keys", where, maxHosts))
			return
		}
		hosts[id] = host
	}
	if k.dir != "" {
		entries, err := os.ReadDir(k.dir)
		if err != nil {
			problems = append(problems, err)
		}
		for _, entry := range entries {
			host, ok := strings.CutSuffix(entry.Name(), ".pub")
			if !ok || strings.HasPrefix(host, ".") {
				continue
			}
			name := filepath.Join(k.dir, entry.Name())
			raw, err := atomicfile.Read(name, maxKeyFileBytes)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			problems = append(problems, eachKey(name, raw, func(key ssh.PublicKey, _ []string) error {
				add(name, host, key)
				return nil
			})...)
		}
	}
	if k.file != "" {
		raw, err := atomicfile.Read(k.file, maxKeysBytes)
		if err != nil {
			problems = append(problems, err)
		}
		problems = append(problems, eachKey(k.file, raw, func(key ssh.PublicKey, options []string) error {
			host, err := hostOption(options)
			if err == nil {
				add(k.file, host, key)
			}
			return err
		})...)
	}
	for id := range shared {
		delete(hosts, id)
	}
	return hosts, problems
}

func eachKey(name string, raw []byte, use func(ssh.PublicKey, []string) error) (problems []error) {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, maxKeyFileBytes)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey(line)
		if err == nil {
			err = use(key, options)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", name, n, err))
		}
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, fmt.Errorf("%s: %w", name, err))
	}
	return problems
}

// hostOption reads host="gpu01". Any other option is an error, because nothing here
// would enforce it.
func hostOption(options []string) (string, error) {
	host := ""
	for _, option := range options {
		name, value, ok := strings.Cut(option, "=")
		if !ok || !strings.EqualFold(name, "host") || host != "" {
			return "", fmt.Errorf("option %q is not known here; write host=\"gpu01\" before the key", option)
		}
		host = strings.Trim(value, `"`)
	}
	if host == "" {
		return "", errors.New(`write host="gpu01" before the key`)
	}
	return host, nil
}

// hostKey reads the server's key, or generates one. As with sshd, a key that others
// can read is refused.
func hostKey(name string) (ssh.Signer, error) {
	if name == "" {
		return nil, errors.New("reading the host key: no file is named")
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if _, err := GenerateKey(name); err != nil {
			return nil, err
		}
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
