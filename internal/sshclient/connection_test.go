package sshclient

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/testenv/sshtest"
)

// What can be wrong with a file of host keys, and what a hint tells to type.
func TestFilesOfHostKeys(t *testing.T) {
	dir := t.TempDir()
	large, file := filepath.Join(dir, "large"), writeFile(t, filepath.Join(dir, "file"), "")
	writeFile(t, large, "")
	if err := os.Truncate(large, 16<<20+1); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ hint, text string }{
		large:                      {"smaller", "larger than 16777216 bytes"},
		dir:                        {"name a file", "is not a file"},
		filepath.Join(file, "sub"): {"make it readable", "not a directory"},
		os.DevNull:                 {"", ""},
		filepath.Join(dir, "not"):  {"", ""},
	} {
		keys, err := loadHostKeys(settings{globalKnown: []string{file, name}})
		var e *Error
		if c.text == "" {
			if err != nil || keys.addTo != "~/.ssh/known_hosts" {
				t.Errorf("%s: %+v, %v", name, keys, err)
			}
		} else if !errors.As(err, &e) || e.Code != CodeKnownHosts || !strings.Contains(e.Hint(), c.hint) ||
			!strings.Contains(e.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := settings{host: "web", port: 22, userKnown: []string{"/h/a b", "/h/c"}}
	keys, err := loadHostKeys(s)
	if err != nil {
		t.Fatal(err)
	}
	var e *Error
	err = keys.check(s, &net.TCPAddr{}, sshtest.WriteKey(t, filepath.Join(dir, "key"), "ed25519", ""))
	if !errors.As(err, &e) || e.Code != CodeHostUnknown ||
		!strings.Contains(e.Hint(), "ssh-keyscan -p 22 web >> '/h/a b'  (") ||
		!strings.Contains(e.Error(), "(/h/a b)") {
		t.Errorf("%v, hint %q", err, e.Hint())
	}
	if got := keys.algorithms(s); got != nil {
		t.Errorf("without a file: %q", got)
	}
	s.userKnown = []string{writeFile(t, filepath.Join(dir, "rsa"),
		"web "+string(ssh.MarshalAuthorizedKey(sshtest.WriteKey(t, filepath.Join(dir, "r"), "rsa", ""))))}
	if keys, err = loadHostKeys(s); err != nil {
		t.Fatal(err)
	}
	if got := keys.algorithms(s); !slices.Contains(got, ssh.KeyAlgoRSASHA256) || slices.Contains(got, ssh.KeyAlgoRSA) ||
		slices.Contains(got, ssh.CertAlgoRSAv01) {
		t.Errorf("for an RSA key: %q", got)
	}
}

// The keys that are offered, in their order.
func TestKeysThatAreOffered(t *testing.T) {
	dir := t.TempDir()
	key := func(name, passphrase string) string {
		sshtest.WriteKey(t, filepath.Join(dir, name), "ed25519", passphrase)
		return filepath.Join(dir, name)
	}
	one, two, locked, loose, absent := key("one", ""), key("two", ""), key("locked", "secret"), key("loose",
		""), filepath.Join(dir, "absent")
	large := writeFile(t, filepath.Join(dir, "large"), strings.Repeat("x", 64<<10+1))
	if err := os.Chmod(loose, 0o604); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files    []string
		explicit bool
		offered  int
		problems string // their codes
		code     string
	}{
		{[]string{one, two, one}, true, 2, "", ""},
		{[]string{absent, one}, false, 1, "", ""},
		{[]string{absent, one}, true, 1, CodeKeyUnreadable, ""},
		{[]string{locked, loose, large, one}, false, 1,
			"ssh:key-passphrase" + " " + "ssh:key-mode" + " " + CodeKeyUnreadable, ""},
		{[]string{loose, locked}, false, 0, "", "ssh:key-mode"},
		{[]string{absent}, false, 0, "", "ssh:no-key"},
		{[]string{absent}, true, 0, "", CodeKeyUnreadable},
	} {
		ids, err := loadIdentities(settings{identity: c.files, explicitKeys: c.explicit}, time.Time{})
		if Code(err) != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%q: %v", c.files, err)
		}
		if err != nil {
			continue
		}
		var problems []string
		for _, problem := range ids.problems {
			problems = append(problems, problem.Code)
		}
		if got := strings.Join(problems, " "); len(ids.signers) != c.offered || got != c.problems {
			t.Errorf("%q: %d keys are offered, problems %q; want %d, %q", c.files, len(ids.signers), got, c.offered,
				c.problems)
		}
	}
}

