package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
)

// watchLock is the file that generate --watch locks as long as it runs.
func watchLock(cfg *config.Config) string { return filepath.Join(cfg.String("state"), "watch.lock") }

// generateOnce returns what makes a generation after a booking in the form where cron or a timer makes them, so that
// nobody waits for the next one. It does not wait for the generation; bookings that come meanwhile get another one.
//
// The interval is that of the site: those who make it may have given it as a flag.
func (a *app) generateOnce(ctx context.Context, cfg *config.Config) func(interval time.Duration) {
	asked := make(chan time.Duration, 1)
	go func() {
		for interval := range asked {
			if err := generateNow(ctx, cfg, interval); err != nil {
				a.log().Warn("the booking is on the pages after the next generation", "error", err)
			}
		}
	}()
	return func(interval time.Duration) {
		if !generatesHere(cfg) {
			return
		}
		select {
		case asked <- interval:
		default: // the one that is to begin shows this booking, too
		}
	}
}

// generatesHere reports whether generations with these settings are made on this machine, and by a process that ends
// with each. generate --watch finds a booking by itself.
func generatesHere(cfg *config.Config) bool {
	lock, err := atomicfile.OpenLock(watchLock(cfg))
	if err == nil {
		free, err := atomicfile.TryLock(lock)
		atomicfile.Unlock(lock)
		if err != nil || !free {
			return false
		}
	}
	_, err = os.Stat(filepath.Join(cfg.String("state"), "generate.lock"))
	return err == nil && unix.Access(cfg.String("site"), unix.W_OK) == nil
}

// maxTries is how often a generation is tried, once in a second.
const maxTries = 60

// generateNow runs gpuboard generate, again if another generation is in progress, which may have begun before the
// booking.
func generateNow(ctx context.Context, cfg *config.Config, interval time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"generate", "--interval", interval.String()}
	for _, name := range []string{"data", "site", "state", "comments", "aliases", "templates"} {
		if value := cfg.String(name); value != "" {
			args = append(args, "--"+name, value)
		}
	}
	if cfg.Path != "" {
		args = append(args, "--config", cfg.Path)
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
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("generating: another generation does not end")
}
