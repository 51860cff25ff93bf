package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
)

// This is the only file of the command line that starts programs: OpenSSH for its reading of its
// configuration, and to run a command on the web host; crontab; and gpuboard itself.

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
		return nil, fmt.Errorf("asking ssh for its configuration of %s: %w: %s", host, err,
			strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// bySSH runs a command on the web host.
func (a *app) bySSH(c *cobra.Command, cfg *config.Config, host string, args []string) error {
	code, err := a.ssh(c.Context(), host, remoteCommand(c, cfg, args))
	switch {
	case err != nil:
		return failure.New(failure.ExitError, fmt.Errorf("running gpuboard on %s: %w", host, err),
			"bookings are changed on the web host: is ssh installed here?")
	case code == sshFailed:
		return failure.New(failure.ExitTryAgain, fmt.Errorf("running gpuboard on %s: ssh failed", host),
			"try: ssh "+shell.Quote(host)+" gpuboard version")
	case code != failure.ExitOK:
		return silent(code) // it has said everything itself
	}
	return nil
}

// sshFailed is the exit code by which ssh tells its own errors from the command's.
const sshFailed = 255

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

// maxTries is how often a generation is tried, once in a second.
const maxTries = 60

// generateNow runs gpuboard generate. While another generation is in progress it tries again, because that one may
// have begun before the booking.
func generateNow(ctx context.Context, cfg *config.Config, interval time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"generate", "--config", cfg.Path, "--interval", interval.String()}
	for _, name := range []string{"data", "site", "state", "comments", "aliases", "templates"} {
		if value := cfg.String(name); value != "" {
			args = append(args, "--"+name, value)
		}
	}
	for range maxTries {
		var said bytes.Buffer
		c := exec.CommandContext(ctx, self, args...)
		c.Stderr = &said
		err := c.Run()
		ended, _ := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil, ended != nil && ended.ExitCode() == failure.ExitDegraded:
			return nil
		case ended == nil || ended.ExitCode() != failure.ExitTryAgain:
			return fmt.Errorf("generating: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return errors.New("generating: another generation does not end")
}

// upgradeEvery is how often a server looks whether its program was replaced.
const upgradeEvery = 5 * time.Second

// upgrading runs a server until the context ends. If the file of this program is replaced meanwhile, as by an
// upgrade, the server ends, and the new program takes its place with the same arguments: cron starts a server that
// does not run, and would leave an old one alone.
func (a *app) upgrading(ctx context.Context, server func(context.Context) error) error {
	self, err := os.Executable()
	if err != nil || a.demonstration != nil {
		return server(ctx)
	}
	ours, err := os.Stat(self)
	if err != nil {
		return server(ctx)
	}

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	replaced := errors.New("replaced")
	go func() {
		last := ours
		for pause(ctx, upgradeEvery) == nil {
			now, err := os.Stat(self)
			switch {
			case err != nil || os.SameFile(now, ours): // removed, or not yet there
			case os.SameFile(now, last) && now.Size() == last.Size() && now.ModTime().Equal(last.ModTime()):
				end(replaced) // and written in full
			default:
				last = now
			}
		}
	}()

	if err := server(ctx); err != nil || !errors.Is(context.Cause(ctx), replaced) {
		return err
	}
	fmt.Fprintf(a.stderr, "gpuboard: %s was replaced: going on as the new one\n", self)
	if err := syscall.Exec(self, append([]string{self}, a.args...), os.Environ()); err != nil {
		return fmt.Errorf("starting the new %s: %w", self, err)
	}
	return nil
}
