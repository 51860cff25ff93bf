package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/serve"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/proctest"
	"gpuboard/internal/testenv/sshtest"
)

// TestShownCommandsWork runs what README and docs/ tell people to type, in the
// order of each page and by a real shell, below a directory of the test: paths,
// ports and names of machines are replaced, and nothing else. Whatever cannot be
// run is in a list, with the reason; a block of code that is neither a command
// nor known to be none fails.
func TestShownCommandsWork(t *testing.T) {
	need.Time(t, "it types three hundred commands")
	for _, name := range []string{"curl", "jq", "htpasswd", "ansible-inventory", "ssh-keygen"} {
		need.Program(t, name)
	}
	program := builtProgram(t)
	known, found := manuals(), 0
	for _, page := range pagesWithCommands(t) {
		commands := shellLines(t, page)
		m := known[page]
		if len(commands) == 0 || m.by != "" {
			continue
		}
		found += len(commands)
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, program)
			if m.setup != nil {
				m.setup(s)
			}
			for _, c := range commands {
				if m.before != nil {
					m.before(s, c)
				}
				if cannot(c) == "" {
					s.typed(c)
				}
			}
			if m.after != nil {
				m.after(s)
			}
		})
	}
	if found < 140 {
		t.Errorf("only %d commands were found", found)
	}
}

// pagesWithCommands are the pages that tell people what to type.
func pagesWithCommands(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// sandbox is a machine as a page takes it for granted.
type sandbox struct {
	t       *testing.T
	dir     string
	program string
	ports   map[string]string // of the page, by ours
	site    string            // URL of a site that is served
	sshd    *sshtest.Server
	env     []string
	running map[string]*exec.Cmd // what goes on, by the two words that began it
	said    map[string]string
	byHand  []string // what else is replaced, pairwise
}

func newSandbox(t *testing.T, program string) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: t.TempDir(), program: program, ports: map[string]string{}, running: map[string]*exec.Cmd{},
		said: map[string]string{}}
	repo, err := filepath.Abs(".")
	s.must(err)
	for _, dir := range []string{"bin", "home/.ssh", "work", "etc/gpuboard", "srv", "var/lib", "var/www/html/data",
		"usr/local/bin", "etc/nginx", "etc/apache2", "etc/caddy", "etc/lighttpd"} {
		s.must(os.MkdirAll(s.path(dir), 0o755))
	}
	s.must(os.Symlink(program, s.path("bin/gpuboard")))
	for _, name := range []string{"deploy", "data", "cron.example", "docs"} {
		s.must(os.Symlink(filepath.Join(repo, name), s.path("work/"+name)))
	}
	s.must(os.Symlink(program, s.path("work/gpuboard")))
	capture := filepath.Join(repo, "collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	// The second node has cards of its own.
	s.shim("nvidia-smi",
		`case "$GPUBOARD_SPOOL" in *-gpu02) exec sed s/GPU-0/GPU-2/ `+capture+`;; esac; exec cat `+capture)
	s.shim("sudo", `[ "$1" = -u ] && shift 2; exec "$@"`)
	s.shim("crontab",
		`case $1 in -l) cat $HOME/crontab 2>/dev/null;; -e) exec ${EDITOR:-true} $HOME/crontab;; -) cat > $HOME/crontab;; *) exit 2;; esac`)
	s.shim("python", `[ -n "$CUDA_VISIBLE_DEVICES" ] || { echo "no GPU was handed in" >&2; exit 9; }`)
	s.shim("ssh", `[ "$1" = -G ] && exec /usr/bin/ssh "$@"; exit 0`)
	s.shim("htpasswd", `exec /usr/bin/htpasswd -b "$@" secret`)
	// A person is asked for a password, and for whom the name stands.
	s.shim("curl",
		`for a; do case $a in eva|mira) a=$a:secret;; esac; set -- "$@" "$a"; shift; done; exec /usr/bin/curl -fsS "$@"`)
	s.sshd = sshtest.Start(t,
		sshtest.Options{Command: sshtest.LockedDown, Dir: s.path("srv/gpuboard/data/drop/gpu01/in")})
	s.env = append(os.Environ(), "PATH="+s.path("bin")+":"+os.Getenv("PATH"), "HOME="+s.path("home"),
		"TMPDIR="+t.TempDir(), "USER=eva", "EDITOR=true",
		"GPUBOARD_IDENTITY="+s.sshd.Key, "GPUBOARD_KNOWN_HOSTS="+s.sshd.KnownHosts,
		"GPUBOARD_SPOOL="+s.path("var/lib/gpuboard/spool"), "GPUBOARD_STATE="+s.path("srv/gpuboard/state"),
		"GPUBOARD_BOOKING_NAME=eva", "GPUBOARD_TIMEZONE=Europe/Paris", "GPUBOARD_EVERY=2s",
		"XDG_STATE_HOME="+s.path("home/state"), "CONSUL_HTTP_ADDR=127.0.0.1:1")
	t.Cleanup(func() {
		// A loop has a session of its own, and gpuboard check kill needs a configuration that
		// may be gone.
		proctest.KillAll("HOME="+s.path("home"), time.Now().Add(need.Patience))
		for _, c := range s.running {
			_ = c.Wait()
		}
	})
	return s
}

func (s *sandbox) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sandbox) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandbox) write(name, content string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(os.WriteFile(s.path(name), []byte(content), 0o644))
}

// shim stands for a program that asks people, or would change this machine.
func (s *sandbox) shim(name, script string) {
	s.t.Helper()
	s.write("bin/"+name, "#!/bin/sh\n"+script+"\n")
	s.must(os.Chmod(s.path("bin/"+name), 0o755))
}

// board is a web host with two nodes, a booking, a site and whoever serves it.
func (s *sandbox) board() {
	s.t.Helper()
	s.write("srv/gpuboard/data/comments.json", oneBooking)
	s.write("etc/gpuboard/gpuboard.yml",
		"host: gpu01\ndata: "+s.path("srv/gpuboard/data")+"\nsite: "+s.path("srv/gpuboard/site")+"\nstate: "+
			s.path("srv/gpuboard/state")+"\n")
	s.env = append(s.env, "GPUBOARD_CONFIG="+s.path("etc/gpuboard/gpuboard.yml"))
	for _, host := range []string{"gpu02", "gpu01"} {
		s.typed("GPUBOARD_SPOOL=/var/lib/gpuboard/spool-" + host + " gpuboard collect --host " + host)
		s.typed(
			"GPUBOARD_SPOOL=/var/lib/gpuboard/spool-" + host + " gpuboard publish --host " + host +
				" --to file:///srv/gpuboard/data")
	}
	s.typed("gpuboard collect")
	s.typed("gpuboard generate")
	h, err := serve.Handler(serve.Options{Site: s.path("srv/gpuboard/site")})
	s.must(err)
	w := httptest.NewServer(h)
	s.t.Cleanup(w.Close)
	s.site = w.URL
	s.env = append(s.env, "GPUBOARD_SITE_URL="+s.site)
}

var (
	shownPath = regexp.MustCompile(`(^|[\s'"=:|(@<>~]|file://)/(srv|etc|var|usr/local)/`)
	shownPort = regexp.MustCompile(`(localhost|127\.0\.0\.1|WEBHOST| )?:(8080|2222|7070|1080|8042|9000)\b`)
	shownDrop = regexp.MustCompile(`sftp://n-gpu01@(gpus\.example\.org|web\.example\.org|web)/in`)
	shownSite = regexp.MustCompile(`https?://gpus?\.example\.org`)
	listens   = regexp.MustCompile(`gpuboard (serve|receive|run|generate .*--watch)`)
)

// here puts this machine in the place of those that a page speaks of.
func (s *sandbox) here(command string) string {
	command = strings.NewReplacer(s.byHand...).Replace(command)
	command = shownPath.ReplaceAllString(command, "${1}"+s.dir+"/$2/")
	command = shownDrop.ReplaceAllString(command,
		fmt.Sprintf("sftp://%s@%s%s", s.sshd.User, s.sshd.Addr, s.path("srv/gpuboard/data/drop/gpu01/in")))
	command = shownSite.ReplaceAllString(command, s.site)
	command = shownPort.ReplaceAllStringFunc(command, func(m string) string {
		before, port, _ := strings.Cut(m, ":")
		if s.ports[port] == "" {
			s.ports[port] = fmt.Sprint(sshtest.FreePort(s.t))
		}
		if strings.HasPrefix(before, "WEBHOST") || before == " " {
			before += "127.0.0.1"
			before = strings.Replace(before, "WEBHOST127", "127", 1)
		}
		return before + ":" + s.ports[port]
	})
	return command
}

