// Package faulttest runs a program, counts the system calls that it makes, and lets any one of them fail or be its
// last.
//
// strace can do that, too, but its counter is one for each thread, and a Go
// program moves its work between threads as it likes. Here the calls of the
// whole process are counted, in the order in which they are made; calls of
// programs that it starts are not. [Everywhere] repeats a run for each call.
package faulttest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Call is one system call.
type Call struct {
	Name string // as its manual page is called
	// On is what it is about: the path of a file, two of them for a rename, or
	// "socket:", "pipe:" and the like.
	On string
	// Changes says that it can change a file or a directory, or makes a change last.
	Changes bool
	// Grows says that a full disk can refuse it.
	Grows bool
}

func (c Call) String() string { return c.Name + " " + c.On }

// random matches what differs between two runs in the names of files.
var random = regexp.MustCompile(`[A-Z2-7]{26}|[0-9a-f]{12,}|-[0-9]+\b|\[[0-9]+\]`)

// kind is the call without what differs from run to run.
func (c Call) kind() string { return random.ReplaceAllString(c.String(), "*") }

// A Fault is what happens to a call.
type Fault struct {
	Name  string
	Kill  bool          // the process is killed before the call is carried out
	Errno syscall.Errno // the call is not carried out, and this is its result
	// Growing restricts the fault to calls that a full disk can refuse.
	Growing bool
	// Stays lets each chosen call after that one fail as well: a disk that is full
	// stays full.
	Stays bool
}

// meets reports whether a call can have the fault.
func (f Fault) meets(c Call) bool { return c.Grows || !f.Growing }

// The faults of most tests.
var (
	Killed  = Fault{Name: "killed", Kill: true}
	NoSpace = Fault{Name: "ENOSPC", Errno: syscall.ENOSPC, Growing: true}
	Broken  = Fault{Name: "EIO", Errno: syscall.EIO}
	Full    = Fault{Name: "ENOSPC from there on", Errno: syscall.ENOSPC, Growing: true, Stays: true}
)

// A Run is what came of one run.
type Run struct {
	Fault Fault
	At    int    // which of the chosen calls had the fault, from 1; 0: none
	Hit   *Call  // that call; nil when the program ended before it
	Calls []Call // the chosen calls that can have the fault
	Exit  int    // -1: ended by a signal
	Said  string // both outputs
}

func (r Run) String() string {
	if r.Hit == nil {
		return "without a fault"
	}
	return fmt.Sprintf("%s at call %d, %s", r.Fault.Name, r.At, r.Hit)
}

// Message is what the errno of the fault says, "" for a kill.
func (r Run) Message() string {
	if r.Fault.Kill {
		return ""
	}
	return r.Fault.Errno.Error()
}

// A Scene is a program and the directory that is its world.
type Scene struct {
	Dir     string // put back before each run
	Program string
	Args    []string
	Env     []string // beside the environment of the test
	Choose  func(Call) bool
	// Reads lets Choose see the calls that can change nothing, too.
	Reads bool
	// Settled, when not nil, waits for what the program's end leaves to others.
	Settled func()
	// Check looks at the world after a fault, and may run the program again.
	Check func(t testing.TB, r Run)
}

// Run runs the program once on its world as it stands. at is which of the
// chosen calls has the fault, from 1; 0 is none of them.
func (s Scene) Run(t testing.TB, f Fault, at int) Run {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	said := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(read) // also what came until nobody waited any more
		said <- string(all)
	}()
	r, err := s.trace(f, at, write)
	write.Close()
	// Somebody whom a killed program left behind may hold the pipe open.
	_ = read.SetReadDeadline(time.Now().Add(5 * time.Second))
	r.Said = <-said
	if err != nil {
		t.Fatalf("tracing: %v: %s", err, r.Said)
	}
	if s.Settled != nil {
		s.Settled()
	}
	return r
}

// Report counts what [Everywhere] did.
type Report struct {
	Calls int            // chosen calls of one run
	Runs  map[string]int // by fault
	Took  time.Duration
}

// All reports whether each call has its fault, GPUBOARD_ALL_CALLS=1, and not only
// a sample of the calls.
func All() bool { return os.Getenv("GPUBOARD_ALL_CALLS") == "1" }

// sampled is how many calls of a program meet each fault, where not all do.
const sampled = 12

// sample chooses calls from 1 to n: one at random from each of as many equal
// stretches as there are calls in a sample.
func sample(r *rand.Rand, n int) []int {
	count := min(n, sampled)
	chosen := make([]int, count)
	for i := range chosen {
		from, to := i*n/count, (i+1)*n/count
		chosen[i] = from + 1 + r.IntN(to-from)
	}
	return chosen
}

// seed is what the samples follow from: GPUBOARD_FAULT_SEED, or another one each
// time.
func seed(t testing.TB) uint64 {
	text := os.Getenv("GPUBOARD_FAULT_SEED")
	if text == "" {
		return rand.Uint64N(1e6)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("reading GPUBOARD_FAULT_SEED: %v", err)
	}
	return n
}

