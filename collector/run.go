package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxStderr = 64 << 10
	// killGrace is how long to wait for a killed program. One that hangs in the kernel
	// does not react to SIGKILL.
	killGrace = time.Second
	// pipeGrace is how long a grandchild may keep the output open after the program has
	// ended.
	pipeGrace = 500 * time.Millisecond
)

// A run is one bounded run of a program.
type run struct {
	stdout, stderr []byte
	cut            bool // stdout was longer than the limit
	exit           int  // exit status; the signal's number, negative, when one ended it
	timedOut       bool
	// hung is the pid of a program that could not be killed, 0 otherwise.
	hung int
	// err is why it could not be started, or the error of the caller's context.
	err error
}

// execute runs a program in its own process group, with empty standard input and the
// given environment. It returns after budget + killGrace at the latest.
func execute(ctx context.Context, program string, args, env []string, budget time.Duration, maxStdout int) run {
	out, errs := &buffer{max: maxStdout}, &buffer{max: maxStderr}
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.WaitDelay = pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return run{err: fmt.Errorf("starting %s: %w", program, err)}
	}
	pid := cmd.Process.Pid
	done := make(chan error, 1)
	// Wait runs in its own goroutine, because for a program in state D it never returns.
	go func() { done <- cmd.Wait() }()

	var r run
	var err error
	select {
	case err = <-done:
	case <-time.After(budget):
		r.timedOut = true
		err = end(cmd.Process, done, &r)
	case <-ctx.Done():
		r.err = fmt.Errorf("running %s: %w", program, context.Cause(ctx))
		err = end(cmd.Process, done, &r)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		// A grandchild kept the output open. The group still exists, so its id is not reused.
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	if status, ok := errors.AsType[*exec.ExitError](err); ok {
		r.exit = status.ExitCode()
		if ws, ok := status.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			r.exit = -int(ws.Signal())
		}
	}
	r.stdout, r.cut = out.take()
	r.stderr, _ = errs.take()
	return r
}

// end kills a program and its group, and stops waiting after killGrace.
func end(p *os.Process, done <-chan error, r *run) error {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill() // for one that has left its group
	select {
	case err := <-done:
		return err
	case <-time.After(killGrace):
		r.hung = p.Pid
		return nil
	}
}

// A buffer keeps the first max bytes and discards the rest, so that a program that
// writes too much does not block.
type buffer struct {
	mu  sync.Mutex
	b   bytes.Buffer
	max int
	cut bool
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.max - b.b.Len()
	if room < len(p) {
		b.cut = true
	}
	b.b.Write(p[:min(room, len(p))])
	return len(p), nil
}

// take returns a copy, because a program that hangs may still write.
func (b *buffer) take() ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes()), b.cut
}

// programDirs are the directories searched after PATH, which is short under cron.
func programDirs() []string {
	return []string{"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/opt/bin", "/opt/rocm/bin",
		"/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/run/current-system/sw/bin"}
}

// ErrNotInstalled is the error for a program that no directory has, not even one that others can write.
var ErrNotInstalled = errors.New("not in PATH")

// resolve returns the absolute path of a program. A name with a slash is a path. Others
// are searched in PATH and then in programDirs, and never in the working directory or in a
// directory that others than root and this account can write.
func resolve(name string) (string, error) {
	if strings.ContainsRune(name, '/') {
		full, err := filepath.Abs(name)
		if err == nil {
			_, err = exec.LookPath(full)
		}
		if err != nil {
			return "", fmt.Errorf("finding %s: %w", name, err)
		}
		return full, nil
	}
	skipped := ""
	for _, dir := range slices.Concat(filepath.SplitList(os.Getenv("PATH")), programDirs()) {
		full := filepath.Join(dir, name)
		if _, err := exec.LookPath(full); err != nil || !filepath.IsAbs(dir) {
			continue
		}
		if safe(dir) && safe(full) {
			return full, nil
		}
		skipped += fmt.Sprintf("; %s is skipped, because others can replace it", full)
	}
	missing := ErrNotInstalled
	if skipped != "" {
		missing = errors.New(ErrNotInstalled.Error())
	}
	return "", fmt.Errorf("finding %s: %w and not in %s%s", name, missing, strings.Join(programDirs(), ", "), skipped)
}

// safe reports whether only root and this account can replace a program or a directory, with all directories
// above. In a sticky directory, such as /tmp, others can add files but not replace those of root.
func safe(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	for ; err == nil; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		shared := info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0
		if !ok || shared || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
	return false
}

// environment returns the environment of programs: PATH, and LD_LIBRARY_PATH, which
// containers, NixOS and WSL need to find the driver's library. Tokens, HOME, LD_PRELOAD
// and the locale are not passed on. Variables that begin with GPUBOARD_FAKE_ are for
// the fake programs of tests and demonstrations.
func environment(own ...string) []string {
	env := own
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name == "PATH" || name == "LD_LIBRARY_PATH" || strings.HasPrefix(name, "GPUBOARD_FAKE_") {
			env = append(env, entry)
		}
	}
	return env
}
