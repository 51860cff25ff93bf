package mirror

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuboard/atomicfile"
	"gpuboard/publisher"
	"gpuboard/snapshot"
	"gpuboard/spool"
)

// pieceBytes is how much is held in memory before it is made durable, at once
// for all files.
const pieceBytes = 16 << 20

// work is one refresh.
type work struct {
	m   *Mirror
	r   *publisher.Reader
	now time.Time

	mu       sync.Mutex
	stats    *Stats
	problems []snapshot.Problem
	batch    *atomicfile.Batch
	staged   int64
	times    map[string]time.Time // of files in the batch
}

func (w *work) problem(code, host, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) < snapshot.MaxErrors {
		w.problems = append(w.problems, snapshot.Problem{Code: code, Host: host, Message: snapshot.Text(fmt.Sprintf(format, args...), snapshot.MaxTextBytes)})
	}
}

// names are the drops among the entries of their directory, sorted.
func (w *work) names(infos []fs.FileInfo) []string {
	names, problems := spool.HostsAmong(infos)
	w.problems = problems
	names = slices.Compact(names)
	for _, info := range infos {
		if _, drop := slices.BinarySearch(names, info.Name()); drop {
			w.clock(info.ModTime()) // of the last push, where a node writes to the drop itself
		}
	}
	for _, name := range names {
		if w.m.hosts[name] == nil {
			w.m.hosts[name] = &host{}
		}
	}
	return names
}

