package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/sshtest"
	"gpuboard/publisher/dropbox"

	"golang.org/x/crypto/ssh/knownhosts"
)

// receiver runs our own SFTP server for host gpu01.
func receiver(t testing.TB) (Options, string) {
	t.Helper()
	keys, data := t.TempDir(), t.TempDir()
	if _, err := GenerateKey(filepath.Join(keys, "gpu01")); err != nil {
		t.Fatal(err)
	}
	if _, err := GenerateKey(filepath.Join(keys, "gpu01")); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a second key over the first: %v", err)
	}
	o := Options{Target: Target{Scheme: "sftp", User: "gpu01"}, Identity: []string{filepath.Join(keys, "gpu01")},
		KnownHosts: []string{filepath.Join(data, "known_hosts")}, ConfigFiles: []string{}, StateDir: filepath.Join(t.TempDir(), "made", "here")}
	ctx, cancel := context.WithCancel(context.Background())
	listening, done := make(chan string), make(chan error, 1)
	go func() {
		done <- dropbox.Serve(ctx, dropbox.Options{Data: data, Keys: keys, HostKey: filepath.Join(data, "host_key"), Listen: "127.0.0.1:0",
			OnListen: func(addr net.Addr, key string) {
				o.Target.Host, o.Target.Port = "127.0.0.1", addr.(*net.TCPAddr).Port
				listening <- knownhosts.Normalize(addr.String()) + " " + key + "\n"
			},
			Now: func() time.Time { return time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) },
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
	testBudget = 2 * time.Second
	// leeway is for a busy machine; a call that hangs would take for ever.
	leeway = 8 * time.Second
)

// within runs one push that must fail with a code before its budget is long over.
func within(t *testing.T, p *Publisher, src Source, code string) {
	t.Helper()
	begin := time.Now()
	e := refused(t, p, src, code)
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
	eventually(t, "no goroutine is left", func() bool { return ours() == 0 })
}

func TestServerThatStopsAnswering(t *testing.T) {
	for name, freeze := range map[string]func(s *sshtest.Server) []int{
		"all processes of the session": func(s *sshtest.Server) []int { return s.Sessions() },
		"only the process for SFTP":    func(s *sshtest.Server) []int { return s.SFTP() },
	} {
		t.Run(name, func(t *testing.T) {
			s := sshtest.Start(t, sshtest.Options{})
			o := toServer(t, s, s.Port)
			o.Keep, o.Budget = true, testBudget
			p := open(t, o)
			src := newShelf(LatestName)
			publish(t, p, src)
			thaw := s.Freeze(freeze(s)...)
			src.set(LatestName, []byte("second"))
			// The listener is well: the same push drops the dead connection and dials anew.
			r := publish(t, p, src)
			if r.Dialed != 1 || r.Attempts != 2 || content(t, s.Dir)[LatestName] != "second" {
				t.Errorf("report = %+v", r)
			}
			// Once the stopped processes go on, nothing they do late may hurt.
			thaw()
			src.set(LatestName, []byte("third"))
			publish(t, p, src)
			if got := content(t, s.Dir); got[LatestName] != "third" {
				t.Errorf("the drop holds %v", got)
			}
			p.Close()
			eventually(t, "no goroutine is left", func() bool { return ours() == 0 })
		})
	}
	t.Run("listener and session", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		o := toServer(t, s, s.Port)
		o.Keep, o.Budget = true, testBudget
		p := open(t, o)
		src := newShelf(LatestName)
		publish(t, p, src)
		s.Freeze(append(s.Sessions(), s.PID())...)
		src.set(LatestName, []byte("second"))
		within(t, p, src, CodeTimeout)
		if src.files[LatestName] == nil {
			t.Error("an undelivered file was marked as delivered")
		}
	})
	t.Run("listener before the banner", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		s.Freeze(s.PID())
		o := toServer(t, s, s.Port)
		o.Budget = testBudget
		within(t, open(t, o), newShelf(LatestName), CodeTimeout)
	})
}

