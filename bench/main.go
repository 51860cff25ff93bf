// Command bench measures what gpuboard costs, beside what the same work costs
// otherwise on the same machine in the same run, and writes a report.
//
//	go -C bench run .                    everything, bench/REPORT.md and bench/report.svg
//	go -C bench run . -quick             smaller fleets, fewer runs
//	go -C bench run . -only G1,G2 -out - some of it, to standard output
//	go -C bench run . -only P3-hour,page-hour -nodes 1000 -for 1h -out -
//	                                     what is only measured when it is named
//
// It is started in its own directory; paths of its flags are those of the
// repository, like all other paths in it.
//
// It counts processor time, user and system, of all processes that take part:
// on a machine that others use too, it says more than the clock. It needs Linux,
// whose /proc tells it; what else it compares with is used where it is installed,
// and missed in a note where not.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A suite is one run of the bench.
type suite struct {
	dir     string         // for everything but sites, removed at the end
	memory  string         // for sites, in memory where there is /dev/shm, removed at the end
	program string         // gpuboard
	remarks string         // a file with what people know about the numbers, for the end of the report
	busy    string         // the load average when it began
	before  []machineSpeed // how fast the machine was when it began
	after   []machineSpeed // and when it ended
	quick   bool
	only    []string
	nodes   int           // of P3-hour and page-hour
	lasts   time.Duration // P3-hour and page-hour
	rows    []row
	notes   []string
	fleets  map[int]*fleet
	// leastProbe is the built bench/probe, "" for not yet.
	leastProbe string
	hugo       hugoCosts
	// rrdFetch is what rrdtool takes for a day of a host, and rrdGraph for a chart
	// of one of its series, ms; 0 for not known.
	rrdFetch, rrdGraph float64
}

func main() {
	quick := flag.Bool("quick", false, "smaller fleets and fewer runs")
	only := flag.String("only", "", "the measures to take, such as G1,C2")
	out := flag.String("out", "bench", "the directory of REPORT.md and report.svg, or - for standard output")
	program := flag.String("program", "", "the gpuboard to measure (default: built from this tree)")
	generates := flag.Bool("generator", false, "only generate, as asked on standard input; the bench starts itself so")
	pushHosts := flag.Int("push-for", 0, "only push for so many hosts, until ended; the bench starts itself so")
	pushInto := flag.String("push-into", "", "the directory that they push into")
	pushPace := flag.Float64("push-pace", 0, "how fast their jobs begin and end")
	nodes := flag.Int("nodes", 1000, "how many nodes P3-hour and page-hour have")
	lasts := flag.Duration("for", time.Hour, "how long P3-hour and page-hour last")
	kept := flag.String("push-kept", "", "only push as this file says; the bench starts itself so")
	flag.Parse()
	if *generates {
		if err := serveGenerations(os.Stdin, os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	if *pushHosts > 0 {
		fail(pushFor(*pushHosts, *pushInto, *pushPace, os.Stdout))
	}
	if *kept != "" {
		if err := pushKept(*kept, os.Stdin, os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	if err := os.Chdir(".."); err != nil {
		fail(err)
	}
	dir, err := os.MkdirTemp("", "gpuboard-bench-")
	if err != nil {
		fail(err)
	}
	memory, err := os.MkdirTemp("/dev/shm", "gpuboard-bench-")
	if err != nil {
		memory = filepath.Join(dir, "memory")
	}
	s := &suite{dir: dir, memory: memory, busy: busy(), remarks: filepath.Join("bench", "NOTES.md"), quick: *quick,
		program: *program, fleets: map[int]*fleet{}, nodes: *nodes, lasts: *lasts}
	if *only != "" {
		s.only = strings.Split(strings.ToUpper(*only), ",")
	}
	err = s.run()
	if err == nil {
		err = s.write(*out)
	}
	for _, made := range []string{dir, memory} {
		if removeErr := os.RemoveAll(made); err == nil {
			err = removeErr
		}
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// A part takes one or several measures.
type part struct {
	ids  string // that it answers for
	take func(*suite) error
	// named is for what lasts so long that it is only taken when -only names it.
	named bool
}

func (s *suite) run() error {
	if s.program == "" {
		built, err := s.build("gpuboard", ".", ".")
		if err != nil {
			return err
		}
		s.program = built
	}
	program, err := filepath.Abs(s.program)
	if err != nil {
		return err
	}
	s.program = program
	parts := []part{
		{ids: "C1 L1", take: (*suite).oneShot}, {ids: "C2 C3", take: (*suite).loop},
		{ids: "P1 P2 P3", take: (*suite).pushes},
		{ids: "F1", take: (*suite).freshness},
		{ids: "G1 G5", take: (*suite).cycles}, {ids: "G2 G4", take: (*suite).processes},
		{ids: "G3", take: (*suite).growth}, {ids: "G6", take: (*suite).worst},
		{ids: "W1", take: (*suite).weights}, {ids: "W1", take: (*suite).browsed}, {ids: "F2", take: (*suite).renewals},
		{ids: "S1", take: (*suite).views},
		{ids: "H1", take: (*suite).historyBytes}, {ids: "H2", take: (*suite).historyIngest},
		{ids: "H3", take: (*suite).historyCharts},
		{ids: "F1-1000", take: (*suite).freshnessOfMany, named: true},
		{ids: "P3-HOUR", take: (*suite).hour, named: true},
		{ids: "PAGE-HOUR", take: (*suite).pageHour, named: true},
	}
	if s.before, err = s.machineSpeeds(); err != nil {
		return fmt.Errorf("seeing how fast this machine is: %w", err)
	}
	began := time.Now()
	for n, p := range parts {
		ids := strings.Fields(p.ids)
		if (len(s.only) > 0 || p.named) &&
			!slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(s.only, id) }) {
			continue
		}
		say("[%d/%d, after %s] measuring %s", n+1, len(parts), time.Since(began).Round(time.Second),
			strings.Join(ids, ", "))
		start := time.Now()
		// One measure that cannot be taken must not cost the others.
		if err := p.take(s); err != nil {
			for _, id := range ids {
				s.add(row{id: id, what: "not measured: " + err.Error()})
			}
		}
		say("  %s took %s", p.ids, time.Since(start).Round(time.Second))
	}
	if s.after, err = s.machineSpeeds(); err != nil {
		return fmt.Errorf("seeing how fast this machine is: %w", err)
	}
	return nil
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// fleet makes the data of so many hosts, once.
func (s *suite) fleet(hosts int) (*fleet, error) {
	if f := s.fleets[hosts]; f != nil {
		return f, nil
	}
	f, err := s.newFleet("fleet", hosts)
	if err != nil {
		return nil, err
	}
	s.fleets[hosts] = f
	return f, nil
}

// newFleet makes the data of so many hosts, in a directory NAME-HOSTS.
func (s *suite) newFleet(name string, hosts int) (*fleet, error) {
	say("  making a fleet of %d hosts", hosts)
	f, err := newFleet(filepath.Join(s.dir, fmt.Sprint(name, "-", hosts)), s.memory, hosts, true)
	if err != nil {
		return nil, fmt.Errorf("making a fleet: %w", err)
	}
	return f, nil
}

// big is the number of hosts that the targets are told for.
func (s *suite) big() int {
	if s.quick {
		return 200
	}
	return 1000
}

// times is how often something is repeated.
func (s *suite) times(usually int) int {
	if s.quick {
		return max(3, usually/4)
	}
	return usually
}
