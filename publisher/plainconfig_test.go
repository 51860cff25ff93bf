package publisher

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/need"

	"github.com/google/go-cmp/cmp"
)

// Where nothing is configured as far as we can tell, ssh must say the same.
func TestUnconfigured(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "/agent")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "d", "crypto.conf"), "Ciphers aes256-gcm@openssh.com\nHost other\n Port 7\n")
	writeFile(t, filepath.Join(dir, "d", "none"), "User somebody\n")
	writeFile(t, filepath.Join(dir, "relevant"), "Port 7\n")
	writeFile(t, filepath.Join(dir, "circle"), "Include "+filepath.Join(dir, "circle")+"\n")
	const any, no = "any host", "no host"
	for _, tc := range []struct{ text, plain string }{
		{"", any},
		{"# comments\n\n  # Port 7\n", any},
		{"Host *\n    SendEnv LANG LC_*\n    HashKnownHosts yes\n    GSSAPIAuthentication yes\n", any},
		{"Match final all\n Include DIR/d/*.conf\n GSSAPIAuthentication yes\n ForwardX11Trusted yes\n", any},
		{"Host=unix/* vsock/*\n\tProxyCommand /bin/false\n\tProxyUseFdpass yes\n\nHost .host\n\tProxyCommand /bin/false\n\tUser root\n", any},
		{"HASHKNOWNHOSTS=yes\r\ncompression = no\r\n", any},
		{"Include DIR/nothing/*.conf\n", any},
		{"Host web\n Port 7\n", "board"},
		{"Host *.example\n User x\n", "board"},
		{"Host other\nInclude DIR/relevant\n", any},
		{"Host BOARD\n HostName 192.0.2.1\n", "web.example"},
		{"Host board web*\n HostKeyAlias key\n", "192.0.2.7"},
		{"Host * !board\n Port 7\n", no},
		{"Host b?ard w[e]b* 1*\n Port 7\n", no},
		{"Port 7\n", no}, {"\tuser=x\n", no}, {"IdentityFile ~/.ssh/k\n", no}, {"IdentitiesOnly yes\n", no}, {"ProxyJump x\n", no},
		{"UserKnownHostsFile /k\n", no}, {"GlobalKnownHostsFile /k\n", no}, {"ConnectTimeout 3\n", no}, {"IdentityAgent none\n", no},
		{"HostKeyAlias y\n", no}, {"ProxyCommand nc %h %p\n", no}, {"HostName 192.0.2.1\n", no}, {"\"Port\" 7\n", no},
		{"CanonicalizeHostname yes\n", no}, {"Surprise yes\n", no},
		{"Match exec true\n Compression yes\n", no}, {"Match !exec=\"false\"\n", no},
		{"Match host board\n Port 7\n", no}, {"Match user nobody-at-all\n Port 7\n", no},
		{"Include DIR/d/*\n", no}, {"Include DIR/relevant\n", no}, {"Include \"DIR/relevant\"\n", no}, {"Include DIR/circle\n", no},
		{"Include ~/other\n", no}, {"Host nowhere\nMatch all\nInclude DIR/relevant\n", no},
	} {
		text := strings.ReplaceAll(tc.text, "DIR", dir)
		file := writeFile(t, filepath.Join(t.TempDir(), "config"), text)
		for _, host := range []string{"board", "web.example", "192.0.2.7", "GPU01.Example", "2001:db8::7"} {
			answer, ok := unconfigured(host, file)
			if want := tc.plain == any || tc.plain == host; ok != want && (want || tc.plain == no) {
				t.Errorf("%q for %s: sure that nothing is configured: %v", tc.text, host, ok)
			}
			if !ok {
				continue
			}
			ssh := need.Program(t, "ssh")
			out, err := exec.CommandContext(t.Context(), ssh, "-G", "-F", file, "--", host).Output()
			if err != nil {
				t.Fatalf("%q for %s: %v", tc.text, host, err)
			}
			p := open(t, Options{Target: Target{Scheme: "sftp", Host: host}})
			asked, err := p.fill(ofHome(parseResolved(out)), host, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			known, err := p.fill(parseResolved(answer), host, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asked, known, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("%q for %s (-ssh +ours):\n%s", tc.text, host, diff)
			}
		}
	}
	for _, host := range []string{"127.1", "0x7f.1", "010.1.1.1", "2web", "fe80::1%eth0", "2001:DB8::7", "a b", "-x", "", "x."} {
		if _, ok := unconfigured(host); ok {
			t.Errorf("sure what ssh makes of %q", host)
		}
	}
	if _, ok := Unconfigured("board"); ok {
		t.Error("the home directory is another than ssh's, and that does not matter")
	}
}

// ofHome undoes what only ssh does: it takes the home directory from the list of
// users, which a test cannot change. Types of keys that no server takes any more
// go, too.
func ofHome(values map[string][]string) map[string][]string {
	delete(values, "userknownhostsfile")
	var keys []string
	for _, name := range values["identityfile"] {
		if !strings.HasSuffix(name, "dsa") || strings.HasSuffix(name, "ecdsa") {
			if !strings.HasSuffix(name, "xmss") {
				keys = append(keys, name)
			}
		}
	}
	values["identityfile"] = keys
	return values
}

func FuzzUnconfigured(f *testing.F) {
	f.Add("Host *\n Port 7\n", "board")
	f.Add("Match all\n\"User\" x", "a.b")
	f.Fuzz(func(t *testing.T, text, host string) {
		answer, ok := unconfigured(host, writeFile(t, filepath.Join(t.TempDir(), "config"), text))
		if ok && (!plainName(host) && !strings.Contains(host, ":") || !strings.HasPrefix(string(answer), "hostname "+strings.ToLower(host)+"\n")) {
			t.Errorf("%q of %q: %q", host, text, answer)
		}
	})
}
