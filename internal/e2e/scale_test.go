package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/demo"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/fleettest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
	"gpuboard/sitegen"
)

// long reports whether this is the long run of the tests, which check.sh
// --long asks for: more of the same, for what takes minutes.
func long() bool { return os.Getenv("GPUBOARD_LONG") == "1" }

// TestAllArriveAfterAReboot is the morning after a power cut: every node of a
// fleet starts at the same moment, each with what it collected while the web
// host was away, and knocks at an sshd with its default settings, which turns
// more than a third of them away at first. All of them arrive, whole, and none
// of what had waited is lost. Some are the real program, the others its
// publisher on its schedule. Then the web host alone starts again, under all
// the connections that were kept.
func TestAllArriveAfterAReboot(t *testing.T) {
	reboots := func(nodes, processes int, sshd string) func(t *testing.T) {
		return func(t *testing.T) {
			f := newReboot(t, nodes, processes, sshd)
			f.everybody("after everybody's reboot")
			f.s.Stop()
			f.s.Restart()
			f.at = f.at.Add(rebootEvery)
			f.everybody("after the web host's reboot")
		}
	}
	t.Run("200", reboots(200, 10, ""))
	if long() {
		t.Run("1000", reboots(1000, 20, ""))
		t.Run("1000 from one address that can be punished", reboots(1000, 20, sshtest.Punishing(t, ".")))
	}
}

// reboot is a fleet and the door it knocks at.
type reboot struct {
	t         *testing.T
	s         *sshtest.Server
	door      sshtest.Door
	fleet     *demo.Fleet
	at        time.Time
	nodes     []*rebooted
	processes []*exec.Cmd
	logs      []string
}

// rebooted is one node of it. What it delivers is kept, to be compared.
type rebooted struct {
	host, dir string
	p         *publisher.Publisher
	spool     *spool.Spool
	files     map[string][]byte
}

const (
	rebootEvery = 20 * time.Second // the default interval
	outage      = 3                // hours that the web host was away
)

