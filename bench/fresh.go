package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"gpuboard/internal/testenv/sshtest"
)

// measuredNodes run beside the fleet, each with a phase of its own.
const measuredNodes = 4

// freshness is the time from a change on a GPU until board.json has it, by the clock: nodes of which each runs
// gpuboard run with its defaults and pushes to one sshd, and one gpuboard generate --watch with its defaults, or one
// generation a minute. Beside them another process pushes for the rest of the fleet, every host once in an interval.
func (s *suite) freshness() error {
	for _, c := range []freshCase{
		{generator: "generate --watch", median: 5.5, longest: 9},
		{generator: "generate --watch", others: 96, median: 5.5, longest: 9},
		{generator: "generate from cron", cron: true, median: 40, longest: 75},
	} {
		if err := s.with(func(h *harness) error { return s.freshWith(h, c) }); err != nil {
			return err
		}
	}
	return nil
}

// freshnessOfMany is the same of a large fleet: 20 seconds between two generations, and the work of one.
func (s *suite) freshnessOfMany() error {
	return s.with(func(h *harness) error {
		return s.freshWith(h, freshCase{
			generator: "generate --watch", others: s.big() - measuredNodes, median: 17, longest: 32})
	})
}

// A freshCase is what freshness is measured of, with its targets in seconds.
type freshCase struct {
	generator       string
	cron            bool
	others          int // hosts beside the measured ones
	median, longest float64
}

func (s *suite) freshWith(h *harness, c freshCase) error {
	dir := h.TempDir()
	f := &fleet{dir: dir, memory: filepath.Join(s.memory, filepath.Base(dir))}
	for _, made := range []string{f.path("data", "drop"), f.path("state"), f.site()} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	if c.others > 0 {
		if err := s.pushElsewhere(h, f, c.others, 0); err != nil {
			return err
		}
	}
	server := sshtest.Start(h, sshtest.Options{Command: sshtest.LockedDown})
	var nodes []*measuredNode
	for i := range measuredNodes {
		n, err := s.newMeasuredNode(h, f, server, fmt.Sprint("measured", i))
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
		// A phase of its own, as nodes have that were not started together.
		time.Sleep(rand.N(every / measuredNodes))
	}
	places := []string{"--data", f.path("data"), "--site", f.site(), "--state", f.path("state"), "--timezone", "UTC"}
	times, spread := s.times(8), every
	var watch *exec.Cmd
	began := time.Now()
	if c.cron {
		h.everyMinute(s.program, append([]string{"generate", "--interval", "1m"}, places...)...)
		times, spread = s.times(4), time.Minute
	} else {
		watch = exec.Command(s.program, append([]string{"generate", "--watch"}, places...)...)
		h.background(watch)
	}

	board := &boardWatch{path: f.site("api", "v1", "board.json")}
	var wait sync.WaitGroup
	failed := make(chan error, len(nodes))
	for _, n := range nodes {
		wait.Go(func() {
			if err := n.measure(board, times, spread); err != nil {
				failed <- err
			}
		})
	}
	wait.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	var seconds []float64
	for _, n := range nodes {
		seconds = append(seconds, n.seconds...)
	}
	slices.Sort(seconds)
	what := fmt.Sprintf("from a change on a GPU to board.json, %d hosts, %s, defaults, by the clock",
		c.others+measuredNodes, c.generator)
	s.add(row{id: "F1", what: what, unit: "s", values: seconds, target: c.median})
	s.add(
		row{id: "F1", what: "the longest of them", unit: "s", values: []float64{slices.Max(seconds)},
			target: c.longest})
	if watch != nil {
		share := 100 * spent(watch.Process.Pid).Seconds() / time.Since(began).Seconds()
		s.add(
			row{id: "F1", what: "the generator's share of a processor meanwhile", unit: "%", values: []float64{share}})
		mib := float64(peak(watch.Process.Pid)) / (1 << 20)
		s.add(row{id: "F1", what: "its memory at the most", unit: "MiB", values: []float64{mib}})
	}
	return nil
}

// everyMinute runs a command now and once a minute, as cron does, until the measure ends. Its exit codes are those of
// a site on which not all is well.
func (h *harness) everyMinute(name string, args ...string) {
	ended := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_ = exec.Command(name, args...).Run()
			select {
			case <-time.After(time.Minute):
			case <-ended:
				return
			}
		}
	}()
	h.Cleanup(func() {
		close(ended)
		<-done
	})
}

// background runs a command until the measure ends. It is not interrupted, because who starts the bench in the
// background of a script lets all its programs ignore that.
func (h *harness) background(cmd *exec.Cmd) {
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// pushElsewhere starts this program again, to push for so many hosts: what the bench itself does to make a fleet
// live must not slow down what it measures more than real nodes would. pace is how fast their jobs begin and end; 0 for
// as usual.
func (s *suite) pushElsewhere(h *harness, f *fleet, hosts int, pace float64) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-push-for", strconv.Itoa(hosts), "-push-into", f.dir, "-push-pace", fmt.Sprint(pace))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	h.background(cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("a process that pushes for %d hosts: %w, %q", hosts, err, line)
	}
	return nil
}

