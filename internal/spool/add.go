package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
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
	snap.Schema, snap.Host = snapshot.Schema, host
	snap.CollectedAt = snapshot.TimeOf(snap.CollectedAt.Time)
	if !snapshot.ValidBoot(snap.BootID) {
		snap.BootID = s.session
	}
	snap.Errors = append(snap.Errors, snap.Validate()...)
	snap.Seq = s.nextSeq(snap)
	s.noteSeq(snap.BootID, snap.Seq)
	s.stats.LastSeq = snap.Seq

	now := snap.CollectedAt.Time
	sample := snap.Sample()
	var errs []error
	// The journal comes first, so that a number in latest.json.gz is never used again.
	errs = append(errs, s.journalOf(now.Truncate(time.Hour), snap.BootID).add(s.dir, host, sample))
	errs = append(errs, s.seal(now, snap.BootID))
	if s.boot != snap.BootID {
		s.boot, s.recent = snap.BootID, nil
	}
	s.recent = window(append(s.recent, sample), now)
	data, err := s.enc.Bundle(&snapshot.Bundle{Host: host, BootID: snap.BootID, Snapshot: snap, Samples: s.recent})
	if err == nil {
		_, err = atomicfile.Write(filepath.Join(s.dir, LatestName), data, filePerm)
	}
	errs = append(errs, err, s.prune(now))
	if s.stats.Added == 0 {
		_, err := atomicfile.Sweep(s.dir, tempAge, now)
		errs = append(errs, err)
	}
	s.stats.Added++
	return errors.Join(errs...)
}

// nextSeq returns the number after the newest one of the snapshot's boot. A spool without
// a number of this boot begins with the seconds since boot. Snapshots are taken at most
// once a second, so this is larger than any number of a spool that was lost, and the web
// host accepts the snapshot as newer.
func (s *Spool) nextSeq(snap *snapshot.Snapshot) uint64 {
	if last := s.lastSeq(snap.BootID); last > 0 {
		return last + 1
	}
	if up := snap.Node.UptimeSeconds; up != nil && *up > 1 {
		return uint64(*up)
	}
	return 1
}

// window returns the samples of the last [snapshot.BundleWindow]. Samples that a clock
// change has put into the future are not among them.
func window(samples []snapshot.Sample, now time.Time) []snapshot.Sample {
	kept := samples[:0]
	for _, sample := range samples {
		if age := now.Sub(sample.At); age < snapshot.BundleWindow && age > -snapshot.BundleWindow {
			kept = append(kept, sample)
		}
	}
	if over := len(kept) - snapshot.MaxSamples; over > 0 {
		kept = kept[over:]
	}
	return kept
}

// journalOf returns the journal of an hour and boot, or a new one.
func (s *Spool) journalOf(hour time.Time, boot string) *journal {
	for _, j := range s.open {
		if j.hour.Equal(hour) && j.boot == boot {
			return j
		}
	}
	j := &journal{name: journalName(hour, boot), boot: boot, hour: hour}
	s.open = append(s.open, j)
	return j
}

// seal writes an hour file for each journal but that of this hour and boot.
func (s *Spool) seal(now time.Time, boot string) error {
	var errs []error
	kept := s.open[:0]
	for _, j := range s.open {
		if j.boot == boot && j.hour.Equal(now.Truncate(time.Hour)) {
			kept = append(kept, j)
			continue
		}
		if err := s.sealOne(j); err != nil {
			errs = append(errs, fmt.Errorf("sealing %s: %w", j.name, err))
			kept = append(kept, j) // retried with the next snapshot
		}
	}
	s.open = kept
	return errors.Join(errs...)
}

func (s *Spool) sealOne(j *journal) error {
	s.stats.DroppedSamples += j.decode()
	data, err := s.enc.Hour(&snapshot.Hour{Host: j.host, BootID: j.boot, Start: j.hour, Samples: j.samples})
	if snapshot.CodeOf(err) == snapshot.BadTooLarge && len(j.samples) > 1 {
		// A reader would refuse the file, so the older half of the samples is dropped.
		half := len(j.samples) / 2
		s.stats.DroppedSamples += half
		j.samples = j.samples[half:]
		return s.sealOne(j)
	}
	if err != nil {
		return err
	}
	written := false
	for n := 1; n <= maxVariants && !written; n++ {
		name := variant(j.hour, j.boot, n)
		old, err := s.read(name)
		switch {
		case notExist(err):
			if _, err := atomicfile.Write(filepath.Join(s.dir, name), data, filePerm); err != nil {
				return err
			}
			written = true
			s.stats.Sealed++
		case err == nil && string(old) == string(data):
			written = true // written before a kill; the journal was left behind
		}
	}
	if !written {
		s.stats.Dropped++
		s.stats.DroppedSamples += len(j.samples)
	}
	j.close()
	return atomicfile.Remove(filepath.Join(s.dir, j.name))
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
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	type file struct {
		name string
		size int64
	}
	var hours []file
	var total int64
	for _, e := range entries {
		match := hourName.FindStringSubmatch(e.Name())
		if match == nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		hour, err := time.Parse(hourStamp, match[1])
		if err == nil && now.Sub(hour) > snapshot.HourRetention+time.Hour {
			if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil && !notExist(err) {
				return err
			}
			s.stats.Expired++
			continue
		}
		hours = append(hours, file{e.Name(), info.Size()})
		total += info.Size()
	}
	sort.Slice(hours, func(i, j int) bool { return hours[i].name < hours[j].name })
	for len(hours) > 0 && (total > s.maxBytes || len(hours) > s.maxFiles) {
		if err := os.Remove(filepath.Join(s.dir, hours[0].name)); err != nil && !notExist(err) {
			return err
		}
		total -= hours[0].size
		hours = hours[1:]
		s.stats.Dropped++
	}
	return nil
}
