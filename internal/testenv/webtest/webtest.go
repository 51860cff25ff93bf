// Package webtest runs real web servers on loopback for tests, with the
// configuration that the project ships.
package webtest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// User and Password open what [Options.Password] guards.
const (
	User     = "somebody"
	Password = "correct horse"
)

// answersWithin bounds how long a server may take until it accepts connections.
const answersWithin = need.Patience

// Options say what to serve, and how.
type Options struct {
	// Deploy is the project's directory with one directory of configuration for
	// each server.
	Deploy string
	// Site is the directory to serve. Whoever the server runs as can read it:
	// use [Dir].
	Site string
	// Path is "" for a host of its own, or "/gpu".
	Path string
	// Password switches the commented lines of the configuration on.
	Password bool
	// Upstream is the address of a server to stand in front of: for everything,
	// or with Book for the booking form alone.
	Upstream string
	Book     bool
	// Bucket is the path of a bucket and the prefix in it, in a store at Upstream,
	// for the servers that have a configuration for it.
	Bucket string
}

// A Server is a running web server.
type Server struct {
	// URL is where the site is, with a slash at the end.
	URL string
	// Host is the address alone, with the scheme and without a slash.
	Host string
	// PID is its first process, whose children may be the ones that serve.
	PID int
}

// Servers are the names of the servers that Start knows.
func Servers() []string { return []string{"nginx", "apache", "caddy", "lighttpd"} }

// Dir makes a directory that is removed when the test ends and that everybody
// may read: most servers give up root before they open a file.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpuboard-web-")
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("removing %s: %v", dir, err)
		}
	})
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// Start starts a server with the shipped configuration, in which only the words
// in capitals and the port are replaced. A server that is not installed skips
// the test, or fails it when GPUBOARD_REQUIRE_ALL is 1. The server ends with
// the test.
func Start(t testing.TB, name string, o Options) *Server {
	t.Helper()
	need.Time(t, "it starts a web server")
	// A port that was free a moment ago may be taken: try others.
	var err error
	for range 3 {
		b := &builder{t: t, o: o, dir: Dir(t), port: sshtest.FreePort(t), name: name}
		b.url = "http://127.0.0.1:" + strconv.Itoa(b.port)
		c := b.command()
		if err = b.run(c); err == nil {
			return &Server{URL: b.url + o.Path + "/", Host: b.url, PID: c.Process.Pid}
		}
	}
	t.Fatal(err)
	return nil
}

// A builder makes the directory that one server runs in.
type builder struct {
	t    testing.TB
	o    Options
	name string
	dir  string
	port int
	url  string
}

func (b *builder) command() *exec.Cmd {
	switch b.name {
	case "nginx":
		return b.nginx()
	case "apache":
		return b.apache()
	case "caddy":
		return b.caddy()
	case "lighttpd":
		return b.lighttpd()
	}
	b.t.Fatalf("there is no server %q", b.name)
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *builder) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b *builder) write(name, content string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	must(b.t, os.WriteFile(b.path(name), []byte(content), 0o644))
}

// directive is a line of configuration that waits behind a # without a space.
var directive = regexp.MustCompile(`(?m)^(\s*)#([^\s#])`)

// capitals are the words that whoever installs the files replaces.
var capitals = regexp.MustCompile(`\b[A-Z]+_[A-Z_]*[A-Z]\b`)

// shipped copies the configuration files of the server into its directory with
// the capitals replaced.
func (b *builder) shipped() {
	b.t.Helper()
	from := filepath.Join(b.o.Deploy, b.name)
	entries, err := os.ReadDir(from)
	must(b.t, err)
	values := map[string]string{
		"SITE_DIR": b.o.Site, "URL_PATH": b.o.Path, "HOST_NAME": "127.0.0.1", "UPSTREAM_ADDRESS": b.o.Upstream,
		"PASSWORD_FILE": b.path("htpasswd"), "PASSWORD_NAME": User,
		"STORE_ADDRESS": b.o.Upstream, "BUCKET_PATH": b.o.Bucket,
	}
	values["UPSTREAM_NAME"], values["UPSTREAM_PORT"], _ = strings.Cut(b.o.Upstream, ":")
	if b.o.Password {
		line := strings.TrimSpace(b.output("htpasswd", "-nbB", "-C", "4", User, Password))
		b.write("htpasswd", line+"\n")
		_, values["PASSWORD_HASH"], _ = strings.Cut(line, ":")
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(from, entry.Name()))
		must(b.t, err)
		text := string(data)
		if b.o.Password {
			text = directive.ReplaceAllString(text, "$1$2")
		}
		text = capitals.ReplaceAllStringFunc(text, func(word string) string {
			if value, ok := values[word]; ok {
				return value
			}
			return word
		})
		b.write("gpuboard/"+entry.Name(), text)
	}
}

// edit replaces in a shipped file what cannot be a word in capitals.
func (b *builder) edit(name string, pairs ...string) {
	b.t.Helper()
	data, err := os.ReadFile(b.path("gpuboard/" + name))
	must(b.t, err)
	text := string(data)
	for i := 0; i+1 < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			b.t.Fatalf("%s/%s has no %q", b.name, name, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	b.write("gpuboard/"+name, text)
}

func (b *builder) output(program string, args ...string) string {
	b.t.Helper()
	out, err := exec.Command(need.Program(b.t, program), args...).Output()
	if err != nil {
		b.t.Fatalf("running %s: %v", program, err)
	}
	return string(out)
}

// run starts the server and waits until it answers; the error is one that has
// ended instead.
func (b *builder) run(c *exec.Cmd) error {
	b.t.Helper()
	log, err := os.Create(b.path("output.log"))
	must(b.t, err)
	defer log.Close()
	c.Dir, c.Stdout, c.Stderr = b.dir, log, log
	// Also when this test is killed; a server that forks ends its children itself.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	must(b.t, c.Start())
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	b.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(need.Patience):
			_ = c.Process.Kill()
			<-ended
		}
	})
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	give := time.After(answersWithin)
	for {
		resp, err := client.Get(b.url + b.o.Path + "/")
		if err == nil {
			resp.Body.Close()
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("%s ended:\n%s", b.name, b.logs())
		case <-give:
			b.t.Fatalf("%s does not answer (%v):\n%s", b.name, err, b.logs())
		}
	}
}

// logs is what the server has said.
func (b *builder) logs() string {
	var all strings.Builder
	names, _ := filepath.Glob(b.path("*.log"))
	for _, name := range names {
		data, _ := os.ReadFile(name)
		fmt.Fprintf(&all, "%s:\n%s", filepath.Base(name), data)
	}
	return all.String()
}

// listen is where the server listens, as most of them write it.
func (b *builder) listen() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }
