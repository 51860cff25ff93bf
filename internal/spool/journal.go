package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// A journal is a file with the samples of one hour of one boot that is not over. It is
// the only kind of file that is appended to. Each sample is a line with its own checksum,
// so that a kill or a full disk loses the last line at most.
//
// A journal is not synced: after a kill the page cache has it, and after a crash of the
// machine the boot id is a new one, so no number is used twice.

// line is one line of a journal. Sum is the CRC-32C of the bytes of Samples.
type line struct {
	Host    string          `json:"host"`
	Boot    string          `json:"boot_id"`
	Sum     uint32          `json:"crc32c"`
	Samples json.RawMessage `json:"samples"`
}

const (
	journalPrefix = ".journal-"

	// maxJournal limits the size of a journal. A node with 64 GPUs that collects every
	// second stays below it.
	maxJournal = 64 << 20
)

func journalName(hour time.Time, boot string) string {
	return journalPrefix + hour.UTC().Format(hourStamp) + "-" + boot
}

func parseJournalName(name string) (hour time.Time, boot string, ok bool) {
	rest, ok := strings.CutPrefix(name, journalPrefix)
	if !ok {
		return hour, "", false
	}
	stamp, boot, _ := strings.Cut(rest, "-")
	hour, err := time.Parse(hourStamp, stamp)
	return hour, boot, err == nil && snapshot.ValidBoot(boot)
}

func openJournal(path string, flags int) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, filePerm)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("opening %s: %w", path, atomicfile.ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// appendSample appends one sample to a journal, which it creates if it is missing. If
// the disk is full, the journal stays as it was.
func appendSample(path, host, boot string, sample snapshot.Sample) (err error) {
	samples, err := snapshot.EncodeSamples([]snapshot.Sample{sample})
	if err != nil {
		return err
	}
	text, err := json.Marshal(line{Host: host, Boot: boot, Samples: samples, Sum: checksum(samples)})
	if err != nil {
		return err
	}
	text = append(text, '\n')
	f, size, err := openJournal(path, os.O_RDWR|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return fmt.Errorf("journaling: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size+int64(len(text)) > maxJournal {
		return fmt.Errorf("journaling: %s would be larger than %d bytes", path, maxJournal)
	}
	// After a kill the last line may be incomplete.
	var last [1]byte
	if size > 0 {
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return fmt.Errorf("journaling: %w", err)
		}
		if last[0] != '\n' {
			text = append([]byte{'\n'}, text...)
		}
	}
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("journaling: %w", errors.Join(err, f.Truncate(size)))
	}
	return nil
}

// readJournal returns the valid samples of a journal, oldest first, and the host that
// they are of.
func readJournal(path, boot string) (samples []snapshot.Sample, host string, err error) {
	f, _, err := openJournal(path, os.O_RDONLY)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJournal))
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", path, err)
	}
	for text := range bytes.Lines(data) {
		sample, of, ok := readLine(text, boot)
		if ok && (len(samples) == 0 || sample.Seq > samples[len(samples)-1].Seq) {
			samples, host = append(samples, sample), of
		}
	}
	return samples, host, nil
}

func readLine(text []byte, boot string) (sample snapshot.Sample, host string, ok bool) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil || l.Boot != boot || checksum(l.Samples) != l.Sum {
		return sample, "", false
	}
	samples, _, err := snapshot.DecodeSamples(l.Samples)
	if err != nil || len(samples) != 1 {
		return sample, "", false
	}
	return samples[0], l.Host, true
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }
