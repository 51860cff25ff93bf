// Package soak runs the cycles of a program that goes on for months, with a clock that hurries: first
// until everything that grows by its nature has reached its limit, then on, while it measures that
// nothing grows any more.
package soak

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// A Soak is one such run.
type Soak struct {
	T       *testing.T
	Dir     string
	Now     time.Time
	Step    time.Duration
	Warm    int // cycles until the longest retention is over
	Cycles  int
	Grow    []string        // directories that may not grow
	Between func(cycle int) // disturbances
}

// Long reports whether this is the long run, which check.sh --long asks for.
func Long() bool { return os.Getenv("GPUBOARD_LONG") == "1" }

// New makes a soak over a week of 10,000 cycles, or a short one with steps as long as it takes to
// get over the same two days.
func New(t *testing.T) *Soak {
	t.Helper()
	// In memory, where that is possible: the subject is leaks, and a disk is only slower.
	where := "/dev/shm"
	if info, err := os.Stat(where); err != nil || !info.IsDir() || os.Geteuid() != 0 {
		where = ""
	}
	dir, err := os.MkdirTemp(where, "gpbt-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Soak{T: t, Dir: dir, Now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), Step: time.Hour, Warm: 60,
		Cycles: 110}
	if Long() {
		s.Step, s.Warm, s.Cycles = time.Minute, 3300, 10000
	}
	return s
}

// Path is the path of a file in the directory of the soak.
func (s *Soak) Path(name string) string { return filepath.Join(s.Dir, filepath.FromSlash(name)) }

// Write writes a file there.
func (s *Soak) Write(name, content string, mode fs.FileMode) {
	s.T.Helper()
	err := os.MkdirAll(filepath.Dir(s.Path(name)), 0o755)
	if err == nil {
		err = os.WriteFile(s.Path(name), []byte(content), mode)
	}
	if err != nil {
		s.T.Fatal(err)
	}
}

// A level is what must not rise.
type level struct {
	fds, goroutines, files int
	heap, disk             int64
}

func (s *Soak) level() level {
	s.T.Helper()
	var l level
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	l.heap, l.goroutines = int64(mem.HeapAlloc), runtime.NumGoroutine()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		need.Skip(s.T, err.Error())
	}
	l.fds = len(fds)
	for _, dir := range s.Grow {
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
			s.T.Fatal(err)
		}
	}
	return l
}

// Run runs the cycles and compares the highest levels of the first and the second half of the
// time, because a level may vary with the hour.
func (s *Soak) Run(cycle func()) {
	s.T.Helper()
	every := max((s.Cycles-s.Warm)/20, 1)
	var seen []level
	began := time.Now()
	for n := range s.Cycles {
		if s.Between != nil {
			s.Between(n)
		}
		cycle()
		s.Now = s.Now.Add(s.Step)
		if n >= s.Warm && (n-s.Warm)%every == 0 {
			seen = append(seen, s.level())
		}
		if s.T.Failed() {
			s.T.Fatalf("in cycle %d", n)
		}
	}
	half := len(seen) / 2
	before, after := highest(seen[:half]), highest(seen[half:])
	s.T.Logf("%d cycles in %v; before %+v, after %+v", s.Cycles, time.Since(began).Round(time.Second), before, after)
	if len(seen) < 10 {
		s.T.Fatalf("only %d levels", len(seen))
	}
	for what, pair := range map[string][3]int64{ // before, after, and what may be between them
		"file descriptors": {int64(before.fds), int64(after.fds), 1}, // a connection may be under way
		"goroutines":       {int64(before.goroutines), int64(after.goroutines), 2},
		"files":            {int64(before.files), int64(after.files), 2 + int64(before.files)/50},
		"bytes on disk":    {before.disk, after.disk, 256<<10 + before.disk/10},
		"heap":             {before.heap, after.heap, 512<<10 + before.heap/20},
	} {
		if pair[1] > pair[0]+pair[2] {
			s.T.Errorf("%s rise from %d to %d", what, pair[0], pair[1])
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
