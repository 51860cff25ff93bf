package publisher_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

// countingProxy passes connections on, and counts them.
func countingProxy(t *testing.T, s *sshtest.Server) (port int, count *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := sshtest.NewProxy(t, s.Addr)
	count = &atomic.Int64{}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			onward, err := net.Dial("tcp", proxy.Addr)
			if err != nil {
				c.Close()
				continue
			}
			all.Go(func() { pipe(c, onward) })
			all.Go(func() { pipe(onward, c) })
		}
	})
	t.Cleanup(func() { l.Close(); proxy.Close(); all.Wait() })
	return l.Addr().(*net.TCPAddr).Port, count
}

func pipe(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// TestARefusedLoginIsRetriedLessOften: a login that somebody has to fix is tried
// less and less often, and one that fails on this side makes no connection.
func TestARefusedLoginIsRetriedLessOften(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	stranger := filepath.Join(t.TempDir(), "stranger")
	sshtest.WriteKey(t, stranger, "ed25519", "")
	open644 := filepath.Join(t.TempDir(), "open")
	sshtest.WriteKey(t, open644, "ed25519", "")
	if err := os.Chmod(open644, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, code  string
		spoil       func(o *publisher.Options)
		connections int64 // in an hour of pushes every 20 s
	}{
		{"a key that is refused", sshclient.CodeAuth, func(o *publisher.Options) { o.Identity = []string{stranger} }, 15},
		{"a server that is unknown", sshclient.CodeHostUnknown, func(o *publisher.Options) {
			o.KnownHosts = []string{writeFile(t, filepath.Join(t.TempDir(), "known"), "")}
		}, 15},
		{"a key that others may read", "ssh:key-mode", func(o *publisher.Options) { o.Identity = []string{open644} }, 0},
		{"no key", publisher.CodeKeyUnreadable, func(o *publisher.Options) { o.Identity = []string{stranger + "-not"} }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			port, count := countingProxy(t, s)
			o := toServer(t, s, port)
			test.spoil(&o)
			now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
			p := open(t, o.WithClock(func() time.Time { return now }))
			src := newMemorySpool(publisher.LatestName)
			for range 180 {
				refused(t, p, src, test.code)
				now = now.Add(20 * time.Second)
			}
			if got := count.Load(); got != test.connections {
				t.Errorf("%d connections in an hour, want %d", got, test.connections)
			}
		})
	}
	t.Run("mended", func(t *testing.T) {
		o := toServer(t, s, s.Port)
		o.Identity = []string{stranger}
		now := time.Now()
		p := open(t, o.WithClock(func() time.Time { return now }))
		src := newMemorySpool(publisher.LatestName)
		refused(t, p, src, sshclient.CodeAuth)
		public, err := os.ReadFile(stranger + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(s.Root, "authorized"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "%s", public)
		f.Close()
		refused(t, p, src, sshclient.CodeAuth) // not yet
		now = now.Add(30 * time.Second)
		publish(t, p, src)
	})
}

// TestGreetingOfSSHDGivesTheCode: sshd says in plain text why it does not even begin.
func TestGreetingOfSSHDGivesTheCode(t *testing.T) {
	for said, want := range map[string]string{
		"Not allowed at this time\r\n":                  "ssh:penalty",
		"Exceeded MaxStartups\r\n":                      sshclient.CodeBusy,
		"gpuboard receive: too many logins at once\r\n": sshclient.CodeBusy,
		"Welcome to the machine\r\n":                    publisher.CodeLost,
		"":                                              publisher.CodeLost,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 64)) // else closing would be a reset, which may overtake the words
				fmt.Fprint(c, said)
				c.Close()
			}
		})
		key := filepath.Join(t.TempDir(), "key")
		sshtest.WriteKey(t, key, "ed25519", "")
		o := publisher.Options{Target: publisher.Target{
			Scheme: "sftp", User: "x", Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port,
		}, Identity: []string{key}, Budget: 300 * time.Millisecond}
		_, err = open(t, o).Publish(t.Context(), newMemorySpool(publisher.LatestName))
		for publisher.Code(err) == sshclient.CodeTimeout && o.Budget < need.Patience { // too little for a busy machine
			o.Budget *= 2
			_, err = open(t, o).Publish(t.Context(), newMemorySpool(publisher.LatestName))
		}
		var e *publisher.Error
		if !errors.As(err, &e) || e.Code != want || !e.Temporary() {
			t.Errorf("%q: %v (%s), want %s", said, err, publisher.Code(err), want)
		} else if want == "ssh:penalty" && !strings.Contains(e.Hint(), "PerSourcePenaltyExemptList") {
			t.Errorf("hint %q", e.Hint())
		} else if ours, yes := strings.CutPrefix(said, "gpuboard receive: "); yes &&
			!strings.Contains(e.Error(), strings.TrimSpace(ours)) {
			t.Errorf("%q does not say why", e)
		}
		l.Close()
		all.Wait()
	}
}

