package dropbox

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func TestUnknownKeysAreRefused(t *testing.T) {
	b := start(t, Limits{}, "gpu01")
	stranger := sshtest.WriteKey(t, filepath.Join(b.keys, "stranger"), "ed25519", "")
	os.Remove(filepath.Join(b.keys, "stranger.pub"))
	for n := range 3 {
		if _, err := b.login(t, "stranger"); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
			t.Fatalf("login %d: got %v", n, err)
		}
	}
	b.log.has(t, "refusing a key", "127.0.0.1", ssh.FingerprintSHA256(stranger))
	if _, err := b.login(t, "gpu01"); err != nil {
		t.Errorf("a known key at the same address: %v", err)
	}
}

func TestLimitsOfConnections(t *testing.T) {
	t.Run("per host", func(t *testing.T) {
		b := start(t, Limits{PerHost: 2}, "gpu01", "gpu02")
		b.open(t, "gpu01")
		b.open(t, "gpu01")
		client, err := b.login(t, "gpu01")
		if err == nil {
			_, err = sftp.NewClient(client)
		}
		if err == nil || !strings.Contains(err.Error(), "too many connections of this host") {
			t.Errorf("a third connection: %v", err)
		}
		b.log.has(t, "WARN", "too many connections of this host", "gpu01")
		b.open(t, "gpu02")
	})
	t.Run("silence before login", func(t *testing.T) {
		b := start(t, Limits{HandshakeTimeout: 50 * time.Millisecond}, "gpu01")
		ended(t, b.addr)
	})
	t.Run("silence after login", func(t *testing.T) {
		b := start(t, Limits{IdleTimeout: 100 * time.Millisecond}, "gpu01")
		client, err := b.login(t, "gpu01")
		if err != nil {
			t.Fatal(err)
		}
		client.Wait() // returns when the server hangs up; the test's own time limit is the alarm
	})
}

// ended waits until the server hangs up on a client that says nothing.
func ended(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(need.Patience))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server does not hang up")
	}
}

