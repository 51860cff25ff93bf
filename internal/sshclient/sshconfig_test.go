package sshclient

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"

	"github.com/google/go-cmp/cmp"
)

// sshConfig resolves hosts with an ssh_config file of the test, as the program does with
// the user's.
func sshConfig(t testing.TB, file string) func(context.Context, string) ([]byte, error) {
	ssh := need.Program(t, "ssh")
	return func(ctx context.Context, host string) ([]byte, error) {
		return exec.CommandContext(ctx, ssh, "-G", "-F", file, "--", host).Output()
	}
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func sampleConfig(home string) string {
	return fmt.Sprintf(`Host board
  HostName %%h.example
  User drop
  Port 2222
  IdentityFile ~/.ssh/%%n_key
  IdentityFile %[1]s/second
  IdentitiesOnly yes
  HostKeyAlias board-key
  UserKnownHostsFile %[1]s/.ssh/a %[1]s/.ssh/b
  ConnectTimeout 1
  ProxyJump hop1,ops@hop2:2200
Host *
  User everybody
`, home)
}

func TestSettings(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "/agent")
	file := writeFile(t, filepath.Join(home, "config"), sampleConfig(home))
	want := settings{alias: "board", host: "board.example", user: "drop", port: 2222,
		identity: []string{home + "/.ssh/board_key", home + "/second"}, identitiesOnly: true, agent: "/agent",
		jump: "hop1,ops@hop2:2200", hostKeyAlias: "board-key", userKnown: []string{home + "/.ssh/a", home + "/.ssh/b"},
		globalKnown: []string{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}, connectTimeout: time.Second}
	p := (Options{Host: "board", ResolveConfig: sshConfig(t, file)})
	got, err := p.settings(t.Context(), "board", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	// The target and the options win.
	p.Identity, p.KnownHosts = []string{"~/mine"}, []string{"/known"}
	got, err = p.settings(t.Context(), "board", "me", 22)
	if err != nil || got.user != "me" || got.port != 22 || !cmp.Equal(got.identity, []string{home + "/mine"}) ||
		!cmp.Equal(got.userKnown, []string{"/known"}) || got.globalKnown != nil {
		t.Errorf("with options: %+v, %v", got, err)
	}
	route, err := p.route(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var hops []string
	for _, hop := range route {
		hops = append(hops, hop.user+"@"+hop.addr())
	}
	if diff := cmp.Diff([]string{"everybody@hop1:22", "ops@hop2:2200", "drop@board.example:2222"}, hops); diff != "" {
		t.Errorf("route (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"proxy command": "Host board\n ProxyCommand nc %h %p\n",
		"circle":        "Host board\n ProxyJump other\nHost other\n ProxyJump board\n",
		"bad jump":      "Host board\n ProxyJump -x\n",
		"bad port":      "Host board\n Port 99999\n",
		"not a config":  "Nonsense here\n",
	} {
		o := Options{Host: "board", ResolveConfig: sshConfig(t, writeFile(t, filepath.Join(t.TempDir(), "c"), text))}
		if _, err := o.route(t.Context()); Code(err) != CodeConfig {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Only the first host of a list goes over its own jump hosts, and there is a limit to all of them.
func TestRouteOverManyHosts(t *testing.T) {
	jumps := map[string]string{"board": "a,b", "a": "c", "b": "nowhere", "long": "1,2,3,4,5,6,7,8",
		"longer": "1,2,3,4,5,6,7,8,9"}
	for host, want := range map[string]string{"board": "c a b board", "long": "1 2 3 4 5 6 7 8 long", "longer": ""} {
		route, err := (Options{Host: host, ResolveConfig: func(_ context.Context, name string) ([]byte, error) {
			return []byte("proxyjump " + jumps[name] + "\n"), nil
		}}).route(t.Context())
		var hops []string
		for _, hop := range route {
			hops = append(hops, hop.host)
		}
		if got := strings.Join(hops, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", host, got, err, want)
		}
	}
}

func TestAgentSocket(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "/agent")
	t.Setenv("OTHER", "/other")
	t.Setenv("HOME", "/home/eva")
	for want, value := range map[string]string{"/agent": "SSH_AUTH_SOCK", "": "None", "/other": "$OTHER",
		"/home/eva/a": `"~/a"`, "${OTHER}": "${OTHER}"} {
		if got := (settings{}).agentSocket(value); got != want {
			t.Errorf("IdentityAgent %s: %q", value, got)
		}
	}
	p := (Options{Host: "web"})
	if s, err := p.fill(nil, "web", "", 0); err != nil || s.agent != "/agent" || s.port != 22 || len(s.identity) != 3 {
		t.Errorf("without ssh: %+v, %v", s, err)
	}
	if got := (settings{}).expandAll(append(make([]string, 8, 48), strings.Split(strings.Repeat("/key ", 40), " ")...)); len(got) != maxIdentityFiles {
		t.Errorf("%d files of 40", len(got))
	}
}

// TestWithoutSSH: where OpenSSH is not installed, the target and the options say all.
func TestWithoutSSH(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	o := Options{Host: "board",
		ResolveConfig: func(context.Context, string) ([]byte, error) { return nil, fmt.Errorf("no ssh: %w", fs.ErrNotExist) }}
	got, err := o.settings(t.Context(), "board", "drop", 0)
	if err != nil || got.host != "board" || got.user != "drop" || got.port != 22 || len(got.identity) != 3 || got.identity[0] != home+"/.ssh/id_ed25519" ||
		got.userKnown[0] != home+"/.ssh/known_hosts" {
		t.Errorf("%+v, %v", got, err)
	}
	// Names of settings are not case-sensitive, and the first value counts. A setting without a value is none.
	o.ResolveConfig = func(context.Context, string) ([]byte, error) {
		return []byte("HostName  web \nhostname other\nUser none\nport 1\nCONNECTTIMEOUT\n"), nil
	}
	if got, err = o.settings(t.Context(), "board", "", 0); err != nil || got.host != "web" || got.user != localUser() || got.port != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	o.ResolveConfig = func(context.Context, string) ([]byte, error) { return []byte("UserKnownHostsFile\nuser drop\n"), nil }
	if got, err = o.settings(t.Context(), "board", "", 0); err != nil || got.user != "drop" || len(got.userKnown) == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestKnownHostsOfHome: ssh reads the account's known_hosts; a key that was added in a shell
// with another HOME counts, too, unless ssh_config names files.
func TestKnownHostsOfHome(t *testing.T) {
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	ssh, theirs := account.HomeDir+"/.ssh/known_hosts", home+"/.ssh/known_hosts"
	known := func(values string) []string {
		t.Helper()
		p := (Options{Host: "board",
			ResolveConfig: func(context.Context, string) ([]byte, error) { return []byte("userknownhostsfile " + values), nil }})
		s, err := p.settings(t.Context(), "board", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return s.userKnown
	}
	if got := known(ssh); !cmp.Equal(got, []string{ssh}) {
		t.Errorf("without a file in HOME: %q", got)
	}
	if err := os.Mkdir(filepath.Dir(theirs), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, theirs, "")
	if got := known(ssh + " " + ssh + "2"); !cmp.Equal(got, []string{ssh, ssh + "2", theirs}) {
		t.Errorf("with a file in HOME: %q", got)
	}
	if got := known("/named"); !cmp.Equal(got, []string{"/named"}) {
		t.Errorf("with a file that ssh_config names: %q", got)
	}
}

func FuzzResolvedConfig(f *testing.F) {
	f.Add("hostname x\nport 22\nidentityfile ~/.ssh/%h\nproxyjump a,b\n")
	f.Add("identityfile ${A${B}}%\nuserknownhostsfile none\nconnecttimeout -1\n")
	f.Fuzz(func(t *testing.T, text string) {
		p := Options{Host: "h",
			ResolveConfig: func(context.Context, string) ([]byte, error) { return []byte(text), nil }}
		s, err := p.settings(context.Background(), "h", "", 0)
		if err == nil && (s.port < 1 || s.port > 65535 || len(s.identity) > maxIdentityFiles || s.connectTimeout < 0) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

// Times that are no times, or too long for a push, do not count; HOME may be all of a path.
func TestValuesOfSSHConfig(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	p := (Options{Host: "board"})
	for value, want := range map[string]time.Duration{"none": 0, "0": 0, "-1": 0, "1": time.Second, "3599": 3599 * time.Second, "3600": 0, "x": 0} {
		s, err := p.fill(map[string][]string{"connecttimeout": {value}}, "board", "", 0)
		if err != nil || s.connectTimeout != want {
			t.Errorf("ConnectTimeout %s: %v, %v; want %v", value, s.connectTimeout, err, want)
		}
	}
	for value, want := range map[string]int{"1": 1, "65535": 65535, "none": 22, "0": 0, "-1": 0, "65536": 0, "x": 0} {
		s, err := p.fill(map[string][]string{"port": {value}}, "board", "", 0)
		if (Code(err) == CodeConfig) != (want == 0) || err == nil && s.port != want {
			t.Errorf("Port %s: %d, %v; want %d", value, s.port, err, want)
		}
	}
	for path, want := range map[string]string{"~": home, "~/k": home + "/k", "~eva/k": "~eva/k", "/a~": "/a~"} {
		if got := (settings{}).expand(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	keys := &hostKeys{addTo: "/h/known_hosts"}
	for want, s := range map[string]settings{
		"ssh-keyscan -p 22 web >> /h/known_hosts":                          {host: "web", port: 22},
		"ssh-keyscan -p 22 web | sed 's/^[^# ]*/board/' >> /h/known_hosts": {host: "web", port: 22, hostKeyAlias: "board"},
	} {
		if got := keys.scanCommand(s); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
