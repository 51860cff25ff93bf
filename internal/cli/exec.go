package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// This is the only file of the command line that starts programs: OpenSSH for its reading of its
// configuration, and to run a command on the web host.

// sshConfig returns what "ssh -G" says of a host: the truth for Match, tokens and canonical
// names. The error is fs.ErrNotExist where there is no ssh.
func sshConfig(ctx context.Context, host string) ([]byte, error) {
	path, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fs.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, path, "-G", "--", host)
	c.Stderr = &stderr
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("asking ssh for its configuration of %s: %w: %s", host, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// ssh runs a command on a host and returns its exit code; 255 is an error of ssh itself.
func (a *app) ssh(ctx context.Context, host, command string) (code int, err error) {
	c := exec.CommandContext(ctx, "ssh", "--", host, command)
	c.Stdin, c.Stdout, c.Stderr = a.stdin, a.stdout, a.stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 5 * time.Second
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// crontab returns this user's crontab; nil where there is none, or no cron.
func (a *app) crontab(ctx context.Context) []byte {
	for _, dir := range filepath.SplitList(a.getenv("PATH")) {
		if path := filepath.Join(dir, "crontab"); installed(path) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			out, _ := exec.CommandContext(ctx, path, "-l").Output() // it fails where there is none
			return out
		}
	}
	return nil
}

func installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
