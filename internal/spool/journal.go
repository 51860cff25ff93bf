package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// A journal is a file with the samples of one hour of one boot that is not over. It is
// the only kind of file that is appended to. Each sample is on a line of its own, so that
// a kill or a full disk loses the last line at most.
//
// A journal is not synced: after a kill the page cache has it, and after a crash of the
// machine the boot id is a new one, so no number is used twice.

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

// appendSample appends one sample to a journal, which it creates if it is missing. If
// the disk is full, the journal stays as it was.
func appendSample(path string, sample snapshot.Sample) (err error) {
	text, err := snapshot.EncodeSamples([]snapshot.Sample{sample})
	if err != nil {
		return err
	}
	// After a kill the last line may be incomplete, so each begins with a line feed, too.
	text = slices.Concat([]byte{'\n'}, text, []byte{'\n'})
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, filePerm)
	if err != nil {
		return fmt.Errorf("journaling: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("journaling: %w", err)
	}
	if info.Size()+int64(len(text)) > maxJournal {
		return fmt.Errorf("journaling: %s would be larger than %d bytes", path, maxJournal)
	}
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("journaling: %w", errors.Join(err, f.Truncate(info.Size())))
	}
	return nil
}

// readJournal returns the valid samples of a journal, oldest first.
func readJournal(path string) ([]snapshot.Sample, error) {
	data, err := atomicfile.Read(path, maxJournal)
	if err != nil {
		return nil, err
	}
	var samples []snapshot.Sample
	for line := range bytes.Lines(data) {
		one, _, err := snapshot.DecodeSamples(line)
		if err == nil && len(one) == 1 && (len(samples) == 0 || one[0].Seq > samples[len(samples)-1].Seq) {
			samples = append(samples, one[0])
		}
	}
	return samples, nil
}

// lastSeq returns the number of the last valid sample of a journal; 0 if there is none.
// Numbers only grow, so the lines before it are not decoded.
func lastSeq(path string) (uint64, error) {
	data, err := atomicfile.Read(path, maxJournal)
	if err != nil {
		return 0, err
	}
	for _, line := range slices.Backward(bytes.Split(data, []byte{'\n'})) {
		if one, _, err := snapshot.DecodeSamples(line); err == nil && len(one) == 1 {
			return one[0].Seq, nil
		}
	}
	return 0, nil
}
