// Package mirror is a local copy of the drops of a data directory on another
// machine, brought up to date over SFTP.
//
// The server is read and never written to. Only what changed is fetched: a file
// whose size and modification time are those of its copy is the copy. Nothing
// of a server's answers is believed before it is checked: host names and file
// names are those that a drop may have, links and other irregular files are
// refused, and sizes, numbers and times are bounded. What a copy holds is
// hostile all the same, and [spool.Drops] reads it as it reads every drop.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"gpuboard/atomicfile"
	"gpuboard/publisher"
	"gpuboard/snapshot"
	"gpuboard/spool"
)

// Bounds of one refresh and of a copy.
const (
	maxListingBytes = 16 << 20  // the listing of all drops
	maxRefreshBytes = 256 << 20 // everything else; what is left comes with the next refresh
	maxHours        = 160       // hour files per host: 48 h, with boots
	maxHourBytes    = 4 << 30   // hour files of one root; older ones are not fetched then
	atOnce          = 64        // requests under way
	listEvery       = 5 * time.Minute
	settled         = 2 * time.Second // SFTP tells times in whole seconds
)

// Options say what is copied, and where to.
type Options struct {
	// Server is how to get there. Its Target's directory is the data directory.
	Server publisher.Options
	// Dir is the copy's own directory, which is made: drop/<host>/ below it is
	// as on the server.
	Dir string
	// Keep keeps the connection from one refresh to the next.
	Keep bool
	// Now is this machine's clock, to tell how long ago a file was first seen.
	Now func() time.Time
}

// Stats is what one refresh did.
type Stats struct {
	Hosts   int
	Fetched int // files
	Bytes   int64
	Dialed  bool
}

// A Mirror is the copy. It is for one goroutine, but for Close.
type Mirror struct {
	o     Options
	hosts map[string]*host
	most  int64 // maxHourBytes, but for tests
	// newest is the newest modification time that the server has told: its clock
	// shows at least that.
	newest time.Time

	mu     sync.Mutex
	reader *publisher.Reader
	closed bool
}

// host is what is known of one drop on the server.
type host struct {
	places []place // where a latest file was, at the last listing
	listed time.Time
	hours  []remoteFile // of that listing, until they are fetched
	kept   int64        // bytes of hour files in the copy
}

// A place is a directory that a node may write to: the drop, or "in" in it.
type place struct {
	dir   string // "" or "in"
	mtime time.Time
	since time.Time // when that time was first seen
}

// A remoteFile is a name relative to the directory of drops, and how it is described.
type remoteFile struct {
	rel  string
	info fs.FileInfo
}

// New checks the options, makes the directory, and connects to nothing.
func New(o Options) (*Mirror, error) {
	if o.Server.Target.Scheme != "sftp" {
		return nil, fmt.Errorf("copying drops: %s is not an SFTP address", o.Server.Target)
	}
	if _, err := publisher.New(o.Server); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, "drop"), 0o700); err != nil {
		return nil, fmt.Errorf("making room for a copy of %s: %w", o.Server.Target, err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Mirror{o: o, hosts: map[string]*host{}, most: maxHourBytes}, nil
}

// Close ends the connection, and a refresh under way.
func (m *Mirror) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.hangUp()
	return nil
}

func (m *Mirror) hangUp() {
	if m.reader != nil {
		_ = m.reader.Close()
		m.reader = nil
	}
}

// Refresh brings the copy up to date. An error means that the server could not
// be read; the copy is good as far as it got. The problems are of single drops.
// ctx should have a deadline.
func (m *Mirror) Refresh(ctx context.Context) (stats Stats, problems []snapshot.Problem, err error) {
	for {
		reader, kept, err := m.connect(ctx)
		if err != nil {
			return stats, nil, err
		}
		stats.Dialed = !kept
		problems, err = m.refresh(ctx, reader, &stats)
		m.mu.Lock()
		lost := !reader.Usable()
		if lost || !m.o.Keep {
			m.hangUp()
		}
		m.mu.Unlock()
		if err != nil && lost && kept && ctx.Err() == nil {
			continue // a connection that died while nobody used it says nothing about the server
		}
		return stats, problems, err
	}
}

func (m *Mirror) connect(ctx context.Context) (r *publisher.Reader, kept bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, false, fs.ErrClosed
	}
	if m.reader != nil && m.reader.Usable() {
		return m.reader, true, nil
	}
	m.hangUp()
	server := m.o.Server
	server.Target.Dir = ""
	m.reader, err = publisher.DialReader(ctx, server)
	return m.reader, false, err
}

// ErrNoDrops is wrapped when the server has no directory of drops where it
// should be, as when a disk is not mounted.
var ErrNoDrops = errors.New("there is no directory drop")

func (m *Mirror) refresh(ctx context.Context, r *publisher.Reader, stats *Stats) ([]snapshot.Problem, error) {
	w := &work{m: m, r: r, stats: stats, now: m.o.Now()}
	end := r.Begin(ctx, maxListingBytes)
	entries, err := r.List(ctx, w.at(""))
	end()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoDrops, err)
	}
	if err != nil {
		return nil, err
	}
	names := w.names(entries)
	stats.Hosts = len(names)
	defer r.Begin(ctx, maxRefreshBytes)()
	err = w.all(ctx, names, w.host)
	if err == nil {
		err = w.hours(ctx, names)
	}
	if done := w.commit(); err == nil {
		err = done
	}
	if err == nil {
		err = m.forget(names)
	}
	return w.problems, err
}

// at is the name on the server of something in the directory of drops.
func (w *work) at(rel string) string {
	return path.Join(w.m.o.Server.Target.Dir, "drop", rel)
}

// forget removes the copies of drops that the server has no more.
func (m *Mirror) forget(names []string) error {
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	entries, err := os.ReadDir(filepath.Join(m.o.Dir, "drop"))
	if err != nil {
		return fmt.Errorf("looking at the copy: %w", err)
	}
	for _, e := range entries {
		if !there[e.Name()] {
			delete(m.hosts, e.Name())
			if err := os.RemoveAll(filepath.Join(m.o.Dir, "drop", e.Name())); err != nil {
				return fmt.Errorf("removing the copy of a drop: %w", err)
			}
		}
	}
	return nil
}

// same reports whether a copy is of the file that the server describes.
func same(local fs.FileInfo, remote fs.FileInfo) bool {
	return local.Mode().IsRegular() && local.Size() == remote.Size() && local.ModTime().Unix() == remote.ModTime().Unix()
}

// kindOf names what is in the place of a regular file.
func kindOf(info fs.FileInfo) string {
	if info.Mode().IsRegular() {
		return fmt.Sprintf("file of %d bytes, and %d is the most", info.Size(), snapshot.MaxFileBytes)
	}
	return atomicfile.Kind(info.Mode())
}

func fetchable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Size() >= 0 && info.Size() <= snapshot.MaxFileBytes
}

// latestOf is the newest file of a host, relative to the directory of drops.
func latestOf(name, dir string) string { return path.Join(name, dir, spool.LatestName) }
