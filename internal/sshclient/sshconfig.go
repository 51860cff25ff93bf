package sshclient

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

const (
	maxHops          = 8
	maxIdentityFiles = 32
)

// settings is what ssh_config says about one host.
type settings struct {
	alias, host, user string
	port              int
	identity          []string
	identitiesOnly    bool
	agent             string // path of the agent's socket; empty: none
	jump              string
	hostKeyAlias      string
	userKnown         []string
	globalKnown       []string
	connectTimeout    time.Duration
	explicitKeys      bool
}

func (s settings) addr() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// keyAddr is the address that is looked up in known_hosts. As in OpenSSH, an alias
// is looked up without the port.
func (s settings) keyAddr() string {
	if s.hostKeyAlias != "" {
		return net.JoinHostPort(s.hostKeyAlias, "22")
	}
	return s.addr()
}

// route resolves the target and its jump hosts, the first hop first.
func (o Options) route(ctx context.Context) ([]settings, error) {
	last, err := o.settings(ctx, o.Host, o.User, o.Port)
	if err != nil {
		return nil, err
	}
	route := []settings{last}
	for jump := last.jump; jump != ""; {
		// The list is walked from its end: the hop next to the target comes first.
		for _, name := range slices.Backward(strings.Split(jump, ",")) {
			user, host, port, err := parseHop(name)
			if err != nil {
				return nil, err
			}
			s, err := o.settings(ctx, host, user, port)
			if err != nil {
				return nil, err
			}
			if len(route) > maxHops {
				return nil, Permanent(CodeConfig, "look at ProxyJump in: ssh -G "+o.Host,
					"resolving the way to %s: ProxyJump goes in a circle or over more than %d hosts", o.Host, maxHops)
			}
			route = append([]settings{s}, route...)
			jump = s.jump // only the first of a list, which comes last here, uses its own ProxyJump
		}
	}
	return route, nil
}

func parseHop(s string) (user, host string, port int, err error) {
	user, host, port, err = Parse(strings.TrimPrefix(strings.TrimSpace(s), "ssh://"))
	if err != nil {
		err = Permanent(CodeConfig, "write ProxyJump as user@host:port",
			"reading ProxyJump %s: not a host", strconv.QuoteToASCII(snapshot.Clip(s, 100)))
	}
	return user, host, port, err
}

// settings asks `ssh -G` through Options.ResolveConfig: only ssh itself evaluates
// Host, Match, Include and canonical names as ssh does.
func (o Options) settings(ctx context.Context, alias, user string, port int) (settings, error) {
	var out []byte
	if o.ResolveConfig != nil {
		var err error
		if out, err = o.ResolveConfig(ctx, alias); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return settings{}, Permanent(CodeConfig, "look at: ssh -G "+alias, "%w", err)
		}
	}
	values := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			key = strings.ToLower(key)
			values[key] = append(values[key], strings.TrimSpace(value))
		}
	}
	return o.fill(values, alias, user, port)
}

// fill makes the settings of one host from the values of ssh_config. User and port of
// the target, and the files named by options, win.
func (o Options) fill(values map[string][]string, alias, userName string, port int) (settings, error) {
	all := func(key string, defaults ...string) []string {
		if v := values[key]; len(v) > 0 {
			return v
		}
		return defaults
	}
	first := func(key string) string {
		if v := all(key, "")[0]; !strings.EqualFold(v, "none") {
			return v
		}
		return ""
	}
	s := settings{alias: alias, user: cmp.Or(userName, first("user"), localUser()), port: port,
		jump: first("proxyjump"), hostKeyAlias: first("hostkeyalias"),
		identitiesOnly: strings.EqualFold(first("identitiesonly"), "yes")}
	s.host = strings.NewReplacer("%%", "%", "%h", alias, "%n", alias).Replace(cmp.Or(first("hostname"), alias))
	if s.port == 0 {
		text := cmp.Or(first("port"), "22")
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 65535 {
			return s, Permanent(CodeConfig, "look at: ssh -G "+alias,
				"reading Port of %s: %q is no port", alias, snapshot.Clip(text, 40))
		}
		s.port = n
	}
	if first("proxycommand") != "" {
		return s, Permanent(CodeConfig, "use ProxyJump in ssh_config instead of ProxyCommand",
			"resolving the way to %s: ProxyCommand is not supported", alias)
	}
	if n, err := strconv.Atoi(first("connecttimeout")); err == nil && n > 0 && n < 3600 {
		s.connectTimeout = time.Duration(n) * time.Second
	}
	s.identity = s.expandAll(all("identityfile", "~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"))
	known := func(key, defaults string) []string { return s.expandAll(strings.Fields(all(key, defaults)[0])) }
	s.userKnown = s.alsoInHome(known("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2"))
	s.globalKnown = known("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
	s.agent = s.agentSocket(all("identityagent", "SSH_AUTH_SOCK")[0])
	if len(o.Identity) > 0 {
		// Only the named keys are offered: the many keys of an agent could exceed the
		// server's MaxAuthTries first.
		s.identity, s.identitiesOnly, s.explicitKeys = s.expandAll(o.Identity), true, true
	}
	if len(o.KnownHosts) > 0 {
		s.userKnown, s.globalKnown = s.expandAll(o.KnownHosts), nil
	}
	return s, nil
}

// alsoInHome adds HOME's known_hosts to the account's. ssh itself ignores HOME, but what somebody
// adds to ~/.ssh/known_hosts in a shell is in HOME. Files that ssh_config names stay alone.
func (s settings) alsoInHome(known []string) []string {
	account, err := user.Current()
	if err != nil || len(known) == 0 || known[0] != filepath.Join(account.HomeDir, ".ssh/known_hosts") {
		return known
	}
	inHome := s.expand("~/.ssh/known_hosts")
	if _, err := os.Stat(inHome); err != nil || inHome == known[0] {
		return known // such as another account's home, which this one may not enter
	}
	return append(known, inHome)
}

// agentSocket returns the path of the agent's socket, from IdentityAgent.
func (s settings) agentSocket(value string) string {
	if value == "SSH_AUTH_SOCK" {
		return os.Getenv(value)
	}
	value = strings.Trim(value, `"`)
	if strings.EqualFold(value, "none") {
		return ""
	}
	if name, ok := strings.CutPrefix(value, "$"); ok && !strings.HasPrefix(name, "{") {
		return os.Getenv(name)
	}
	return s.expand(value)
}

func (s settings) expandAll(paths []string) []string {
	var out []string
	for _, path := range paths {
		if path != "" && !strings.EqualFold(path, "none") && len(out) < maxIdentityFiles {
			out = append(out, s.expand(strings.Trim(path, `"`)))
		}
	}
	return out
}

// expand replaces ~ and the %-tokens of ssh_config in a path.
func (s settings) expand(path string) string {
	home, _ := os.UserHomeDir()
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = filepath.Join(home, strings.TrimPrefix(path, "~"))
	}
	machine, _ := os.Hostname()
	short, _, _ := strings.Cut(machine, ".")
	return strings.NewReplacer("%%", "%", "%d", home, "%h", s.host, "%i", strconv.Itoa(os.Getuid()), "%j", s.jump,
		"%k", cmp.Or(s.hostKeyAlias, s.alias), "%L", short, "%l", machine, "%n", s.alias, "%p", strconv.Itoa(s.port),
		"%r", s.user, "%u", localUser()).Replace(path)
}

func localUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
