package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// TestDemo is the first of the README's two commands: it prints an address,
// shows a fleet in every state there, says that it is a demonstration, and
// leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	program := builtProgram(t)
	temp := t.TempDir()
	c := exec.Command(program, "demo", "--listen", "127.0.0.1:0", "--nvidia-smi", "no-such-program")
	c.Env = append(os.Environ(), "TMPDIR="+temp, "HOME="+t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var stderr strings.Builder
	c.Stderr = &stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		_ = c.Wait()
		t.Fatalf("it prints no address; stderr:\n%s", &stderr)
	}
	url := strings.TrimSpace(lines.Text())
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("the address is %q", url)
	}

	page := fetch(t, url)
	for _, want := range []string{"does not exist", "atlas", "fornax"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var board boardJSON
	if err := json.Unmarshal([]byte(fetch(t, url+"api/v1/board.json")), &board); err != nil {
		t.Fatal(err)
	}
	states := map[string]int{}
	for _, h := range board.Hosts {
		for _, g := range h.GPUs {
			states[g.State]++
		}
	}
	for _, want := range []string{"free", "booked", "in-use", "busy", "contested", "stuck", "lost", "maintenance", "unknown"} {
		if states[want] == 0 {
			t.Errorf("no GPU is %s: %v", want, states)
		}
	}

	// What it shows for booking books there, and not in whatever directory one is.
	plain := fetch(t, url+"about/index.html")
	_, shown, found := strings.Cut(plain, "GPUBOARD_COMMENTS=")
	file, _, whole := strings.Cut(shown, " gpuboard book ")
	if !found || !whole {
		t.Fatalf("no command for booking in the demonstration:\n%s", plain)
	}
	book := exec.Command(program, "book", "ceres:0", "--for", "2d", "--name", "visitor")
	book.Dir, book.Env = t.TempDir(), append(c.Env, "GPUBOARD_COMMENTS="+file)
	if out, err := book.CombinedOutput(); err != nil {
		t.Errorf("booking: %v: %s", err, out)
	}
	if data, err := os.ReadFile(file); err != nil || !strings.HasPrefix(file, temp) || !strings.Contains(string(data), "visitor") {
		t.Errorf("%s has no such booking (%v)", file, err)
	}

	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout); ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Ctrl-C ends it with %v; stderr:\n%s", err, &stderr)
		}
	case <-time.After(need.Patience):
		t.Fatal("Ctrl-C does not end it")
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
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