// pushFor pushes for the hosts of a fleet, each once in an interval, until it is ended. It says on w when all of
// them have pushed.
func pushFor(hosts int, dir string, pace float64, w io.Writer) error {
	f, err := newFleet(dir, dir, hosts, true)
	if err != nil {
		return err
	}
	f.pace, f.began = pace, time.Now().UTC()
	if _, err := fmt.Fprintln(w, "ready"); err != nil {
		return err
	}
	const parts = 20
	for n := 0; ; n++ {
		begin := time.Now()
		first := n % parts * len(f.names) / parts
		last := (n%parts + 1) * len(f.names) / parts
		f.at = begin.UTC().Add(-every)
		if err := f.push(f.names[first:last]); err != nil {
			return err
		}
		time.Sleep(time.Until(begin.Add(every / parts)))
	}
}

// A measuredNode is one whose first GPU changes its temperature now and then.
type measuredNode struct {
	name, xml string
	text      []byte    // what its nvidia-smi says, but for the temperature
	seconds   []float64 // from each change until the board had it
}

var temperatureElement = regexp.MustCompile(`<gpu_temp>\d+ C</gpu_temp>`)

func (s *suite) newMeasuredNode(h *harness, f *fleet, server *sshtest.Server, name string) (*measuredNode, error) {
	smi, _, err := s.fakeSMI()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(smi), "busy.xml"))
	if err != nil {
		return nil, err
	}
	dir := h.TempDir()
	n := &measuredNode{name: name, xml: filepath.Join(dir, "smi.xml"), text: text}
	if err := n.become(40); err != nil {
		return nil, err
	}
	own := filepath.Join(dir, "nvidia-smi")
	if err := os.WriteFile(own, []byte("#!/bin/sh\nexec cat "+n.xml+"\n"), 0o755); err != nil {
		return nil, err
	}
	drop := f.path("data", "drop", name)
	if err := os.MkdirAll(drop, 0o755); err != nil {
		return nil, err
	}
	h.background(
		exec.Command(s.program, "run", "--host", name, "--nvidia-smi", own, "--spool", filepath.Join(dir, "spool"),
			"--to", fmt.Sprintf("sftp://%s@%s%s", server.User, server.Addr, drop), "--identity", server.Key,
			"--known-hosts", server.KnownHosts))
	return n, nil
}

// become changes the temperature of the first GPU.
func (n *measuredNode) become(celsius int) error {
	first := true
	text := temperatureElement.ReplaceAllFunc(n.text, func(old []byte) []byte {
		if !first {
			return old
		}
		first = false
		return fmt.Appendf(nil, "<gpu_temp>%d C</gpu_temp>", celsius)
	})
	if first {
		return fmt.Errorf("the capture has no temperature")
	}
	if err := os.WriteFile(n.xml+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(n.xml+".new", n.xml)
}

// measure changes the temperature so many times, each some random time within spread after the board had the one
// before.
func (n *measuredNode) measure(board *boardWatch, times int, spread time.Duration) error {
	if _, err := board.wait(n.name, 40, 3*time.Minute); err != nil {
		return err
	}
	for i := range times {
		time.Sleep(rand.N(spread))
		celsius := 41 + i%40
		began := time.Now()
		if err := n.become(celsius); err != nil {
			return err
		}
		seen, err := board.wait(n.name, celsius, 5*time.Minute)
		if err != nil {
			return err
		}
		n.seconds = append(n.seconds, seen.Sub(began).Seconds())
		say("    %s: %.1f s", n.name, seen.Sub(began).Seconds())
	}
	return nil
}

// boardWatch reads a board.json each time it has been replaced.
type boardWatch struct {
	path    string
	mu      sync.Mutex
	read    time.Time // the modification time of what was read last
	looked  time.Time
	celsius map[string]int // of the first GPU of each host
}

// wait returns when a host's first GPU has this temperature on the board.
func (b *boardWatch) wait(host string, celsius int, most time.Duration) (time.Time, error) {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if at, there := b.has(host, celsius); there {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("after %s the board has not %d °C for %s", most, celsius, host)
}

func (b *boardWatch) has(host string, celsius int) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Stat(b.path)
	if err == nil && info.ModTime() != b.read {
		b.load(info.ModTime())
	}
	got, there := b.celsius[host]
	return b.looked, there && got == celsius
}

func (b *boardWatch) load(modified time.Time) {
	looked := time.Now()
	raw, err := os.ReadFile(b.path)
	if err != nil {
		return
	}
	var board struct {
		Hosts []struct {
			Name string
			GPUs []struct {
				Temperature int `json:"temperature_celsius"`
			}
		}
	}
	if json.Unmarshal(raw, &board) != nil {
		return
	}
	b.read, b.looked, b.celsius = modified, looked, map[string]int{}
	for _, h := range board.Hosts {
		if len(h.GPUs) > 0 {
			b.celsius[h.Name] = h.GPUs[0].Temperature
		}
	}
}