func TestBlackHole(t *testing.T) {
	t.Run("at connect", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		proxy := sshtest.NewProxy(t, s.Addr)
		proxy.BlackHole()
		o := toServer(t, s, proxy.Port)
		o.Budget = testBudget
		within(t, open(t, o), newShelf(LatestName), CodeTimeout)
	})
	t.Run("established", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		proxy := sshtest.NewProxy(t, s.Addr)
		o := toServer(t, s, proxy.Port)
		o.Budget, o.Keep = testBudget, true
		p := open(t, o)
		src := newShelf(LatestName)
		publish(t, p, src)
		proxy.BlackHole()
		src.set(LatestName, []byte("second"))
		within(t, p, src, CodeTimeout)
	})
	t.Run("heals within the budget", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		proxy := sshtest.NewProxy(t, s.Addr)
		o := toServer(t, s, proxy.Port)
		o.Budget, o.Keep = testBudget, true
		p := open(t, o)
		src := newShelf(LatestName)
		publish(t, p, src)
		proxy.BlackHole() // the kept line is dead, as after a NAT box forgot it
		proxy.Heal()
		src.set(LatestName, []byte("second"))
		if r := publish(t, p, src); r.Dialed != 1 {
			t.Errorf("report = %+v", r)
		}
	})
	t.Run("idle connection", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		o := toServer(t, s, s.Port)
		o.Keep, o.keepalive = true, 20*time.Millisecond
		p := open(t, o)
		publish(t, p, newShelf(LatestName))
		s.Stop()
		eventually(t, "the keepalive notices", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.link == nil
		})
		s.Restart()
		if r := publish(t, p, newShelf(LatestName)); r.Attempts != 1 || r.Dialed != 1 {
			t.Errorf("report = %+v", r)
		}
	})
}

func TestOneByteAtATime(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	proxy := sshtest.NewProxy(t, s.Addr)
	proxy.SetTrickle(50 * time.Millisecond)
	o := toServer(t, s, proxy.Port)
	o.Budget = testBudget
	within(t, open(t, o), newShelf(LatestName), CodeTimeout)
}

func TestCancelAndNobodyThere(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	proxy := sshtest.NewProxy(t, s.Addr)
	proxy.BlackHole()
	p := open(t, toServer(t, s, proxy.Port))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := p.Publish(ctx, newShelf(LatestName)); Code(err) != CodeCancelled {
		t.Errorf("cancelled: got %v", err)
	}
	s.Stop()
	o := toServer(t, s, s.Port)
	o.Budget = testBudget
	if e := refused(t, open(t, o), newShelf(LatestName), CodeRefused); !e.Temporary() || !strings.Contains(e.Hint(), "-P ") {
		t.Errorf("temporary %v, hint %q", e.Temporary(), e.Hint())
	}
}

func TestLineCutAtEveryPlace(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	proxy := sshtest.NewProxy(t, s.Addr)
	o := toServer(t, s, proxy.Port)
	o.Budget, o.retryBase, o.retryCap = testBudget, time.Millisecond, 5*time.Millisecond
	first := sealed(0)
	src := newShelf()
	src.set(LatestName, first)
	publish(t, open(t, o), src)
	up, _, _ := proxy.Counted()
	failures := 0
	for cut := int64(100); cut < up; cut += up / 12 {
		proxy.CutAfter(cut)
		p := open(t, o)
		src.set(LatestName, sealed(int(cut)))
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		if _, err := p.Publish(ctx, src); err != nil {
			failures++
		}
		cancel()
		p.Close()
		if got := content(t, s.Dir)[LatestName]; !whole([]byte(got)) {
			t.Fatalf("cut after %d bytes: the drop holds a torn file of %d bytes", cut, len(got))
		}
	}
	if failures == 0 {
		t.Fatal("the line was never cut")
	}
	proxy.CutAfter(-1)
	src.set(LatestName, []byte("whole again"))
	publish(t, open(t, o), src)
	got := content(t, s.Dir)
	if got[LatestName] != "whole again" || len(got) != 1 {
		names := []string{}
		for name := range got {
			names = append(names, name)
		}
		t.Errorf("after healing the drop holds %v", names)
	}
	if left := content(t, o.StateDir); len(left) != 0 {
		t.Errorf("notes left behind: %v", left)
	}
}

// TestKilledPush is run by the test that kills it.
func TestKilledPush(t *testing.T) {
	spec := os.Getenv("PUBLISHER_TEST_PUSH")
	if spec == "" {
		return
	}
	part := strings.Split(spec, "|")
	target, err := ParseTarget(part[0])
	if err != nil {
		t.Fatal(err)
	}
	src := newShelf()
	src.set(LatestName, sealed(7))
	publish(t, open(t, Options{Target: target, Identity: []string{part[1]}, KnownHosts: []string{part[2]}, StateDir: part[3], ConfigFiles: []string{}}), src)
}

