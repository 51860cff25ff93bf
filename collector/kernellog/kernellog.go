// Package kernellog finds the errors of NVIDIA's driver (XIDs) in the kernel's log, in
// the formats of /dev/kmsg and of journalctl. It is pure; package collector opens the
// former and runs the latter.
package kernellog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

const (
	// maxKmsgBytes limits one reading of /dev/kmsg; the next one continues there.
	maxKmsgBytes = 32 << 20
	// recordBytes is larger than any record. A read into a buffer that is too small for
	// a record fails.
	recordBytes = 64 << 10
)

// An Event is one XID that the driver wrote about one GPU.
type Event struct {
	Bus  string // the PCI address as the kernel spells it, without a function
	Code int
	At   time.Time
}

// ReadKmsg reads the records of /dev/kmsg until the end or an error. A record is a line,
// possibly with indented lines after it. now is the time at which the clock of the
// records shows up.
func ReadKmsg(r io.Reader, now time.Time, up time.Duration) []Event {
	var list []Event
	lines := bufio.NewReaderSize(io.LimitReader(r, maxKmsgBytes), recordBytes)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return list
		}
		if e, since, ok := parseRecord(line); ok {
			e.At = now.Add(since - up)
			if e.At.After(now) { // the clocks differ slightly
				e.At = now
			}
			list = append(list, e)
		}
	}
}

// parseRecord reads "6,1234,5678901,-;NVRM: Xid (…": priority, number and
// microseconds, and perhaps more before the semicolon.
func parseRecord(line []byte) (e Event, since time.Duration, ok bool) {
	head, message, ok := bytes.Cut(line, []byte{';'})
	if !ok || len(head) == 0 || head[0] == ' ' {
		return e, 0, false
	}
	fields := strings.Split(string(head), ",")
	if len(fields) < 3 || !kernels(fields[0]) {
		return e, 0, false
	}
	micros, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || micros < 0 || micros > 1<<53 {
		return e, 0, false
	}
	e, ok = parseMessage(string(message))
	return e, time.Duration(micros) * time.Microsecond, ok
}

// kernels reports whether a priority is one of the kernel itself. Records of programs
// have a facility other than 0.
func kernels(priority string) bool {
	n, err := strconv.ParseUint(priority, 10, 32)
	return err == nil && n>>3 == 0
}

// JournalArgs returns the arguments of journalctl for [ReadJournal]: the kernel's own
// records of this boot, newest first, since a time if that is not zero. It does not use
// a pattern, which some builds of journalctl do not support.
func JournalArgs(since time.Time) []string {
	args := []string{"--boot", "--quiet", "--no-pager", "--reverse", "--output=json", "--output-fields=MESSAGE"}
	if !since.IsZero() {
		args = append(args, "--since=@"+strconv.FormatInt(since.Unix(), 10))
	}
	return append(args, "_TRANSPORT=kernel", "SYSLOG_FACILITY=0")
}

// ReadJournal parses the JSON lines of journalctl, newest first, and returns the events
// oldest first. It ignores other lines.
func ReadJournal(out []byte) []Event {
	var list []Event
	for line := range bytes.Lines(out) {
		var entry struct {
			Message json.RawMessage `json:"MESSAGE"`
			Micros  string          `json:"__REALTIME_TIMESTAMP"`
		}
		if !bytes.Contains(line, []byte("Xid")) && !bytes.Contains(line, []byte("[78,86,82,77,")) { // NVRM, as bytes
			continue
		}
		if json.Unmarshal(line, &entry) != nil {
			continue
		}
		micros, err := strconv.ParseInt(entry.Micros, 10, 64)
		if err != nil || micros <= 0 || micros > 1<<53 {
			continue
		}
		if e, ok := parseMessage(journalText(entry.Message)); ok {
			e.At = time.UnixMicro(micros)
			list = append(list, e)
		}
	}
	slices.Reverse(list)
	return list
}

// journalText returns a message, which is a list of bytes if it is not UTF-8.
func journalText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var list []byte
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	return string(list)
}

// xidLine matches up to the code. What follows is not used, because it contains the name
// of a process, which a user chooses. Old drivers omit PCI:, new ones add the instance of
// a partitioned GPU.
var xidLine = snapshot.Pattern(
	`^NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?(?: GPU-I:[0-9A-Fa-f]{1,4})?\): ([0-9]{1,4})(?:,|\s|$)`)

func parseMessage(text string) (Event, bool) {
	if !strings.HasPrefix(text, "NVRM: Xid (") {
		return Event{}, false
	}
	m := xidLine().FindStringSubmatch(text)
	if m == nil {
		return Event{}, false
	}
	code, err := strconv.Atoi(m[2])
	// 154 says which recovery is needed; None means that there is nothing to do.
	if err != nil || code == 0 || code == recovery && strings.Contains(text, "to 0x0 (None)") {
		return Event{}, false
	}
	return Event{Bus: m[1], Code: code}, true
}
