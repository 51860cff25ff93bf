package dropbox

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// box is a running server and the keys of its nodes.
type box struct {
	addr, data, keys string
	host             ssh.PublicKey
	stop             func() error
	log              *log
}

// A log is what the server has logged so far.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// has waits until the log has a line with all these words.
func (l *log) has(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, strings.Join(words, " ")+" in the log", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for line := range strings.Lines(l.text.String()) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				return true
			}
		}
		return false
	})
}

var testNow = time.Date(2026, 11, 20, 6, 30, 0, 0, time.UTC)

func testClock() time.Time { return testNow }

func start(t *testing.T, limits Limits, hosts ...string) *box {
	t.Helper()
	return startAt(t, limits, testClock, hosts...)
}

func startAt(t *testing.T, limits Limits, now func() time.Time, hosts ...string) *box {
	t.Helper()
	b := &box{data: t.TempDir(), keys: t.TempDir(), log: &log{}}
	for _, host := range hosts {
		sshtest.WriteKey(t, filepath.Join(b.keys, host), "ed25519", "")
	}
	listening := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, Options{
			Data: b.data, Keys: b.keys, HostKey: filepath.Join(b.data, "host_key"), Listen: "127.0.0.1:0",
			Limits: withDefaults(limits),
			Now:    now, Log: slog.New(slog.NewTextHandler(b.log, nil)),
			OnListen: func(addr net.Addr, key, _ string) {
				b.addr = addr.String()
				b.host, _, _, _, _ = ssh.ParseAuthorizedKey([]byte(key))
				close(listening)
			},
		})
	}()
	var result error
	ended := false
	b.stop = func() error {
		cancel()
		if !ended {
			result, ended = <-done, true
		}
		return result
	}
	select {
	case <-listening:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return b
}

// withDefaults returns limits with the defaults in place of zeros.
func withDefaults(l Limits) Limits {
	d := DefaultLimits()
	setDefault(&l.FileBytes, d.FileBytes)
	setDefault(&l.DropBytes, d.DropBytes)
	setDefault(&l.DropFiles, d.DropFiles)
	setDefault(&l.Connections, d.Connections)
	setDefault(&l.PerHost, d.PerHost)
	setDefault(&l.Handshakes, d.Handshakes)
	setDefault(&l.SourceHandshakes, d.SourceHandshakes)
	setDefault(&l.HandshakeTimeout, d.HandshakeTimeout)
	setDefault(&l.IdleTimeout, d.IdleTimeout)
	return l
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

func (b *box) login(t *testing.T, key string) (*ssh.Client, error) {
	t.Helper()
	return b.loginFrom(t, "127.0.0.1", key)
}

func (b *box) loginFrom(t *testing.T, address, key string) (*ssh.Client, error) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.keys, key))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := b.dialFrom(address)
	if err != nil {
		return nil, err
	}
	own, channels, requests, err := ssh.NewClientConn(conn, b.addr,
		&ssh.ClientConfig{User: "anybody", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
			HostKeyCallback: ssh.FixedHostKey(b.host)})
	if err != nil {
		conn.Close()
		return nil, err
	}
	client := ssh.NewClient(own, channels, requests)
	t.Cleanup(func() { client.Close() })
	return client, nil
}

// dialFrom connects from an address of this machine.
func (b *box) dialFrom(address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: need.Patience}
	return d.Dial("tcp", b.addr)
}

func (b *box) open(t *testing.T, host string) *sftp.Client {
	t.Helper()
	client, err := b.login(t, host)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sftp.NewClient(client)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *box) drop(host string) string { return filepath.Join(b.data, "drop", host) }

func put(c *sftp.Client, temp, name string, data []byte) error {
	f, err := c.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return fmt.Errorf("write: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := c.PosixRename(temp, name); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	return nil
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	return got
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(need.Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}
