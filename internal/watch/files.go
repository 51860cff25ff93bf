package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
)

// Paths are the files that are watched.
type Paths struct {
	Data, Comments, Aliases string
}

// A fileWatcher finds out what people changed in the data directory. It watches directories and
// never files, because a file is replaced by a rename. What it misses (on a network file system, or
// beyond the kernel's limits) is found at the next interval, as everything is that nodes push.
type fileWatcher struct {
	paths   Paths
	add     func(dir string) error // begins to watch; again is no harm
	changed func()
	problem func(snapshot.Problem)

	// As the last scan found them, without symbolic links.
	dataDir, notesDir string

	edited map[string]bool // the files that are watched, apart from notes on hosts
}

// watchFiles calls changed until ctx ends. Every interval it looks for directories that are new.
func watchFiles(ctx context.Context, paths Paths, interval time.Duration, log *failure.Log, changed func()) {
	said := map[string]bool{}
	problem := func(p snapshot.Problem) {
		if !said[p.Code] {
			log.Problem(p)
		}
		said[p.Code] = true
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		problem(limitProblem("nothing can be watched", err))
		return
	}
	defer watcher.Close()
	f := &fileWatcher{paths: paths, add: watcher.Add, changed: changed, problem: problem}
	f.scan()
	again := time.NewTicker(max(interval, minGap))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			f.scan()
		case e := <-watcher.Events:
			f.handle(e)
		case <-watcher.Errors: // events were lost: anything may have changed
			f.scan()
			changed()
		}
	}
}

func limitProblem(what string, err error) snapshot.Problem {
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		hint = "; raise it: sysctl fs.inotify.max_user_watches"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		hint = "; raise it: sysctl fs.inotify.max_user_instances"
	}
	return snapshot.Problem{Code: "watch:limit",
		Message: fmt.Sprintf("%s (%v%s); changes there are found at every interval", what, err, hint)}
}

// scan watches every directory that matters and exists. Directories come, go and are replaced.
func (f *fileWatcher) scan() {
	f.edited = map[string]bool{}
	f.dataDir, f.notesDir = resolve(f.paths.Data), resolve(filepath.Join(f.paths.Data, "hosts"))
	f.watch(f.dataDir)
	f.watch(f.notesDir)
	f.edited[filepath.Join(f.dataDir, "notice.md")] = true
	for _, path := range []string{f.paths.Comments, f.paths.Aliases} {
		// The file, and the file that it points to if it is a symbolic link.
		at := filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
		for _, file := range []string{at, resolve(at)} {
			f.edited[file] = true
			f.watch(filepath.Dir(file))
		}
	}
}

func (f *fileWatcher) watch(dir string) {
	err := f.add(dir)
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist): // it may come
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err,
		syscall.ENOMEM):
		f.problem(limitProblem("not all directories can be watched", err))
	default:
		f.problem(
			snapshot.Problem{Code: "watch:unreadable",
				Message: fmt.Sprintf("%v; changes there are found at every interval", err)})
	}
}

// handle finds out what an event means. Names with a dot in front are unfinished files.
func (f *fileWatcher) handle(e fsnotify.Event) {
	dir, name := filepath.Split(e.Name)
	dir = filepath.Clean(dir)
	switch {
	case f.edited[e.Name]:
		f.changed()
		if e.Has(fsnotify.Create) { // a link may point elsewhere now
			f.scan()
		}
	case strings.HasPrefix(name, "."), e.Op == fsnotify.Chmod:
	case dir == f.dataDir && name == "hosts":
		f.scan()
		f.changed()
	case dir == f.notesDir && filepath.Ext(name) == ".md":
		f.changed()
	}
}

// resolve returns a path without symbolic links, so that a directory has one name; the absolute
// path if it does not exist.
func resolve(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		return resolved
	}
	return abs
}
