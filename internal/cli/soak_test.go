package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"gpuboard/internal/config"
	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
	"gpuboard/publisher/dropbox"
)

// A soak runs what goes on for months, with a clock that hurries: first until
// everything that grows by its nature has reached its bounds, then on, while it
// is measured that nothing grows any more.
type soak struct {
	t       *testing.T
	dir     string
	now     time.Time
	step    time.Duration
	warm    int // cycles until the longest retention is over
	cycles  int
	dirs    []string
	between func(cycle int) // disturbances
	begun   time.Time
}

// long reports whether this is the long run, which check.sh --long asks for.
func long() bool { return os.Getenv("GPUBOARD_LONG") == "1" }

// newSoak makes a soak over a week of 10,000 cycles, or a short one with steps
// as long as it takes to get over the same two days.
func newSoak(t *testing.T) *soak {
	t.Helper()
	// In memory, where there is such a place: what is looked for are leaks, and
	// a disk would only make it longer.
	where := "/dev/shm"
	if info, err := os.Stat(where); err != nil || !info.IsDir() || os.Geteuid() != 0 {
		where = ""
	}
	dir, err := os.MkdirTemp(where, "gpbt-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &soak{t: t, dir: dir, now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), step: time.Hour, warm: 60, cycles: 110}
	if long() {
		s.step, s.warm, s.cycles = time.Minute, 3300, 10000
	}
	return s
}

func (s *soak) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *soak) write(name, content string, mode fs.FileMode) {
	s.t.Helper()
	err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755)
	if err == nil {
		err = os.WriteFile(s.path(name), []byte(content), mode)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// config reads flags as the command line does.
func (s *soak) config(a *app, args ...string) *config.Config {
	s.t.Helper()
	c, rest, err := a.root().Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	cfg, err := a.load(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

// A level is what must not rise.
type level struct {
	fds, goroutines, files int
	heap, disk             int64
}

func (s *soak) level() level {
	s.t.Helper()
	var l level
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	l.heap, l.goroutines = int64(mem.HeapAlloc), runtime.NumGoroutine()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		need.Skip(s.t, err.Error())
	}
	l.fds = len(fds)
	for _, dir := range s.dirs {
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && !d.IsDir() {
				l.files++
				l.disk += info.Size()
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return l
}

// run runs the cycles and judges the levels: what may vary with the hour is
// compared by its highest value in the first and the second half of the time.
func (s *soak) run(cycle func()) {
	s.t.Helper()
	every := max((s.cycles-s.warm)/20, 1)
	var seen []level
	s.begun = time.Now()
	for n := range s.cycles {
		if s.between != nil {
			s.between(n)
		}
		cycle()
		s.now = s.now.Add(s.step)
		if n >= s.warm && (n-s.warm)%every == 0 {
			seen = append(seen, s.level())
		}
		if s.t.Failed() {
			s.t.Fatalf("in cycle %d", n)
		}
	}
	took := time.Since(s.begun)
	half := len(seen) / 2
	before, after := highest(seen[:half]), highest(seen[half:])
	s.t.Logf("%d cycles in %v; before %+v, after %+v", s.cycles, took.Round(time.Second), before, after)
	if len(seen) < 10 {
		s.t.Fatalf("only %d levels", len(seen))
	}
	for what, pair := range map[string][3]int64{ // before, after, and what may be between them
		"file descriptors": {int64(before.fds), int64(after.fds), 1}, // a connection may be under way
		"goroutines":       {int64(before.goroutines), int64(after.goroutines), 2},
		"files":            {int64(before.files), int64(after.files), 2 + int64(before.files)/50},
		"bytes on disk":    {before.disk, after.disk, 256<<10 + before.disk/10},
		"heap":             {before.heap, after.heap, 512<<10 + before.heap/20},
	} {
		if pair[1] > pair[0]+pair[2] {
			s.t.Errorf("%s rise from %d to %d", what, pair[0], pair[1])
		}
	}
}

func highest(levels []level) level {
	var h level
	for _, l := range levels {
		h.fds, h.goroutines, h.files = max(h.fds, l.fds), max(h.goroutines, l.goroutines), max(h.files, l.files)
		h.heap, h.disk = max(h.heap, l.heap), max(h.disk, l.disk)
	}
	return h
}

// TestSoakOfANode is the loop of a node, collecting and pushing over SFTP
// through an sshd or a drop box that is started again now and then.
func TestSoakOfANode(t *testing.T) {
	t.Run("sshd", func(t *testing.T) {
		s := newSoak(t)
		drop := s.path("drop")
		if err := os.Mkdir(drop, 0o755); err != nil {
			t.Fatal(err)
		}
		server := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown, Dir: drop})
		s.between = func(n int) {
			if n%(s.cycles/12) == 3 {
				server.Stop()
				server.Restart()
			}
		}
		s.node(drop, "--to", fmt.Sprintf("sftp://%s@%s", server.User, server.Addr), "--identity", server.Key, "--known-hosts", server.KnownHosts)
		for end := time.Now().Add(20 * time.Second); len(server.Sessions()) > 0; time.Sleep(20 * time.Millisecond) { // polling for processes
			if time.Now().After(end) {
				t.Fatalf("%d processes of sessions are left", len(server.Sessions()))
			}
		}
	})
	t.Run("drop box", func(t *testing.T) {
		s := newSoak(t)
		data := s.path("data")
		for _, dir := range []string{data, s.path("keys"), filepath.Join(data, "drop")} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := publisher.GenerateKey(s.path("keys/gpu01")); err != nil {
			t.Fatal(err)
		}
		listen := "127.0.0.1:0"
		start := func() (stop func()) {
			ctx, cancel := context.WithCancel(context.Background())
			ready, done := make(chan string, 1), make(chan error, 1)
			go func() {
				done <- dropbox.Serve(ctx, dropbox.Options{Data: data, Keys: s.path("keys"), HostKey: s.path("host_key"), Listen: listen, Now: func() time.Time { return s.now },
					OnListen: func(addr net.Addr, key string) {
						listen = addr.String()
						ready <- knownhosts.Normalize(listen) + " " + key + "\n"
					}})
			}()
			select {
			case known := <-ready:
				s.write("known", known, 0o600)
			case err := <-done:
				t.Fatal(err)
			}
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		stop := start()
		defer func() { stop() }()
		s.between = func(n int) {
			if n%(s.cycles/12) == 3 {
				stop()
				stop = start()
			}
		}
		s.node(filepath.Join(data, "drop", "gpu01"), "--to", "sftp://gpu01@"+listen, "--identity", s.path("keys/gpu01"), "--known-hosts", s.path("known"))
	})
}

// node is the loop itself, as run makes it, with a clock that hurries.
func (s *soak) node(drop string, flags ...string) {
	t := s.t
	t.Helper()
	capture, err := os.ReadFile("../../collector/nvidiasmi/testdata/lost-1of2-580.xml")
	if err != nil {
		t.Fatal(err)
	}
	s.write("capture.xml", strings.ReplaceAll(string(capture), "@PID1@", fmt.Sprint(os.Getpid())), 0o644)
	s.write("nvidia-smi", "#!/bin/sh\nexec cat "+s.path("capture.xml")+"\n", 0o755)
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr, now: func() time.Time { return s.now },
		getenv: func(k string) string { return map[string]string{"HOME": s.dir}[k] }}
	args := append([]string{"run", "--host", "gpu01", "--spool", s.path("spool"), "--nvidia-smi", s.path("nvidia-smi"), "--every", "20s"}, flags...)
	l, err := a.newLoop(s.config(a, args...), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	s.dirs = []string{s.path("spool"), drop}
	s.run(func() { l.cycle(t.Context()) })
	if stderr.Len() > 0 {
		t.Errorf("it said:\n%s", stderr.String())
	}
	if got := l.spool.Stats(); got.Added != s.cycles || got.Dropped+got.DroppedSamples > 0 {
		t.Errorf("the spool counts %+v", got)
	}
	spooled, err := filepath.Glob(s.path("spool/hour-*"))
	if err != nil || len(spooled) < 40 || len(spooled) > 50 {
		t.Errorf("%d hours in the spool (%v), want those of two days", len(spooled), err)
	}
	delivered, err := filepath.Glob(filepath.Join(drop, "hour-*"))
	if err != nil || len(delivered) < 40 || len(delivered) > 51 {
		t.Errorf("%d hours in the drop (%v), want those of two days", len(delivered), err)
	}
}

// TestSoakOfAWebHost is a resident generator over a fleet that changes: hosts
// that come and go, jobs, bookings, damage, hooks, and a past that is rolled up
// and forgotten.
func TestSoakOfAWebHost(t *testing.T) {
	s := newSoak(t)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer hook.Close()
	s.write("gpuboard.yml", "notify:\n  - webhook: "+hook.URL+"\n    format: json\n", 0o600)
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr, now: func() time.Time { return s.now },
		getenv: func(k string) string { return map[string]string{"HOME": s.dir}[k] }}
	if err := os.MkdirAll(s.path("data/drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := s.config(a, "generate", "--config", s.path("gpuboard.yml"), "--data", s.path("data"), "--site", s.path("site"), "--state", s.path("state"), "--timezone", "UTC",
		"--history-raw", "6h", "--history-five-minutes", "12h", "--history-hourly", "24h")
	g, err := a.generator(cfg, false)
	if err != nil {
		t.Fatal(err)
	}
	fleet := demo.NewLarge(3, s.now, 2)
	// The fleet changes from cycle to cycle and comes back to the same state after
	// ten, so that what piles up is told from what varies.
	seq, begin, phase := uint64(0), s.now, time.Duration(0)
	push := func(host string) {
		snap := fleet.Snapshot(host, begin.Add(phase*time.Hour))
		seq++
		snap.Seq, snap.CollectedAt = seq, snapshot.TimeOf(s.now)
		data, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap, Samples: []snapshot.Sample{snap.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		s.write("data/drop/"+host+"/latest.json.gz", string(data), 0o644)
	}
	s.between = func(n int) {
		phase = time.Duration(n % 10)
		for i, h := range fleet.Hosts() {
			switch {
			case i == 1 && n%10 > 6: // silent for a while, and damaged
				s.write("data/drop/"+h.Name+"/latest.json.gz", "garbage", 0o644)
			default:
				push(h.Name)
			}
		}
		if n%5 == 0 {
			s.write("data/comments.json", fmt.Sprintf(`{"gpu0000": [{"name": "person%d", "date": %q, "comment": "job %d"}]}`, n/5%2, s.now.Add(3*s.step).Format("2006-01-02 15:04"), n), 0o644)
		}
		if n%10 == 0 { // a host with a name that is used once
			old, _ := filepath.Glob(s.path("data/drop/guest*"))
			for _, dir := range old {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			host := fmt.Sprintf("guest%d", n)
			snap := fleet.Snapshot("gpu0000", begin)
			data, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap, Samples: []snapshot.Sample{snap.Sample()}})
			if err != nil {
				t.Fatal(err)
			}
			s.write("data/drop/"+host+"/latest.json.gz", string(data), 0o644)
		}
	}
	s.dirs = []string{s.path("site"), s.path("state")}
	if long() {
		s.step, s.warm = 20*time.Second, 4800 // the default interval, for two days and a bit
	} else {
		s.warm, s.cycles = 40, 70
	}
	written := 0
	s.run(func() {
		report, err := g.Generate(t.Context(), s.now)
		if err != nil {
			t.Error(err)
		}
		written += report.Written
	})
	if written < s.cycles {
		t.Errorf("%d files were written in %d generations of a fleet that changes", written, s.cycles)
	}
	if temps, _ := filepath.Glob(s.path("site/*/.*")); slices.ContainsFunc(temps, func(name string) bool { return strings.Contains(name, "tmp") }) {
		t.Errorf("left behind: %v", temps)
	}
}
