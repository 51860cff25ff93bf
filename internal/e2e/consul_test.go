package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
)

// within is how long a test waits for what comes sooner by far. How soon is no
// business of a test on a machine that does other things too.
const within = need.Patience

// TestRealConsul runs the program itself against real Consul agents.
func TestRealConsul(t *testing.T) {
	program := builtProgram(t)
	shared := consultest.Start(t, consultest.Options{})
	tests := func(t *testing.T) {
		t.Run("a node", func(t *testing.T) {
			t.Parallel()
			testNode(newSite(t, program, consultest.Start(t, consultest.Options{Node: "gpu01"})))
		})
		t.Run("the manual", func(t *testing.T) {
			t.Parallel()
			testManual(newSite(t, program, consultest.Start(t, consultest.Options{Node: "gpu01", ACL: true})))
		})
		t.Run("a Consul that hangs", func(t *testing.T) { t.Parallel(); testHanging(newSite(t, program, shared)) })
		t.Run("failover", func(t *testing.T) { t.Parallel(); testFailover(newSite(t, program, shared)) })
		t.Run("watch", func(t *testing.T) { t.Parallel(); testWatch(newSite(t, program, shared)) })
		t.Run("datacenters", func(t *testing.T) {
			t.Parallel()
			testDatacenters(newSite(t, program, consultest.Start(t, consultest.Options{Datacenter: "east"})))
		})
		t.Run("shrink", func(t *testing.T) { t.Parallel(); testShrink(newSite(t, program, shared)) })
	}
	t.Run("all", tests) // and the shared agent outlives them
}

// newSite is a house with a data directory, an nvidia-smi that fails while a
// file "broken" is there, and a Consul.
func newSite(t *testing.T, program string, agent *consultest.Agent) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), program: program, consul: agent}
	h.data, h.site, h.smi = filepath.Join(h.dir, "data"), filepath.Join(h.dir, "site"), filepath.Join(h.dir,
		"nvidia-smi")
	h.must(os.MkdirAll(filepath.Join(h.data, "drop"), 0o755))
	capture, err := filepath.Abs("collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	h.must(err)
	h.write("nvidia-smi",
		fmt.Sprintf("#!/bin/sh\nif [ -e %s/broken ]; then echo 'the driver is not loaded'; exit 9; fi\nexec cat %s\n",
			h.dir, capture))
	h.must(os.Chmod(h.smi, 0o755))
	return h
}

// A process is the program, left running.
type process struct {
	*exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (h *house) start(args ...string) *process {
	h.t.Helper()
	c := exec.Command(h.program, args...)
	c.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+h.consul.Address, "HOME="+h.dir)
	return h.startCommand(c)
}

func (h *house) startCommand(c *exec.Cmd) *process {
	h.t.Helper()
	p := &process{Cmd: c, done: make(chan struct{})}
	p.Stdout, p.Stderr = p, p
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.must(p.Start())
	go func() { _ = p.Wait(); close(p.done) }()
	h.t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end ends the process and returns its exit code.
func (p *process) end(sig syscall.Signal) int {
	_ = p.Process.Signal(sig)
	<-p.done
	return p.ProcessState.ExitCode()
}

// says waits until the process has said something.
func (h *house) says(p *process, want string) {
	h.t.Helper()
	consultest.Eventually(h.t, within, func() error {
		if strings.Contains(p.String(), want) {
			return nil
		}
		return fmt.Errorf("not a word of %q:\n%s", want, p)
	})
}

// shows waits until the board is as it should be.
func (h *house) shows(what string, is func(boardJSON) bool) {
	h.t.Helper()
	path := filepath.Join(h.site, "api", "v1", "board.json")
	consultest.Eventually(h.t, within, func() error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var b boardJSON
		if err := json.Unmarshal(data, &b); err != nil {
			return err // never half of it
		}
		if !is(b) {
			return fmt.Errorf("the board does not show %s:\n%s", what, data)
		}
		return nil
	})
}

// enter writes a node with the service into Consul's catalog.
func (h *house) enter(service string, nodes ...string) {
	h.t.Helper()
	for _, node := range nodes {
		_, err := h.consul.Admin().Catalog().Register(&api.CatalogRegistration{Node: node, Address: "127.0.0.1",
			Service: &api.AgentService{ID: service, Service: service}}, nil)
		h.must(err)
	}
}

func hostNames(b boardJSON) []string {
	var names []string
	for _, host := range b.Hosts {
		names = append(names, host.Name)
	}
	return names
}

