package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// A journal contains the samples of one hour of one boot that is not over. It is the only
// file that is appended to. Each sample is a line with its own checksum, so that a kill or
// a full disk loses the last line at most.
//
// A journal is not synced: after a kill the page cache has it, and after a crash of the
// machine the boot id is a new one, so no number is used twice.
//
// Samples of earlier processes are decoded only when the hour is over, because a process
// that takes a single snapshot does not need them.
type journal struct {
	name    string
	host    string
	boot    string
	hour    time.Time
	unread  []byte // complete lines of an earlier process
	samples []snapshot.Sample
	last    uint64 // the number of the newest sample
	lines   int
	file    *os.File
	size    int64 // bytes of complete lines
}

// line is one line of a journal. Sum is the CRC-32C of the bytes of Samples.
type line struct {
	Host    string          `json:"host"`
	Boot    string          `json:"boot_id"`
	Sum     uint32          `json:"crc32c"`
	Samples json.RawMessage `json:"samples"`
}

// maxJournal limits the size of a journal. A node with 64 GPUs that collects every second
// stays below it.
const maxJournal = 64 << 20

func journalName(hour time.Time, boot string) string {
	return ".journal-" + hour.UTC().Format(hourStamp) + "-" + boot
}

func parseJournalName(name string) (hour time.Time, ok bool) {
	rest, ok := strings.CutPrefix(name, ".journal-")
	if !ok || len(rest) < len(hourStamp)+2 {
		return time.Time{}, false
	}
	hour, err := time.Parse(hourStamp, rest[:len(hourStamp)])
	return hour, err == nil && rest[len(hourStamp)] == '-' && snapshot.ValidBoot(rest[len(hourStamp)+1:])
}

// openJournal opens a journal, finds its newest sample, and truncates an incomplete last
// line. Without a valid sample last is 0.
func openJournal(dir, name string, hour time.Time) (j *journal, err error) {
	j = &journal{name: name, hour: hour, boot: name[len(".journal-")+len(hourStamp)+1:]}
	if err := j.openFile(dir); err != nil {
		return nil, err
	}
	opened := j // the result is nil beside an error
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	info, err := j.file.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(info.Size(), maxJournal))
	if _, err := j.file.ReadAt(data, 0); err != nil && len(data) > 0 {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	j.unread = data[:bytes.LastIndexByte(data, '\n')+1]
	j.lines, j.size = bytes.Count(j.unread, []byte{'\n'}), int64(len(j.unread))
	if j.size < info.Size() {
		if err := j.file.Truncate(j.size); err != nil {
			return nil, fmt.Errorf("mending %s: %w", name, err)
		}
	}
	// Numbers rise, so the last valid line has the newest one.
	for rest := j.unread; len(rest) > 0 && j.last == 0; {
		start := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
		if sample, host, ok := readLine(rest[start:], j.boot); ok {
			j.host, j.last = host, sample.Seq
		}
		rest = rest[:start]
	}
	return j, nil
}

// decode adds the samples of earlier processes to those of this one, and returns the
// number of invalid lines.
func (j *journal) decode() (lost int) {
	if len(j.unread) == 0 {
		return 0
	}
	var samples []snapshot.Sample
	for text := range bytes.Lines(j.unread) {
		sample, _, ok := readLine(text, j.boot)
		if !ok || len(samples) > 0 && sample.Seq <= samples[len(samples)-1].Seq {
			lost++
			continue
		}
		samples = append(samples, sample)
	}
	j.samples, j.unread = append(samples, j.samples...), nil
	return lost
}

func readLine(text []byte, boot string) (sample snapshot.Sample, host string, ok bool) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil || l.Boot != boot || crc32.Checksum(l.Samples, crc32.MakeTable(crc32.Castagnoli)) != l.Sum {
		return sample, "", false
	}
	samples, _, err := snapshot.DecodeSamples(l.Samples)
	if err != nil || len(samples) != 1 {
		return sample, "", false
	}
	return samples[0], l.Host, true
}

func (j *journal) openFile(dir string) (err error) {
	j.file, err = os.OpenFile(filepath.Join(dir, j.name), os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, filePerm)
	if err != nil {
		return err
	}
	info, err := j.file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("opening %s: %w", j.name, atomicfile.ErrNotRegular)
	}
	if err == nil {
		err = j.file.Chmod(filePerm)
	}
	if err != nil {
		j.close()
	}
	return err
}

// add appends one sample. If the disk is full, the sample is kept in memory and the file
// is truncated to complete lines.
func (j *journal) add(dir, host string, sample snapshot.Sample) error {
	j.host = host
	if j.lines >= snapshot.MaxSamples {
		return fmt.Errorf("journaling: an hour has more than %d samples", snapshot.MaxSamples)
	}
	j.samples, j.last = append(j.samples, sample), sample.Seq
	j.lines++
	samples, err := snapshot.EncodeSamples([]snapshot.Sample{sample})
	if err != nil {
		return err
	}
	text, err := json.Marshal(line{Host: host, Boot: j.boot, Samples: samples, Sum: crc32.Checksum(samples, crc32.MakeTable(crc32.Castagnoli))})
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if j.size+int64(len(text)) > maxJournal {
		return fmt.Errorf("journaling: %s would be larger than %d bytes", j.name, maxJournal)
	}
	if j.file == nil {
		if err := j.openFile(dir); err != nil {
			return fmt.Errorf("journaling: %w", err)
		}
	}
	if _, err := j.file.Write(text); err != nil {
		return fmt.Errorf("journaling: %w", errors.Join(err, j.file.Truncate(j.size)))
	}
	j.size += int64(len(text))
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	return f.Close()
}