// all does something for each host, several at a time, and stops at the first
// error: only a connection that is gone is one.
func (w *work) all(ctx context.Context, names []string, do func(ctx context.Context, name string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string)
	var team sync.WaitGroup
	for range min(atOnce, len(names)) {
		team.Go(func() {
			for name := range next {
				if err := do(ctx, name); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		next <- name
	}
	close(next)
	team.Wait()
	return context.Cause(ctx)
}

// host looks at one drop and fetches its newest file if that changed.
func (w *work) host(ctx context.Context, name string) error {
	h := w.m.hosts[name]
	if err := os.MkdirAll(w.local(name), 0o700); err != nil {
		return fmt.Errorf("making room for the copy of a drop: %w", err)
	}
	if h.listed.IsZero() || turn(name, w.now) != turn(name, h.listed) {
		return w.list(ctx, name, h)
	}
	for i := range h.places {
		info, err := w.r.Lstat(ctx, w.at(latestOf(name, h.places[i].dir)))
		if errors.Is(err, fs.ErrNotExist) {
			return w.list(ctx, name, h) // it moved, or the drop was emptied
		}
		if err := w.answered(name, err); err != nil {
			return err
		}
		if err == nil {
			if err := w.latest(ctx, name, &h.places[i], info); err != nil {
				return err
			}
		}
	}
	if len(h.places) == 0 {
		return w.list(ctx, name, h) // a node that begins is not kept waiting
	}
	return nil
}

// list looks through a whole drop.
func (w *work) list(ctx context.Context, name string, h *host) error {
	before := h.places
	h.places, h.hours = nil, nil
	for _, dir := range []string{"", spool.InnerName} {
		if dir == spool.InnerName {
			info, err := w.r.Lstat(ctx, w.at(path.Join(name, spool.InnerName)))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := w.answered(name, err); err != nil {
				return err
			}
			if err != nil {
				continue
			}
			if !info.IsDir() {
				w.problem("bad:notregular", name, "in is a %s, and should be a directory", kindOf(info))
				continue
			}
		}
		entries, err := w.r.List(ctx, w.at(path.Join(name, dir)))
		if err := w.answered(name, err); err != nil {
			return err
		}
		if len(entries) > snapshot.MaxDropEntries {
			w.problem(snapshot.BadTooMany, name, "more than %d files in the drop", snapshot.MaxDropEntries)
		}
		for _, e := range entries {
			switch {
			case e.Name() == spool.LatestName:
				at := place{dir: dir}
				for _, p := range before {
					if p.dir == dir {
						at = p
					}
				}
				if err := w.latest(ctx, name, &at, e); err != nil {
					return err
				}
				h.places = append(h.places, at)
			case spool.IsHourName(e.Name()) && len(h.hours) < snapshot.MaxDropEntries:
				h.hours = append(h.hours, remoteFile{path.Join(name, dir, e.Name()), e})
			}
		}
	}
	h.listed = w.now
	return w.prune(name, h)
}

// answered lets what the server said of one drop pass as a problem of that drop.
func (w *work) answered(name string, err error) error {
	if err == nil || !w.r.Usable() {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		w.problem("bad:unreadable", name, "reading its drop: %v", err)
	}
	return nil
}

// latest fetches the newest file of a host if it is another than the copy.
func (w *work) latest(ctx context.Context, name string, at *place, info fs.FileInfo) error {
	rel := latestOf(name, at.dir)
	if !at.mtime.Equal(info.ModTime()) {
		at.mtime, at.since = info.ModTime(), w.now
	}
	if local, err := os.Lstat(w.local(rel)); err == nil && same(local, info) {
		return nil
	}
	sure := w.now.Sub(at.since) >= settled || w.clock(info.ModTime()).Sub(info.ModTime()) >= settled
	return w.fetch(ctx, name, rel, info, sure)
}

// clock is what the server's clock shows at least.
func (w *work) clock(seen time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen.After(w.m.newest) {
		w.m.newest = seen
	}
	return w.m.newest
}

// fetch stages a copy of one file. Two files of one second and one size cannot
// be told apart later; a copy that is not sure to be the last of its second gets a
// time that no file has, and is fetched once more.
func (w *work) fetch(ctx context.Context, name, rel string, info fs.FileInfo, sure bool) error {
	if !fetchable(info) {
		w.problem("bad:notregular", name, "%s is a %s", path.Base(rel), kindOf(info))
		return nil
	}
	data, opened, err := w.r.Read(ctx, w.at(rel), snapshot.MaxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // gone again
	case errors.Is(err, publisher.ErrNotPlain):
		w.problem("bad:notregular", name, "%s: %v", path.Base(rel), err)
		return nil
	}
	if err := w.answered(name, err); err != nil {
		return err
	}
	if err != nil {
		return nil
	}
	at := time.Unix(1, 0)
	if sure && opened.ModTime().Equal(info.ModTime()) {
		at = opened.ModTime()
	}
	return w.stage(rel, data, at)
}

func (w *work) stage(rel string, data []byte, at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.batch == nil {
		batch, err := atomicfile.NewBatch(filepath.Join(w.m.o.Dir, "drop"))
		if err != nil {
			return err
		}
		w.batch, w.times = batch, map[string]time.Time{}
	}
	if err := w.batch.Add(rel, data, 0o600); err != nil {
		return err
	}
	w.times[rel] = at
	w.staged += int64(len(data))
	w.stats.Fetched++
	w.stats.Bytes += int64(len(data))
	if w.staged >= pieceBytes {
		return w.flush()
	}
	return nil
}

// commit makes what was fetched visible, also when the rest could not be.
func (w *work) commit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *work) flush() error {
	if w.batch == nil {
		return nil
	}
	batch := w.batch
	w.batch, w.staged = nil, 0
	if err := batch.Commit(); err != nil {
		return fmt.Errorf("copying drops: %w", err)
	}
	for rel, at := range w.times {
		if err := os.Chtimes(w.local(rel), at, at); err != nil {
			return fmt.Errorf("copying drops: %w", err)
		}
	}
	return nil
}

func (w *work) local(rel string) string {
	return filepath.Join(w.m.o.Dir, "drop", filepath.FromSlash(rel))
}

// prune removes the copies of files that the server has no more.
func (w *work) prune(name string, h *host) error {
	there := map[string]bool{}
	for _, p := range h.places {
		there[latestOf(name, p.dir)] = true
	}
	for _, f := range h.hours {
		there[f.rel] = true
	}
	for _, dir := range []string{name, path.Join(name, spool.InnerName)} {
		entries, err := os.ReadDir(w.local(dir))
		if err != nil {
			continue // there is none
		}
		for _, e := range entries {
			rel := path.Join(dir, e.Name())
			if there[rel] || rel == path.Join(name, spool.InnerName) || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if err := os.Remove(w.local(rel)); err != nil {
				return fmt.Errorf("removing a copy: %w", err)
			}
		}
	}
	return nil
}

// hours fetches the finished hours that are missing in the copy, the newest
// first: they fill gaps of the past, and everybody's present went before.
func (w *work) hours(ctx context.Context, names []string) error {
	var total int64
	var missing []remoteFile
	for _, name := range names {
		h := w.m.hosts[name]
		hours := h.hours
		if hours != nil {
			h.kept = 0
		}
		slices.SortFunc(hours, func(a, b remoteFile) int { return strings.Compare(path.Base(b.rel), path.Base(a.rel)) })
		for i, f := range hours {
			if i >= maxHours || !fetchable(f.info) {
				continue
			}
			if local, err := os.Lstat(w.local(f.rel)); err == nil && same(local, f.info) {
				h.kept += f.info.Size()
				continue
			}
			missing = append(missing, f)
		}
		h.hours = nil // until it is listed again
		total += h.kept
	}
	slices.SortFunc(missing, func(a, b remoteFile) int { return strings.Compare(path.Base(b.rel), path.Base(a.rel)) })
	byName := map[string]remoteFile{}
	var order []string
	for _, f := range missing {
		if total += f.info.Size(); total > w.m.most {
			w.problem(snapshot.BadTooMany, "", "finished hours have more than %d MiB; older ones are not fetched", w.m.most>>20)
			break
		}
		name, _, _ := strings.Cut(f.rel, "/")
		w.m.hosts[name].kept += f.info.Size()
		byName[f.rel] = f
		order = append(order, f.rel)
	}
	end, bounded := ctx.Deadline()
	half := end.Add(-time.Until(end) / 2)
	return w.all(ctx, order, func(ctx context.Context, rel string) error {
		name, _, _ := strings.Cut(rel, "/")
		if bounded && time.Now().After(half) {
			w.again(name)
			return nil // the next refresh goes on
		}
		return w.fetch(ctx, name, rel, byName[rel].info, true)
	})
}

// again has a drop listed by the next refresh.
func (w *work) again(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.hosts[name].listed = time.Time{}
}

// turn numbers the spans of listEvery, shifted for each host so that not all
// drops are listed by the same refresh.
func turn(host string, at time.Time) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(host))
	return (at.Unix() + int64(hash.Sum32()%uint32(listEvery/time.Second))) / int64(listEvery/time.Second)
}