func testNode(h *house) {
	t := h.t
	local := func() *api.Agent { return h.consul.Admin().Agent() }
	node := func(args ...string) []string {
		return append(args, "--spool", filepath.Join(h.dir, "spool"), "--nvidia-smi", h.smi)
	}
	to := []string{"--to", "file://" + h.data, "--register-title", "Box 1"}

	// Registered once and twice, and changed: the state of the check stays.
	register := append(
		node("register", "--host", "gpu01", "--register-tags", "a100,lab-b", "--register-group", "rack 4",
			"--register-owner", "vision",
			"--register-notes", "no overnight jobs", "--register-ssh-host", "gpu01.lab.example:2222"), to...)
	if out := h.run(0, register...); out != "" {
		t.Errorf("register says %q", out)
	}
	if err := local().UpdateTTL("gpuboard-collect", "by hand", api.HealthWarning); err != nil {
		t.Fatal(err)
	}
	h.run(0, register...)
	var printed struct {
		Registered bool
		Title      string
		GPUs       int
		Models     []string
	}
	h.must(json.Unmarshal([]byte(h.run(0, append(register, "--register-title", "Box One", "--json")...)), &printed))
	if !printed.Registered || printed.Title != "Box One" || printed.GPUs != 0 || len(printed.Models) != 1 {
		t.Errorf("register --json prints %+v", printed)
	}
	checks, err := local().Checks()
	if err != nil || checks["gpuboard-collect"].Status != api.HealthWarning ||
		checks["gpuboard-collect"].Output != "by hand" {
		t.Errorf("after registering twice: %+v, %v", checks["gpuboard-collect"], err)
	}
	service, _, err := local().Service("gpuboard", nil)
	h.must(err)
	meta := map[string]string{"host": "gpu01", "models": "NVIDIA A100-SXM4-80GB", "driver": service.Meta["driver"],
		"title": "Box One",
		"group": "rack 4", "owner": "vision", "notes": "no overnight jobs", "drop": "file://" + h.data,
		"ssh_host": "gpu01.lab.example", "ssh_port": "2222", "registered_by": "gpuboard"}
	if d := cmp.Diff(meta, service.Meta); d != "" || service.Meta["driver"] == "" ||
		!slices.Equal(service.Tags, []string{"a100", "lab-b"}) {
		t.Errorf("the service has tags %v and meta\n%s", service.Tags, d)
	}

	// The state in Consul follows the node's.
	state := func(status, output string) {
		t.Helper()
		consultest.Eventually(t, within, func() error {
			entries, _, err := h.consul.Admin().Health().Service("gpuboard", "", false, nil)
			if err != nil {
				return err
			}
			for _, e := range entries {
				for _, c := range e.Checks {
					if c.CheckID == "gpuboard-collect" && c.Status == status && strings.Contains(c.Output, output) {
						return nil
					}
				}
			}
			data, _ := json.Marshal(entries)
			log, _ := os.ReadFile(filepath.Join(h.dir, "spool", "run.log"))
			return fmt.Errorf("want %s (%s), Consul has %s\nthe loop says:\n%s", status, output, data, log)
		})
	}
	loop := append(node("check", "gpu01", "--every", "2s", "--register"), to...)
	h.run(0, loop...)
	t.Cleanup(func() { h.run(0, node("check", "kill")...) })
	state(api.HealthPassing, "8 of 8 GPUs free")

	h.write("broken", "")
	state(api.HealthWarning, "driver")
	h.must(os.Remove(filepath.Join(h.dir, "broken")))
	state(api.HealthPassing, "8 of 8 GPUs free")

	drop := filepath.Join(h.data, "drop")
	h.must(os.Rename(drop, drop+".away"))
	h.write("data/drop", "no directory")
	state(api.HealthWarning, "collected, and not delivered")
	h.must(os.Remove(drop))
	h.must(os.Rename(drop+".away", drop))
	state(api.HealthPassing, "8 of 8 GPUs free")

	// The agent ends; the node goes on, and says once that it misses it. The
	// agent comes back and has forgotten everything.
	h.consul.Stop()
	latest := filepath.Join(drop, "gpu01", "latest.json.gz")
	for from, n := h.seq(latest), uint64(0); n < from+3; n = h.seq(latest) {
		time.Sleep(100 * time.Millisecond)
	}
	h.consul.Restart()
	state(api.HealthPassing, "8 of 8 GPUs free")
	// The loop says that it is well again after Consul knows it.
	consultest.Eventually(t, within, func() error {
		log, err := os.ReadFile(filepath.Join(h.dir, "spool", "run.log"))
		if err != nil {
			return err
		}
		for what, want := range map[string]int{"telling Consul: reporting to Consul": 1,
			"telling Consul: well again": 1, "collecting": 0, "hint: does the Consul agent run": 1} {
			if n := strings.Count(string(log), what); n != want {
				return fmt.Errorf("the loop says %q %d times, want %d:\n%s", what, n, want, log)
			}
		}
		return nil
	})

	// Stopped: nobody looks after it. Killed: Consul notices by itself.
	h.run(0, node("check", "kill")...)
	state(api.HealthCritical, "the collector was stopped")
	killed := h.start(
		append(node("run", "--host", "gpu01", "--every", "2s", "--register", "--register-ttl", "4s"), to...)...)
	state(api.HealthPassing, "8 of 8 GPUs free")
	killed.end(syscall.SIGKILL)
	state(api.HealthCritical, "TTL")

	// A node whose driver fails can be registered.
	h.write("broken", "")
	if out := h.run(3, register...); !strings.Contains(out, "driver") {
		t.Errorf("with a driver that fails, register says %q", out)
	}
	service, _, err = local().Service("gpuboard", nil)
	if err != nil || service.Meta["gpus"] != "" || service.Meta["title"] != "Box 1" {
		t.Errorf("with a driver that fails: %+v, %v", service, err)
	}

	for range 2 {
		if out := h.run(0, node("deregister", "--host", "gpu01")[:3]...); out != "" {
			t.Errorf("deregister says %q", out)
		}
		var status api.StatusError
		if _, _, err := local().Service("gpuboard", nil); !errors.As(err, &status) || status.Code != 404 {
			t.Errorf("after deregistering: %v", err)
		}
	}
	h.consul.Stop()
	for _, command := range []string{"register", "deregister"} {
		if out := h.run(75, command, "--host", "gpu01"); !strings.Contains(out, "hint: does the Consul agent run") {
			t.Errorf("%s without Consul says %q", command, out)
		}
	}
}

