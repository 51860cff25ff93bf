package publisher_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

// memorySpool is a spool in memory.
type memorySpool struct {
	mu         sync.Mutex
	files      map[string][]byte
	delivered  []string
	unreadable map[string]error // names that cannot be read

	expired, withdrawn []string
}

func newMemorySpool(names ...string) *memorySpool {
	s := &memorySpool{files: map[string][]byte{}}
	for _, name := range names {
		s.files[name] = []byte("content of " + name)
	}
	return s
}

func (s *memorySpool) set(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = data
}

func (s *memorySpool) Pending(string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.files))
	slices.Reverse(names) // "latest" comes after "hour"
	return names, nil
}

func (s *memorySpool) Obsolete(string) []string { return s.expired }

func (s *memorySpool) Withdrawn(_ string, names ...string) error {
	s.withdrawn = append(s.withdrawn, names...)
	return nil
}

func (s *memorySpool) Read(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unreadable[name]; err != nil {
		return nil, err
	}
	return s.files[name], nil
}

func (s *memorySpool) Delivered(_, name string, _ []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delivered = append(s.delivered, name)
	delete(s.files, name)
	return nil
}

var _ publisher.Source = (*spool.Spool)(nil)

// sshConfig resolves hosts with an ssh_config file of the test, as the program does with
// the user's.
func sshConfig(t testing.TB, file string) func(context.Context, string) ([]byte, error) {
	ssh := need.Program(t, "ssh")
	return func(ctx context.Context, host string) ([]byte, error) {
		return exec.CommandContext(ctx, ssh, "-G", "-F", file, "--", host).Output()
	}
}

// toServer are the options for a server of the harness, at another address if
// a proxy stands before it.
func toServer(t testing.TB, s *sshtest.Server, port int) publisher.Options {
	t.Helper()
	known := s.KnownHosts
	if port != s.Port {
		raw, err := os.ReadFile(s.KnownHosts)
		if err != nil {
			t.Fatal(err)
		}
		known = filepath.Join(t.TempDir(), "known_hosts")
		text := strings.ReplaceAll(string(raw), fmt.Sprintf("]:%d ", s.Port), fmt.Sprintf("]:%d ", port))
		if err := os.WriteFile(known, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return publisher.Options{
		Target:     publisher.Target{Scheme: "sftp", User: s.User, Host: s.Host, Port: port},
		Identity:   []string{s.Key},
		KnownHosts: []string{known},
		StateDir:   t.TempDir(),
	}
}

func open(t testing.TB, o publisher.Options) *publisher.Publisher {
	t.Helper()
	if o.StateDir == "" {
		o.StateDir = t.TempDir()
	}
	p, err := publisher.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func publish(t testing.TB, p *publisher.Publisher, src publisher.Source) publisher.Report {
	t.Helper()
	r, err := p.Publish(context.Background(), src)
	if err != nil {
		var e *publisher.Error
		errors.As(err, &e)
		t.Fatalf("publishing: %v (code %s, hint %s)", err, publisher.Code(err), e.Hint())
	}
	return r
}

// refused publishes, expects the code, and returns the error.
func refused(t testing.TB, p *publisher.Publisher, src publisher.Source, code string) *publisher.Error {
	t.Helper()
	return refusedIn(t.Context(), t, p, src, code)
}

// refusedIn does so in a time.
func refusedIn(
	ctx context.Context, t testing.TB, p *publisher.Publisher, src publisher.Source, code string,
) *publisher.Error {
	t.Helper()
	_, err := p.Publish(ctx, src)
	var e *publisher.Error
	if !errors.As(err, &e) {
		t.Fatalf("publishing: got %v, want an error with code %s", err, code)
	}
	if e.Code != code {
		t.Fatalf("publishing: got code %s (%v), want %s", e.Code, err, code)
	}
	return e
}

// content is what a drop holds, by name.
func content(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, entry := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = string(raw)
	}
	return got
}

// eventually waits for something that another process or goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(need.Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// connectionGoroutines counts the goroutines of the libraries' connections.
func connectionGoroutines() int {
	buffer := make([]byte, 4<<20)
	count := 0
	for _, g := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(g, "golang.org/x/crypto/ssh.") || strings.Contains(g, "pkg/sftp.") {
			count++
		}
	}
	return count
}

func pemOf(block *pem.Block) []byte { return pem.EncodeToMemory(block) }