func (s *sandbox) command(ctx context.Context, script string) *exec.Cmd {
	c := exec.CommandContext(ctx, "sh", "-c", script)
	c.Dir, c.Env = s.path("work"), s.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c
}

// shell runs a command as it stands on the page, and says its exit status.
func (s *sandbox) shell(command string) (string, int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), need.Patience)
	defer cancel()
	out, err := s.command(ctx, s.here(command)).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		s.t.Errorf("%s\nhas not ended after two minutes:\n%s", command, out)
		return string(out), -1
	case errors.As(err, &exit):
		return string(out), exit.ExitCode()
	case err != nil:
		s.t.Errorf("%s\n%v", command, err)
		return string(out), -1
	}
	return string(out), 0
}

var exported = regexp.MustCompile(`^export (GPUBOARD_[A-Z_]+)=(.*)$`)

// typed runs a command, and waits for what it starts.
func (s *sandbox) typed(command string) {
	s.t.Helper()
	if m := exported.FindStringSubmatch(command); m != nil { // for the commands below it
		value, _ := s.shell("printf %s " + m[2])
		s.env = append(s.env, m[1]+"="+value)
		return
	}
	if listens.MatchString(command) && !strings.Contains(command, "$(") && !strings.Contains(command, "--once") {
		s.start(command)
		return
	}
	out, code := s.shell(command)
	// 3 is "done, and something is not well": there is no Consul and no mail here.
	if code != 0 && (code != 3 || !strings.Contains(command, "gpuboard")) {
		s.t.Errorf("%s\nexit %d\n%s", command, code, out)
	}
}

// start begins what goes on until it is stopped, and waits until it is at work:
// until it listens, or until the file is there that it is to write.
func (s *sandbox) start(command string) {
	s.t.Helper()
	script := s.here(command)
	log := filepath.Join(s.t.TempDir(), "log")
	key := strings.Join(strings.Fields(command)[:2], " ")
	var there func() bool
	switch {
	case strings.Contains(command, "gpuboard run"):
		_ = os.RemoveAll(s.path("var/lib/gpuboard/spool"))
		there = func() bool { return exists(s.path("var/lib/gpuboard/spool/latest.json.gz")) }
	case strings.Contains(command, "--watch"):
		_ = os.Remove(s.path("srv/gpuboard/site/index.html"))
		there = func() bool { return exists(s.path("srv/gpuboard/site/index.html")) }
	default:
		if !strings.Contains(command, "--listen") && !strings.Contains(command, "--config") { // by default it takes 8080
			script = strings.Replace(script, "gpuboard serve", "gpuboard serve --listen "+s.here("127.0.0.1:8080"), 1)
		}
		there = func() bool { return listening.Match(s.logged(log)) }
	}
	if old := s.running[key]; old != nil { // the page shows another way of the same
		_ = old.Process.Kill()
		_ = old.Wait()
	}
	c := s.command(context.Background(),
		regexp.MustCompile(`gpuboard (serve|receive|run|generate)`).ReplaceAllString(script, "exec gpuboard $1"))
	out, err := os.Create(log)
	s.must(err)
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	s.must(c.Start())
	s.running[key] = c
	for deadline := time.Now().Add(need.Patience); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Errorf("%s\nis not at work after a minute and a half:\n%s", command, s.logged(log))
			return
		}
	}
	s.said[key] = string(s.logged(log))
	if !listening.MatchString(s.said[key]) { // it has shown that it works, and would only change what comes next
		s.must(c.Process.Signal(syscall.SIGTERM))
		if err := c.Wait(); err != nil {
			s.t.Errorf("%s\nends with %v:\n%s", command, err, s.logged(log))
		}
		delete(s.running, key)
	}
}

