package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

const (
	loopLock  = "run.lock"
	loopBeat  = "run.json"
	loopLog   = "run.log"
	startWait = 15 * time.Second // until a loop that starts says so; its first push may take longer
	stopWait  = 10 * time.Second // until a loop that was asked to end has ended
)

// checkCommand is the cron watchdog, with the seed's words: check HOST starts
// what does not run, check kill stops it.
func (a *app) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check [HOST|kill]", Short: "start the loop if it does not run; kill stops it (for cron)", GroupID: groupNode,
		Long: "check looks whether the loop of this node (gpuboard run) is alive, by its lock and its\n" +
			"heartbeat, and starts it if it is not; then it waits for the first push. It says Running or\n" +
			"Launched. A loop with other settings than those that check is given is started anew with\n" +
			"them; check HOST alone only asks. When no push has worked yet, or pushes have failed for\n" +
			"more than a few intervals, one line on stderr says why, and the exit code is 3. check kill\n" +
			"ends the loop and everything it started, and returns when all of it is gone.\n" + exitStatus,
		Example: "  gpuboard check gpu01 --to sftp://n-gpu01@web/in\n  gpuboard check kill",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			if len(args) == 1 && args[0] == "kill" {
				return a.checkKill(c.Context(), cfg)
			}
			var flags []string
			for _, name := range config.NodeKeys() {
				if f := c.Flags().Lookup(config.Among(config.Keys(), name).Flag()); f.Changed {
					flags = append(flags, "--"+f.Name+"="+f.Value.String())
				}
			}
			if f := c.Flags().Lookup("config"); f.Changed {
				flags = append(flags, "--config="+f.Value.String())
			}
			if len(args) == 1 {
				host, err := snapshot.ParseHost(args[0])
				if err != nil {
					return usagef("gpuboard check HOST, where HOST is this node's name", "%w", err)
				}
				cfg.Set("host", host, "HOST")
				flags = append(flags, "--host="+host)
			}
			return a.checkAlive(c.Context(), cfg, flags)
		},
	}
	a.flags(c, config.NodeKeys()...)
	return c
}

func (a *app) checkAlive(ctx context.Context, cfg *config.Config, flags []string) error {
	dir := cfg.String("spool")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return because("spool:unusable", fail(exitUsage, fmt.Errorf("making the spool: %w", err), "give a directory of your own with --spool DIR"))
	}
	// One check at a time: two crontabs must not start two loops.
	one, err := atomicfile.Lock(filepath.Join(dir, "check.lock"), 0o600)
	if errors.Is(err, atomicfile.ErrLocked) {
		return because("check:busy", fail(exitTempFail, errors.New("another check of this node is at work"), ""))
	}
	if err != nil {
		return because("spool:unusable", fail(exitUsage, fmt.Errorf("taking the lock of check: %w", err), ""))
	}
	defer one.Close()

	done, why := "Launched", ""
	if held, err := loopHeld(dir); err != nil {
		return err
	} else if held {
		beat, err := a.waitForBeat(ctx, dir, startWait, nil, heartbeat.own)
		beats := err == nil && a.now().Sub(beat.sign()) <= beatLimit(beat.Every)
		if beats {
			why = strings.Join(beat.changed(cfg), ", ")
		}
		if named := cfg.String("host"); beats && why == "" && cfg.Given("host") && !strings.EqualFold(named, beat.Host) {
			return usagef("gpuboard check kill, then gpuboard check "+word(named)+" --to …", "the loop of this spool runs as %s, and not as %s", beat.Host, named)
		}
		if beats && why == "" {
			fmt.Fprintf(a.stdout, "Running %s (pid %d)\n", beat.Host, beat.PID)
			if beat.failing(a.now()) {
				return a.notPushing(beat)
			}
			return nil
		}
		// It was told something else, or it holds the lock and does not beat: then it
		// hangs, and hangs for ever.
		if err := a.stop(ctx, dir); err != nil {
			return err
		}
		done = "Relaunched"
		if why != "" {
			why = ", which had other settings: " + why
		}
	}
	pid, err := startLoop(flags, filepath.Join(dir, loopLog))
	if err != nil {
		return err
	}
	// The first cycle tells whether a push works. Its budget bounds the wait.
	ended := func() bool { return !alive(pid) }
	beat, err := a.waitForBeat(ctx, dir, startWait+cfg.Duration("push_timeout"), ended, func(b heartbeat) bool {
		return b.PID == pid && b.own() && !b.Beat.IsZero()
	})
	if err != nil {
		return because("loop:not-started", fail(exitError, errors.New("starting the loop: it did not come up"),
			"read "+filepath.Join(dir, loopLog)+", or run it in the foreground: gpuboard run"))
	}
	fmt.Fprintf(a.stdout, "%s %s (pid %d)%s\n", done, beat.Host, beat.PID, why)
	if beat.Push.Error != "" {
		return a.notPushing(beat)
	}
	return nil
}