func TestLoginBackoff(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	refused := Permanent(CodeAuth, "", "no")
	refused.LoginRefused = true
	lost := &Error{Code: CodeLost, Err: errors.New("lost")}
	var h Backoff
	h.Record(lost, now)
	if err := h.Check(now); err != nil {
		t.Errorf("after a lost connection: %v", err)
	}
	for n, want := range []time.Duration{30, 60, 120, 240, 300, 300} {
		h.Record(refused, now)
		want *= time.Second
		err, says := h.Check(now.Add(want-time.Second)), "no; the next login is at "+now.Add(want).Format(time.RFC3339)
		if err == nil || err.Error() != says || Code(err) != CodeAuth || h.Check(now.Add(want)) != nil {
			t.Errorf("refusal %d holds for %v, want %v: %v, want %s", n+1, h.pause, want, err, says)
		}
		if h.Check(now.Add(-time.Hour)) != nil {
			t.Error("the clock was set back, and the pause got longer")
		}
		now = now.Add(want)
	}
	h.Record(lost, now) // the server is away: that says nothing about the key
	h.Record(refused, now)
	if h.pause != maxLoginPause {
		t.Errorf("after a lost connection in between: %v", h.pause)
	}
	h.Record(nil, now)
	if h.Check(now) != nil || h.pause != 0 {
		t.Errorf("after a login: %+v", h)
	}
}

// A hint names the port, the keys and the files of host keys of the connection.
func TestCommandByHand(t *testing.T) {
	for want, o := range map[string]Options{
		"sftp web": {Program: "sftp", Host: "web"},
		"sftp -i /k -i '/a b' -o UserKnownHostsFile='/x /y' -P 2222 u@web": {Program: "sftp", Host: "web", User: "u",
			Port:     2222,
			Identity: []string{"/k", "/a b"}, KnownHosts: []string{"/x", "/y"}},
		"ssh -o BatchMode=yes -p 2222 u@web true": {Program: "ssh", Host: "web", User: "u", Port: 2222},
	} {
		if got := o.command(""); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestCodesOfRareFailures: what no server of the tests does by itself.
func TestCodesOfRareFailures(t *testing.T) {
	noName := &net.DNSError{Err: "no such host", Name: "web.example.org", IsNotFound: true}
	for want, err := range map[string]error{"ssh:resolve": noName,
		"ssh:handshake": errors.New("ssh: no common tongue")} {
		if e := (Options{}).Explain(t.Context(), nil, "connecting", err); e.Code != want || e.Hint() == "" ||
			!e.Temporary() {
			t.Errorf("%s (%v), hint %q, temporary %v", e.Code, e, e.Hint(), e.Temporary())
		}
	}
	if e := (Options{}).Explain(t.Context(), nil, "connecting", noName); e.Retry {
		t.Error("a name that does not exist is asked for again at once")
	}
}

// TestSilentServer: a server that says nothing at the port of HTTPS is one of the web.
func TestSilentServer(t *testing.T) {
	for port, want := range map[int]string{443: "ssh:handshake", 22: CodeLost} { // TLS says nothing to a greeting of SSH
		e := &Error{Code: CodeLost}
		if (Options{Port: port}).explainRejection(Watch(nil), e, "web"); e.Code != want {
			t.Errorf("port %d: %s", port, e.Code)
		}
	}
}

// After a write has failed no answer is waited for.
func TestWatchedConn(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		do              func(*watchedConn) error
		timedOut, broke bool
	}{
		"a read that takes too long": {func(c *watchedConn) error {
			c.SetDeadline(past)
			_,
				err := c.Read(make([]byte, 1))
			return err
		}, true, false},
		"a write that takes too long": {func(c *watchedConn) error {
			c.SetDeadline(past)
			_,
				err := c.Write(make([]byte, 1))
			return err
		}, true, true},
		"a write to a closed end": {func(c *watchedConn) error {
			c.Conn.Close()
			_,
				err := c.Write(make([]byte, 1))
			return err
		}, false, true},
	} {
		near, far := net.Pipe()
		conn := &watchedConn{Conn: near}
		if err := c.do(conn); err == nil || conn.timedOut.Load() != c.timedOut || conn.broke.Load() != c.broke {
			t.Errorf("%s: %v, timed out: %v, broke: %v", name, err, conn.timedOut.Load(), conn.broke.Load())
		}
		if closed := errors.Is(conn.SetDeadline(time.Time{}), io.ErrClosedPipe); closed != c.broke {
			t.Errorf("%s: closed: %v, want %v", name, closed, c.broke)
		}
		far.Close()
		near.Close()
	}
}
