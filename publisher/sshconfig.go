package publisher

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"
)

const (
	maxHops          = 8
	maxConfigBytes   = 1 << 20
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
func (p *Publisher) route(ctx context.Context) ([]settings, error) {
	t := p.opts.Target
	last, err := p.settings(ctx, t.Host, t.User, t.Port)
	if err != nil {
		return nil, err
	}
	route := []settings{last}
	seen := map[string]bool{}
	for jump := last.jump; jump != ""; {
		// The list is walked from its end: the hop next to the target comes first.
		hops := strings.Split(jump, ",")
		jump = ""
		for i := len(hops) - 1; i >= 0; i-- {
			hop, err := parseHop(hops[i])
			if err != nil {
				return nil, err
			}
			s, err := p.settings(ctx, hop.Host, hop.User, hop.Port)
			if err != nil {
				return nil, err
			}
			if seen[s.addr()] || len(route) > maxHops {
				return nil, configError(CodeConfig, "look at ProxyJump in: ssh -G "+t.Host, fmt.Errorf("resolving the way to %s: ProxyJump goes in a circle or over more than %d hosts", t.Host, maxHops))
			}
			seen[s.addr()] = true
			route = append([]settings{s}, route...)
			if i == 0 {
				jump = s.jump // only the first of a list uses its own ProxyJump
			}
		}
	}
	return route, nil
}

func parseHop(s string) (Target, error) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "ssh://")
	t, err := ParseTarget("sftp://" + s)
	if err != nil || t.Dir != "" {
		return Target{}, configError(CodeConfig, "write ProxyJump as user@host:port", fmt.Errorf("reading ProxyJump %s: not a host", strconv.QuoteToASCII(cut(s, 100))))
	}
	return t, nil
}

// settings asks `ssh -G` through Options.ResolveConfig, because only ssh itself
// evaluates Match, canonical names and the order of Include. When that fails, the
// Host blocks are read here.
func (p *Publisher) settings(ctx context.Context, alias, user string, port int) (settings, error) {
	values := map[string][]string{}
	asked := false
	if p.opts.ResolveConfig != nil {
		out, err := p.opts.ResolveConfig(ctx, alias)
		if err == nil && len(out) <= maxConfigBytes {
			values, asked = parseResolved(out), true
		} else if err != nil {
			p.opts.Log.Debug("asking ssh -G", "host", alias, "err", err)
		}
	}
	if !asked {
		var err error
		if values, err = p.readConfigs(alias); err != nil {
			return settings{}, err
		}
	}
	return p.fill(values, alias, user, port)
}

func parseResolved(out []byte) map[string][]string {
	values := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, maxConfigBytes)
	for lines.Scan() {
		key, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if key = strings.ToLower(key); ok && len(values[key]) < maxIdentityFiles {
			values[key] = append(values[key], strings.TrimSpace(value))
		}
	}
	return values
}

