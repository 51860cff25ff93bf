package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// run starts a hook's program with the message as JSON on standard input.
func (c *Notifier) run(ctx context.Context, h *Hook, m message) error {
	doc, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("making the message: %w", err)
	}
	env := []string{
		"GPUBOARD_EVENT_ID=" + m.ID, "GPUBOARD_EVENT_KIND=" + string(m.Kind),
		"GPUBOARD_EVENT_AT=" + m.At.UTC().Format(time.RFC3339),
		"GPUBOARD_EVENT_HOST=" + m.Host, "GPUBOARD_EVENT_GPU=", "GPUBOARD_EVENT_USERS=" + strings.Join(m.Users, ","),
		"GPUBOARD_EVENT_BOOKING=" + m.Booking, "GPUBOARD_EVENT_SUMMARY=" + m.Summary,
		"GPUBOARD_EVENT_COUNT=" + strconv.Itoa(len(m.Events)),
	}
	if m.GPU != nil {
		env[4] += strconv.Itoa(*m.GPU)
	}
	return execute(ctx, h.Command, append(doc, '\n'), env)
}

// inherited returns the environment of programs, without tokens and gpuboard's settings.
func inherited() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
		"TMPDIR", "XDG_RUNTIME_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// execute runs a program without a shell, in its own process group, until ctx ends.
func execute(ctx context.Context, argv []string, stdin []byte, env []string) error {
	var stderr head
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(inherited(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), io.Discard, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it succeeded and left a child running
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("running %s: it did not end in time: %w", argv[0], ctx.Err())
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission):
		return &refusal{err: fmt.Errorf("running %s: %w", argv[0], err), permanent: true}
	}
	said := ""
	if stderr.n > 0 {
		said = ": " + printable(string(stderr.buf[:stderr.n]), 160)
	}
	return fmt.Errorf("running %s: %w%s", argv[0], err, said)
}

// head keeps the beginning of the standard error of a program.
type head struct {
	buf [512]byte
	n   int
}

func (t *head) Write(p []byte) (int, error) {
	t.n += copy(t.buf[t.n:], p)
	return len(p), nil
}
