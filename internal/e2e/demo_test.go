package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/cli"
	"gpuboard/internal/testenv/need"
)

// A runningDemo is a demonstration that somebody looks at.
type runningDemo struct {
	*exec.Cmd
	t         *testing.T
	url, temp string
	stdout    io.Reader
	stderr    strings.Builder
}

func startDemo(t *testing.T) *runningDemo {
	t.Helper()
	d := &runningDemo{t: t, temp: t.TempDir(),
		Cmd: exec.Command(builtProgram(t), "demo", "--listen", "127.0.0.1:0", "--nvidia-smi", "no-such-program")}
	d.Env = append(os.Environ(), "TMPDIR="+d.temp, "HOME="+t.TempDir(), "XDG_CACHE_HOME="+d.temp+"/cache")
	d.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	d.Stderr = &d.stderr
	stdout, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-d.Process.Pid, syscall.SIGKILL) })
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		_ = d.Wait()
		t.Fatalf("it prints no address; stderr:\n%s", &d.stderr)
	}
	d.url, d.stdout = strings.TrimSpace(lines.Text()), stdout
	if !strings.HasPrefix(d.url, "http://127.0.0.1:") {
		t.Fatalf("the address is %q", d.url)
	}
	return d
}

// config is the configuration that the demonstration has made for commands.
func (d *runningDemo) config() string {
	d.t.Helper()
	found, err := filepath.Glob(d.temp + "/cache/gpuboard-demo-*.yml")
	if err != nil || len(found) != 1 {
		d.t.Fatalf("configurations %v, %v", found, err)
	}
	return found[0]
}

// interrupt ends it as Ctrl-C does.
func (d *runningDemo) interrupt() {
	d.t.Helper()
	if err := d.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, _ = io.Copy(io.Discard, d.stdout); ended <- d.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			d.t.Errorf("Ctrl-C ends it with %v; stderr:\n%s", err, &d.stderr)
		}
	case <-time.After(need.Patience):
		d.t.Fatal("Ctrl-C does not end it")
	}
}

// TestDemo is the first of the README's two commands: it prints an address,
// shows a fleet in every state there, says that it is a demonstration, and
// leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	url := d.url
	page := fetch(t, url)
	for _, want := range []string{"are simulated", "atlas", "fornax"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var board struct {
		boardJSON
		Problems []struct{ Code string }
	}
	if err := json.Unmarshal([]byte(fetch(t, url+"api/v1/board.json")), &board); err != nil {
		t.Fatal(err)
	}
	states := map[string]int{}
	for _, h := range board.Hosts {
		for _, g := range h.GPUs {
			states[g.State]++
		}
	}
	for _, want := range []string{"free", "booked", "in-use", "busy", "contested", "stuck", "lost", "maintenance",
		"unknown"} {
		if states[want] == 0 {
			t.Errorf("no GPU is %s: %v", want, states)
		}
	}

	var codes []string
	for _, p := range board.Problems {
		codes = append(codes, p.Code)
	}
	if want := []string{"gpu:ecc", "gpu:lost", "booking:date"}; !slices.Equal(codes, want) {
		t.Errorf("problems %v, want %v", codes, want)
	}

	// What it shows for booking books there, and not in whatever directory one is.
	plain := fetch(t, url+"about/index.html")
	_, shown, found := strings.Cut(plain, "GPUBOARD_CONFIG=")
	file, _, whole := strings.Cut(shown, " gpuboard book ")
	if !found || !whole || file != d.config() {
		t.Fatalf("no command for booking in the demonstration:\n%s", plain)
	}
	book := exec.Command(d.Path, "book", "ceres:0", "--for", "2d", "--name", "visitor")
	book.Dir, book.Env = t.TempDir(), append(d.Env, "GPUBOARD_CONFIG="+file)
	if out, err := book.CombinedOutput(); err != nil {
		t.Errorf("booking: %v: %s", err, out)
	}
	comments, err := filepath.Glob(d.temp + "/gpuboard-demo-*/data/comments.json")
	if err != nil || len(comments) != 1 {
		t.Fatalf("bookings %v, %v", comments, err)
	}
	if data, err := os.ReadFile(comments[0]); err != nil || !strings.Contains(string(data), "visitor") {
		t.Errorf("%s has no such booking (%v)", comments[0], err)
	}
	// The form is there for whoever opens the page, and no page shows where the files lie.
	if text := fetch(t, url+"book/capabilities.json"); !strings.Contains(text, `"booking":true`) {
		t.Errorf("the booking form is off: %s", text)
	}
	for _, name := range []string{"", "about/", "bookings/", "book/", "health.json"} {
		if text := fetch(t, url+name); strings.Contains(text, "gpuboard-demo-") &&
			strings.Contains(text, filepath.Dir(comments[0])) {
			t.Errorf("%s shows %s", name, filepath.Dir(comments[0]))
		}
	}

	d.interrupt()
	if err := os.Remove(d.temp + "/cache"); err != nil {
		t.Errorf("left behind: %v", err)
	}
	temp := d.temp
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDemoFailsAtOnce: an address that is taken is said before a month of history is made.
func TestDemoFailsAtOnce(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	out, err := exec.Command(builtProgram(t), "demo", "--listen", taken.Addr().String()).CombinedOutput()
	if err == nil || strings.Contains(string(out), "history") ||
		!strings.Contains(string(out), "choose another address with --listen") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestExamplesWorkInTheDemo types the example with which the help of each command
// begins, where a demonstration runs.
func TestExamplesWorkInTheDemo(t *testing.T) {
	t.Parallel()
	need.Time(t, "it types twenty commands")
	need.Program(t, "ssh-keygen")
	d := startDemo(t)
	s := newSandbox(t, d.Path)
	s.env = append(s.env, "GPUBOARD_CONFIG="+d.config(), "GPUBOARD_STATE=", "GPUBOARD_TIMEZONE=", "CONSUL_HTTP_ADDR=")
	cannot := map[string]string{"demo": "it is the one that runs", "register": "no Consul", "deregister": "no Consul",
		"help": "", "completion": "", "accept": "no host is replayed", "pull": "no machine to log in to"}
	for _, c := range cli.Root().Commands() {
		if _, not := cannot[c.Name()]; not {
			continue
		}
		example := strings.TrimSpace(strings.SplitN(c.Example, "\n", 2)[0])
		if c.Name() == "run" {
			s.typed("gpuboard check kill") // the example of check has started a loop
		}
		s.typed(example)
	}
	d.interrupt()
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", resp.Status)
	}
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return string(body)
}
