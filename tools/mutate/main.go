// Mutate changes the source of packages in small ways, one at a time, and runs their
// tests on each change. A change that no test notices has survived: either a test is
// missing, or the changed code does nothing that can be seen.
//
//	go -C tools run ./mutate -n 40 internal/booking internal/spool
//
// The source itself is never written: the go command reads each change as an overlay.
// The sample is the same for the same seed and source. It exits with 1 if more than one
// change in twenty survived.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// tolerated is how many survivors there may be: one in so many.
const tolerated = 20

func main() {
	number := flag.Int("n", 40, "how many changes of each package to try")
	seed := flag.Uint64("seed", 1, "seed of the sample")
	timeout := flag.Duration("timeout", 3*time.Minute,
		"when the tests of one change are ended; the change is then noticed")
	also := flag.String("also", "", "another package whose tests run if those of the changed one notice nothing")
	long := flag.String("long", "",
		"regular expression of tests that then run without -short, such as those that start a server")
	flag.Parse()
	// Commands and tests under way get the same signal from the terminal or from timeout(1).
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := runner{timeout: *timeout, also: *also, long: *long}
	tried, survived, err := r.sample(ctx, flag.Args(), *number, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	fmt.Printf("%d changes tried, %d survived, seed %d\n", tried, survived, *seed)
	if survived*tolerated > tried {
		os.Exit(1)
	}
}

type result int

const (
	noticed result = iota
	unnoticed
	doesNotCompile
)

// A runner runs tests on changed source.
type runner struct {
	root, work string
	timeout    time.Duration
	also       string // directory of another package whose tests run after those of the changed one, or ""
	long       string // tests of the changed package that run without -short, or ""
}

// sample tries number changes of each package, and prints those that survive.
func (r runner) sample(
	ctx context.Context, packages []string, number int, seed uint64,
) (tried, survived int, err error) {
	if r.root, err = filepath.Abs(".."); err != nil {
		return 0, 0, err
	}
	if r.work, err = os.MkdirTemp("", "mutate-"); err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(r.work)
	for _, dir := range packages {
		changes, err := find(filepath.Join(r.root, dir))
		if err != nil {
			return 0, 0, err
		}
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(changes),
			func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		if r.run("test", "-short", "./"+dir) != nil {
			return 0, 0, fmt.Errorf("the tests of %s fail without a change", dir)
		}
		left := number
		for _, c := range changes {
			if left == 0 {
				break
			}
			result, err := r.try(c, dir)
			if err == nil {
				err = ctx.Err() // after a signal, failed tests mean nothing
			}
			if err != nil {
				return 0, 0, err
			}
			if result == doesNotCompile {
				continue
			}
			left--
			tried++
			if result == unnoticed {
				survived++
				name, _ := filepath.Rel(r.root, c.file)
				fmt.Printf("%s:%d: %s\n", name, c.line, c.what)
			}
		}
	}
	return tried, survived, nil
}

func (r runner) try(c change, dir string) (result, error) {
	source, err := os.ReadFile(c.file)
	if err != nil {
		return 0, err
	}
	changed := filepath.Join(r.work, "changed.go")
	text := string(source[:c.from]) + c.text + string(source[c.to:])
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return 0, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {c.file: changed}})
	if err != nil {
		return 0, err
	}
	list := filepath.Join(r.work, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return 0, err
	}
	if r.run("build", "-overlay", list, "./"+dir) != nil {
		return doesNotCompile, nil
	}
	test := []string{"test", "-overlay", list, "-vet", "off", "-failfast", "-timeout", r.timeout.String()}
	if r.run(append(test, "-short", "./"+dir)...) != nil {
		return noticed, nil
	}
	if r.also != "" && r.run(append(test, "-short", "./"+r.also)...) != nil {
		return noticed, nil
	}
	if r.long != "" && r.run(append(test, "-run", r.long, "./"+dir)...) != nil {
		return noticed, nil
	}
	return unnoticed, nil
}

func (r runner) run(args ...string) error {
	command := exec.Command("go", args...)
	command.Dir = r.root
	return command.Run()
}
