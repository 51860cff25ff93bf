package booking

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// By is who changes the bookings, and when.
type By struct {
	Name string
	At   time.Time
}

// The values of [Entry.Action].
const (
	Booked   = "booked"
	Changed  = "changed"
	Released = "released"
)

// An Entry is one line of the record, a file beside comments.json with a line of JSON
// for every change that a program makes. It is the audit trail, and it shows when
// somebody has saved an old copy of the file over a booking.
type Entry struct {
	At      time.Time  `json:"at"`
	By      string     `json:"by"` // who made the change
	Action  string     `json:"action"`
	ID      string     `json:"id"`            // of the booking afterwards
	Was     string     `json:"was,omitempty"` // its ID before, if that was another one
	Host    string     `json:"host"`
	GPU     string     `json:"gpu"` // as in comments.json: "0", a UUID or "*"
	Name    string     `json:"name"`
	From    *time.Time `json:"from"`
	Until   *time.Time `json:"until"`
	Kind    Kind       `json:"kind"`
	Comment string     `json:"comment,omitempty"`
}

// maxRecordBytes is the size from which the record is renamed. There are never more than two.
const maxRecordBytes = 1 << 20

// recordPath is bookings.log beside comments.json.
func (f *File) recordPath() string {
	dir, base := filepath.Split(f.path)
	if base == "comments.json" {
		return filepath.Join(dir, "bookings.log")
	}
	return filepath.Join(dir, strings.TrimSuffix(base, ".json")+".bookings.log")
}

func entryOf(by By, action, was string, b Booking) Entry {
	if was == b.ID {
		was = ""
	}
	return Entry{At: by.At.UTC().Truncate(time.Second), By: by.Name, Action: action, ID: b.ID, Was: was, Host: b.Host,
		GPU:  b.Target.String(),
		Name: b.Written, From: jsonTime(b.From), Until: jsonTime(b.Until), Kind: b.Kind, Comment: b.Comment}
}

// Booking returns the booking of the entry; ok is false if the entry is not valid.
func (e Entry) Booking() (b Booking, ok bool) {
	host, err := snapshot.ParseHost(e.Host)
	target, hint := ParseTarget(e.GPU)
	if err != nil || hint != "" || len(e.ID) > MaxIDBytes || len(e.Name) > MaxNameBytes || len(e.By) > MaxNameBytes ||
		len(e.Comment) > MaxCommentBytes {
		return b, false
	}
	b = Booking{ID: e.ID, Host: host, Target: target, Written: e.Name, Name: e.Name, Kind: e.Kind,
		Comment: snapshot.Text(e.Comment, MaxCommentBytes)}
	if e.From != nil {
		b.From = *e.From
	}
	if e.Until != nil {
		b.Until = *e.Until
	}
	return b, true
}

// changes returns the entries for a change of the file, but none for what went into the archive.
func (f *File) changes(by By, before, after []byte) []Entry {
	read := func(data []byte) []Booking { return Parse(f.path, data, f.zone, Options{}).Bookings }
	added, removed := difference(read(before), read(after))
	var entries []Entry
	for _, b := range added {
		i := slices.IndexFunc(removed, func(r Booking) bool {
			return r.Host == b.Host && r.Target == b.Target && r.Written == b.Written && r.Kind == b.Kind &&
				r.From.Equal(b.From)
		})
		if i < 0 {
			entries = append(entries, entryOf(by, Booked, "", b))
			continue
		}
		action := Changed
		if b.OverAt(by.At) {
			action = Released
		}
		entries = append(entries, entryOf(by, action, removed[i].ID, b))
		removed = slices.Delete(removed, i, i+1)
	}
	for _, b := range removed {
		if !b.OverAt(by.At) {
			entries = append(entries, entryOf(by, Released, "", b))
		}
	}
	return entries
}

// openRecord opens the record to append to it, and renames a full one. The caller holds the lock.
func (f *File) openRecord() (*os.File, error) {
	path := f.recordPath()
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > maxRecordBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return f.openShared(path, func(path string) (*os.File, error) {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if err == nil && (!info.Mode().IsRegular() || !singleName(info)) {
			err = fmt.Errorf("opening %s: %w", path, atomicfile.ErrNotRegular)
		}
		if err != nil {
			file.Close()
			return nil, err
		}
		return file, nil
	})
}

// record appends entries to the record and syncs it.
func record(file *os.File, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var lines bytes.Buffer
	if info, err := file.Stat(); err != nil {
		return err
	} else if n := info.Size(); n > 0 {
		last := []byte{'\n'}
		if _, err := file.ReadAt(last, n-1); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if last[0] != '\n' {
			lines.WriteByte('\n') // the last line is cut: a program was killed
		}
	}
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for _, e := range entries {
		_ = enc.Encode(e) // into memory, of what was read from a text
	}
	if _, err := file.Write(lines.Bytes()); err != nil {
		return err
	}
	return file.Sync()
}

// Record reads the record, oldest entry first. Invalid lines are left out.
func (f *File) Record() []Entry {
	var entries []Entry
	for _, path := range []string{f.recordPath() + ".1", f.recordPath()} {
		data, _, err := readRegular(path)
		if err != nil {
			continue // it does not exist, or this process may not read it
		}
		for line := range bytes.Lines(data) {
			var e Entry
			if json.Unmarshal(line, &e) != nil {
				continue
			}
			if _, ok := e.Booking(); ok {
				entries = append(entries, e)
			}
		}
	}
	return entries
}
