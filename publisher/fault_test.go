package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
	"gpuboard/publisher/dropbox"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh/knownhosts"
)

// receiver runs our own SFTP server for host gpu01.
func receiver(t testing.TB) (publisher.Options, string) {
	return receiverWith(t, func() time.Time { return time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) })
}

// receiverWith does so with another clock.
func receiverWith(t testing.TB, now func() time.Time) (publisher.Options, string) {
	t.Helper()
	keys, data := t.TempDir(), t.TempDir()
	if _, err := dropbox.GenerateKey(filepath.Join(keys, "gpu01")); err != nil {
		t.Fatal(err)
	}
	if _, err := dropbox.GenerateKey(filepath.Join(keys, "gpu01")); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a second key over the first: %v", err)
	}
	o := publisher.Options{Target: publisher.Target{Scheme: "sftp", User: "gpu01"},
		Identity:   []string{filepath.Join(keys, "gpu01")},
		KnownHosts: []string{filepath.Join(data, "known_hosts")}, StateDir: filepath.Join(t.TempDir(), "made", "here")}
	ctx, cancel := context.WithCancel(context.Background())
	listening, done := make(chan string), make(chan error, 1)
	go func() {
		done <- dropbox.Serve(ctx,
			dropbox.Options{Data: data, Keys: keys, HostKey: filepath.Join(data, "host_key"), Listen: "127.0.0.1:0",
				OnListen: func(addr net.Addr, key, _ string) {
					o.Target.Host, o.Target.Port = "127.0.0.1", addr.(*net.TCPAddr).Port
					listening <- knownhosts.Normalize(addr.String()) + " " + key + "\n"
				},
				Now: now,
			})
	}()
	if err := os.WriteFile(o.KnownHosts[0], []byte(<-listening), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return o, filepath.Join(data, "drop", "gpu01")
}

const (
	// testBudget is for pushes that must fail.
	testBudget = 2 * time.Second
	// healBudget is for pushes that find a dead connection and must succeed: a
	// quarter of it goes to noticing.
	healBudget = 12 * time.Second
	// vanishedBudget is for ten of them at once.
	vanishedBudget = 40 * time.Second
	// leeway is for a busy machine; a call that hangs would take for ever.
	leeway = need.Patience
)

// within runs one push that must fail with a code when testBudget is over.
func within(t *testing.T, p *publisher.Publisher, src publisher.Source, code string) {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), testBudget)
	defer cancel()
	e := refusedIn(ctx, t, p, src, code)
	if took := time.Since(begin); took > testBudget+leeway {
		t.Errorf("took %v with a budget of %v", took, testBudget)
	}
	if !e.Temporary() {
		t.Errorf("%s does not count as temporary", code)
	}
	begin = time.Now()
	p.Close()
	if took := time.Since(begin); took > time.Second+leeway {
		t.Errorf("Close took %v", took)
	}
	eventually(t, "no goroutine is left", func() bool { return connectionGoroutines() == 0 })
}

func TestServerThatStopsAnswering(t *testing.T) {
	for name, freeze := range map[string]func(s *sshtest.Server) []int{
		"all processes of the session": func(s *sshtest.Server) []int { return s.Sessions() },
		"only the process for SFTP":    func(s *sshtest.Server) []int { return s.SFTP() },
	} {
		t.Run(name, func(t *testing.T) {
			s := sshtest.Start(t, sshtest.Options{})
			o := toServer(t, s, s.Port)
			o.Keep, o.Budget = true, healBudget
			p := open(t, o)
			src := newMemorySpool(publisher.LatestName)
			publish(t, p, src)
			resume := s.Freeze(freeze(s)...)
			src.set(publisher.LatestName, []byte("second"))
			// The listener is well: the same push drops the dead connection and dials anew.
			r := publish(t, p, src)
			if r.Dialed != 1 || r.Attempts != 2 || content(t, s.Dir)[publisher.LatestName] != "second" {
				t.Errorf("report = %+v", r)
			}
			// Once the stopped processes go on, nothing they do late may hurt.
			resume()
			src.set(publisher.LatestName, []byte("third"))
			publish(t, p, src)
			if got := content(t, s.Dir); got[publisher.LatestName] != "third" {
				t.Errorf("the drop holds %v", got)
			}
			p.Close()
			eventually(t, "no goroutine is left", func() bool { return connectionGoroutines() == 0 })
		})
	}
	t.Run("listener and session", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		o := toServer(t, s, s.Port)
		o.Keep = true
		p := open(t, o)
		src := newMemorySpool(publisher.LatestName)
		publish(t, p, src)
		s.Freeze(append(s.Sessions(), s.PID())...)
		src.set(publisher.LatestName, []byte("second"))
		within(t, p, src, sshclient.CodeTimeout)
		if src.files[publisher.LatestName] == nil {
			t.Error("an undelivered file was marked as delivered")
		}
	})
	t.Run("listener before the banner", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		s.Freeze(s.PID())
		o := toServer(t, s, s.Port)
		o.Budget = testBudget
		within(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeTimeout)

		// Waiting for the banner has its own limit, which leaves time to try again.
		o.Budget = 4 * time.Second
		o.ResolveConfig = sshConfig(t,
			writeFile(t, filepath.Join(t.TempDir(), "config"), "Host *\n ConnectTimeout 1\n"))
		p := open(t, o)
		refused(t, p, newMemorySpool(publisher.LatestName), sshclient.CodeTimeout)
		if r, _ := p.Publish(t.Context(), newMemorySpool(publisher.LatestName)); r.Attempts < 2 {
			t.Errorf("%d attempts", r.Attempts)
		}
	})
}

func TestLostPackets(t *testing.T) {
	t.Run("at connect", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		proxy := sshtest.NewProxy(t, s.Addr)
		proxy.BlackHole()
		o := toServer(t, s, proxy.Port)
		o.Budget = testBudget
		within(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeTimeout)
	})
	t.Run("established", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		proxy := sshtest.NewProxy(t, s.Addr)
		o := toServer(t, s, proxy.Port)
		o.Keep = true
		p := open(t, o)
		src := newMemorySpool(publisher.LatestName)
		publish(t, p, src)
		proxy.BlackHole()
		src.set(publisher.LatestName, []byte("second"))
		within(t, p, src, sshclient.CodeTimeout)
	})
	t.Run("heals within the budget", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		proxy := sshtest.NewProxy(t, s.Addr)
		o := toServer(t, s, proxy.Port)
		o.Budget, o.Keep = healBudget, true
		p := open(t, o)
		src := newMemorySpool(publisher.LatestName)
		publish(t, p, src)
		proxy.BlackHole() // the kept line is dead, as after a NAT box forgot it
		proxy.Heal()
		src.set(publisher.LatestName, []byte("second"))
		if r := publish(t, p, src); r.Dialed != 1 {
			t.Errorf("report = %+v", r)
		}
	})
	t.Run("the server restarts between two pushes", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		o := toServer(t, s, s.Port)
		o.Keep = true
		p := open(t, o)
		publish(t, p, newMemorySpool(publisher.LatestName))
		s.Stop()
		s.Restart()
		if r := publish(t, p, newMemorySpool(publisher.LatestName)); r.Attempts != 2 || r.Dialed != 1 {
			t.Errorf("report = %+v", r)
		}
	})
}

func TestSlowConnectionTimesOut(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	proxy := sshtest.NewProxy(t, s.Addr)
	proxy.SetTrickle(50 * time.Millisecond)
	o := toServer(t, s, proxy.Port)
	o.Budget = testBudget
	within(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeTimeout)
}

func TestCancelledAndRefusedConnections(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	proxy := sshtest.NewProxy(t, s.Addr)
	proxy.BlackHole()
	p := open(t, toServer(t, s, proxy.Port))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := p.Publish(ctx, newMemorySpool(publisher.LatestName)); publisher.Code(err) != sshclient.CodeCancelled {
		t.Errorf("cancelled: got %v", err)
	}
	s.Stop()
	o := toServer(t, s, s.Port)
	o.Budget = testBudget
	if e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), sshclient.CodeRefused); !e.Temporary() ||
		!strings.Contains(e.Hint(), "-P ") {
		t.Errorf("temporary %v, hint %q", e.Temporary(), e.Hint())
	}
}

