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
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
)

const (
	startWait = 15 * time.Second // until a new loop has written its heartbeat; its first push may take longer
	stopWait  = 10 * time.Second // until a loop has ended after a signal
	pollEvery = 20 * time.Millisecond
)

// Checked is the outcome of a check.
type Checked struct {
	Heartbeat
	Launched bool              // the loop was started
	Replaced bool              // another loop was stopped before
	Changed  []string          // the settings in which that one was different
	Was      map[string]string // its settings
	Other    string            // its version, if that was another one
}

// Check looks whether the loop runs, and starts it if it does not, with the flags of "gpuboard run".
// A loop that hangs, runs with other settings, or is of another version, is started again. A loop that is a
// systemd unit is only looked at. If nothing but the names of the node and the spool is set, any settings are right.
func (n Node) Check(ctx context.Context, flags []string) (Checked, error) {
	spool := n.dir()
	var result Checked
	if err := os.MkdirAll(spool, 0o700); err != nil {
		return result, unusable(fmt.Errorf("making the spool: %w", err))
	}
	lock, err := atomicfile.Lock(filepath.Join(spool, "check.lock"), 0o600)
	if errors.Is(err, atomicfile.ErrLocked) { // two crontabs must not start two loops
		return result, &failure.Error{Exit: failure.ExitTryAgain, Code: "check:busy",
			Err: errors.New("another check of this node is running")}
	}
	if err != nil {
		return result, unusable(fmt.Errorf("taking the lock of check: %w", err))
	}
	defer atomicfile.Unlock(lock)

	held, err := Running(spool)
	if err != nil {
		return result, err
	}
	if held {
		result.Heartbeat, err = waitForHeartbeat(ctx, spool, startWait, func(b Heartbeat) bool { return b.alive() },
			nil)
		hangs := err != nil || result.Hangs(n.Now())
		if !hangs && n.compares() {
			result.Changed = changed(result.Settings, n.loopSettings())
			if result.Unit == "" && result.Version != n.Version {
				result.Other = result.Version
			}
		}
		right := !hangs && result.Changed == nil
		host := n.Config.String("host")
		switch {
		case right && n.Config.Given("host") && !strings.EqualFold(host, result.Host):
			flags := n.Flags(result.Settings)
			return result, failure.Usage("gpuboard check kill"+flags+"; gpuboard check "+shell.Quote(host)+flags+
				"    (and change the name in cron's line, and in to:)",
				"the loop of this spool runs as %s, and not as %s", result.Host, host)
		case right && result.Other == "":
			return result, nil
		case result.Unit != "" && hangs:
			return result, &failure.Error{Exit: failure.ExitTryAgain, Code: "loop:hangs",
				Err: fmt.Errorf("the loop of %s has been silent for %v", result.Unit,
					result.Age(n.Now()).Round(time.Second)),
				Hint: "systemctl restart " + result.Unit}
		case result.Unit != "":
			return result, failure.Usage(
				"change its configuration; check is not needed, because systemd keeps the loop running",
				"the loop is %s, which has other settings: %s", result.Unit, strings.Join(result.Changed, ", "))
		}
		if err := stop(ctx, spool); err != nil {
			return result, err
		}
		result.Replaced, result.Was = true, result.Settings
	}
	logPath := filepath.Join(spool, LogFile)
	pid, logged, err := start(flags, logPath)
	if err != nil {
		return result, err
	}
	result.Launched = true
	// The first cycle tells whether a push works.
	result.Heartbeat, err = waitForHeartbeat(ctx, spool, startWait+n.Config.Duration("push_timeout"),
		func(b Heartbeat) bool { return b.PID == pid && b.alive() && !b.Beat.IsZero() },
		func() bool { return !alive(pid) })
	if err != nil {
		return result, &failure.Error{Exit: failure.ExitError, Code: "loop:not-started",
			Err: fmt.Errorf("starting the loop: %s", whyNot(logPath, logged)),
			Hint: "read " + shell.Quote(logPath) + ", or run it in the foreground: " +
				shell.Join(append([]string{"gpuboard", "run"}, flags...)...)}
	}
	return result, nil
}

// Flags are those with which a command does what a loop with these settings does, each behind a blank: what the loop
// has and the file does not say, and what was given to this command.
func (n Node) Flags(settings map[string]string) (flags string) {
	if n.Config.Named {
		flags = " --config " + shell.Quote(n.Config.Path)
	}
	keys := config.Keys()
	for _, name := range config.NodeKeys() {
		value, given := n.Config.String(name), strings.HasPrefix(n.Config.Origin(name), "--")
		if was, ok := settings[name]; ok && was != value {
			value, given = was, !n.Config.InFile(name)
		}
		if given && name != "host" {
			flags += " --" + config.Among(keys, name).Flag() + "=" + shell.Quote(value)
		}
	}
	return flags
}

// whyNot returns the first error that a loop has logged since it was started, which ended
// or did not begin. logged is how long the log was before.
func whyNot(logPath string, logged int64) string {
	data, err := atomicfile.Read(logPath, 2*maxLogBytes)
	if err == nil && logged < int64(len(data)) {
		if _, after, found := strings.Cut(string(data[logged:]), "gpuboard: error: "); found {
			line, _, _ := strings.Cut(after, "\n")
			return line
		}
	}
	return "it ended at once, or did not start"
}

// compares reports whether a setting is given that the loop has to run with.
func (n Node) compares() bool {
	return slices.ContainsFunc(config.NodeKeys(), func(name string) bool {
		return name != "host" && name != "spool" && n.Config.Given(name)
	})
}

// changed names the settings that are not as wanted, sorted.
func changed(is, wanted map[string]string) (names []string) {
	if is == nil {
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

// Stop ends the loop, and reports whether there was one.
func (n Node) Stop(ctx context.Context) (was bool, err error) {
	spool := n.dir()
	held, err := Running(spool)
	if err != nil || !held {
		return false, err
	}
	if beat, err := ReadHeartbeat(spool); err == nil && beat.alive() && beat.Unit != "" {
		return true, failure.Usage("systemctl stop "+beat.Unit, "the loop is %s: systemd would start it again",
			beat.Unit)
	}
	return true, stop(ctx, spool)
}

// stop ends the loop's process group, with SIGTERM and then SIGKILL, and waits until it is gone.
func stop(ctx context.Context, spool string) error {
	notStopped := func(exit int, hint, format string, args ...any) error {
		return &failure.Error{Exit: exit, Code: "loop:not-stopped",
			Err: fmt.Errorf("stopping the loop: "+format, args...), Hint: hint}
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
	return notStopped(failure.ExitTryAgain,
		"it waits for the driver in the kernel; nvidia-smi may be stuck, and only a reboot helps then",
		"pid %d does not end, not even by SIGKILL", beat.PID)
}

// waitForHeartbeat waits for a heartbeat as wanted, until the limit or until ended reports that
// there will be none. ended may be nil.
func waitForHeartbeat(
	ctx context.Context, spool string, limit time.Duration, wanted func(Heartbeat) bool, ended func() bool,
) (beat Heartbeat, err error) {
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
