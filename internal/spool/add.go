package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// Add gives snap the next number of its boot, appends its sample to the journal, and
// writes latest.json.gz. It also writes the files of hours that are over, and keeps the
// spool within its limits. Two snapshots that anybody could read never have the same
// number, not even after a kill.
//
// Texts and readings of snap are first limited by [snapshot.Snapshot.Validate]; what that
// changed is in its Errors. After an error in one step the others are still done; the
// errors are joined. The error wraps [ErrLocked] when another process is adding.
func (s *Spool) Add(snap *snapshot.Snapshot) error {
	if err := s.Lock(); err != nil {
		return err
	}
	host, err := snapshot.ParseHost(snap.Host)
	if err != nil {
		return fmt.Errorf("adding a snapshot: %w", err)
	}
	if snap.CollectedAt.IsZero() {
		return errors.New("adding a snapshot: it does not say when it was collected")
	}
	snap.CollectedAt = snapshot.TimeOf(snap.CollectedAt.Time)
	if !snapshot.ValidBoot(snap.BootID) {
		snap.BootID = s.session
	}
	snap.Errors = append(snap.Errors, snap.Validate()...)
	snap.Seq = s.nextSeq(snap)
	s.last[snap.BootID] = snap.Seq

	now := snap.CollectedAt.Time
	sample := snap.Sample()
	journal := journalName(now.Truncate(time.Hour), snap.BootID)
	var errs []error
	// The journal comes first, so that a number in latest.json.gz is never used again.
	errs = append(errs, appendSample(s.path(journal), sample))
	errs = append(errs, s.seal(host, journal))
	if s.boot != snap.BootID {
		s.boot, s.recent = snap.BootID, nil
	}
	s.recent = window(append(s.recent, sample), now)
	data, err := snapshot.EncodeBundle(
		&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap, Samples: s.recent})
	if err == nil {
		_, err = atomicfile.Write(s.path(LatestName), data, filePerm)
	}
	errs = append(errs, err, s.prune(now))
	if !s.swept {
		s.swept = true
		_, err := atomicfile.Sweep(s.dir, tempAge, now)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// nextSeq returns the number after the newest one of the snapshot's boot. A spool without
// a number of this boot begins with the seconds since boot. Snapshots are taken at most
// once a second, so this is larger than any number of a spool that was lost, and the web
// host accepts the snapshot as newer.
func (s *Spool) nextSeq(snap *snapshot.Snapshot) uint64 {
	if last := s.last[snap.BootID]; last > 0 {
		return last + 1
	}
	if up := snap.Node.UptimeSeconds; up != nil && *up > 1 {
		return uint64(*up)
	}
	return 1
}

// A bundle is sent at every push, so of what is older than denseWindow it has one sample in sparseGap. The hour
// file has them all.
const (
	denseWindow = time.Minute
	sparseGap   = 20 * time.Second
)

// window returns the samples of the last [snapshot.BundleWindow]. Samples that a clock
// change has put into the future are not among them.
func window(samples []snapshot.Sample, now time.Time) []snapshot.Sample {
	kept := samples[:0]
	for _, sample := range samples {
		age := now.Sub(sample.At)
		if age >= snapshot.BundleWindow || age <= -snapshot.BundleWindow {
			continue
		}
		if age > denseWindow && len(kept) > 0 && sample.At.Sub(kept[len(kept)-1].At).Abs() < sparseGap-time.Second {
			continue // a second less: loops do not begin to the millisecond
		}
		kept = append(kept, sample)
	}
	if over := len(kept) - snapshot.MaxSamples; over > 0 {
		kept = kept[over:]
	}
	return kept
}

// seal writes an hour file for each journal but the current one, and removes the journal.
// After an error it is done with the next snapshot.
func (s *Spool) seal(host, current string) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		hour, boot, ok := parseJournalName(name)
		if !ok || name == current {
			continue
		}
		samples, err := readJournal(s.path(name))
		if err == nil && len(samples) > 0 {
			err = s.writeHour(&snapshot.Hour{Host: host, BootID: boot, Start: hour, Samples: samples})
		}
		if err == nil {
			err = os.Remove(s.path(name))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sealing %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// writeHour writes an hour file. There is one already if a kill left the journal behind,
// or if the clock went back into an hour that was over; then the file gets a number. An
// hour without a free name is dropped.
func (s *Spool) writeHour(h *snapshot.Hour) error {
	data, err := snapshot.EncodeHour(h)
	for len(h.Samples) > 1 &&
		(snapshot.CodeOf(err) == snapshot.BadTooLarge || snapshot.CodeOf(err) == snapshot.BadTooMany) {
		h.Samples = h.Samples[len(h.Samples)/2:] // a reader would refuse the file
		data, err = snapshot.EncodeHour(h)
	}
	if err != nil {
		return err
	}
	for n := 1; n <= maxVariants; n++ {
		name := variant(h.Start, h.BootID, n)
		old, err := s.read(name)
		if notExist(err) {
			_, err = atomicfile.Write(s.path(name), data, filePerm)
			return err
		}
		if err == nil && bytes.Equal(old, data) {
			return nil
		}
	}
	return nil
}

// variant names an hour file.
func variant(hour time.Time, boot string, n int) string {
	name := "hour-" + hour.UTC().Format(hourStamp) + "-" + bootPrefix(boot)
	if n > 1 {
		name += fmt.Sprintf(".%d", n)
	}
	return name + ".jsonl.gz"
}

// prune removes expired hour files, and the oldest ones above the limits.
func (s *Spool) prune(now time.Time) error {
	entries, err := os.ReadDir(s.dir) // sorted by name, so the oldest hour comes first
	if err != nil {
		return err
	}
	var expired, hours []fs.FileInfo
	for _, e := range entries {
		hour, _, ok := HourOf(e.Name())
		info, err := e.Info()
		switch {
		case !ok || err != nil:
		case Expired(hour, now):
			expired = append(expired, info)
		default:
			hours = append(hours, info)
		}
	}
	for _, info := range append(expired, tooMany(hours, s.maxFiles, s.maxBytes)...) {
		if err := os.Remove(s.path(info.Name())); err != nil && !notExist(err) {
			return err
		}
	}
	return nil
}

// tooMany returns the oldest of these hour files, oldest first, that exceed the limits.
func tooMany(hours []fs.FileInfo, maxFiles int, maxBytes int64) []fs.FileInfo {
	var size int64
	for i, info := range slices.Backward(hours) {
		if size += info.Size(); len(hours)-i > maxFiles || size > maxBytes {
			return hours[:i+1]
		}
	}
	return nil
}