func TestAuthorizedKeys(t *testing.T) {
	dir := t.TempDir()
	keys := map[string]ssh.PublicKey{}
	line := func(name string) string {
		keys[name] = sshtest.WriteKey(t, filepath.Join(t.TempDir(), name), "ed25519", "")
		return string(ssh.MarshalAuthorizedKey(keys[name]))
	}
	a, b, shared := line("a"), line("b"), line("shared")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("gpu01.pub", "# a comment\n"+a)
	write("gpu02.pub", shared)
	write("gpu03.pub", "not a key\n")
	write("..x.pub", b)
	write("GPU04.pub", b)
	write("gpu05.pub", "\n"+b)
	write("gpu06.pub", shared)
	write("gpu08.pub", "not a key\n"+line("behind"))
	write("gpu07.pub", "from=\"1.2.3.4\" "+line("from"))
	now := testNow
	known := &authorizedKeys{dir: dir, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}
	if err := known.check(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, key := range keys {
		if host, ok := known.host(key); ok {
			got[name] = host
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "gpu01", "b": "gpu05", "behind": "gpu08"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	_, problems := known.load()
	if len(problems) != 5 {
		t.Errorf("%d problems, want 5: %v", len(problems), problems)
	}
	// A key that is taken away stops working.
	os.Remove(filepath.Join(dir, "gpu01.pub"))
	now = now.Add(reloadAfter)
	if host, ok := known.host(keys["a"]); ok {
		t.Errorf("a removed key still stands for %s", host)
	}
}

// TestManyKeys: what is left out of a directory with too many keys is said.
func TestManyKeys(t *testing.T) {
	dir := t.TempDir()
	const inFile = 150
	for first := 0; first <= maxHosts; first += inFile {
		var lines []byte
		for i := first; i <= min(maxHosts, first+inFile-1); i++ {
			raw := make([]byte, ed25519.PublicKeySize)
			binary.BigEndian.PutUint32(raw, uint32(i))
			key, err := ssh.NewPublicKey(ed25519.PublicKey(raw))
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, ssh.MarshalAuthorizedKey(key)...)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("gpu%05d.pub", first)), lines, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hosts, problems := (&authorizedKeys{dir: dir}).load()
	if len(hosts) != maxHosts || len(problems) != 1 || !strings.Contains(problems[0].Error(), "more than 10000 keys") {
		t.Errorf("%d keys, problems %v", len(hosts), problems)
	}
}

// deadlines is a connection that notes its deadlines.
type deadlines struct {
	net.Conn
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }
func (d *deadlines) Read(b []byte) (int, error)         { return len(b), nil }
func (d *deadlines) Write(b []byte) (int, error)        { return len(b), nil }

// TestDeadlines: reads and writes after the login have deadlines, which a busy connection never
// meets. During the login the one for all of it stays.
func TestDeadlines(t *testing.T) {
	raw := &deadlines{}
	conn := &timeoutConn{Conn: raw}
	for _, idle := range []time.Duration{0, time.Hour} {
		conn.idle.Store(int64(idle))
		before := time.Now()
		conn.Read(make([]byte, 1))
		conn.Write(make([]byte, 1))
		if set := !raw.read.Before(before.Add(time.Hour)); set != (idle > 0) {
			t.Errorf("idle for at most %v: a read ends at %v", idle, raw.read)
		}
		if set := !raw.write.Before(before.Add(writeTimeout)); set != (idle > 0) {
			t.Errorf("idle for at most %v: a write ends at %v", idle, raw.write)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		conn := &timeoutConn{Conn: raw}
		conn.idle.Store(int64(time.Minute))
		for range 100 {
			conn.Read(make([]byte, 1))
			conn.Write(make([]byte, 1))
			if left := time.Until(raw.read); left < time.Minute*7/8 || left > time.Minute {
				t.Fatalf("a read has %v of %v", left, time.Minute)
			}
			if left := time.Until(raw.write); left < writeTimeout*7/8 || left > writeTimeout {
				t.Fatalf("a write has %v of %v", left, writeTimeout)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestStartRefusals(t *testing.T) {
	keys := t.TempDir()
	sshtest.WriteKey(t, filepath.Join(keys, "gpu01"), "ed25519", "")
	open := filepath.Join(t.TempDir(), "open_key")
	sshtest.WriteKey(t, open, "ed25519", "")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "host_key")
	for name, o := range map[string]Options{
		"no keys named":        {Data: t.TempDir(), HostKey: fresh},
		"no key there":         {Data: t.TempDir(), HostKey: fresh, Keys: t.TempDir()},
		"no data directory":    {Data: filepath.Join(t.TempDir(), "absent"), HostKey: fresh, Keys: keys},
		"host key for all":     {Data: t.TempDir(), HostKey: open, Keys: keys},
		"no host key named":    {Data: t.TempDir(), Keys: keys},
		"not an address":       {Data: t.TempDir(), HostKey: fresh, Keys: keys, Listen: "127.0.0.1:99999"},
		"host key not a key":   {Data: t.TempDir(), HostKey: filepath.Join(keys, "gpu01.pub"), Keys: keys},
		"host key a directory": {Data: t.TempDir(), HostKey: keys, Keys: keys},
	} {
		o.Now = time.Now
		if err := Serve(context.Background(), o); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

func FuzzAuthorizedKeys(f *testing.F) {
	f.Add("gpu01", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKZd3l3VQkJyPKcLWjYPYfTt5rjIuH8+z0xQ5rY0p0aB x\n")
	f.Add("GPU01", "# nothing\n\nfrom= x\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		dir := t.TempDir()
		if os.WriteFile(filepath.Join(dir, filepath.Base(name+".pub")), []byte(text), 0o600) != nil {
			return // no name of a file
		}
		hosts, _ := (&authorizedKeys{dir: dir}).load()
		for _, host := range hosts {
			if name, err := snapshot.ParseHost(host); err != nil || name != host || filepath.Base(host) != host ||
				strings.HasPrefix(host, ".") {
				t.Errorf("a key stands for %q", host)
			}
		}
	})
}

func FuzzDropName(f *testing.F) {
	for _, s := range []string{"latest.json.gz", "../x", "/.tmp-1", ".tmp-..", "hour-20261120T05-b1.jsonl.gz",
		"a/../.tmp-1", "\x00"} {
		f.Add(s)
	}
	s := &session{now: func() time.Time { return testNow }}
	f.Fuzz(func(t *testing.T, p string) {
		name := plain(p)
		if tempName().MatchString(name) || s.final(name) || expired(name, s.now()) {
			if name != filepath.Base(name) || name == "." || name == ".." || strings.ContainsAny(name, "/\x00\n") {
				t.Errorf("%q becomes the name %q", p, name)
			}
		}
	})
}

// TestStopEndsEverySession: nothing half-written stays behind.
func TestStopEndsEverySession(t *testing.T) {
	b := start(t, Limits{}, "gpu01", "gpu02")
	c, idle := b.open(t, "gpu01"), b.open(t, "gpu02")
	f, err := c.OpenFile(".tmp-1", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if left := names(t, b.drop("gpu01")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := idle.OpenFile(".tmp-2", os.O_WRONLY|os.O_CREATE|os.O_EXCL); err == nil {
		t.Error("an idle session outlives the server")
	}
}