func (p *Publisher) readConfigs(alias string) (map[string][]string, error) {
	values := map[string][]string{}
	for _, name := range p.opts.ConfigFiles {
		raw, err := readBounded(name, maxConfigBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var config *ssh_config.Config
		if err == nil {
			config, err = ssh_config.DecodeBytes(raw)
		}
		if err != nil {
			return nil, configError(CodeConfig, "install OpenSSH's ssh, which reads every form of the file, or name user, host and port in --to", fmt.Errorf("reading %s: %w", name, err))
		}
		for _, key := range []string{"HostName", "User", "Port", "IdentitiesOnly", "IdentityAgent", "ProxyJump", "ProxyCommand",
			"HostKeyAlias", "UserKnownHostsFile", "GlobalKnownHostsFile", "ConnectTimeout", "IdentityFile"} {
			all, err := config.GetAll(alias, key)
			if err != nil {
				return nil, configError(CodeConfig, "", fmt.Errorf("reading %s of %s: %w", key, name, err))
			}
			low := strings.ToLower(key)
			if key == "IdentityFile" {
				values[low] = append(values[low], all...)
			} else if len(all) > 0 && len(values[low]) == 0 {
				values[low] = all[:1] // the first value found wins, as in ssh
			}
		}
	}
	return values, nil
}

func (p *Publisher) fill(values map[string][]string, alias, userName string, port int) (settings, error) {
	first := func(key string) string {
		if v := values[key]; len(v) > 0 && !strings.EqualFold(v[0], "none") {
			return v[0]
		}
		return ""
	}
	s := settings{alias: alias, host: alias, user: userName, port: port}
	local := localUser()
	if name := first("hostname"); name != "" {
		s.host = strings.NewReplacer("%%", "%", "%h", alias, "%n", alias).Replace(name)
	}
	if s.user == "" {
		if s.user = first("user"); s.user == "" {
			s.user = local
		}
	}
	if s.port == 0 {
		s.port = 22
		if text := first("port"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 65535 {
				return s, configError(CodeConfig, "look at: ssh -G "+alias, fmt.Errorf("reading Port of %s: %q is no port", alias, cut(text, 40)))
			}
			s.port = n
		}
	}
	if command := first("proxycommand"); command != "" {
		return s, configError(CodeConfig, "use ProxyJump in ssh_config instead of ProxyCommand", fmt.Errorf("resolving the way to %s: ProxyCommand is not supported", alias))
	}
	s.jump = first("proxyjump")
	s.hostKeyAlias = first("hostkeyalias")
	s.identitiesOnly = strings.EqualFold(first("identitiesonly"), "yes")
	if text := first("connecttimeout"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 3600 {
			s.connectTimeout = time.Duration(n) * time.Second
		}
	}
	expand := func(list []string) []string {
		var out []string
		for _, item := range list {
			if item != "" && !strings.EqualFold(item, "none") && len(out) < maxIdentityFiles {
				out = append(out, s.expand(strings.Trim(item, `"`), local))
			}
		}
		return out
	}
	if s.identity = expand(values["identityfile"]); len(values["identityfile"]) == 0 {
		s.identity = expand([]string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"})
	}
	known := func(key string, defaults string) []string {
		text := defaults
		if v := values[key]; len(v) > 0 {
			text = v[0]
		}
		return expand(strings.Fields(text))
	}
	s.userKnown = known("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
	s.globalKnown = known("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
	s.agent = agentSocket(values["identityagent"], func(path string) string { return s.expand(path, local) })
	if len(p.opts.Identity) > 0 {
		// Only the named keys are offered: the many keys of an agent could exceed the
		// server's MaxAuthTries first.
		s.identity, s.identitiesOnly, s.explicitKeys = expand(p.opts.Identity), true, true
	}
	if len(p.opts.KnownHosts) > 0 {
		s.userKnown, s.globalKnown = expand(p.opts.KnownHosts), nil
	}
	return s, nil
}

func agentSocket(values []string, expand func(string) string) string {
	if len(values) == 0 || values[0] == "SSH_AUTH_SOCK" {
		return os.Getenv("SSH_AUTH_SOCK")
	}
	value := strings.Trim(values[0], `"`)
	if strings.EqualFold(value, "none") {
		return ""
	}
	if name, ok := strings.CutPrefix(value, "$"); ok && !strings.HasPrefix(name, "{") {
		return os.Getenv(name)
	}
	return expand(value)
}

// expand replaces ~, ${NAME} and the %-tokens of ssh_config in a path.
func (s settings) expand(path, local string) string {
	home, _ := os.UserHomeDir()
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = filepath.Join(home, strings.TrimPrefix(path, "~"))
	}
	for {
		before, rest, ok := strings.Cut(path, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			break
		}
		value := strings.ReplaceAll(os.Getenv(name), "${", "")
		path = before + value + after
	}
	if !strings.Contains(path, "%") {
		return path
	}
	machine, _ := os.Hostname()
	short, _, _ := strings.Cut(machine, ".")
	key := s.hostKeyAlias
	if key == "" {
		key = s.alias
	}
	return strings.NewReplacer("%%", "%", "%d", home, "%h", s.host, "%i", strconv.Itoa(os.Getuid()), "%j", s.jump, "%k", key,
		"%L", short, "%l", machine, "%n", s.alias, "%p", strconv.Itoa(s.port), "%r", s.user, "%u", local).Replace(path)
}

func localUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

func readBounded(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading %s: not a regular file", name)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("reading %s: %d bytes, and %d are the most", name, info.Size(), limit)
	}
	return os.ReadFile(name)
}
