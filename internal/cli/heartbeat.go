package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/publisher"
)

// A heartbeat is what the loop leaves in its spool when it starts and after every
// cycle. check and doctor read nothing else.
type heartbeat struct {
	PID     int           `json:"pid"`
	Start   string        `json:"start"` // of the process, so that a reused pid is told apart
	Host    string        `json:"host"`
	Every   time.Duration `json:"every_ns"`
	Started time.Time     `json:"started"`
	Beat    time.Time     `json:"beat,omitzero"` // the end of the last cycle; zero during the first
	Version string        `json:"version"`
	// Settings are those of the loop that are not empty. None of them is a secret.
	Settings map[string]string `json:"settings"`
	Push     pushes            `json:"push"`
}

// pushes is how the loop's cycles end.
type pushes struct {
	// Worked is the last push that worked, also of an earlier loop.
	Worked time.Time `json:"worked,omitzero"`
	// Since is the end of the first of the cycles that ended like the last one.
	Since time.Time `json:"since,omitzero"`
	// Error is why the last cycle failed, "" if it did not, with its code and with
	// what to type. Failed is when that was.
	Error  string    `json:"error,omitempty"`
	Code   string    `json:"code,omitempty"`
	Hint   string    `json:"hint,omitempty"`
	Failed time.Time `json:"failed,omitzero"`
}

// note takes how a cycle ended. pushed means that it tried to push.
func (p *pushes) note(n news, pushed bool, now time.Time) {
	err, code, doing := n.push, publisher.CodeLost, ""
	if n.collect != nil {
		err, code, doing = n.collect, "spool:unwritable", "collecting: "
	}
	failed := err != nil
	if p.Since.IsZero() || failed != (p.Error != "") {
		p.Since = now
	}
	p.Error, p.Code, p.Hint = "", "", ""
	if failed {
		p.Error = snapshot.Text(doing+err.Error(), snapshot.MaxTextBytes)
		p.Code, p.Hint = cmp.Or(failure.CodeOf(err), code), printable(failure.Explain(err).Hint)
		p.Failed = now
	} else if pushed {
		p.Worked = now
	}
}

// failure says since when nothing is sent, and why.
func (p *pushes) failure() string {
	worked := "no push has worked yet"
	if !p.Worked.IsZero() {
		worked = "the last push that worked was at " + p.Worked.Format(time.RFC3339)
	}
	return fmt.Sprintf("every cycle has failed since %s, and %s: %s", p.Since.Format(time.RFC3339), worked, p.Error)
}

// sign is the last sign of life.
func (b heartbeat) sign() time.Time {
	if b.Beat.IsZero() {
		return b.Started
	}
	return b.Beat
}

// beatLimit is the age from which a heartbeat means a hang: the loop's own
// watchdog ends it after two intervals, so this is beyond that.
func beatLimit(every time.Duration) time.Duration { return 3*every + time.Minute }

// failing reports whether somebody should know that cycles fail: what worked
// before may pass by itself within a few intervals.
func (b heartbeat) failing(now time.Time) bool {
	return b.Push.Error != "" && (b.Push.Worked.IsZero() || now.Sub(b.Push.Since) > max(3*b.Every, time.Minute))
}

// own reports whether the process that wrote it is alive.
func (b heartbeat) own() bool { return b.Start == "" || startTime(b.PID) == b.Start }

// loopSettings returns the settings that decide what the loop does, without empty
// ones. The spool's place does not count: the heartbeat lies in it.
func loopSettings(cfg *config.Config) map[string]string {
	set := map[string]string{}
	for _, name := range config.NodeKeys() {
		if value := cfg.String(name); name != "spool" && value != "" {
			set[name] = value
		}
	}
	if host, err := snapshot.ParseHost(set["host"]); err == nil {
		set["host"] = host
	}
	return set
}

// changed names the settings in which the loop differs from what cfg says. A call
// that gives no setting but the node's name only asks whether the loop runs, so
// nothing is compared then.
func (b heartbeat) changed(cfg *config.Config) (names []string) {
	asks := !slices.ContainsFunc(config.NodeKeys(), func(name string) bool {
		return name != "host" && name != "spool" && cfg.Given(name)
	})
	if asks || b.Settings == nil {
		return nil
	}
	wanted := loopSettings(cfg)
	for _, name := range config.NodeKeys() {
		if b.Settings[name] != wanted[name] && name != "spool" {
			names = append(names, name)
		}
	}
	return names
}

func readBeat(dir string) (heartbeat, error) {
	var beat heartbeat
	data, err := atomicfile.Read(filepath.Join(dir, loopBeat), 64<<10)
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
	_, err = atomicfile.WriteUnsynced(filepath.Join(dir, loopBeat), append(data, '\n'), 0o600) // no power, no loop
	return err
}