func TestLineCutAtEveryPlace(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	proxy := sshtest.NewProxy(t, s.Addr)
	o := toServer(t, s, proxy.Port)
	first := sealed(0)
	src := newMemorySpool()
	src.set(publisher.LatestName, first)
	publish(t, open(t, o), src)
	up, _, _ := proxy.Counted()
	failures := 0
	for cut := int64(100); cut < up; cut += up / 12 {
		proxy.CutAfter(cut)
		p := open(t, o)
		src.set(publisher.LatestName, sealed(int(cut)))
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		if _, err := p.Publish(ctx, src); err != nil {
			failures++
		}
		cancel()
		p.Close()
		if got := content(t, s.Dir)[publisher.LatestName]; !whole([]byte(got)) {
			t.Fatalf("cut after %d bytes: the drop holds a torn file of %d bytes", cut, len(got))
		}
	}
	if failures == 0 {
		t.Fatal("the line was never cut")
	}
	proxy.CutAfter(-1)
	src.set(publisher.LatestName, []byte("whole again"))
	publish(t, open(t, o), src)
	got := content(t, s.Dir)
	if got[publisher.LatestName] != "whole again" || len(got) != 1 {
		names := []string{}
		for name := range got {
			names = append(names, name)
		}
		t.Errorf("after healing the drop holds %v", names)
	}
	if left := content(t, o.StateDir); len(left) != 0 {
		t.Errorf("upload records left behind: %v", left)
	}
}

func TestErrorsWrap(t *testing.T) {
	e := &publisher.Error{Code: sshclient.CodeAuth, Advice: "h", Err: errors.New("inner")}
	if !errors.Is(e, e.Err) || e.Error() != "inner" || publisher.Code(fmt.Errorf("outer: %w", e)) != sshclient.CodeAuth ||
		publisher.Code(e.Err) != "" {
		t.Errorf("%v", e)
	}
}

// TestKeyOfAnotherNode: two nodes with one key do not replace each other's bundles, and the
// second one is told why.
func TestKeyOfAnotherNode(t *testing.T) {
	var seconds atomic.Int64
	o, drop := receiverWith(t,
		func() time.Time { return time.Date(2026, 11, 20, 8, 0, int(seconds.Load()), 0, time.UTC) })
	bundle := func(host string) *memorySpool {
		s := &snapshot.Snapshot{Host: host, BootID: "aaaaaaaa-1111-4222-8333-444455556666", Seq: 1,
			CollectedAt: snapshot.Time{Time: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}}
		data, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: host, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		src := newMemorySpool()
		src.set(publisher.LatestName, data)
		return src
	}
	publish(t, open(t, o), bundle("gpu01"))
	before := content(t, drop)
	o.Host = "gpu02"
	e := refused(t, open(t, o), bundle("gpu02"), publisher.CodeRemoteDenied)
	if e.Temporary() || !strings.Contains(e.Error(), "this key is for gpu01, and the file is of gpu02") ||
		!strings.Contains(e.Hint(), "a key of its own") {
		t.Errorf("temporary %v, %v, hint %q", e.Temporary(), e, e.Hint())
	}
	if diff := cmp.Diff(before, content(t, drop)); diff != "" {
		t.Errorf("the drop changed (-want +got):\n%s", diff)
	}

	// The node has another name now: what the hint says, on the web host.
	_, mv, _ := strings.Cut(e.Hint(), "on the web host: ")
	mv, _, _ = strings.Cut(mv, ";")
	rename := exec.Command("sh", "-c", mv)
	rename.Dir = filepath.Dir(o.Identity[0])
	if out, err := rename.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", e.Hint(), err, out)
	}
	seconds.Add(10) // until the server reads the keys again
	publish(t, open(t, o), bundle("gpu02"))
}

// TestWebServerAtThePort: a web server that is named by its port is called one, with what is to be named instead.
func TestWebServerAtThePort(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	o := toServer(t, s, web.Listener.Addr().(*net.TCPAddr).Port)
	e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), "ssh:handshake")
	want := o.Target
	want.Port = 0
	if e.Temporary() || !strings.Contains(e.Error(), "this is a web server") ||
		!strings.Contains(e.Hint(), "--to "+want.String()+";") {
		t.Errorf("temporary %v, %v, hint %q", e.Temporary(), e, e.Hint())
	}
}
