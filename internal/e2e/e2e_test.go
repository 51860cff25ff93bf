package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/testenv/browser"
	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/internal/testenv/webtest"
)

// TestWholeProduct runs the main job with nothing but real parts: an sshd with
// the write-only account, a Consul agent with two nodes, the program itself as
// collector (with a fake nvidia-smi that replays a capture, and the real ps) and
// as generator, an nginx that serves the result and a Chromium that reads it.
func TestWholeProduct(t *testing.T) {
	t.Parallel()
	h := newHouse(t)

	// The node: check starts the loop, and lets it be the second time.
	if out := h.run(0, h.node("gpu01", "check", "gpu01")...); !strings.HasPrefix(out, "Launched gpu01 (pid ") {
		t.Fatalf("check said %q", out)
	}
	t.Cleanup(func() { h.run(0, h.node("gpu01", "check", "kill")...) })
	if out := h.run(0, h.node("gpu01", "check", "gpu01")...); !strings.HasPrefix(out, "Running gpu01 (pid ") {
		t.Fatalf("a second check said %q", out)
	}
	h.waitFor(filepath.Join(h.data, "drop", "gpu01", "latest.json.gz"))

	// The web host. gpu02 is registered and has never sent anything; that is no
	// problem of the run, and is on the page.
	h.write("data/comments.json", `{
  // one is booked by its user, one by somebody else
  "gpu01": [ {"name": "`+h.user+`", "date": "2099-01-01 12:00", "comment": "the long run"} ],
}`)
	// GPU 1 of the capture has fallen off the bus: the site is built, and the exit
	// code says that something on it is not well.
	if out := h.run(3, h.generate()...); !strings.Contains(out, "[gpu:lost]") || strings.Count(out, "\n") != 1 {
		t.Errorf("stderr is %q, want one line about the lost GPU", out)
	}
	b := h.board()
	if len(b.Hosts) != 2 || b.Hosts[0].Name != "gpu01" || b.Hosts[0].State != "up" || b.Hosts[1].State != "never" {
		t.Fatalf("hosts %+v, want gpu01 up and gpu02 never", b.Hosts)
	}
	gpu := b.Hosts[0].GPUs[0]
	if len(b.Hosts[0].GPUs) != 2 || b.Hosts[0].GPUs[1].State != "lost" {
		t.Errorf("GPU 1 %+v, want lost", b.Hosts[0].GPUs)
	}
	if gpu.State != "in-use" || len(gpu.Processes) == 0 || gpu.Processes[0].User != h.user ||
		gpu.Processes[0].PID != h.job || gpu.Processes[0].Program != "train.py" {
		t.Fatalf("GPU 0 %+v, want in-use by %s's train.py, pid %d", gpu, h.user, h.job)
	}

	// The visitor.
	site := h.nginx()
	page := browser.Start(t, 1280, 1000)
	page.Open(site + "/")
	row := page.Text("#gpu01-0")
	for _, want := range []string{"in use", h.user, "train.py", "the long run"} {
		if !strings.Contains(row, want) {
			t.Errorf("the row of GPU 0 lacks %q:\n%s", want, row)
		}
	}
	card := page.Text("#gpu01")
	if !strings.Contains(card, " ago") {
		t.Errorf("the card of gpu01 does not say how old it is:\n%s", card)
	}
	if !strings.Contains(page.Text("body"), "gpu02") {
		t.Error("the host that never reported is not on the page")
	}

	// A booking by hand is on the page of the next generation.
	h.write("data/comments.json",
		`{ "gpu01": { "0": {"name": "someone-else", "date": "2099-01-01 12:00"}, "1": {"name": "eva", "date": "2099-02-03 18:00", "comment": "camera ready"} } }`)
	h.run(3, h.generate()...)
	page.Open(site + "/")
	state := "contested"
	if os.Geteuid() == 0 {
		state = "in use" // by root, who may be anybody
	}
	if row := page.Text("#gpu01-0"); !strings.Contains(row, state) || !strings.Contains(row, "someone-else") {
		t.Errorf("GPU 0 is booked by another than its user, and the row says\n%s", row)
	}
	if row := page.Text("#gpu01-1"); !strings.Contains(row, "eva") || !strings.Contains(row, "camera ready") {
		t.Errorf("the booking made by hand is not on the row of GPU 1:\n%s", row)
	}

	// The node dies; the page says so, and nothing old looks live.
	if out := h.run(0, h.node("gpu01", "check", "kill")...); strings.TrimSpace(out) != "Stopped" {
		t.Fatalf("check kill said %q", out)
	}
	h.run(3, h.generate("--now", time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339))...)
	if b := h.board(); b.Hosts[0].State != "stale" || b.Hosts[0].GPUs[0].State != "unknown" ||
		b.Hosts[0].GPUs[0].MemoryUsed != nil {
		t.Errorf("five minutes after its death: %+v", b.Hosts[0])
	}
	page.Open(site + "/")
	if line := page.Text("#gpu01"); !strings.Contains(line, "silent since") {
		t.Errorf("the line of a silent node says\n%s", line)
	}
	page.Open(site + "/hosts/gpu01/")
	if row := page.Text("#gpu01-0"); !strings.Contains(row, "unknown") {
		t.Errorf("the row of a silent node says\n%s", row)
	}

	// Consul goes away; nobody vanishes, and the run says that something is not well.
	h.consul.Stop()
	if out := h.run(3, h.generate()...); !strings.Contains(out, "discovery:unreachable") {
		t.Errorf("without Consul stderr is %q", out)
	}
	if b := h.board(); len(b.Hosts) != 2 {
		t.Errorf("without Consul there are %d hosts, want the last known two", len(b.Hosts))
	}
	if lines := page.Console(); len(lines) > 0 {
		t.Errorf("the browser's console says %q", lines)
	}
	if urls := page.Foreign(site); len(urls) > 0 {
		t.Errorf("the page asked for %q", urls)
	}
}

// house is everything that the main job needs, on this machine alone.
type house struct {
	t               *testing.T
	dir, data, site string
	program, smi    string
	user            string
	job             int // pid of the process that nvidia-smi shows on GPU 0
	sshd            *sshtest.Server
	consul          *consultest.Agent
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir()}
	h.data, h.site = filepath.Join(h.dir, "data"), filepath.Join(h.dir, "site")
	for _, dir := range []string{"data/drop/gpu01", "data/drop/gpu02"} {
		h.must(os.MkdirAll(filepath.Join(h.dir, dir), 0o755))
	}
	me, err := user.Current()
	h.must(err)
	h.user = me.Username
	h.program = builtProgram(t)

	// A job whose name ps sees as somebody's training run.
	h.write("train.py", "sleep 300\n")
	job := exec.Command("/bin/bash", filepath.Join(h.dir, "train.py"), "--token=not-for-anybody")
	h.must(job.Start())
	h.job = job.Process.Pid
	t.Cleanup(func() {
		for _, child := range children(h.job) {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		_ = job.Process.Kill()
		_ = job.Wait()
	})
	capture, err := os.ReadFile("collector/nvidiasmi/testdata/lost-1of2-580.xml")
	h.must(err)
	capture = bytes.ReplaceAll(capture, []byte("@PID1@"), []byte(strconv.Itoa(h.job)))
	h.write("capture.xml", string(capture))
	h.smi = filepath.Join(h.dir, "nvidia-smi")
	h.write("nvidia-smi", "#!/bin/sh\nexec cat "+filepath.Join(h.dir, "capture.xml")+"\n")
	h.must(os.Chmod(h.smi, 0o755))

	h.sshd = sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown, Dir: filepath.Join(h.data, "drop", "gpu01")})
	h.consul = consultest.Start(t, consultest.Options{})
	for _, name := range []string{"gpu01", "gpu02"} {
		_, err := h.consul.Admin().Catalog().Register(&api.CatalogRegistration{
			Node: name, Address: "127.0.0.1", SkipNodeUpdate: false,
			Service: &api.AgentService{ID: "gpuboard", Service: "gpuboard", Meta: map[string]string{"host": name}},
		}, nil)
		h.must(err)
	}
	return h
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) write(name, content string) {
	h.t.Helper()
	h.must(os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o644))
}

// run runs the program and returns what it printed; any other exit code fails the test.
func (h *house) run(code int, args ...string) string {
	h.t.Helper()
	c := exec.Command(h.program, args...)
	c.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+h.consul.Address, "HOME="+h.dir)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != code {
		h.t.Fatalf("gpuboard %s: exit %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return string(out)
}

func (h *house) node(host string, args ...string) []string {
	return append(args, "--spool", filepath.Join(h.dir, "spool-"+host), "--nvidia-smi", h.smi, "--every", "2s",
		"--to", fmt.Sprintf("sftp://%s@%s%s", h.sshd.User, h.sshd.Addr, filepath.Join(h.data, "drop", host)),
		"--identity", h.sshd.Key, "--known-hosts", h.sshd.KnownHosts)
}

func (h *house) generate(args ...string) []string {
	return append([]string{"generate", "--data", h.data, "--site", h.site, "--state", filepath.Join(h.dir, "state"),
		"--hosts-from", "consul,drops", "--timezone", "UTC"}, args...)
}

// waitFor waits until a file is there.
func (h *house) waitFor(path string) {
	h.t.Helper()
	deadline := time.Now().Add(need.Patience)
	for time.Now().Before(deadline) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(h.dir, "spool-gpu01", "run.log"))
	h.t.Fatalf("%s did not appear; the loop's log:\n%s", path, log)
}

type boardJSON struct {
	Hosts []struct {
		Name, State string
		Group       string
		GPUs        []struct {
			Index      int
			State      string
			MemoryUsed *int `json:"memory_used_mib"`
			Processes  []struct {
				PID           int
				User, Program string
			}
			Booking *struct{ Name string }
		}
	}
}

func (h *house) board() boardJSON {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.site, "api", "v1", "board.json"))
	h.must(err)
	if bytes.Contains(data, []byte("not-for-anybody")) {
		h.t.Fatal("an argument of a process is in board.json")
	}
	var b boardJSON
	h.must(json.Unmarshal(data, &b))
	return b
}

// nginx serves the site with the shipped configuration and returns its URL.
func (h *house) nginx() string {
	h.t.Helper()
	// nginx drops root; its workers must be able to walk to the site.
	for dir := h.site; dir != filepath.Dir(h.dir) && dir != "/"; dir = filepath.Dir(dir) {
		h.must(os.Chmod(dir, 0o755))
	}
	h.must(os.Chmod(filepath.Dir(h.dir), 0o755))
	return webtest.Start(h.t, "nginx", webtest.Options{Deploy: "deploy", Site: h.site}).Host
}

// children are the processes that a process started.
func children(pid int) []int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(data)) {
		if n, err := strconv.Atoi(field); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}
