package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"gpuboard/internal/config"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

// maxWatched bounds how many directories are watched.
const maxWatched = 12_000

// alarms watches the data directory and tells what changed. Directories are
// watched and never files: every writer worth the name replaces a file by a
// rename, and a watch on the old one would hear no more. What it misses (on a
// file system over a network, or beyond the kernel's limits) the timer finds.
type alarms struct {
	changed  func(urgency)
	complain func(snapshot.Problem) // each code once
	add      func(dir string) error // begins to watch; again is no harm

	data, comments, aliases string

	// As the last scan found them, without symbolic links.
	dataDir, notesDir, dropDir string

	fast    map[string]bool // files of which a change counts at once
	watched map[string]bool
	full    bool // no more directories can be watched
}

// watchFiles starts to watch and returns how to stop, which may be called once.
// Without watches it says so, and the timer is left.
func (a *app) watchFiles(cfg *config.Config, changed func(urgency)) (rescan, stop func()) {
	said := map[string]bool{}
	complain := func(p snapshot.Problem) {
		if !said[p.Code] {
			said[p.Code] = true
			a.complain(p)
		}
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		complain(noWatches("nothing can be watched", err))
		return func() {}, func() {}
	}
	aliases := cfg.String("aliases")
	if aliases == "" {
		aliases = filepath.Join(cfg.String("data"), "aliases.csv")
	}
	al := &alarms{changed: changed, complain: complain, add: w.Add, data: cfg.String("data"), comments: commentsPath(cfg), aliases: aliases}
	al.scan()
	again := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		al.listen(ctx, w.Events, w.Errors, again)
	}()
	rescan = func() {
		select {
		case again <- struct{}{}:
		default:
		}
	}
	return rescan, func() { cancel(); <-done; _ = w.Close() }
}

func noWatches(what string, err error) snapshot.Problem {
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		hint = "; raise it: sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		hint = "; raise it: sysctl fs.inotify.max_user_instances"
	}
	return snapshot.Problem{Code: "watch:limit", Message: fmt.Sprintf("%s (%v%s); changes there are found at every interval", what, err, hint)}
}

// listen turns events into changes until ctx ends.
func (al *alarms) listen(ctx context.Context, events <-chan fsnotify.Event, failures <-chan error, again <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			al.scan()
		case e, ok := <-events:
			if !ok {
				return
			}
			al.see(e)
		case _, ok := <-failures:
			if !ok {
				return
			}
			// Events were lost: everything may have changed.
			al.scan()
			al.changed(soon)
		}
	}
}

// scan watches every directory that matters and is there. It is repeated,
// because directories come, go and are replaced.
func (al *alarms) scan() {
	al.fast, al.watched, al.full = map[string]bool{}, map[string]bool{}, false
	al.dataDir, al.notesDir, al.dropDir = real(al.data), real(filepath.Join(al.data, "hosts")), real(filepath.Join(al.data, "drop"))
	al.watch(al.dataDir)
	al.fast[filepath.Join(al.dataDir, "notice.md")] = true
	for _, path := range []string{al.comments, al.aliases} {
		// The file, and what it points to where it is a symbolic link.
		at := filepath.Join(real(filepath.Dir(path)), filepath.Base(path))
		for _, file := range []string{at, real(at)} {
			al.fast[file] = true
			al.watch(filepath.Dir(file))
		}
	}
	al.watch(al.notesDir)
	al.watch(al.dropDir)
	entries, _ := os.ReadDir(al.dropDir) // what is wrong with it, the generation says
	for _, e := range entries {
		if e.IsDir() {
			al.watchDrop(filepath.Join(al.dropDir, e.Name()))
		}
	}
}

// watchDrop watches the drop of one host. Whatever a node made a link of is
// none of its own files.
func (al *alarms) watchDrop(dir string) {
	if strings.HasPrefix(filepath.Base(dir), ".") {
		return
	}
	for _, dir := range []string{dir, filepath.Join(dir, spool.InnerName)} {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			al.watch(dir)
		}
	}
}

func (al *alarms) watch(dir string) {
	if al.full {
		return
	}
	// One that is watched is added again: it may be another directory by now.
	if len(al.watched) >= maxWatched && !al.watched[dir] {
		al.full = true
		al.complain(snapshot.Problem{Code: "watch:limit", Message: fmt.Sprintf("only %d directories are watched; changes in the others are found at every interval", maxWatched)})
		return
	}
	err := al.add(dir)
	switch {
	case err == nil:
		al.watched[dir] = true
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		al.full = true
		al.complain(noWatches(fmt.Sprintf("only %d directories can be watched", len(al.watched)), err))
	case errors.Is(err, os.ErrNotExist): // it may come
	default:
		al.complain(snapshot.Problem{Code: "watch:unreadable", Message: fmt.Sprintf("%v; changes there are found at every interval", err)})
	}
}

// see tells what an event means. Names that begin with a dot are unfinished
// files, ours among them.
func (al *alarms) see(e fsnotify.Event) {
	dir, name := filepath.Split(e.Name)
	dir = filepath.Clean(dir)
	if al.fast[e.Name] {
		al.changed(soon)
		if e.Has(fsnotify.Create) { // a link may point elsewhere now
			al.scan()
		}
		return
	}
	if strings.HasPrefix(name, ".") || e.Op == fsnotify.Chmod {
		return
	}
	switch {
	case dir == al.dataDir:
		if name == "hosts" || name == "drop" {
			al.scan()
			al.changed(soon)
		}
	case dir == al.notesDir:
		if filepath.Ext(name) == ".md" {
			al.changed(soon)
		}
	case dir == al.dropDir:
		al.watchDrop(e.Name)
		al.changed(pushed)
	case filepath.Dir(dir) == al.dropDir || filepath.Dir(filepath.Dir(dir)) == al.dropDir:
		if name == spool.InnerName {
			al.watchDrop(dir)
			al.changed(pushed)
		}
		if name == spool.LatestName {
			al.changed(pushed)
		}
	}
}

// real is a path without symbolic links, so that a directory that can be
// reached by two ways is watched by one name; the path itself, if it is not there.
func real(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		return resolved
	}
	return abs
}
