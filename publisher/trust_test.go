package publisher_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestHostKeys(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{HostKeys: []string{"ed25519", "rsa"}})
	address := fmt.Sprintf("[%s]:%d", s.Host, s.Port)
	right := map[string]string{}
	for kind, key := range s.Public {
		right[kind] = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	}
	stranger := strings.TrimSpace(
		string(ssh.MarshalAuthorizedKey(sshtest.WriteKey(t, filepath.Join(t.TempDir(), "x"), "ed25519", ""))))
	for name, c := range map[string]struct {
		files []string // "-" stands for a file that does not exist
		code  string   // empty: accepted
		hint  []string
	}{
		"both keys": {files: []string{address + " " + right["ed25519"] + "\n" + address + " " +
			right["rsa"]}},
		"only ed25519":        {files: []string{address + " " + right["ed25519"]}},
		"only rsa":            {files: []string{address + " " + right["rsa"]}},
		"hashed":              {files: []string{knownhosts.HashHostname(address) + " " + right["ed25519"]}},
		"wildcard":            {files: []string{"127.0.0.* " + right["ed25519"]}},
		"in the second file":  {files: []string{"other " + stranger, address + " " + right["ed25519"]}},
		"one file is missing": {files: []string{"-", address + " " + right["ed25519"]}},
		"garbage beside": {files: []string{address + " " + right["ed25519"] + "\ngarbage\n"},
			code: sshclient.CodeKnownHosts, hint: []string{"remove that line", "--known-hosts"}},
		"unknown": {files: []string{"other " + stranger}, code: sshclient.CodeHostUnknown,
			hint: []string{"ssh-keyscan -p ", " >> ", "SHA256:"}},
		"unknown, other port": {files: []string{s.Host + " " + right["ed25519"]}, code: sshclient.CodeHostUnknown,
			hint: []string{"ssh-keyscan"}},
		"no file": {files: []string{"-"}, code: sshclient.CodeHostUnknown,
			hint: []string{"ssh-keyscan", "SHA256:"}},
		"empty file": {files: []string{""}, code: sshclient.CodeHostUnknown, hint: []string{"ssh-keyscan"}},
		"changed": {files: []string{address + " " + stranger}, code: "ssh:hostkey-changed",
			hint: []string{"ssh-keygen -f ", "-R '[127.0.0.1]", "SHA256:"}},
		"revoked": {files: []string{address + " " + right["ed25519"] + "\n@revoked * " +
			right["ed25519"]}, code: "ssh:hostkey-revoked"},
		"authority, no certificate": {files: []string{"@cert-authority " + address + " " + stranger},
			code: sshclient.CodeHostUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			o := toServer(t, s, s.Port)
			o.KnownHosts = nil
			for n, text := range c.files {
				name := filepath.Join(t.TempDir(), fmt.Sprint("known", n))
				if text != "-" {
					writeFile(t, name, text+"\n")
				}
				o.KnownHosts = append(o.KnownHosts, name)
			}
			p := open(t, o)
			if c.code == "" {
				publish(t, p, newMemorySpool(publisher.LatestName))
				return
			}
			e := refused(t, p, newMemorySpool(publisher.LatestName), c.code)
			if e.Temporary() {
				t.Error("counts as temporary")
			}
			for _, part := range c.hint {
				if !strings.Contains(e.Hint(), part) {
					t.Errorf("hint %q lacks %q", e.Hint(), part)
				}
			}
			// No retry, and nothing sent: one connection, no login.
			if r, _ := open(t, o).Publish(t.Context(), newMemorySpool(publisher.LatestName)); r.Attempts != 1 {
				t.Errorf("%d attempts", r.Attempts)
			}
		})
	}
}

func TestHostKeyOfKnownKindOnly(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{HostKeys: []string{"rsa"}})
	o := toServer(t, s, s.Port)
	other := sshtest.WriteKey(t, filepath.Join(t.TempDir(), "x"), "ed25519", "")
	o.KnownHosts = []string{writeFile(t, filepath.Join(t.TempDir(), "known"),
		fmt.Sprintf("[%s]:%d %s", s.Host, s.Port, ssh.MarshalAuthorizedKey(other)))}
	e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeHostUnknown)
	if !strings.Contains(e.Hint(), "ssh-keyscan") {
		t.Errorf("hint %q", e.Hint())
	}
	s = sshtest.Start(t, sshtest.Options{HostKeys: []string{"rsa"}, Config: "HostKeyAlgorithms ssh-rsa\n"})
	if e := refused(t, open(t, toServer(t, s, s.Port)), newMemorySpool(publisher.LatestName),
		"ssh:algorithm"); !strings.Contains(e.Hint(), "SHA-1") {
		t.Errorf("hint %q", e.Hint())
	}
}

func TestKeys(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	dir := t.TempDir()
	stranger, locked, loose, group := filepath.Join(dir, "stranger"), filepath.Join(dir, "locked"), filepath.Join(dir,
		"loose"), filepath.Join(dir, "group")
	sshtest.WriteKey(t, stranger, "ed25519", "")
	sshtest.WriteKey(t, locked, "ed25519", "secret words")
	sshtest.WriteKey(t, loose, "ed25519", "")
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	sshtest.WriteKey(t, group, "ed25519", "")
	if err := os.Chmod(group, 0o640); err != nil {
		t.Fatal(err)
	}
	garbage := writeFile(t, filepath.Join(dir, "garbage"), "not a key")
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", dir)
	for name, c := range map[string]struct {
		identity []string
		code     string
		text     string
	}{
		"a key the server does not know": {[]string{stranger}, sshclient.CodeAuth, ""},
		"passphrase and no agent":        {[]string{locked}, "ssh:key-passphrase", locked},
		"readable by others":             {[]string{loose}, "ssh:key-mode", loose},
		"readable by the group":          {[]string{group}, "ssh:key-mode", group},
		"missing":                        {[]string{filepath.Join(dir, "absent")}, publisher.CodeKeyUnreadable, "absent"},
		"not a key":                      {[]string{garbage}, publisher.CodeKeyUnreadable, garbage},
		"the public one":                 {[]string{s.Key + ".pub"}, publisher.CodeKeyUnreadable, "this is the public key"},
		"none at all":                    {nil, "ssh:no-key", ""},
		"the right one is locked":        {[]string{stranger, locked}, "ssh:key-passphrase", locked},
	} {
		t.Run(name, func(t *testing.T) {
			o := toServer(t, s, s.Port)
			o.Identity = c.identity
			p := open(t, o)
			e := refused(t, p, newMemorySpool(publisher.LatestName), c.code)
			if e.Temporary() || e.Hint() == "" || !strings.Contains(e.Error(), c.text) {
				t.Errorf("temporary %v, hint %q, message %q", e.Temporary(), e.Hint(), e)
			}
			if r, _ := open(t, o).Publish(t.Context(), newMemorySpool(publisher.LatestName)); r.Attempts != 1 {
				t.Errorf("%d attempts with a key that cannot work", r.Attempts)
			}
		})
	}
	t.Run("the second key fits", func(t *testing.T) {
		o := toServer(t, s, s.Port)
		o.Identity = []string{stranger, loose, s.Key}
		publish(t, open(t, o), newMemorySpool(publisher.LatestName))
	})
}

func TestHostCertificate(t *testing.T) {
	dir := t.TempDir()
	authority := sshtest.WriteKey(t, filepath.Join(dir, "authority"), "ed25519", "")
	raw, err := os.ReadFile(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	certificate := filepath.Join(dir, "host-cert.pub")
	for name, c := range map[string]struct{ principal, code string }{
		"for this host": {"127.0.0.1", ""},
		"for another":   {"elsewhere.example", sshclient.CodeHostUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			// sshd wants the certificate at its start, and the key exists only after it.
			s := sshtest.Start(t, sshtest.Options{Config: "HostCertificate " + certificate + "\n"})
			cert := &ssh.Certificate{Key: s.Public["ed25519"], CertType: ssh.HostCert,
				ValidPrincipals: []string{c.principal}, ValidBefore: ssh.CertTimeInfinity}
			if err := cert.SignCert(rand.Reader, signer); err != nil {
				t.Fatal(err)
			}
			writeFile(t, certificate, string(ssh.MarshalAuthorizedKey(cert)))
			s.Stop()
			s.Restart()
			o := toServer(t, s, s.Port)
			o.KnownHosts = []string{writeFile(t, filepath.Join(t.TempDir(), "known"),
				fmt.Sprintf("@cert-authority [127.0.0.1]:%d %s", s.Port, ssh.MarshalAuthorizedKey(authority)))}
			p := open(t, o)
			if c.code == "" {
				publish(t, p, newMemorySpool(publisher.LatestName))
				return
			}
			refused(t, p, newMemorySpool(publisher.LatestName), c.code)
		})
	}
}
