package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"gpuboard/atomicfile"
	"gpuboard/snapshot"
)

// A heartbeat is what the loop leaves in its spool after every cycle.
type heartbeat struct {
	PID     int           `json:"pid"`
	Start   string        `json:"start"` // of the process, so that a reused pid is told apart
	Host    string        `json:"host"`
	Every   time.Duration `json:"every_ns"`
	Started time.Time     `json:"started"`
	Beat    time.Time     `json:"beat"`
	Version string        `json:"version"`
}

const (
	loopLock  = "run.lock"
	loopBeat  = "run.json"
	loopLog   = "run.log"
	startWait = 15 * time.Second // until the first heartbeat
	stopWait  = 10 * time.Second // until a loop that was asked to end has ended
)

// checkCommand is the cron watchdog, with the seed's words: check HOST starts
// what does not run, check kill stops it.
func (a *app) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check [HOST|kill]", Short: "start the loop if it does not run; kill stops it (for cron)", GroupID: groupNode,
		Long: "check looks whether the loop of this node (gpuboard run) is alive, by its lock and its\n" +
			"heartbeat, and starts it if it is not. It says Running or Launched. check kill ends the\n" +
			"loop and everything it started, and returns when all of it is gone.\n" + exitStatus,
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
			for _, name := range nodeKeys() {
				if f := c.Flags().Lookup(mustKey(name).flag()); f.Changed {
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
				cfg.values["host"] = host
				flags = append(flags, "--host="+host)
			}
			return a.checkAlive(c.Context(), cfg, flags)
		},
	}
	a.flags(c, nodeKeys()...)
	return c
}

func (a *app) checkAlive(ctx context.Context, cfg *config, flags []string) error {
	dir := cfg.string("spool")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return because("spool:unusable", fail(exitUsage, fmt.Errorf("making the spool: %w", err), "give a directory of your own with --spool DIR"))
	}
	// One check at a time: two crontabs must not start two loops.
	one := flock.New(filepath.Join(dir, "check.lock"))
	if held, err := one.TryLock(); err != nil || !held {
		return because("check:busy", fail(exitTempFail, errors.New("another check of this node is at work"), ""))
	}
	defer one.Unlock()

	word := "Launched"
	if held, err := loopHeld(dir); err != nil {
		return err
	} else if held {
		beat, err := a.waitForBeat(ctx, dir, 0)
		if err == nil && a.now().Sub(beat.Beat) <= beatLimit(beat.Every) {
			fmt.Fprintf(a.stdout, "Running %s (pid %d)\n", beat.Host, beat.PID)
			return nil
		}
		// It holds the lock and does not beat: it hangs, and hangs for ever.
		if err := a.stop(ctx, dir); err != nil {
			return err
		}
		word = "Relaunched"
	}
	if err := os.Remove(filepath.Join(dir, loopBeat)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the old heartbeat: %w", err)
	}
	pid, err := startLoop(flags, filepath.Join(dir, loopLog))
	if err != nil {
		return err
	}
	beat, err := a.waitForBeat(ctx, dir, pid)
	if err != nil || beat.PID != pid {
		return because("loop:not-started", fail(exitError, errors.New("starting the loop: it did not come up"),
			"read "+filepath.Join(dir, loopLog)+", or run it in the foreground: gpuboard run"))
	}
	fmt.Fprintf(a.stdout, "%s %s (pid %d)\n", word, beat.Host, beat.PID)
	return nil
}

// beatLimit is the age from which a heartbeat means a hang: the loop's own
// watchdog ends it after two intervals, so this is beyond that.
func beatLimit(every time.Duration) time.Duration { return 3*every + time.Minute }

func (a *app) checkKill(ctx context.Context, cfg *config) error {
	dir := cfg.string("spool")
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
	path := filepath.Join(dir, loopLock)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	l := flock.New(path)
	free, err := l.TryLock()
	if err != nil {
		return false, fmt.Errorf("looking at the loop's lock: %w", err)
	}
	if free {
		return false, l.Unlock()
	}
	return true, nil
}

// waitForBeat waits for the first heartbeat, as long as the process pid, if
// that is not 0, is alive.
func (a *app) waitForBeat(ctx context.Context, dir string, pid int) (heartbeat, error) {
	deadline := a.now().Add(startWait)
	for {
		ended := pid != 0 && !alive(pid)
		beat, err := readBeat(dir)
		if err == nil {
			return beat, nil
		}
		if ended || !a.now().Before(deadline) {
			return heartbeat{}, err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return heartbeat{}, err
		}
	}
}

func readBeat(dir string) (heartbeat, error) {
	var beat heartbeat
	data, err := os.ReadFile(filepath.Join(dir, loopBeat))
	if err != nil {
		return beat, fmt.Errorf("reading the heartbeat: %w", err)
	}
	if err := json.Unmarshal(data, &beat); err != nil {
		return beat, fmt.Errorf("reading the heartbeat: %w", err)
	}
	return beat, nil
}

func writeBeat(dir string, beat heartbeat) error {
	data, err := json.Marshal(beat)
	if err != nil {
		return err
	}
	_, err = atomicfile.Note(filepath.Join(dir, loopBeat), append(data, '\n'), 0o600) // no power, no loop
	return err
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