// seq is the number of the snapshot that a drop holds.
func (h *house) seq(latest string) uint64 {
	h.t.Helper()
	f, err := os.Open(latest)
	h.must(err)
	defer f.Close()
	b, err := snapshot.DecodeBundle(f)
	h.must(err)
	return b.Snapshot.Seq
}

// A Consul that takes calls and never answers keeps nothing waiting: while one
// question to it is open, the node goes on pushing.
func testHanging(h *house) {
	t := h.t
	l, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	defer l.Close()
	agent := *h.consul
	agent.Address = "http://" + l.Addr().String()
	h.consul = &agent
	p := h.start("run", "--host", "gpu01", "--every", "2s", "--register", "--spool", filepath.Join(h.dir, "spool"),
		"--nvidia-smi", h.smi, "--to", "file://"+h.data)
	latest := filepath.Join(h.data, "drop", "gpu01", "latest.json.gz")
	h.must(l.(*net.TCPListener).SetDeadline(time.Now().Add(within)))
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("no push while a question to Consul was open (%v):\n%s", err, p)
		}
		before := h.seq(latest)
		_, _ = io.Copy(io.Discard, c) // until the other side gives up
		pushed := h.seq(latest) - before
		c.Close()
		if pushed > 0 {
			break
		}
	}
	h.says(p, "telling Consul")
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("asked to end, the loop exits with %d:\n%s", code, p)
	}
}

// Two generators: the second writes nothing until the first is dead.
func testFailover(h *house) {
	t := h.t
	generate := func(name, consul string) (*process, *house) {
		agent := *h.consul
		if consul != "" {
			agent.Address = consul
		}
		one := *h
		one.consul, one.site = &agent, filepath.Join(h.dir, name)
		return one.start("generate", "--data", h.data, "--site", one.site, "--state", one.site+"-state", "--hosts-from",
			"drops",
			"--watch", "--leader", "--interval", "1s"), &one
	}
	nothing := func(one *house) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(one.site, "index.html")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a generator that stands by writes (%v)", filepath.Base(one.site), err)
		}
	}
	first, site1 := generate("first", "")
	h.says(first, "leading: this generator writes the site")
	site1.shows("anything", func(boardJSON) bool { return true })

	alone, site3 := generate("alone", "http://127.0.0.1:1")
	h.says(alone, "standing by: standing for election in Consul")
	h.says(alone, "hint: does the Consul agent run")
	second, site2 := generate("second", "")
	h.says(second, "standing by: another generator leads (")
	nothing(site2)

	start := time.Now()
	first.end(syscall.SIGKILL)
	site2.shows("anything", func(boardJSON) bool { return true })
	t.Logf("the other took over after %s", time.Since(start).Round(100*time.Millisecond))
	h.says(second, "leading: this generator writes the site")
	nothing(site3)
	for _, p := range []*process{second, alone} {
		if code := p.end(syscall.SIGTERM); code != 0 {
			t.Errorf("asked to end, a generator exits with %d:\n%s", code, p)
		}
		if n := strings.Count(p.String(), "standing by"); n != 1 {
			t.Errorf("said %d times that it stands by:\n%s", n, p)
		}
	}
}

