package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A movingSite is the site of a fleet whose jobs begin and end fast and whose GPUs are booked all the time: one
// generate --watch and one serve with their defaults, behind a proxy that may fail.
type movingSite struct {
	s         *suite
	h         *harness
	f         *fleet
	generator *exec.Cmd
	proxy     *httptest.Server
	fails     atomic.Value // how the proxy fails, "" for not
	asked     atomic.Int64 // requests of the front page
}

// fastPace lets some jobs of a small fleet begin or end in each minute.
const fastPace = 10

func (s *suite) newMovingSite(h *harness, hosts int) (*movingSite, error) {
	dir := h.TempDir()
	f := &fleet{dir: dir, memory: filepath.Join(s.memory, filepath.Base(dir))}
	m := &movingSite{s: s, h: h, f: f}
	m.fails.Store("")
	for _, made := range []string{f.path("data", "drop"), f.path("state"), f.site()} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return nil, err
		}
	}
	pace := 0.0 // of thousands of GPUs, enough change anyway
	if hosts < 100 {
		pace = fastPace
	}
	if err := s.pushElsewhere(h, f, hosts, pace); err != nil {
		return nil, err
	}
	time.Sleep(every) // all hosts have pushed since
	if err := m.generate(); err != nil {
		return nil, err
	}
	h.Cleanup(m.kill)
	for end := time.Now().Add(3 * time.Minute); m.built().IsZero(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			return nil, fmt.Errorf("there is no site")
		}
	}
	return m, m.serve()
}

// generate starts the generator.
func (m *movingSite) generate() error {
	m.generator = exec.Command(m.s.program, "generate", "--watch", "--data", m.f.path("data"), "--site", m.f.site(),
		"--state", m.f.path("state"), "--timezone", "UTC")
	return m.generator.Start()
}

// kill ends the generator as a crash does.
func (m *movingSite) kill() {
	_ = m.generator.Process.Kill()
	_ = m.generator.Wait()
}

// serve starts the web server and the proxy before it, which says to it who asks.
func (m *movingSite) serve() error {
	cmd := exec.Command(m.s.program, "serve", "--listen", "127.0.0.1:0", "--site", m.f.site(), "--data",
		m.f.path("data"),
		"--state", m.f.path("state"), "--timezone", "UTC", "--booking", "--auth-header", "X-Remote-User")
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	m.h.background(cmd)
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, address, there := strings.Cut(lines.Text(), "serving "); there {
			server, err := url.Parse(address)
			if err != nil {
				return err
			}
			m.proxy = httptest.NewServer(m.handler(server))
			m.h.Cleanup(func() {
				m.proxy.CloseClientConnections()
				m.proxy.Close()
			})
			go func() {
				for lines.Scan() {
					say("    serve: %s", lines.Text())
				}
			}()
			return nil
		}
	}
	return fmt.Errorf("the web server does not say where it is")
}

// slowAnswer is how long each answer of a slow proxy takes: less than a page waits.
const slowAnswer = 8 * time.Second

func (m *movingSite) handler(server *url.URL) http.Handler {
	pass := httputil.NewSingleHostReverseProxy(server)
	pass.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			m.asked.Add(1)
		}
		switch m.fails.Load() {
		case "502":
			http.Error(w, "<h1>502 Bad Gateway</h1>", http.StatusBadGateway)
			return
		case "login":
			fmt.Fprint(w, "<!DOCTYPE html><title>Log in</title><p>Log in to this network.")
			return
		case "hangs":
			<-r.Context().Done()
			return
		case "cuts":
			panic(http.ErrAbortHandler)
		case "slow":
			time.Sleep(slowAnswer)
		}
		r.Header.Set("X-Remote-User", "mira")
		pass.ServeHTTP(w, r)
	})
}

var builtAttribute = regexp.MustCompile(`data-built="?([^"\s>]+)`)

// built is when the newest generation was made; the zero time for none.
func (m *movingSite) built() time.Time {
	page, err := os.ReadFile(m.f.site("index.html"))
	if err != nil {
		return time.Time{}
	}
	return builtIn(string(builtAttribute.Find(page)))
}

// builtIn is a moment of data-built.
func builtIn(text string) time.Time {
	if found := builtAttribute.FindStringSubmatch(text); found != nil {
		text = found[1]
	}
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// bookSomething books some GPU for some minutes. That it is taken already is no failure.
func (m *movingSite) bookSomething() {
	place := fmt.Sprintf("gpu%04d:%d", rand.IntN(m.s.nodes), rand.IntN(8))
	_ = exec.Command(m.s.program, "book", place, "--for", fmt.Sprintf("%dm", 5+rand.IntN(20)), "--name", "kai",
		"--data", m.f.path("data")).Run()
}

// signal sends a signal to a process and all below it.
func signal(pid int, sig syscall.Signal) {
	_ = syscall.Kill(pid, sig)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for child := range strings.FieldsSeq(string(children)) {
		n := 0
		if _, err := fmt.Sscan(child, &n); err == nil {
			signal(n, sig)
		}
	}
}
