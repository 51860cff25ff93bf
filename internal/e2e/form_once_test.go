package e2e

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/testenv/need"
)

// TestTheFormGenerates: where cron makes the generations, a booking in the form is on the pages without waiting for
// cron, with the interval that cron gives; where generate --watch runs, the form makes none.
func TestTheFormGenerates(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("eva's"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"data/comments.json": "{}\n", "htpasswd": "eva:" + string(hash) + "\n",
		"gpuboard.yml": "hosts: [gpu01]\nsite: site\nstate: state\nno_help: true\npassword: htpasswd\nbooking:\n  form: true\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "data/drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := func(args ...string) *exec.Cmd {
		c := exec.Command(builtProgram(t), args...)
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir)
		return c
	}
	if out, err := program("generate", "--interval", "7m").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := program("serve", "--listen", "127.0.0.1:0")
	said, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	site := strings.TrimSuffix(strings.Fields(line)[2], "/")

	book := func(gpu string) {
		form := url.Values{"action": {"book"}, "until": {"1d"}, "comment": {"on gpu " + gpu}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site+"/book/?at=gpu01:"+gpu,
			strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("eva", "eva's")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", site)
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusSeeOther {
			t.Fatalf("booking GPU %s: %s", gpu, answer.Status)
		}
	}
	shows := func(text string) bool {
		board, err := os.ReadFile(filepath.Join(dir, "site/api/v1/bookings.json"))
		return err == nil && strings.Contains(string(board), text)
	}
	book("0")
	for begin := time.Now(); !shows("on gpu 0"); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > need.Patience {
			t.Fatal("no generation was made for the booking")
		}
	}
	made, err := os.ReadFile(filepath.Join(dir, "site/index.html"))
	if err != nil || !strings.Contains(string(made), `data-interval="420"`) {
		t.Errorf("the form's generation forgets cron's interval (%v)", err)
	}

	lock, err := os.Create(filepath.Join(dir, "state/watch.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	book("1")
	time.Sleep(3 * time.Second)
	if shows("on gpu 1") {
		t.Error("the form makes a generation although generate --watch runs")
	}
}