// The interval is ten minutes, so that whatever is on the page is there because
// somebody edited something. Each generation also shows what nodes pushed and what
// Consul names.
func testWatch(h *house) {
	t := h.t
	h.enter("watched", "gpu01")
	p := h.start(h.generate("--watch", "--interval", "10m", "--consul-service", "watched", "-v")...)
	took := func(what string, is func(boardJSON) bool) {
		t.Helper()
		start := time.Now()
		h.shows(what, is)
		t.Logf("%s was shown after %s", what, time.Since(start).Round(10*time.Millisecond))
	}
	took("gpu01", func(b boardJSON) bool { return slices.Equal(hostNames(b), []string{"gpu01"}) })

	collect := func(host string) {
		t.Helper()
		spool := filepath.Join(h.dir, "spool-"+host)
		h.run(0, "collect", "--host", host, "--spool", spool, "--nvidia-smi", h.smi)
		h.run(0, "publish", "--host", host, "--spool", spool, "--to", "file://"+h.data)
	}
	book := func(gpu int, name string) {
		t.Helper()
		h.write("data/.comments.json.new",
			fmt.Sprintf(`{"gpu01": {"%d": {"name": %q, "date": "2099-01-01 12:00"}}}`, gpu, name))
		h.must(os.Rename(filepath.Join(h.data, ".comments.json.new"), filepath.Join(h.data, "comments.json")))
		took("a booking", func(b boardJSON) bool {
			return b.Hosts[0].State == "up" && b.Hosts[0].GPUs[gpu].Booking != nil &&
				b.Hosts[0].GPUs[gpu].Booking.Name == name
		})
	}
	collect("gpu01")
	book(0, "eva")
	h.enter("watched", "gpu02")
	collect("gpu03") // in Consul it is not: a new drop
	book(1, "tom")
	took("a new drop, and the host that is new in Consul", func(b boardJSON) bool {
		return slices.Equal(hostNames(b), []string{"gpu01", "gpu02", "gpu03"}) && b.Hosts[2].State == "up"
	})
	if n := strings.Count(p.String(), "files written"); n > 10 {
		t.Errorf("%d generations for two edits:\n%s", n, p)
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("asked to end, it exits with %d:\n%s", code, p)
	}
}

// Four of ten hosts leave Consul at once: that is a mistake until somebody says
// that it is none.
func testShrink(h *house) {
	t := h.t
	var all []string
	for i := range 10 {
		all = append(all, fmt.Sprintf("gpu%02d", i))
	}
	h.enter("shrinking", all...)
	generate := h.generate("--consul-service", "shrinking")
	h.run(0, generate...)
	for _, node := range all[:4] {
		_, err := h.consul.Admin().Catalog().Deregister(&api.CatalogDeregistration{Node: node, ServiceID: "shrinking"},
			nil)
		h.must(err)
	}
	gone := func() int {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(h.site, "api", "v1", "board.json"))
		h.must(err)
		var b struct {
			Hosts []struct {
				Name      string
				GoneSince *time.Time `json:"gone_since"`
			}
		}
		h.must(json.Unmarshal(data, &b))
		if len(b.Hosts) != 10 {
			t.Errorf("the board shows %d hosts, want 10", len(b.Hosts))
		}
		n := 0
		for _, host := range b.Hosts {
			if host.GoneSince != nil {
				n++
			}
		}
		return n
	}
	for range 2 {
		if out := h.run(3, generate...); !strings.Contains(out, "discovery:shrunk") || gone() != 0 {
			t.Errorf("%d hosts are gone, and it says %q", gone(), out)
		}
	}
	h.run(0, append(generate, "--accept-shrink")...)
	if gone() != 4 {
		t.Errorf("accepted, %d hosts are gone, want 4", gone())
	}
	h.run(0, generate...)
}
