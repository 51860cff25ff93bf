// Package sshtest is what tests of the SFTP door need: a real OpenSSH server of their own, and a line that can be
// made bad.
//
// Everything listens on 127.0.0.1, lives in the test's temporary directory and
// is ended by process id when the test ends.
package sshtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/testenv/need"
)

// LockedDown is the request list of a write-only account.
const LockedDown = "internal-sftp -p open,close,write,fsync,posix-rename,remove,realpath"

// Punishing returns an sshd that has PerSourcePenalties, which came with OpenSSH
// 9.8: the one that GPUBOARD_SSHD names, the machine's own, or the one that
// tools/openssh/build.sh built. dir is the repository's root. With "none" in
// GPUBOARD_SSHD the test is skipped: it was tried, and there is none to be had.
func Punishing(t testing.TB, dir string) string {
	t.Helper()
	candidates, _ := filepath.Glob(filepath.Join(dir, ".cache", "openssh-*", "sshd"))
	if own, err := exec.LookPath("/usr/sbin/sshd"); err == nil {
		candidates = append(candidates, own)
	}
	if named := os.Getenv("GPUBOARD_SSHD"); named == "none" {
		t.Skip("there is no OpenSSH 9.8 or later, and none could be built")
	} else if named != "" {
		candidates = []string{named}
	}
	for _, program := range candidates {
		program, err := filepath.Abs(program)
		must(t, err)
		var major, minor int
		out, _ := exec.Command(program, "-V").CombinedOutput() // older ones do not know the option, and say their version all the same
		_, after, _ := strings.Cut(string(out), "OpenSSH_")
		if n, _ := fmt.Sscanf(after, "%d.%d", &major, &minor); n == 2 && major*100+minor >= 908 {
			return program
		}
	}
	need.Skip(t, "there is no OpenSSH 9.8 or later: tools/openssh/build.sh builds one")
	return ""
}

// Options of [Start]; the zero value is a stock server with one ed25519 host key.
type Options struct {
	HostKeys []string // "ed25519", "rsa"
	Command  string   // ForceCommand; empty: Subsystem sftp internal-sftp
	Config   string   // further lines, at the end
	Dir      string   // where the session starts; default a fresh directory
	Program  string   // the sshd to run; default the machine's own
}

// Server is a running sshd.
type Server struct {
	Addr, Host string
	Port       int
	User       string
	Dir        string // the drop directory, as the client names it
	Key        string // private key file of the client
	KnownHosts string
	Public     map[string]ssh.PublicKey // host keys by type
	Root       string                   // its own files
	Log        string

	t       testing.TB
	program string
	args    []string
	mu      sync.Mutex
	cmd     *exec.Cmd
	waited  chan struct{}
}

// Start runs sshd with key authentication for the current user.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	need.Time(t, "it starts an sshd")
	program := o.Program
	if program == "" {
		program = need.Program(t, "sshd")
	}
	root := t.TempDir()
	me, err := user.Current()
	must(t, err)
	s := &Server{t: t, Host: "127.0.0.1", Port: FreePort(t), User: me.Username, Root: root, program: program,
		Dir: o.Dir, Key: filepath.Join(root, "id"), KnownHosts: filepath.Join(root, "known_hosts"),
		Log: filepath.Join(root, "log"), Public: map[string]ssh.PublicKey{}}
	s.Addr = net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	if s.Dir == "" {
		s.Dir = filepath.Join(root, "drop")
		must(t, os.Mkdir(s.Dir, 0o755))
	}
	if os.Getuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755)) // where sshd, as root, confines its unprivileged half
	}
	client := WriteKey(t, s.Key, "ed25519", "")
	must(t, os.WriteFile(filepath.Join(root, "authorized"), ssh.MarshalAuthorizedKey(client), 0o600))
	var config, known strings.Builder
	if len(o.HostKeys) == 0 {
		o.HostKeys = []string{"ed25519"}
	}
	for _, kind := range o.HostKeys {
		name := filepath.Join(root, "host_"+kind)
		public := WriteKey(t, name, kind, "")
		s.Public[kind] = public
		fmt.Fprintf(&config, "HostKey %s\n", name)
		fmt.Fprintf(&known, "[%s]:%d %s", s.Host, s.Port, ssh.MarshalAuthorizedKey(public))
	}
	must(t, os.WriteFile(s.KnownHosts, []byte(known.String()), 0o600))
	fmt.Fprintf(&config, `ListenAddress 127.0.0.1
Port %d
PidFile none
AuthorizedKeysFile %s
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel VERBOSE
`, s.Port, filepath.Join(root, "authorized"))
	if o.Command != "" {
		fmt.Fprintf(&config, "Subsystem sftp internal-sftp\nForceCommand %s -d %s\n", o.Command, s.Dir)
	} else {
		fmt.Fprintf(&config, "Subsystem sftp internal-sftp -d %s\n", s.Dir)
	}
	// What is not installed looks for its other halves where it would be.
	for option, half := range map[string]string{"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"} {
		half = filepath.Join(filepath.Dir(program), half)
		if _, err := os.Stat(half); err == nil {
			fmt.Fprintf(&config, "%s %s\n", option, half)
		}
	}
	config.WriteString(o.Config)
	file := filepath.Join(root, "sshd_config")
	must(t, os.WriteFile(file, []byte(config.String()), 0o600))
	s.args = []string{"-D", "-f", file, "-E", s.Log}
	s.Restart()
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			if log, err := os.ReadFile(s.Log); err == nil {
				t.Logf("sshd's log:\n%s", log[max(0, len(log)-4000):])
			}
		}
	})
	return s
}