// notPushing says in one line, which cron mails, that the loop runs and nothing
// of it arrives.
func (a *app) notPushing(beat heartbeat) error {
	fmt.Fprintf(a.stderr, "gpuboard: %s: %s\n", beat.Host, failure.Line(beat.Push.failure()+" (gpuboard doctor node says what to do)", beat.Push.Code))
	return silent(exitDegraded)
}

func (a *app) checkKill(ctx context.Context, cfg *config.Config) error {
	dir := cfg.String("spool")
	held, err := loopHeld(dir)
	if err != nil {
		return err
	}
	if !held {
		fmt.Fprintln(a.stdout, "Not running")
		return nil
	}
	if err := a.stop(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, "Stopped")
	return nil
}

// stop ends the loop's whole process group and waits until it is gone: asked
// first, then forced.
func (a *app) stop(ctx context.Context, dir string) error {
	beat, err := readBeat(dir)
	if err != nil {
		return because("loop:not-stopped", fail(exitError, fmt.Errorf("stopping the loop: %w", err), "find it by its open file: fuser "+filepath.Join(dir, loopLock)))
	}
	if beat.Start != "" && startTime(beat.PID) != beat.Start {
		return because("loop:not-stopped", fail(exitError, fmt.Errorf("stopping the loop: pid %d is another process by now", beat.PID), "find it by its open file: fuser "+filepath.Join(dir, loopLock)))
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		// The loop leads a session of its own when check started it; one that a
		// person started in a terminal is ended alone.
		target := beat.PID
		if pgid, err := syscall.Getpgid(beat.PID); err == nil && pgid == beat.PID {
			target = -beat.PID
		}
		if err := syscall.Kill(target, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping the loop (pid %d): %w", beat.PID, err)
		}
		deadline := a.now().Add(stopWait)
		for a.now().Before(deadline) {
			held, err := loopHeld(dir)
			if err != nil {
				return err
			}
			if !held && !alive(beat.PID) {
				return nil
			}
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return because("loop:not-stopped", fail(exitTempFail, fmt.Errorf("stopping the loop: pid %d does not end, not even by SIGKILL", beat.PID),
		"it waits for the driver in the kernel; nvidia-smi may be stuck, and only a reboot helps then"))
}

// loopHeld reports whether a live process holds the loop's lock.
func loopHeld(dir string) (bool, error) {
	l, err := atomicfile.OpenLock(filepath.Join(dir, loopLock))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at the loop's lock: %w", err)
	}
	defer l.Close()
	free, err := atomicfile.TryLock(l)
	return !free, err
}

// waitForBeat waits for a heartbeat that is as wanted, for so long or until ended
// reports that there will be none.
func (a *app) waitForBeat(ctx context.Context, dir string, limit time.Duration, ended func() bool, wanted func(heartbeat) bool) (heartbeat, error) {
	deadline := a.now().Add(limit)
	for {
		over := ended != nil && ended()
		beat, err := readBeat(dir)
		if err == nil && wanted(beat) {
			return beat, nil
		}
		if over || !a.now().Before(deadline) {
			return heartbeat{}, cmp.Or(err, errors.New("reading the heartbeat: it is of an earlier loop"))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return heartbeat{}, err
		}
	}
}

// pause waits, or returns the context's error if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