func TestKilledPushIsCleanedUpByTheNext(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	proxy := sshtest.NewProxy(t, s.Addr)
	o := toServer(t, s, proxy.Port)
	src := newShelf()
	src.set(LatestName, []byte("before"))
	publish(t, open(t, o), src)

	proxy.SetDelay(20 * time.Millisecond) // so that there is a middle to be killed in
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestKilledPush$")
	cmd.Env = append(os.Environ(), "PUBLISHER_TEST_PUSH="+strings.Join([]string{o.Target.String(), o.Identity[0], o.KnownHosts[0], o.StateDir}, "|"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	temporaries := func() int {
		found, _ := filepath.Glob(filepath.Join(s.Dir, tempPrefix+"*"))
		return len(found)
	}
	eventually(t, "the push is under way", func() bool { return temporaries() == 1 })
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	if got := content(t, s.Dir); got[LatestName] != "before" || len(got) != 2 {
		t.Fatalf("after the kill the drop holds %d files, latest %q", len(got), got[LatestName])
	}
	proxy.SetDelay(0)
	src.set(LatestName, []byte("after"))
	publish(t, open(t, o), src)
	if got := content(t, s.Dir); got[LatestName] != "after" || len(got) != 1 {
		t.Errorf("after the next push the drop holds %v", got)
	}
	if left := content(t, o.StateDir); len(left) != 0 {
		t.Errorf("notes left behind: %v", left)
	}
}

func TestTwoPublishersOfOneHost(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	o := toServer(t, s, s.Port)
	o.Keep = true
	done := make(chan error, 2)
	for n := range 2 {
		p := open(t, o)
		go func() {
			src := newShelf()
			for i := range 40 {
				src.set(LatestName, sealed(1000*n+i))
				if _, err := p.Publish(context.Background(), src); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for left := 2; left > 0; {
		select {
		case err := <-done:
			if left--; err != nil {
				t.Error(err)
			}
		default:
			if data, err := os.ReadFile(filepath.Join(s.Dir, LatestName)); err == nil && !whole(data) {
				t.Fatal("torn")
			}
		}
	}
	if got := content(t, s.Dir); len(got) != 1 {
		t.Errorf("the drop holds %d files", len(got))
	}
}

func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		name, options, command, code string
		size                         int
	}{
		{"space, and the server tells", "size=256k", "internal-sftp", CodeRemoteSpace, 900 << 10},
		{"space, and the server does not", "size=256k", sshtest.LockedDown, CodeRemoteFailure, 900 << 10},
		{"inodes", "size=1m,nr_inodes=2", "internal-sftp", CodeRemoteInodes, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			sshtest.RequireRoot(t)
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, c.options); err != nil {
				sshtest.Skip(t, fmt.Sprintf("mounting a small file system: %v", err))
			}
			t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
			s := sshtest.Start(t, sshtest.Options{Command: c.command, Dir: dir})
			p := open(t, toServer(t, s, s.Port))
			src := newShelf(LatestName)
			if c.code != CodeRemoteInodes {
				publish(t, p, src)
			} else if err := os.WriteFile(filepath.Join(dir, LatestName), []byte("content of "+LatestName), 0o644); err != nil {
				t.Fatal(err)
			}
			src.set(LatestName, bytes.Repeat([]byte("x"), c.size))
			if e := refused(t, p, src, c.code); !e.Temporary() || e.Hint() == "" {
				t.Errorf("temporary %v, hint %q", e.Temporary(), e.Hint())
			}
			if got := content(t, dir); len(got) != 1 || got[LatestName] != "content of "+LatestName {
				t.Errorf("the drop holds %d files", len(got))
			}
		})
	}
}

func TestErrorsAreOrdinary(t *testing.T) {
	e := configError(CodeAuth, "h", errors.New("inner"))
	if !errors.Is(e, e.Err) || e.Error() != "inner" || Code(fmt.Errorf("outer: %w", e)) != CodeAuth || Code(e.Err) != "" {
		t.Errorf("%v", e)
	}
}
