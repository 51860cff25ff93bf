package notify

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestMain is also the process that gets killed.
func TestMain(m *testing.M) {
	if url := os.Getenv("NOTIFY_TEST_URL"); url != "" {
		c, err := New(Options{Outbox: os.Getenv("NOTIFY_TEST_OUTBOX"), Hooks: []Hook{hook("a", url)}})
		if err == nil {
			err = c.Accept(several(0, 4), nil, start)
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		c.Deliver(context.Background(), start)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilled ends the process with SIGKILL while message n is on its way: taken
// by the other side, and not acknowledged. Each event arrives, in order, and
// none more than twice.
func TestKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 4; n++ {
		r, outbox := newReceiver(t), filepath.Join(t.TempDir(), "outbox.json")
		run := func(kill int) {
			t.Helper()
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "NOTIFY_TEST_URL="+r.URL, "NOTIFY_TEST_OUTBOX="+outbox)
			pid := make(chan int, 1)
			count := 0
			r.set(func(w http.ResponseWriter, _ *http.Request) bool {
				if count++; count == kill {
					p := <-pid
					proc, err := os.FindProcess(p)
					if err == nil {
						err = proc.Kill()
					}
					if err != nil {
						t.Error(err)
					}
				}
				return true
			})
			out, err := cmd.StderrPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			pid <- cmd.Process.Pid
			said, _ := io.ReadAll(out)
			if err := cmd.Wait(); (err != nil) != (kill > 0) {
				t.Fatalf("ended with %v: %s", err, said)
			}
		}
		run(n)
		run(0)
		got := r.ids()
		for _, e := range several(0, 4) {
			times := 0
			for _, id := range got {
				if id == e.ID {
					times++
				}
			}
			if times < 1 || times > 2 {
				t.Errorf("killed at %d: %s came %d times", n, e.ID, times)
			}
		}
		if !slices.IsSortedFunc(slices.Compact(got), func(a, b string) int {
			return slices.Index(idsOf(several(0, 4)), a) - slices.Index(idsOf(several(0, 4)), b)
		}) {
			t.Errorf("killed at %d: the order is %q", n, got)
		}
		if c := carrier(t, filepath.Dir(outbox), hook("a", r.URL)); len(r.got) > 5 {
			t.Errorf("killed at %d: %d messages", n, len(r.got))
		} else if states, err := c.States(); err != nil || states[0].Waiting != 0 {
			t.Errorf("killed at %d: %v still wait, %v", n, states, err)
		}
	}
}
