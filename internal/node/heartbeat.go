package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/publisher"
)

// The files of the loop in its spool.
const (
	LockFile      = "run.lock"
	HeartbeatFile = "run.json"
	LogFile       = "run.log"
)

// A Heartbeat is the file that the loop writes at its start and after every cycle. It is all that
// check and doctor know about a loop.
type Heartbeat struct {
	PID     int           `json:"pid"`
	Start   string        `json:"start"` // the start time of the process, because a pid is used again
	Host    string        `json:"host"`
	Every   time.Duration `json:"every_ns"`
	Started time.Time     `json:"started"`
	Beat    time.Time     `json:"beat,omitzero"` // the end of the last cycle; zero until the first push has ended
	Version string        `json:"version"`
	// Unit is the systemd unit whose main process the loop is; "" for none.
	Unit string `json:"unit,omitempty"`
	// Settings are the loop's settings that are not empty. None of them is a secret.
	Settings map[string]string `json:"settings"`
	Push     Pushes            `json:"push"`
}

// Pushes is the outcome of the loop's cycles.
type Pushes struct {
	// Worked is the last push that worked, also of an earlier loop.
	Worked time.Time `json:"worked,omitzero"`
	// Since is the end of the first of the cycles in a row that ended like the newest; zero before any has ended.
	Since time.Time `json:"since,omitzero"`
	// Error is why the newest cycle failed, "" if it did not. Code and Hint belong to it.
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// record takes the outcome of a cycle.
func (p *Pushes) record(c cycle, now time.Time) {
	err, code, doing := c.pushErr, publisher.CodeLost, ""
	if c.collectErr != nil {
		err, code, doing = c.collectErr, "spool:unwritable", "collecting: "
	} else if c.pushed && err == nil {
		p.Worked = now
	}
	if unread := c.unread(); unread != nil && err == nil {
		err, code, doing = errors.New(unread.Message), unread.Code, "collecting: "
	}

	failed := err != nil
	if p.Since.IsZero() || failed != (p.Error != "") {
		p.Since = now
	}
	p.Error, p.Code, p.Hint = "", "", ""
	if failed {
		p.Error = snapshot.Text(doing+err.Error(), snapshot.MaxTextBytes)
		p.Code, p.Hint = cmp.Or(failure.CodeOf(err), code), failure.Printable(failure.Explain(err).Hint)
	}
}

// Failure says since when something fails, and why.
func (p *Pushes) Failure() string {
	worked := "no push has worked yet"
	if !p.Worked.IsZero() {
		worked = "the last push that worked was at " + p.Worked.Format(time.RFC3339)
	}
	return fmt.Sprintf("every cycle has failed since %s, and %s: %s", p.Since.Format(time.RFC3339), worked, p.Error)
}

// Age is the time since the last cycle, or since the start of the loop.
func (b Heartbeat) Age(now time.Time) time.Duration {
	return now.Sub(cmp.Or(b.Beat, b.Started))
}

// Hangs reports whether the loop has missed so many cycles that its own watchdog, which ends it
// after two, does not work either.
func (b Heartbeat) Hangs(now time.Time) bool { return b.Age(now) > 3*b.Every+time.Minute }

// alive reports whether the process that wrote the heartbeat still runs.
func (b Heartbeat) alive() bool { return b.Start == "" || startTime(b.PID) == b.Start }

// ReadHeartbeat reads the heartbeat in a spool.
func ReadHeartbeat(spool string) (Heartbeat, error) {
	var beat Heartbeat
	data, err := atomicfile.Read(filepath.Join(spool, HeartbeatFile), 64<<10)
	if err == nil {
		err = json.Unmarshal(data, &beat)
	}
	if err != nil {
		return beat, fmt.Errorf("reading the heartbeat: %w", err)
	}
	return beat, nil
}

// Write replaces the heartbeat in a spool.
func (b Heartbeat) Write(spool string) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	// It need not survive a power cut: neither does the loop.
	_, err = atomicfile.WriteUnsynced(filepath.Join(spool, HeartbeatFile), append(data, '\n'), 0o600)
	return err
}

// Running reports whether a loop holds the lock of a spool.
func Running(spool string) (bool, error) {
	return atomicfile.Held(filepath.Join(spool, LockFile))
}