func newReboot(t *testing.T, nodes, processes int, sshd string) *reboot {
	t.Helper()
	f := &reboot{t: t, at: time.Now().UTC().Truncate(time.Second)}
	f.fleet = demo.NewLarge(1, f.at, nodes)
	f.door = sshtest.Accounts(t, "gpu01")
	// The shipped account, and nothing else of the shipped configuration: the
	// settings for everybody are sshd's own.
	var account []string
	for line := range strings.Lines(f.door.ShippedConfig(t, ".")) {
		if len(account) > 0 || strings.HasPrefix(line, "Match Group") {
			account = append(account, line)
		}
	}
	f.s = sshtest.Start(t, sshtest.Options{Config: strings.Join(account, ""), Program: sshd})
	for _, h := range f.fleet.Hosts()[:nodes] {
		f.nodes = append(f.nodes, f.node(h.Name))
	}
	program := builtProgram(t)
	capture, err := filepath.Abs("collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	smi := filepath.Join(t.TempDir(), "nvidia-smi")
	f.write(smi, []byte("#!/bin/sh\nexec cat "+capture+"\n"))
	if err := os.Chmod(smi, 0o755); err != nil {
		t.Fatal(err)
	}
	for n := range processes {
		host := fmt.Sprintf("real%03d", n)
		f.drop(host)
		dir := t.TempDir()
		c := exec.Command(program, "run", "--host", host, "--every", "5s", "--spool", filepath.Join(dir, "spool"),
			"--nvidia-smi", smi,
			"--to", "sftp://"+f.door.Nodes[0].Name+"@"+f.s.Addr+"/in/"+host, "--identity", f.door.Nodes[0].Key,
			"--known-hosts", f.s.KnownHosts)
		c.Env = append(os.Environ(), "HOME="+dir)
		f.processes = append(f.processes, c)
		f.logs = append(f.logs, filepath.Join(dir, "log"))
	}
	return f
}

func (f *reboot) write(path string, data []byte) {
	f.t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// drop makes the directory that a host pushes into, below the one that the
// shipped account may write to.
func (f *reboot) drop(host string) string {
	f.t.Helper()
	dir := filepath.Join(f.door.Nodes[0].Drop, host)
	if err := os.Mkdir(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	above, err := os.Stat(f.door.Nodes[0].Drop)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chown(dir, int(above.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

func (f *reboot) node(host string) *rebooted {
	t := f.t
	t.Helper()
	n := &rebooted{host: host, dir: f.drop(host), files: map[string][]byte{}}
	var err error
	dir := filepath.Join(t.TempDir(), "spool")
	if n.spool, err = spool.Open(dir); err != nil {
		t.Fatal(err)
	}
	for back := outage; back > 0; back-- {
		hour := f.at.Add(-time.Duration(back) * time.Hour).Truncate(time.Hour)
		s := f.fleet.Snapshot(host, hour)
		sample := s.Sample()
		sample.Seq = uint64(outage - back + 1)
		data, err := snapshot.EncodeHour(
			&snapshot.Hour{Host: host, BootID: s.BootID, Start: hour, Samples: []snapshot.Sample{sample}})
		if err != nil {
			t.Fatal(err)
		}
		name := "hour-" + hour.Format("20060102T15") + "-" + s.BootID[:8] + ".jsonl.gz"
		n.files[name] = data
		f.write(filepath.Join(dir, name), data)
	}
	target, err := publisher.ParseTarget("sftp://" + f.door.Nodes[0].Name + "@" + f.s.Addr + "/in/" + host)
	if err != nil {
		t.Fatal(err)
	}
	n.p, err = publisher.New(
		publisher.Options{Target: target, Host: host, Keep: true, Identity: []string{f.door.Nodes[0].Key},
			KnownHosts: []string{f.s.KnownHosts}, StateDir: filepath.Join(dir, "push")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.p.Close() })
	return n
}

// everybody collects and pushes at the same instant, and goes on as the loop
// does until nothing waits any more.
func (f *reboot) everybody(when string) {
	t := f.t
	t.Helper()
	for _, n := range f.nodes {
		s := f.fleet.Snapshot(n.host, f.at)
		s.Seq = uint64(f.at.Unix())
		data, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: n.host, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		n.files[spool.LatestName] = data
		f.write(filepath.Join(n.spool.Dir(), spool.LatestName), data)
	}
	// Whoever has not arrived by then never will.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var attempts, most, late atomic.Int64
	begun := time.Now()
	var last atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, n := range f.nodes {
		all.Go(func() {
			<-start
			mine, cycles := 0, 0
			for {
				r, err := n.p.Publish(ctx, n.spool)
				mine, cycles = mine+r.Attempts, cycles+1
				if err == nil && r.Waiting == 0 {
					break
				}
				if e := (*publisher.Error)(nil); err != nil && (!asError(err, &e) || !e.Temporary()) {
					t.Errorf("%s: %s gave up: %v (%s)", when, n.host, err, publisher.Code(err))
					return
				}
				phase := publisher.StaggerOffset(n.host, rebootEvery)
				wait := rebootEvery - (time.Duration(time.Now().UnixNano())-phase)%rebootEvery
				select {
				case <-ctx.Done():
					t.Errorf("%s: %s never arrived: %v", when, n.host, err)
					return
				case <-time.After(wait):
				}
			}
			attempts.Add(int64(mine))
			for old := most.Load(); int64(mine) > old && !most.CompareAndSwap(old, int64(mine)); old = most.Load() {
			}
			if cycles > 1 {
				late.Add(1)
			}
			last.Store(int64(time.Since(begun)))
		})
	}
	begun = time.Now()
	close(start)
	f.startProcesses()
	all.Wait()
	since := begun.Add(-time.Second)
	for n := range f.processes {
		f.arrived(ctx, when, fmt.Sprintf("real%03d", n), since, f.logs[n])
	}
	everybody := time.Since(begun)
	if t.Failed() {
		t.FailNow()
	}

	for _, n := range f.nodes {
		for name, want := range n.files {
			got, err := os.ReadFile(filepath.Join(n.dir, name))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s of %s is not what was sent: %d bytes of %d, %v", when, name, n.host, len(got),
					len(want), err)
			}
		}
		if entries, err := os.ReadDir(n.dir); err != nil || len(entries) != len(n.files) {
			t.Errorf("%s: %s has %d files in its drop, want %d (%v)", when, n.host, len(entries), len(n.files), err)
		}
		if b, err := snapshot.DecodeBundle(bytes.NewReader(n.files[spool.LatestName])); err != nil || b.Host != n.host {
			t.Errorf("%s: the test delivers nonsense: %v", when, err)
		}
	}
	memory, sessions := f.memory()
	t.Logf(
		"%s: %d nodes and %d processes; the last publisher had arrived after %v, the last process after %v; %d attempts, %d at most, %d nodes needed a second cycle; sshd: %d processes, %d MiB",
		when, len(f.nodes), len(f.processes), time.Duration(last.Load()).Round(time.Millisecond),
		everybody.Round(time.Millisecond), attempts.Load(), most.Load(), late.Load(), sessions, memory>>20)
}

// startProcesses starts the real nodes, the first time.
func (f *reboot) startProcesses() {
	t := f.t
	t.Helper()
	for n, c := range f.processes {
		if c.Process != nil {
			continue
		}
		log, err := os.Create(f.logs[n])
		if err != nil {
			t.Fatal(err)
		}
		c.Stdout, c.Stderr = log, log
		err = c.Start()
		log.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
		})
	}
}

// arrived waits until the drop of a real node holds a snapshot that is not older.
func (f *reboot) arrived(ctx context.Context, when, host string, since time.Time, log string) {
	f.t.Helper()
	path := filepath.Join(f.door.Nodes[0].Drop, host, spool.LatestName)
	for {
		data, err := os.ReadFile(path)
		if err == nil {
			b, broken := snapshot.DecodeBundle(bytes.NewReader(data))
			if broken != nil || b.Snapshot == nil || b.Host != host {
				f.t.Errorf("%s: what %s sent is broken: %v", when, host, broken)
				return
			}
			if b.Snapshot.CollectedAt.After(since) {
				return
			}
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(log)
			f.t.Errorf("%s: the process %s never arrived: %v\n%s", when, host, err, said)
			return
		case <-time.After(50 * time.Millisecond): // polling for another process
		}
	}
}

// memory is what sshd and its sessions hold, shared pages counted once.
func (f *reboot) memory() (bytes int64, processes int) {
	for _, pid := range append(f.s.Sessions(), f.s.PID()) {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
		if err != nil {
			continue
		}
		processes++
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				bytes += kib << 10
			}
		}
	}
	return bytes, processes
}

