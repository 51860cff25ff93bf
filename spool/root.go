package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"gpuboard/atomicfile"
	"gpuboard/snapshot"
)

// root is one root, and what it last said.
//
// A directory may be on a file system over a network, where any call may hang
// for ever. So everything about a root happens in a goroutine that somebody
// waits for only so long, and while one hangs no other is started.
type root struct {
	Root
	first bool

	drops *Drops // for whoever made busy

	mu    sync.Mutex
	busy  chan struct{} // closed when what is under way ends; nil for nothing
	seen  said
	known []string // hosts; from before while it is away
	moved bool     // known is not what is remembered
	err   error    // why it could not be read the last time
	hours map[string][]HourFile
}

// said is what one look found.
type said struct {
	hosts    []string
	problems []snapshot.Problem
	latest   map[string]heard
}

// heard is what [Drops.Latest] returned.
type heard struct {
	bundle *snapshot.Bundle
	info   Info
	err    error
}

func (r *root) failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// try runs f in a goroutine of its own, unless one is still at work; the
// channel is closed when the one at work is done.
func (r *root) try(f func()) (mine bool, done <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy != nil {
		return false, r.busy
	}
	busy := make(chan struct{})
	r.busy = busy
	go func() {
		f()
		r.mu.Lock()
		r.busy = nil
		r.mu.Unlock()
		close(busy)
	}()
	return true, busy
}

// start begins a look.
func (r *root) start(life context.Context, budget time.Duration) <-chan struct{} {
	_, done := r.try(func() {
		ctx, cancel := context.WithTimeout(life, budget)
		defer cancel()
		r.look(ctx)
	})
	return done
}

func (r *root) look(ctx context.Context) {
	var problems []snapshot.Problem
	var err error
	if r.Refresh != nil {
		if r.drops == nil {
			r.read(nil, nil) // what the copy holds, before the wait for what is new
		}
		problems, err = r.Refresh(ctx)
	}
	r.read(problems, err)
}

// read looks at the directory, and keeps what was known where that fails.
func (r *root) read(problems []snapshot.Problem, refreshed error) {
	s, err := r.scan()
	r.mu.Lock()
	defer r.mu.Unlock()
	if refreshed != nil && err == nil {
		// What came before the connection broke is news as well.
		s.hosts = slices.Compact(slices.Sorted(slices.Values(append(s.hosts, r.known...))))
	}
	if err == nil {
		s.problems = append(s.problems, problems...)
		switch {
		case len(s.hosts) == 0 && len(r.known) > 0:
			err = errEmpty
		default:
			r.seen = s
			if !slices.Equal(r.known, s.hosts) {
				r.known, r.moved = s.hosts, true
			}
		}
	}
	if r.err = refreshed; r.err == nil {
		r.err = err
	}
}

var errEmpty = errors.New("there is not one drop in it (is the disk mounted?)")

// scan reads all drops of the directory.
func (r *root) scan() (said, error) {
	s := said{latest: map[string]heard{}}
	dir := filepath.Join(r.Dir, "drop")
	info, err := os.Stat(dir)
	if r.first && errors.Is(err, fs.ErrNotExist) {
		return s, nil // nobody has sent anything yet
	}
	if err != nil {
		return s, err
	}
	if r.drops != nil && !r.drops.stands(info) { // mounted anew, or replaced
		_ = r.drops.Close()
		r.drops = nil
	}
	if r.drops == nil {
		if r.drops, err = OpenDrops(r.Dir); err != nil {
			return s, err
		}
	}
	s.hosts, s.problems = r.drops.Hosts()
	if len(s.hosts) == 0 && slices.ContainsFunc(s.problems, func(p snapshot.Problem) bool { return p.Code == badUnreadable }) {
		return s, errors.New(s.problems[0].Message)
	}
	next := make(chan string)
	var team sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		team.Go(func() {
			for host := range next {
				var h heard
				h.bundle, h.info, h.err = r.drops.Latest(host)
				mu.Lock()
				s.latest[host] = h
				mu.Unlock()
			}
		})
	}
	for _, host := range s.hosts {
		next <- host
	}
	close(next)
	team.Wait()
	return s, nil
}

