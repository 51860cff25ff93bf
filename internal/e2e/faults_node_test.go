package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/faulttest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// ran runs a program and returns its exit code and what it said.
func ran(t testing.TB, program string, args ...string) (int, string) {
	t.Helper()
	c := exec.Command(program, args...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func putFile(t testing.TB, path string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, data, mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// A node is a spool and a fake nvidia-smi in a directory.
type node struct {
	program, dir, spool string
	boot                string // of this machine
	fleet               *demo.Fleet
}

func newNode(t testing.TB, program, dir string) *node {
	t.Helper()
	n := &node{program: program, dir: dir, spool: filepath.Join(dir, "spool"), fleet: demo.New(1, time.Now())}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	n.boot = strings.TrimSpace(string(boot))
	capture, err := os.ReadFile("collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(dir, "capture.xml"), capture, 0o644)
	putFile(t, filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\nexec cat \"${0%/*}/capture.xml\"\n"), 0o755)
	return n
}

func (n *node) collect() []string {
	return []string{"collect", "--host", "gpu01", "--spool", n.spool, "--nvidia-smi",
		filepath.Join(n.dir, "nvidia-smi")}
}

// add puts snapshots into the spool, as collectors of this boot and of another did.
func (n *node) add(t testing.TB, at time.Time, boot string) {
	t.Helper()
	s, err := spool.Open(n.spool)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	snap := n.fleet.Snapshot("atlas", at)
	snap.Host, snap.BootID = "gpu01", boot
	if err := s.Add(snap); err != nil {
		t.Fatal(err)
	}
}

// samples are all that can be read in a directory of snapshot files, by boot
// and number. What cannot be read fails the test.
func samples(t testing.TB, when, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	see := func(boot string, list []snapshot.Sample) {
		for _, s := range list {
			key, text := fmt.Sprintf("%s/%d", boot, s.Seq), s.At.UTC().Format(time.RFC3339Nano)
			if old, ok := found[key]; ok && old != text {
				t.Errorf("%s: number %s is of %s and of %s", when, key, old, text)
			}
			found[key] = text
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Name() == spool.LatestName:
			b, err := snapshot.DecodeBundle(bytes.NewReader(data))
			if err != nil {
				t.Errorf("%s: %s: %v", when, e.Name(), err)
				continue
			}
			see(b.BootID, append(b.Samples, b.Snapshot.Sample()))
		case strings.HasPrefix(e.Name(), "hour-"):
			h, err := snapshot.DecodeHour(bytes.NewReader(data))
			if err != nil {
				t.Errorf("%s: %s: %v", when, e.Name(), err)
				continue
			}
			see(h.BootID, h.Samples)
		}
	}
	return found
}

const otherBoot = "0123abcd-0000-4000-8000-00000000beef"

// collecting is the scene of a collector that has an hour to finish and an old
// one to remove.
func collecting(t *testing.T, program, dir string) faulttest.Scene {
	n := newNode(t, program, dir)
	now := time.Now()
	n.add(t, now.Add(-50*time.Hour), otherBoot)
	n.add(t, now.Add(-2*time.Hour), n.boot)
	before := samples(t, "before", n.spool)
	first, number := "", 0
	for key := range before {
		if rest, ok := strings.CutPrefix(key, n.boot+"/"); ok {
			first = key
			number, _ = strconv.Atoi(rest)
		}
	}
	if number == 0 {
		t.Fatalf("the spool begins with %v", before)
	}
	nth := func(after int) string { return n.boot + "/" + strconv.Itoa(number+after) }
	s := faulttest.Scene{Dir: dir, Program: program, Args: n.collect(), Choose: below(n.spool, true)}
	s.Check = func(t testing.TB, r faulttest.Run) {
		codes := []int{0, 75}
		if strings.HasSuffix(r.Hit.On, "/nvidia-smi") {
			codes = append(codes, 3) // the snapshot says that nobody asked the driver
		}
		sane(t, r, codes...)
		said := r.String()
		now := samples(t, said, n.spool)
		second := now[nth(1)]
		if r.Exit == 0 && second == "" {
			t.Errorf("%s: exit 0, and there is no new snapshot", said)
		}
		if r.Exit == 75 {
			second = "" // what is not acknowledged may be lost
		}
		age(t, n.spool)
		if code, out := ran(t, program, n.collect()...); code != 0 {
			t.Errorf("%s: the next run: exit %d: %s", said, code, out)
		}
		noTemps(t, said, n.spool)
		// An hour later all that was journaled is in a file.
		n.add(t, time.Now().Add(time.Hour), otherBoot)
		last := samples(t, said+", and healed", n.spool)
		if last[first] != before[first] || second != "" && last[nth(1)] != second {
			t.Errorf("%s: of %v and %q the next run left %v", said, before, second, last)
		}
		if last[nth(1)] == "" && last[nth(2)] == "" {
			t.Errorf("%s: the next run's snapshot is not there: %v", said, last)
		}
		noTemps(t, said+", and healed", n.spool)
	}
	return s
}

func TestCollectAtEverySystemCall(t *testing.T) {
	t.Parallel() // beside those that mostly wait
	faulttest.Require(t)
	program := builtProgram(t)
	report := everyCall(t, func(dir string) faulttest.Scene { return collecting(t, program, dir) },
		faulttest.Killed, faulttest.Broken, faulttest.NoSpace, faulttest.Full)
	if report.Calls < 15 {
		t.Errorf("only %d calls: that is no collection", report.Calls)
	}
}

// publishing is the scene of a publisher with a new snapshot, a finished hour,
// and an hour in the drop that is past its time. to makes the target of a drop.
func publishing(t *testing.T, program, dir, drop string, to []string) faulttest.Scene {
	n := newNode(t, program, dir)
	args := append([]string{"publish", "--host", "gpu01", "--spool", n.spool, "--push-timeout", "2m"}, to...)
	push := func() {
		if code, out := ran(t, program, args...); code != 0 {
			t.Fatalf("exit %d: %s", code, out)
		}
	}
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	n.add(t, now.Add(-51*time.Hour), otherBoot)
	n.add(t, now.Add(-49*time.Hour), otherBoot)
	push()
	before, err := os.ReadFile(filepath.Join(drop, spool.LatestName))
	if err != nil {
		t.Fatal(err)
	}
	n.add(t, now, otherBoot)
	s := faulttest.Scene{Dir: dir, Program: program, Args: args}
	s.Choose = func(c faulttest.Call) bool {
		return c.Changes && strings.Contains(c.On, dir+"/") || c.Name == "write" && strings.HasPrefix(c.On, "socket:")
	}
	after, err := os.ReadFile(filepath.Join(n.spool, spool.LatestName))
	if err != nil {
		t.Fatal(err)
	}
	s.Check = func(t testing.TB, r faulttest.Run) {
		sane(t, r, 0, 75)
		said := r.String()
		latest, err := os.ReadFile(filepath.Join(drop, spool.LatestName))
		if new := bytes.Equal(latest, after); err != nil || !new && (r.Exit == 0 || !bytes.Equal(latest, before)) {
			t.Errorf("%s: exit %d, and the drop's latest is of %d bytes, %v; before %d, after %d", said, r.Exit,
				len(latest), err, len(before), len(after))
		}
		samples(t, said, drop)
		age(t, drop)
		age(t, n.spool)
		n.add(t, time.Now(), otherBoot) // the next cycle begins with a snapshot
		if code, out := ran(t, program, args...); code != 0 {
			t.Errorf("%s: the next run: exit %d: %s", said, code, out)
		}
		if got, want := samples(t, said, drop), samples(t, said, n.spool); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the next run leaves %v in the drop, and the spool has %v", said, got, want)
		}
		noTemps(t, said, n.spool)
		entries, err := os.ReadDir(drop)
		for _, e := range entries {
			if e.Name() != spool.LatestName && !strings.HasPrefix(e.Name(), "hour-") {
				t.Errorf("%s: left in the drop: %s", said, e.Name())
			}
		}
		if notes, _ := os.ReadDir(filepath.Join(n.spool, "push")); err != nil || len(notes) != 0 {
			t.Errorf("%s: notes are left: %v, %v", said, notes, err)
		}
	}
	return s
}

func TestPublishAtEverySystemCall(t *testing.T) {
	t.Parallel() // beside those that mostly wait
	faulttest.Require(t)
	program := builtProgram(t)
	report := everyCall(t, func(dir string) faulttest.Scene {
		return publishing(t, program, dir, filepath.Join(dir, "data/drop/gpu01"),
			[]string{"--to", "file://" + filepath.Join(dir, "data")})
	}, faulttest.Killed, faulttest.Broken, faulttest.NoSpace, faulttest.Full)
	if report.Calls < 10 {
		t.Errorf("only %d calls: that is no push", report.Calls)
	}
}

// overSFTP is the scene of a publisher and a real sshd. command is what the
// server runs for it.
func overSFTP(t *testing.T, program, dir, command string) faulttest.Scene {
	drop := filepath.Join(dir, "drop")
	server := sshtest.Start(t, sshtest.Options{Command: command, Dir: drop})
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	s := publishing(t, program, dir, drop,
		[]string{"--to", fmt.Sprintf("sftp://%s@%s%s", server.User, server.Addr, drop),
			"--identity", server.Key, "--known-hosts", server.KnownHosts})
	s.Settled = func() { settled(t, server, drop) }
	return s
}

// settled waits until nobody is at work on a server any more. What a session started may outlive it, and still do what
// it was asked for.
func settled(t testing.TB, server *sshtest.Server, drop string) {
	for end := time.Now().Add(need.Patience); len(server.Sessions()) > 0 || named(drop); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("the server's sessions do not end: %v", server.Sessions())
			return
		}
	}
}

// named reports whether a process has this path among its arguments.
func named(path string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(lines, func(line string) bool {
		args, _ := os.ReadFile(line)
		return bytes.Contains(args, []byte(path))
	})
}

func TestPublishOverSFTPAtEverySystemCall(t *testing.T) {
	t.Parallel() // beside those that mostly wait
	faulttest.Require(t)
	program := builtProgram(t)
	report := faulttest.Everywhere(t, 2, func(dir string) faulttest.Scene {
		return overSFTP(t, program, dir, sshtest.LockedDown)
	}, faulttest.Killed, faulttest.Broken, faulttest.NoSpace, faulttest.Full)
	if report.Calls < 30 {
		t.Errorf("only %d calls: that is no push", report.Calls)
	}
}
