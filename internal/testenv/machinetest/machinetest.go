// Package machinetest boots machines for tests: a real systemd as process 1, over the files of this machine.
//
// What a machine writes is its own and gone with it. It shares the kernel and
// nothing else: it has no network but its own loopback, and no service runs on
// it before the test starts one.
package machinetest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/testenv/need"
)

//go:embed boot.sh
var bootScript string

// bootWithin bounds how long a machine may take until its services could start.
const bootWithin = need.Patience

// Machine is a running machine.
type Machine struct {
	t       testing.TB
	pid     int // of its process 1, as seen from here
	console *bytes.Buffer
}

// Options of [Boot].
type Options struct {
	Beside *Machine // shares its network with that machine, as if they stood in one rack
}

// Boot starts a machine, and stops it when the test ends. The test is skipped
// where the programs are missing, as by need.Program, and also, with a
// reason, where the kernel lets even root make no machine: nobody can mend
// that by installing something.
func Boot(t testing.TB, o Options) *Machine {
	t.Helper()
	need.Time(t, "it boots a machine")
	need.Root(t)
	unshare, systemd := need.Program(t, "unshare"), "/lib/systemd/systemd"
	need.Program(t, "nsenter")
	need.Program(t, "ip")
	if _, err := os.Stat(systemd); err != nil {
		need.Skip(t, "there is no systemd here")
	}
	group := controlGroup(t)
	flags := []string{"--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup"}
	if o.Beside == nil {
		flags = append(flags, "--net")
	}
	if out, err := exec.Command(unshare,
		append(flags, "sh", "-c",
			"mount --make-rprivate / && mount -t tmpfs tmpfs /mnt && mount -t proc proc /mnt")...).CombinedOutput(); err != nil {
		t.Skipf("no machine can be made here: %v: %s", err, out)
	}

	m := &Machine{t: t, console: &bytes.Buffer{}}
	run := []string{unshare}
	if o.Beside != nil {
		run = []string{"nsenter", "--net=" + fmt.Sprintf("/proc/%d/ns/net", o.Beside.pid), unshare}
	}
	run = append(append(run, flags...), "sh", "-c", bootScript, "boot", t.TempDir(), systemd)
	// In its group before it makes namespaces, so that the group is its root.
	c := exec.Command("sh", append([]string{"-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, group}, run...)...)
	c.Stdout, c.Stderr = m.console, m.console
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		// The signal comes when the thread that started it ends, and Go ends
		// threads: this one waits.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if m.pid != 0 {
			_ = syscall.Kill(m.pid, syscall.SIGKILL) // and with it everything in it
		}
		_ = c.Process.Kill()
		<-ended
		removeGroup(group)
	})
	deadline := time.Now().Add(bootWithin)
	for {
		select {
		case <-ended:
			t.Fatalf("the machine did not boot:\n%s", m.console)
		default:
		}
		if m.pid == 0 {
			m.pid = childNamed(c.Process.Pid, "systemd")
		} else if out, err := m.Try("systemctl", "is-active", "basic.target"); err == nil {
			m.Run("systemctl", "start", "systemd-user-sessions.service") // now people may log in
			return m
		} else if time.Now().After(deadline) {
			t.Fatalf("the machine does not come up: %s\n%s", out, m.console)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Try runs a command on the machine and returns what it printed. A command that does not end is
// killed, and the error names it.
func (m *Machine) Try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*need.Patience)
	defer cancel()
	c := m.Command(ctx, args...)
	c.WaitDelay = need.Patience // what it has started may hold its output open
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("%s does not end: %w", strings.Join(args, " "), ctx.Err())
	}
	return string(out), err
}

// Run is [Machine.Try] for commands that have to work.
func (m *Machine) Run(args ...string) string {
	m.t.Helper()
	out, err := m.Try(args...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Command is a command on the machine, for the caller to run.
func (m *Machine) Command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "nsenter",
		append([]string{"--target", strconv.Itoa(m.pid), "--all", "--wd=/", "--"}, args...)...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
		"DEBIAN_FRONTEND=noninteractive"}
	return c
}

// OnItsNetwork is a command of this machine that can reach what listens on the other.
func (m *Machine) OnItsNetwork(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter",
		append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", m.pid), "--"}, args...)...)
}

// Path is where a file of the machine is on this one.
func (m *Machine) Path(name string) string { return fmt.Sprintf("/proc/%d/root%s", m.pid, name) }

// Write puts a file onto the machine.
func (m *Machine) Write(name, content string, mode os.FileMode) {
	m.t.Helper()
	path := m.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		m.t.Fatal(err)
	}
}

// Read is a file of the machine, or nothing while there is none.
func (m *Machine) Read(name string) string {
	data, err := os.ReadFile(m.Path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Error(err)
	}
	return string(data)
}

// Until waits until something is so on the machine; when it does not come
// about, the journal tells why.
func (m *Machine) Until(what string, so func() bool) {
	m.t.Helper()
	deadline := time.Now().Add(need.Patience)
	for !so() {
		if time.Now().After(deadline) {
			journal, _ := m.Try("journalctl", "--no-pager", "--lines=250", "--output=short")
			m.t.Fatalf("%s does not come about:\n%s", what, journal)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Property is what systemd says of a unit, such as MainPID.
func (m *Machine) Property(unit, name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.Run("systemctl", "show", "--value", "--property="+name, unit))
}

// Client speaks HTTP with what listens on the machine.
func (m *Machine) Client() *http.Client {
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = inNetwork(m.pid, func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	return &http.Client{
		Timeout: need.Patience, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// inNetwork calls f in the network of a process. A socket belongs to the network
// that its thread is in. Afterwards the thread returns to its own network. It
// must not end: the kernel would kill what tests have started on it with
// Pdeathsig.
func inNetwork(pid int, f func() error) error {
	own, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer there.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = f()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(fmt.Sprintf("a thread does not come back from a machine's network: %v", err))
	}
	return err
}

// controlGroup makes a control group for a machine, of the second version.
func controlGroup(t testing.TB) string {
	t.Helper()
	for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(at + "/cgroup.procs"); err != nil {
			continue
		}
		group, err := os.MkdirTemp(at, "gpuboard-test-")
		if err != nil {
			t.Skipf("no machine can be made here: %v", err)
		}
		return group
	}
	t.Skip("no machine can be made here: there are no control groups of version 2")
	return ""
}

// removeGroup removes a control group and those below it, children first.
func removeGroup(group string) {
	entries, _ := os.ReadDir(group)
	for _, entry := range entries {
		if entry.IsDir() {
			removeGroup(filepath.Join(group, entry.Name()))
		}
	}
	// Those that were killed may take a moment to be gone.
	for range 100 {
		if err := syscall.Rmdir(group); !errors.Is(err, syscall.EBUSY) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// childNamed is the process of a name among those that pid has started.
func childNamed(pid int, name string) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(children)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			continue
		}
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); strings.TrimSpace(string(comm)) == name {
			return child
		}
		if found := childNamed(child, name); found != 0 {
			return found
		}
	}
	return 0
}