// TestPunishedAddress: some nodes behind one address have the wrong key, and
// sshd locks the address out. They stop asking; so the others get in as soon as
// the penalty is over, and those who are in notice nothing. Where the address
// is exempt nobody is turned away.
func TestPunishedAddress(t *testing.T) {
	program := sshtest.Punishing(t, "..")
	// A fifth of the defaults, which are 5 s and 15 s, for a fifth of the waiting.
	penalties := "PerSourcePenalties authfail:1s min:3s\n"
	if os.Getenv("GPUBOARD_LONG") == "1" {
		penalties = ""
	}
	for _, exempt := range []bool{false, true} {
		t.Run(map[bool]string{false: "punished", true: "exempt"}[exempt], func(t *testing.T) {
			config := penalties
			if exempt {
				config += "PerSourcePenaltyExemptList 127.0.0.0/8\n"
			}
			s := sshtest.Start(t, sshtest.Options{Program: program, Config: config})
			inside := toServer(t, s, s.Port)
			inside.Keep = true
			kept, src := open(t, inside), newMemorySpool(publisher.LatestName)
			publish(t, kept, src)

			stranger := filepath.Join(t.TempDir(), "stranger")
			sshtest.WriteKey(t, stranger, "ed25519", "")
			var offenders []*publisher.Publisher
			var together sync.WaitGroup
			for range 5 {
				o := toServer(t, s, s.Port)
				o.Identity = []string{stranger}
				p := open(t, o)
				together.Go(func() { // before the first of them is punished
					_, err := p.Publish(t.Context(), newMemorySpool(publisher.LatestName))
					if publisher.Code(err) != sshclient.CodeAuth {
						t.Errorf("an offender: %v (%s)", err, publisher.Code(err))
					}
				})
				offenders = append(offenders, p)
			}
			together.Wait()
			if !exempt {
				eventually(t, "the address is locked out", func() bool {
					log, err := os.ReadFile(s.Log)
					return err == nil && strings.Contains(string(log), "activating ")
				})
			}
			again := func() {
				for _, p := range offenders {
					r, err := p.Publish(t.Context(), newMemorySpool(publisher.LatestName))
					if publisher.Code(err) != sshclient.CodeAuth || r.Attempts != 0 {
						t.Errorf("a refused key is shown again: %+v, %v", r, err)
					}
				}
			}

			var all sync.WaitGroup
			var turnedAway atomic.Int64
			for n := range 5 {
				o := toServer(t, s, s.Port)
				o.Budget = need.Patience
				o.Target.Dir = filepath.Join(s.Dir, fmt.Sprint(n))
				if err := os.Mkdir(o.Target.Dir, 0o755); err != nil {
					t.Fatal(err)
				}
				p := open(t, o)
				all.Go(func() {
					r, err := p.Publish(t.Context(), newMemorySpool(publisher.LatestName))
					if err != nil {
						t.Errorf("node %d: %v (%s)", n, err, publisher.Code(err))
					}
					turnedAway.Add(int64(r.Attempts - 1))
				})
			}
			done := make(chan struct{})
			go func() { all.Wait(); close(done) }()
			for waiting := true; waiting; {
				again()
				src.set(publisher.LatestName, []byte("still here"))
				if r := publish(t, kept, src); r.Dialed != 0 {
					t.Errorf("a kept connection was made anew: %+v", r)
				}
				select {
				case <-done:
					waiting = false
				case <-time.After(200 * time.Millisecond): // the pace of the cycles, not a wait for anything
				}
			}
			log, err := os.ReadFile(s.Log)
			if err != nil {
				t.Fatal(err)
			}
			// On a very slow machine the penalty can be over before the first node connects.
			dropped := strings.Count(string(log), "drop connection")
			if got := turnedAway.Load(); (got > 0) != (dropped > 0) || exempt && got > 0 {
				t.Errorf("%d connections found the address locked out, and sshd dropped %d; exempt: %v", got, dropped,
					exempt)
			}
			if n := strings.Count(string(log), "Failed publickey"); n != 0 && n != 5 {
				t.Errorf("the wrong key was shown %d times, want once by each", n)
			}
		})
	}
}
