package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"gpuboard/publisher"
	"gpuboard/publisher/mirror"
	"gpuboard/snapshot"
	"gpuboard/spool"
)

// This file has the data directories of other drop hosts.

// otherRoot is one of the setting roots: a directory, or the address of one.
type otherRoot struct {
	name   string // as messages call it
	dir    string // where it is local
	target publisher.Target
}

func (r otherRoot) remote() bool { return r.target.Scheme == "sftp" }

// otherRoots reads the setting.
func (c *config) otherRoots() ([]otherRoot, error) {
	var roots []otherRoot
	seen := map[string]bool{}
	own, err := filepath.Abs(c.string("data"))
	if err != nil {
		return nil, err
	}
	for _, given := range c.list("roots") {
		r := otherRoot{name: filepath.Clean(given)}
		if strings.Contains(given, "://") {
			if r.target, err = publisher.ParseTarget(given); err != nil {
				return nil, err
			}
			r.name = r.target.String()
			if r.target.Scheme == "file" {
				r.name = r.target.Dir
			}
		}
		if !r.remote() {
			if r.dir, err = filepath.Abs(r.name); err != nil {
				return nil, err
			}
			if r.dir == own {
				return nil, usagef("the data directory is read anyway: take it out of roots", "roots from %s: %s is the data directory itself", c.origin["roots"], r.name)
			}
		}
		if seen[r.name] {
			return nil, usagef("", "roots from %s: %s stands there twice", c.origin["roots"], r.name)
		}
		seen[r.name] = true
		roots = append(roots, r)
	}
	return roots, nil
}

// server is how to get to a root on another machine.
func (a *app) rootServer(cfg *config, r otherRoot) publisher.Options {
	return publisher.Options{
		Target: r.target, Budget: cfg.duration("roots_timeout"),
		Identity: cfg.list("identity"), KnownHosts: cfg.list("known_hosts"),
		ResolveConfig: func(ctx context.Context, host string) ([]byte, error) { return sshConfig(ctx, host) },
		Log:           a.log(),
	}
}

// roots opens the data directory together with those of other drop hosts; nil
// where there are no others.
func (a *app) roots(cfg *config) (*spool.Roots, error) {
	others, err := cfg.otherRoots()
	if err != nil || len(others) == 0 {
		return nil, err
	}
	state := cfg.string("state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, fail(exitUsage, fmt.Errorf("making the state directory: %w", err), "give a directory of your own with --state DIR")
	}
	all := []spool.Root{{Name: filepath.Clean(cfg.string("data")), Dir: cfg.string("data")}}
	copies := filepath.Join(state, "roots")
	kept := map[string]bool{}
	for _, other := range others {
		root := spool.Root{Name: other.name, Dir: other.dir}
		if other.remote() {
			name := copyName(other)
			kept[name] = true
			root.Dir = filepath.Join(copies, name)
			m, err := mirror.New(mirror.Options{Server: a.rootServer(cfg, other), Dir: root.Dir, Now: a.now,
				Keep: cfg.duration("interval") <= publisher.KeepBelow})
			if err != nil {
				return nil, err
			}
			root.Refresh, root.Close = a.refresher(cfg, m), m.Close
		}
		all = append(all, root)
	}
	if err := forgetCopies(copies, kept); err != nil {
		return nil, fail(exitError, err, "")
	}
	return spool.OpenRoots(spool.RootsOptions{
		Budget: cfg.duration("roots_timeout"), Memory: filepath.Join(state, "roots.json"), ClockTolerance: cfg.duration("clock_tolerance"),
	}, all...), nil
}

// refresher asks a server for what is new; not for each of the generations that
// follow each other closely because somebody here changed something.
func (a *app) refresher(cfg *config, m *mirror.Mirror) func(context.Context) ([]snapshot.Problem, error) {
	gap := cfg.duration("interval") / 2
	var last time.Time
	var problems []snapshot.Problem
	return func(ctx context.Context) ([]snapshot.Problem, error) {
		if since := a.now().Sub(last); since >= 0 && since < gap {
			return problems, nil
		}
		stats, found, err := m.Refresh(ctx)
		if err != nil {
			if code := publisher.Code(err); code != "" {
				err = fmt.Errorf("%w (%s)", err, code)
			}
			return found, err
		}
		a.log().Debug("copying drops", "hosts", stats.Hosts, "files", stats.Fetched, "bytes", stats.Bytes, "dialed", stats.Dialed)
		last, problems = a.now(), found
		return found, nil
	}
}

// copyName is the directory of a root's copy: an address is no file name.
func copyName(r otherRoot) string {
	sum := sha256.Sum256([]byte(r.name))
	return hex.EncodeToString(sum[:8])
}

var copyNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{16}$`) })

// forgetCopies removes copies of roots that are not read any more.
func forgetCopies(dir string, kept map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at copies of drops: %w", err)
	}
	for _, e := range entries {
		if copyNames().MatchString(e.Name()) && !kept[e.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("removing a copy of drops: %w", err)
			}
		}
	}
	return nil
}

// roots looks at the data directories of other drop hosts.
func (d *doctor) roots(ctx context.Context) {
	others, err := d.cfg.otherRoots()
	if err != nil {
		d.bad("config:roots", "edit roots: in the configuration", "%v", err)
		return
	}
	for _, r := range others {
		if r.remote() {
			d.remoteRoot(ctx, r)
			continue
		}
		if info, err := os.Stat(filepath.Join(r.dir, "drop")); err != nil || !info.IsDir() {
			d.bad("root:unreachable", "mount "+word(r.dir)+", or correct roots: in the configuration", "there is no directory drop in %s", r.dir)
			continue
		}
		if d.directory("root", r.dir, "mount it, or correct roots: in the configuration", false) {
			d.drops(r.dir)
		}
	}
}

// remoteRoot lists the drops over SFTP, as the generator does, and reads one file.
func (d *doctor) remoteRoot(ctx context.Context, r otherRoot) {
	ctx, cancel := context.WithTimeout(ctx, max(d.cfg.duration("roots_timeout"), time.Second))
	defer cancel()
	bad := func(err error) {
		code, mend := codeOf(err, publisher.Code(err)), classify(err).hint
		if code == "" {
			code = "root:unreachable"
		}
		if mend == "" {
			mend = "sftp " + r.name
		}
		d.bad(code, mend, "%s cannot be read: %v", r.name, err)
	}
	server := d.app.rootServer(d.cfg, r)
	dir := r.target.Dir
	server.Target.Dir = ""
	reader, err := publisher.DialReader(ctx, server)
	if err != nil {
		bad(err)
		return
	}
	defer reader.Close()
	defer reader.Begin(ctx, 64<<20)()
	drop := joinRemote(dir, "drop")
	infos, err := reader.List(ctx, drop)
	if err != nil {
		bad(err)
		return
	}
	hosts, _ := spool.HostsAmong(infos)
	for _, host := range hosts[:min(1, len(hosts))] {
		for _, name := range []string{spool.LatestName, spool.InnerName + "/" + spool.LatestName} {
			path := joinRemote(drop, host+"/"+name)
			if info, err := reader.Lstat(ctx, path); err == nil && info.Mode().IsRegular() {
				if _, _, err := reader.Read(ctx, path, snapshot.MaxFileBytes); err != nil {
					bad(err)
					return
				}
			}
		}
	}
	d.ok("root:ok", "%s answers, and has %d drops", r.name, len(hosts))
}

// joinRemote joins names on a server; no directory is where the session starts.
func joinRemote(dir, name string) string {
	if dir == "" {
		return name
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}