// silent notes that a look did not end in time.
func (r *root) silent(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy != nil { // it may have ended this very moment
		r.err = fmt.Errorf("no answer within %v", after.Round(time.Millisecond))
	}
}

// settle says what is wrong with the root, and reports whether its hosts are
// others than those that are remembered.
func (r *root) settle(problems *problemList) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, r.moved = r.moved, false
	if r.err == nil {
		return changed
	}
	code := rootUnreachable
	if errors.Is(r.err, errEmpty) {
		code = rootEmpty
	}
	shown := "none of its hosts is known from before"
	switch n := len(r.known); {
	case n == 1:
		shown = "its host is shown as it last was"
	case n > 1:
		shown = fmt.Sprintf("its %d hosts are shown as they last were", n)
	}
	problems.list = append(problems.list, snapshot.Problem{Code: code, File: snapshot.Text(r.Name, snapshot.MaxNameBytes),
		Message: snapshot.Text(fmt.Sprintf("this data directory cannot be read: %v; %s", r.err, shown), snapshot.MaxTextBytes)})
	return changed
}

// hoursOf lists the finished hours of a host; as they last were while the root
// is away.
func (r *root) hoursOf(host string, budget time.Duration) []HourFile {
	r.mu.Lock()
	last, there := r.hours[host], r.err == nil
	_, has := r.seen.latest[host]
	r.mu.Unlock()
	if !there || !has {
		return last
	}
	var files []HourFile
	if !r.within(budget, func(d *Drops) { files, _ = d.Hours(host) }) {
		return last
	}
	r.mu.Lock()
	r.hours[host] = files
	r.mu.Unlock()
	return files
}

func (r *root) readHour(f HourFile, budget time.Duration) (*snapshot.Hour, error) {
	err := error(fs.ErrNotExist)
	r.mu.Lock()
	// It may lie elsewhere in this drop than in the one that was listed first.
	i := slices.IndexFunc(r.hours[f.Host], func(own HourFile) bool { return path.Base(own.Name) == path.Base(f.Name) })
	there := r.err == nil && i >= 0
	if there {
		f = r.hours[f.Host][i]
	}
	r.mu.Unlock()
	if !there {
		return nil, err
	}
	var hour *snapshot.Hour
	var result error
	if !r.within(budget, func(d *Drops) { hour, result = d.ReadHour(f) }) {
		return nil, err
	}
	return hour, result
}

// within calls f, and reports whether it returned in time. What f sets may be
// looked at only then.
func (r *root) within(budget time.Duration, f func(*Drops)) bool {
	mine, done := r.try(func() {
		if r.drops != nil {
			f(r.drops)
		}
	})
	if !mine {
		return false
	}
	timer := time.NewTimer(budget)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		r.silent(budget)
		return false
	}
}

// maxRootsBytes bounds the memory of which hosts were where.
const maxRootsBytes = 16 << 20

// recallRoots reads which hosts the roots had. What cannot be read is not
// remembered: the next look tells.
func recallRoots(file string) map[string][]string {
	remembered := map[string][]string{}
	if file == "" {
		return remembered
	}
	data, err := atomicfile.Read(file, maxRootsBytes)
	if err != nil || json.Unmarshal(data, &remembered) != nil {
		return map[string][]string{}
	}
	for name, hosts := range remembered {
		remembered[name] = slices.DeleteFunc(hosts, func(host string) bool { return validHost(host) != nil })
	}
	return remembered
}

func rememberRoots(file string, roots []*root) error {
	if file == "" {
		return nil
	}
	known := map[string][]string{}
	for _, r := range roots {
		r.mu.Lock()
		known[r.Name] = r.known
		r.mu.Unlock()
	}
	data, err := json.Marshal(known)
	if err != nil {
		return err
	}
	_, err = atomicfile.Write(file, data, 0o600)
	return err
}