var listening = regexp.MustCompile(`(?m)^gpuboard: (serving|receiving) `)

func (s *sandbox) logged(path string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(path)
	s.must(err)
	return data
}

// pushed waits for a node's first push, which its loop makes beside us.
func (s *sandbox) pushed(drop string) {
	s.t.Helper()
	for deadline := time.Now().Add(
		need.Patience); !exists(s.path(drop + "/latest.json.gz")); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("nothing came to %s in a minute and a half; the loop says\n%s", drop,
				s.logged(s.path("var/lib/gpuboard/spool/run.log")))
		}
	}
}

// shows wants a host on the board, alive and with its GPUs.
func (s *sandbox) shows(host string) { s.t.Helper(); s.showsIn("srv/gpuboard/site", host) }

func (s *sandbox) showsIn(site, host string) {
	s.t.Helper()
	file := s.path(site + "/api/v1/board.json")
	data, err := os.ReadFile(file)
	s.must(err)
	var b boardJSON
	s.must(json.Unmarshal(data, &b))
	for _, h := range b.Hosts {
		if h.Name == host && h.State == "up" && len(h.GPUs) == 8 {
			return
		}
	}
	s.t.Errorf("after all of the page the board does not show %s with its GPUs:\n%.600s", host, data)
}

// shellLines are the commands that a page shows, in their order.
func shellLines(t *testing.T, page string) []string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all, block []string
	flush := func() {
		all = append(all, commandsOf(t, page, block)...)
		block = nil
	}
	lang, fenced := "", false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch rest, fence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case fence:
			flush()
			fenced, lang = !fenced, rest
		case fenced && (lang == "" || lang == "sh"):
			block = append(block, line)
		case fenced:
		case strings.HasPrefix(line, "    "):
			block = append(block, strings.TrimPrefix(line, "    "))
		default:
			flush()
		}
	}
	flush()
	return all
}

// commandsOf splits a block of code into commands: what ends in \, | or && goes
// on, and so does a here document.
func commandsOf(t *testing.T, page string, block []string) []string {
	t.Helper()
	prompt := slices.ContainsFunc(block, func(line string) bool { return strings.HasPrefix(line, "$ ") })
	var all []string
	open, until := "", ""
	for _, line := range block {
		command, prompted := strings.CutPrefix(line, "$ ")
		if prompt && !prompted {
			continue // what it prints
		}
		if open == "" {
			command = strings.TrimSpace(command)
			if command == "" || strings.HasPrefix(command, "#") || synopsis.MatchString(command) {
				continue
			}
			if !startsCommand.MatchString(command) {
				if !noCommand.MatchString(command) {
					t.Errorf("%s: %q is neither a command nor known to be none", page, line)
				}
				return all
			}
		}
		open += command + "\n"
		switch here := hereDocument.FindStringSubmatch(command); {
		case until != "":
			if command == until {
				until = ""
			}
		case here != nil:
			until = here[1]
		}
		if until == "" && !strings.HasSuffix(command, "\\") && !strings.HasSuffix(command, "|") &&
			!strings.HasSuffix(command, "&&") {
			all = append(all, strings.TrimSuffix(open, "\n"))
			open = ""
		}
	}
	if open != "" {
		t.Errorf("%s: %q has no end", page, open)
	}
	return all
}

var (
	startsCommand = regexp.MustCompile(
		`^(([A-Za-z_]+=(\$\(.*\)|\S*) )+|[a-z]+=\$\(|\()?(gpuboard|go|cd|mkdir|mv|rm|echo|cat|cp|sed|sudo|flock|tar|ssh-keygen|curl|htpasswd|caddy|tail|journalctl|crontab|consul|ansible-[a-z]+|export|umask|secret\(\)|deploy/\S+|bench/\S+|\./check\.sh|\./gpuboard|/SCRIPT\S+|python)( |$)`)
	hereDocument = regexp.MustCompile(`<<'?([A-Z]+)'?$`)
	// synopsis is how the reference says that a command is typed: it has a placeholder.
	synopsis = regexp.MustCompile(` \[(flags|command)\]$`)
)