func asError(err error, e **publisher.Error) bool {
	found, ok := err.(*publisher.Error)
	*e = found
	return ok
}

// A bill is what an object store counts in a month, and what that costs at the prices that docs/scale.md names.
type bill struct{ writes, reads, bytes float64 }

func (b bill) dollars() float64 { return (b.writes*5 + b.reads*0.4) / 1e6 }

// TestBucketCosts compares what docs/scale.md says of the requests, bytes and money that a bucket costs with requests
// that are counted: of a copied site, and of drops.
func TestBucketCosts(t *testing.T) {
	need.Time(t, "it generates large sites")
	row := regexp.MustCompile(
		`(?m)^\| ([\d,]+) \| ([\d.]+) M files, ([\d.]+) GB, \$([\d.]+) \| ([\d.]+) M, ([\d.]+) GB, \$([\d.]+) \|$`)
	rows := row.FindAllStringSubmatch(mustReadFile(t, "docs/scale.md"), -1)
	if len(rows) != 3 {
		t.Fatalf("docs/scale.md says what a bucket costs in %d rows, want 3", len(rows))
	}
	program := builtProgram(t)
	for _, said := range rows {
		number := func(i int) float64 {
			n, err := strconv.ParseFloat(strings.ReplaceAll(said[i], ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		hosts := int(number(1))
		if hosts > 100 && !long() {
			continue
		}
		t.Run(said[1], func(t *testing.T) {
			store := s3test.Start(t, "lab-gpu")
			site, drops := costOfSite(t, store, hosts), costOfDrops(t, store, program, hosts)
			for i, counted := range []float64{site.writes / 1e6, site.bytes / 1e9, site.dollars(),
				(drops.writes + drops.reads) / 1e6, drops.bytes / 1e9, drops.dollars()} {
				if says := number(i + 2); math.Abs(says-counted) > counted/5 {
					t.Errorf("%d hosts: number %d of its row in docs/scale.md is %v, and %.3g is counted", hosts, i+2,
						says, counted)
				}
			}
			t.Logf("site %+v $%.3g, drops %+v $%.3g", site, site.dollars(), drops, drops.dollars())
		})
	}
}

// count returns how many requests a store has had of each method, and the bytes that came and went.
func count(store *s3test.Store) (requests map[string]float64, bytes float64) {
	requests = map[string]float64{}
	for _, r := range store.Requests() {
		method, _, _ := strings.Cut(r, " ")
		requests[method]++
	}
	in, out := store.Bytes()
	return requests, float64(in + out)
}

// costOfSite counts the copies of a day and of twenty minutes, in which each file is sent at least once.
func costOfSite(t *testing.T, store *s3test.Store, hosts int) bill {
	t.Helper()
	fleet := demo.NewLarge(1, webStart.Add(-24*time.Hour), hosts)
	state := t.TempDir()
	past, err := history.Open(t.Context(), filepath.Join(state, "history.db"), webStart, history.Options{})
	must(t, err)
	defer past.Close()
	must(t, fleettest.Remember(t.Context(), past, fleet, webStart))
	s := newWebSite(t, func(o *sitegen.Options) {
		o.State, o.History, o.About.Compat = state, past, nil
		o.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) (inv inventory.Inventory) {
			for _, h := range fleet.Hosts() {
				inv.Hosts = append(inv.Hosts, inventory.Host{Name: h.Name, Group: h.Group})
			}
			inv.AsOf = now
			return inv
		}
	})
	s.fleet = fleet
	comments, err := fleettest.Comments(fleet, webStart)
	must(t, err)
	s.write(filepath.Join(s.data, "comments.json"), comments)
	const every = 5 * time.Minute
	toBucket := s.copier(state, "s3://lab-gpu/board", every)
	at := webStart
	copies := func(n int) (files, bytes float64) {
		t.Helper()
		for range n {
			must(t, s.generate(at))
			toBucket(at)
			at = at.Add(every)
		}
		requests, bytes := count(store)
		return requests["PUT"], bytes
	}
	whole, wholeBytes := copies(1)
	four, fourBytes := copies(4)
	const day, month = 24 * time.Hour / (4 * every), 30
	return bill{writes: month * (whole + float64(day)*four), bytes: month * (wholeBytes + float64(day)*fourBytes)}
}

// costOfDrops counts one push of each node, and the generation that fetches it; pushes are a minute apart, and generations
// 20 seconds.
func costOfDrops(t *testing.T, store *s3test.Store, program string, hosts int) bill {
	t.Helper()
	fleet := demo.NewLarge(1, webStart.Add(-24*time.Hour), hosts)
	now := time.Now().UTC()
	for _, h := range fleet.Hosts() {
		s := fleet.Snapshot(h.Name, now)
		b := &snapshot.Bundle{Host: h.Name, BootID: s.BootID, Snapshot: s}
		for minute := 15; minute > 0; minute-- {
			sample := fleet.Snapshot(h.Name, now.Add(-time.Duration(minute)*time.Minute)).Sample()
			sample.Seq = uint64(16 - minute)
			b.Samples = append(b.Samples, sample)
		}
		data, err := snapshot.EncodeBundle(b)
		must(t, err)
		sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(sp.Dir(), spool.LatestName), data, 0o600))
		target, err := publisher.ParseTarget("s3://lab-gpu/drops/" + h.Name)
		must(t, err)
		p, err := publisher.New(publisher.Options{Target: target, StateDir: filepath.Join(sp.Dir(), "push")})
		must(t, err)
		_, err = p.Publish(t.Context(), sp)
		must(t, err)
	}
	pushed, pushedBytes := count(store)
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "data", "drop"), 0o755))
	mustRun(t, dir, nil, program, "generate", "--data", "data", "--state", "state", "--site", "site", "--drops",
		"s3://lab-gpu/drops")
	fetched, fetchedBytes := count(store)
	if int(pushed["PUT"]) != hosts || int(fetched["GET"]) <= hosts {
		t.Fatalf("%d hosts make %v and %v", hosts, pushed, fetched)
	}
	const month = 30 * 24 * 60
	lists := fetched["GET"] - float64(hosts)
	return bill{writes: month * (pushed["PUT"] + 3*lists), reads: month * float64(hosts),
		bytes: month * (pushedBytes + fetchedBytes)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