// Everywhere injects each fault at the chosen calls of a program, a sample of them
// or all (see [All]), and lets the scene check what that left. stage sets up one
// world for each of the workers, who share the work. Where each call has its fault,
// it fails the test when a kind of call that the program makes was never reached.
func Everywhere(t *testing.T, workers int, stage func(dir string) Scene, faults ...Fault) Report {
	t.Helper()
	began := time.Now()
	report := Report{Runs: map[string]int{}}
	samples := map[string][]int{} // by fault; nil for all
	var mu sync.Mutex
	var all sync.WaitGroup
	missed := map[string]Fault{} // by fault and kind of call
	reached := map[string]bool{}
	var again func(kind string, f Fault) bool
	for worker := range workers {
		root := Dir(t)
		live, base := filepath.Join(root, "live"), filepath.Join(root, "base")
		if err := os.Mkdir(live, 0o755); err != nil {
			t.Fatal(err)
		}
		s := stage(live)
		Copy(t, live, base)
		restore := func() error {
			if err := os.RemoveAll(live); err != nil {
				return err
			}
			Copy(t, base, live)
			return nil
		}
		if worker == 0 {
			again = func(kind string, f Fault) bool { return aimed(t, s, restore, root, kind, f) }
			first := s.Run(t, Fault{}, 0)
			report.Calls = len(first.Calls)
			if first.Exit != 0 || len(first.Calls) == 0 {
				t.Fatalf("without a fault: exit %d after %d calls: %s", first.Exit, len(first.Calls), first.Said)
			}
			counts := map[string]int{}
			for _, c := range first.Calls {
				for _, f := range faults {
					if !f.meets(c) {
						continue
					}
					counts[f.Name]++
					missed[f.Name+": "+strings.ReplaceAll(c.kind(), root, "")] = f
				}
			}
			if !All() {
				clear(missed)
				source := seed(t)
				t.Logf("a sample of the calls; GPUBOARD_FAULT_SEED=%d repeats it, GPUBOARD_ALL_CALLS=1 takes all",
					source)
				for _, f := range faults {
					samples[f.Name] = sample(rand.New(rand.NewPCG(source, uint64(len(samples)))), counts[f.Name])
				}
			}
		}
		all.Go(func() {
			for _, f := range faults {
				for n := worker; !t.Failed(); n += workers {
					at := n + 1
					if !All() {
						if n >= len(samples[f.Name]) {
							break
						}
						at = samples[f.Name][n]
					}
					if err := restore(); err != nil {
						t.Error(err)
						return
					}
					r := s.Run(t, f, at)
					if r.Hit == nil && !All() {
						continue // a shorter run than the first
					}
					if r.Hit == nil {
						break
					}
					s.Check(t, r)
					mu.Lock()
					report.Runs[f.Name]++
					reached[f.Name+": "+strings.ReplaceAll(r.Hit.kind(), root, "")] = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return report
	}
	var never []string
	for kind, f := range missed {
		if !reached[kind] && !again(kind, f) {
			never = append(never, kind)
		}
	}
	slices.Sort(never)
	if len(never) > 0 {
		t.Errorf("%d kinds of calls were not reached:\n%s", len(never), strings.Join(never, "\n"))
	}
	report.Took = time.Since(began).Round(10 * time.Millisecond)
	t.Logf("%d calls, runs %v, %v", report.Calls, report.Runs, report.Took)
	return report
}

// Dir is a directory for a world: in memory where that can be, because a disk's
// fsyncs are what such a test would wait for most.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gpuboard-faults-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Copy copies a directory with all times and modes.
func Copy(t testing.TB, from, to string) {
	if out, err := exec.Command("cp", "-a", "--", from, to).CombinedOutput(); err != nil {
		t.Errorf("copying %s: %v: %s", from, err, out)
	}
}

// aimed injects a fault at a kind of call that counting from 1 passed over, because
// the number of calls before it differs from run to run. It reports whether it was
// reached.
func aimed(t *testing.T, s Scene, restore func() error, root, kind string, f Fault) bool {
	named := func(c Call) string { return f.Name + ": " + strings.ReplaceAll(c.kind(), root, "") }
	for range 20 {
		if err := restore(); err != nil {
			t.Error(err)
			return false
		}
		n := 0
		at := slices.IndexFunc(s.Run(t, Fault{}, 0).Calls, func(c Call) bool {
			if f.meets(c) {
				n++
			}
			return f.meets(c) && named(c) == kind
		})
		if at < 0 {
			continue
		}
		if err := restore(); err != nil {
			t.Error(err)
			return false
		}
		r := s.Run(t, f, n)
		if r.Hit == nil {
			continue
		}
		s.Check(t, r)
		if t.Failed() {
			return false
		}
		if named(*r.Hit) == kind {
			return true
		}
	}
	return false
}
