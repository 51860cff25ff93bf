package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/failure"
)

const (
	startWait = 15 * time.Second // until a new loop has written its heartbeat; its first push may take longer
	stopWait  = 10 * time.Second // until a loop has ended after a signal
	pollEvery = 20 * time.Millisecond
)

// CheckOptions are what check goes by.
type CheckOptions struct {
	Spool string // the directory
	// Host is the name that the loop has to run under; "" for any.
	Host string
	// Settings are those that the loop has to run with, as in its heartbeat; nil for any.
	Settings map[string]string
	// Flags are those of "gpuboard run", for a loop that has to be started.
	Flags []string
	// PushTimeout is how long the first push may take.
	PushTimeout time.Duration
	Now         func() time.Time
}

// Checked is the outcome of a check.
type Checked struct {
	Heartbeat
	Launched bool     // the loop was started
	Replaced bool     // another loop was stopped before
	Changed  []string // the settings in which that one was different
}

// Check looks whether the loop of a spool runs. A loop that does not run is started; one that
// hangs, or runs with other settings, is started again. A loop that is a systemd unit is only
// looked at.
func Check(ctx context.Context, o CheckOptions) (Checked, error) {
	var result Checked
	if err := os.MkdirAll(o.Spool, 0o700); err != nil {
		return result, unusable(fmt.Errorf("making the spool: %w", err))
	}
	lock, err := atomicfile.Lock(filepath.Join(o.Spool, "check.lock"), 0o600)
	if errors.Is(err, atomicfile.ErrLocked) { // two crontabs must not start two loops
		return result, &failure.Error{Exit: failure.ExitTryAgain, Code: "check:busy", Err: errors.New("another check of this node is at work")}
	}
	if err != nil {
		return result, unusable(fmt.Errorf("taking the lock of check: %w", err))
	}
	defer lock.Close()

	held, err := Running(o.Spool)
	if err != nil {
		return result, err
	}
	if held {
		result.Heartbeat, err = waitForHeartbeat(ctx, o.Spool, startWait, func(b Heartbeat) bool { return b.alive() }, nil)
		hangs := err != nil || result.Hangs(o.Now())
		if !hangs {
			result.Changed = changed(result.Settings, o.Settings)
		}
		switch {
		case !hangs && result.Changed == nil && o.Host != "" && !strings.EqualFold(o.Host, result.Host):
			return result, failure.Usage("gpuboard check kill, then gpuboard check "+o.Host+" --to …", "the loop of this spool runs as %s, and not as %s", result.Host, o.Host)
		case !hangs && result.Changed == nil:
			return result, nil
		case result.Unit != "" && hangs:
			return result, &failure.Error{Exit: failure.ExitTryAgain, Code: "loop:hangs", Err: fmt.Errorf("the loop of %s has been silent for %v", result.Unit, result.Age(o.Now()).Round(time.Second)),
				Hint: "systemctl restart " + result.Unit}
		case result.Unit != "":
			return result, failure.Usage("change its configuration, or leave check out: systemd keeps the loop alive",
				"the loop is %s, which has other settings: %s", result.Unit, strings.Join(result.Changed, ", "))
		}
		if err := stop(ctx, o.Spool); err != nil {
			return result, err
		}
		result.Replaced = true
	}
	pid, err := start(o.Flags, filepath.Join(o.Spool, LogFile))
	if err != nil {
		return result, err
	}
	result.Launched = true
	// The first cycle tells whether a push works.
	result.Heartbeat, err = waitForHeartbeat(ctx, o.Spool, startWait+o.PushTimeout,
		func(b Heartbeat) bool { return b.PID == pid && b.alive() && !b.Beat.IsZero() },
		func() bool { return !alive(pid) })
	if err != nil {
		return result, &failure.Error{Exit: failure.ExitError, Code: "loop:not-started", Err: errors.New("starting the loop: it did not come up"),
			Hint: "read " + filepath.Join(o.Spool, LogFile) + ", or run it in the foreground: gpuboard run"}
	}
	return result, nil
}

// changed names the settings that are not as wanted, sorted.
func changed(is, wanted map[string]string) (names []string) {
	if is == nil || wanted == nil {
		return nil
	}
	all := maps.Clone(is)
	maps.Copy(all, wanted)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if is[name] != wanted[name] {
			names = append(names, name)
		}
	}
	return names
}

// Stop ends the loop of a spool, and reports whether there was one.
func Stop(ctx context.Context, spool string) (was bool, err error) {
	held, err := Running(spool)
	if err != nil || !held {
		return false, err
	}
	if beat, err := ReadHeartbeat(spool); err == nil && beat.alive() && beat.Unit != "" {
		return true, failure.Usage("systemctl stop "+beat.Unit, "the loop is %s: systemd would start it again", beat.Unit)
	}
	return true, stop(ctx, spool)
}

// stop ends the loop's process group and waits until it is gone: first with SIGTERM, then with
// SIGKILL.
func stop(ctx context.Context, spool string) error {
	notStopped := func(exit int, hint, format string, args ...any) error {
		return &failure.Error{Exit: exit, Code: "loop:not-stopped", Err: fmt.Errorf("stopping the loop: "+format, args...), Hint: hint}
	}
	find := "find it by its open file: fuser " + filepath.Join(spool, LockFile)
	beat, err := ReadHeartbeat(spool)
	if err != nil {
		return notStopped(failure.ExitError, find, "%w", err)
	}
	if !beat.alive() {
		return notStopped(failure.ExitError, find, "pid %d is another process by now", beat.PID)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		// A loop that check started leads a process group; one in a terminal is ended alone.
		target := beat.PID
		if pgid, err := syscall.Getpgid(beat.PID); err == nil && pgid == beat.PID {
			target = -beat.PID
		}
		if err := syscall.Kill(target, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping the loop (pid %d): %w", beat.PID, err)
		}
		gone := false
		err := poll(ctx, stopWait, func() (bool, error) {
			held, err := Running(spool)
			gone = !held && !alive(beat.PID)
			return gone, err
		})
		if gone || err != nil {
			return err
		}
	}
	return notStopped(failure.ExitTryAgain, "it waits for the driver in the kernel; nvidia-smi may be stuck, and only a reboot helps then",
		"pid %d does not end, not even by SIGKILL", beat.PID)
}

// waitForHeartbeat waits for a heartbeat as wanted, until the limit or until ended reports that
// there will be none. ended may be nil.
func waitForHeartbeat(ctx context.Context, spool string, limit time.Duration, wanted func(Heartbeat) bool, ended func() bool) (beat Heartbeat, err error) {
	found := false
	pollErr := poll(ctx, limit, func() (bool, error) {
		over := ended != nil && ended() // asked first: the last heartbeat may come just before
		beat, err = ReadHeartbeat(spool)
		found = err == nil && wanted(beat)
		return found || over, nil
	})
	if !found {
		return Heartbeat{}, cmp.Or(pollErr, err, errors.New("reading the heartbeat: it is of an earlier loop"))
	}
	return beat, nil
}

// poll calls done until it returns true or an error, the limit is over, or the context ends.
func poll(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	for end := time.Now().Add(limit); ; {
		if over, err := done(); over || err != nil || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