// Restart starts the stopped server again, on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	cmd := exec.Command(s.program, s.args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	must(s.t, cmd.Start())
	s.cmd, s.waited = cmd, make(chan struct{})
	go func(done chan struct{}) { cmd.Wait(); close(done) }(s.waited)
	for end := time.Now().Add(need.Patience); ; {
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-s.waited:
			log, _ := os.ReadFile(s.Log)
			s.t.Fatalf("sshd ended at once:\n%s", log)
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("sshd does not listen on %s: %v", s.Addr, err)
		}
		time.Sleep(5 * time.Millisecond) // polling for a listener of another process
	}
}

// Stop ends the listener and all its sessions, by their process ids.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	pid := s.cmd.Process.Pid
	// Whoever is stopped has no more children: stop them all before the first is
	// killed, or one that is being born meanwhile outlives the test.
	syscall.Kill(pid, syscall.SIGSTOP)
	stopped := map[int]bool{}
	for again := true; again; {
		again = false
		for _, child := range descendants(pid) {
			if !stopped[child] {
				syscall.Kill(child, syscall.SIGSTOP)
				stopped[child], again = true, true
			}
		}
	}
	for child := range stopped {
		syscall.Kill(child, syscall.SIGKILL)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	<-s.waited
	// A killed process may still be in the middle of a write.
	for child := range stopped {
		for range 500 {
			if syscall.Kill(child, 0) != nil || zombie(child) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	s.cmd = nil
}

// zombie reports a process that has ended and waits to be collected.
func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(fields) > 0 && fields[0] == "Z"
}

// PID is the listener's.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Sessions are the processes of all sessions, parents first.
func (s *Server) Sessions() []int { return descendants(s.PID()) }

// SFTP are the processes that speak SFTP: the leaves.
func (s *Server) SFTP() []int {
	all := s.Sessions()
	return slices.DeleteFunc(slices.Clone(all), func(pid int) bool { return len(descendants(pid)) > 0 })
}

// Freeze stops processes until thaw is called. Those that still are when the
// server is stopped are killed as they stand.
func (s *Server) Freeze(pids ...int) (thaw func()) {
	s.t.Helper()
	if len(pids) == 0 {
		s.t.Fatal("no process to stop")
	}
	for _, pid := range pids {
		must(s.t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	var once sync.Once
	thaw = func() {
		once.Do(func() {
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGCONT)
			}
		})
	}
	return thaw
}

// descendants reads the process table once and walks it from pid.
func descendants(pid int) []int {
	entries, _ := os.ReadDir("/proc")
	children := map[int][]int{}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		// The name may hold spaces and parentheses; the fields begin after the last one.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[0] != "Z" {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		all = append(all, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return all
}

// FreePort is a port of 127.0.0.1 that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// WriteKey makes a key pair in name and name.pub and returns the public half.
func WriteKey(t testing.TB, name, kind, passphrase string) ssh.PublicKey {
	t.Helper()
	var private any
	switch kind {
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		must(t, err)
		private = key
	case "rsa":
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		must(t, err)
		private = key
	default:
		t.Fatalf("no key of kind %q", kind)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "test", []byte(passphrase))
	}
	must(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must(t, err)
	must(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	must(t, os.WriteFile(name+".pub", ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o644))
	return signer.PublicKey()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
