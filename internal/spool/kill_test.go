package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/faulttest"
	"gpuboard/internal/testenv/need"
)

// TestMain lets the test binary stand in for a collector that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SPOOL_DIR"); dir != "" {
		os.Exit(collect(dir))
	}
	os.Exit(m.Run())
}

// collect adds a snapshot for every line that it is sent, one minute apart, and
// says each number once Add is done.
func collect(dir string) int {
	s, err := Open(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	start, err := time.Parse(time.RFC3339, os.Getenv("SPOOL_START"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := 0; ; i++ {
		sn := snap(bootA, start.Add(time.Duration(i)*7*time.Minute))
		if err := s.Add(sn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			if errors.Is(err, ErrLocked) {
				return 75
			}
			return 1
		}
		fmt.Println(sn.Seq)
	}
}

func collector(dir string, start time.Time, command ...string) *exec.Cmd {
	command = append(command, os.Args[0])
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "SPOOL_DIR="+dir, "SPOOL_START="+start.Format(time.RFC3339))
	return cmd
}

// seenSamples is what a reader saw under each number.
type seenSamples map[uint64]string

// scan reads everything that a publisher could send, and checks that it can be
// read and that no number stands for two things.
func (l seenSamples) scan(t *testing.T, dir string) (last uint64) {
	t.Helper()
	see := func(boot string, samples []snapshot.Sample) {
		for _, s := range samples {
			text := fmt.Sprint(boot, s.At, s.GPUs[0].UUID, *s.GPUs[0].Utilization)
			if old, ok := l[s.Seq]; ok && old != text {
				t.Fatalf("number %d was\n%s and is\n%s", s.Seq, old, text)
			}
			l[s.Seq] = text
			last = max(last, s.Seq)
		}
	}
	s := open(t, dir)
	files, err := s.Pending("reader")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := s.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == LatestName {
			b, err := snapshot.DecodeBundle(bytes.NewReader(data))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			see(b.BootID, b.Samples)
			continue
		}
		h, err := snapshot.DecodeHour(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		see(h.BootID, h.Samples)
	}
	return last
}

// A collector that is killed in the middle of its work, again and again, leaves
// a spool that can be read, and its successor goes on counting.
func TestKilledWhileRunning(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	seen := seenSamples{}
	var said uint64
	for round := range 12 {
		cmd := collector(dir, noon.Add(time.Duration(round)*100*time.Hour))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n <= 3+round && lines.Scan(); n++ {
			var seq uint64
			if _, err := fmt.Sscan(lines.Text(), &seq); err != nil || seq <= said {
				t.Errorf("said %q after %d", lines.Text(), said)
			}
			said = max(said, seq)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if last := seen.scan(t, dir); last < said {
			t.Errorf("round %d: %d was said, and the files end at %d", round, said, last)
		}
	}
}

// The same at every system call that changes something.
func TestKilledAtEverySystemCall(t *testing.T) {
	need.Time(t, "it starts twenty processes under strace")
	step := 4 // a sample: the first call of its kind, the fifth and the ninth
	if faulttest.All() {
		step = 1
	}
	strace := need.Program(t, "strace")
	for _, call := range []string{"write", "fsync", "renameat", "unlinkat", "ftruncate"} {
		dir := filepath.Join(t.TempDir(), "spool")
		seen := seenSamples{}
		s := open(t, dir)
		add(t, s, bootA, noon.Add(-time.Hour))
		add(t, s, bootA, noon.Add(-time.Minute)) // so that the next one seals
		s.Close()
		var before uint64 = 2
		for k := 1; k <= 12; k += step {
			cmd := collector(dir, noon.Add(time.Duration(k)*time.Hour), strace, "-f", "-qq", "-o", "/dev/null", "-e",
				"trace="+call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, k))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for n := 0; n < 30 && lines.Scan(); n++ {
				var seq uint64
				if _, err := fmt.Sscan(lines.Text(), &seq); err != nil || seq <= before {
					t.Errorf("%s %d: said %q after %d", call, k, lines.Text(), before)
				}
				before = max(before, seq)
			}
			// A call that is rare was not reached k times: stop the run by its stdout.
			out.Close()
			cmd.Wait()
			if last := seen.scan(t, dir); last < before {
				t.Errorf("%s %d: %d was said, and the files end at %d", call, k, before, last)
			}
		}
	}
}

// A process that is killed between writing an hour and removing its journal finds both.
func TestAnHourWrittenBeforeAKillIsNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	add(t, s, bootA, noon)
	journal := filepath.Join(dir, journalName(noon, bootA))
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, bootA, noon.Add(time.Hour))
	if err := os.WriteFile(journal, data, filePerm); err != nil {
		t.Fatal(err)
	}
	add(t, s, bootA, noon.Add(2*time.Hour))
	if all := hours(t, dir); len(all) != 2 {
		t.Errorf("%d hour files of two hours: %v", len(all), all)
	}
}

func TestTwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir)
	add(t, s, bootA, noon)
	cmd := collector(dir, noon)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 75 || !strings.Contains(string(out), ErrLocked.Error()) {
		t.Errorf("a second process: %v, %s", err, out)
	}
}
