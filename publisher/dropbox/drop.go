package dropbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

const (
	maxAhead = 26 * time.Hour // an hour file from further in the future would outlive its time
	maxTemps = 4              // at once in one session

	// lookFiles is how many files a session may upload before it counts those of its drop again.
	// With two days of hour files, counting them takes as long as the rest of a push.
	lookFiles = 32
)

var tempName = snapshot.Pattern(`^\.tmp-[A-Za-z0-9._-]{1,120}$`)

// session is one connection's access to its host's drop. It handles all four kinds
// of SFTP requests and denies those that no upload needs.
type session struct {
	host   string
	root   *os.Root
	sweep  func() (spool.Usage, error) // removes what does not belong into the drop
	limits Limits
	now    func() time.Time
	create func(root *os.Root, name string) (file, error) // makes a file that is not there yet

	mu       sync.Mutex
	temps    map[string]*upload // created in this session and not renamed yet
	files    int                // how many it may upload until it counts those of the drop again
	bytes    int64              // of them together
	verified bool               // it has brought a bundle of its own host
}

func openDrop(drops *spool.Drops, host string, limits Limits, now func() time.Time) (*session, error) {
	root, err := drops.Make(host)
	if err != nil {
		return nil, err
	}
	s := &session{host: host, root: root, limits: limits, now: now, create: createFile, temps: map[string]*upload{}}
	s.sweep = func() (spool.Usage, error) { return drops.Sweep(host, now(), time.Now()) }
	if _, err := s.sweep(); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// close removes the uploads that the session did not finish.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, u := range s.temps {
		if !u.closed {
			u.closed = true
			u.file.Close()
		}
		s.root.Remove(name)
	}
	s.temps = nil
	s.root.Close()
}

// expired reports whether a file is that of an hour that has expired.
func expired(name string, now time.Time) bool {
	hour, _, ok := spool.HourOf(name)
	return ok && spool.Expired(hour, now)
}

// plain is the name of a file in the drop that a request's path means. The drop has no
// directories, and no name that it holds has a slash.
func plain(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

// Fileread denies.
func (s *session) Fileread(*sftp.Request) (io.ReaderAt, error) {
	return nil, sftp.ErrSSHFxPermissionDenied
}

// Filelist denies listing and stat.
func (s *session) Filelist(*sftp.Request) (sftp.ListerAt, error) {
	return nil, sftp.ErrSSHFxPermissionDenied
}

// Filewrite creates a temporary file. A file with a final name is never opened: it
// appears by a rename only.
func (s *session) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	name, flags := plain(r.Filepath), r.Pflags()
	if !tempName().MatchString(name) || !flags.Creat || !flags.Excl || flags.Append || flags.Read {
		return nil, sftp.ErrSSHFxPermissionDenied
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.temps) >= maxTemps || !s.room() {
		return nil, sftp.ErrSSHFxFailure
	}
	f, err := s.create(s.root, name)
	if err != nil {
		return nil, sftp.ErrSSHFxFailure // without path and errno, which are not the client's business
	}
	s.files--
	u := &upload{session: s, file: f, limit: min(s.limits.FileBytes, s.bytes)}
	s.temps[name] = u
	return u, nil
}

// room reports whether the drop has room for another file. What other sessions of the host upload
// meanwhile is not in what it counted, so together they may exceed the limits a little.
func (s *session) room() bool {
	if s.files > 0 && s.bytes >= s.limits.FileBytes {
		return true
	}
	use, err := s.sweep()
	if err != nil || use.More {
		return false
	}
	s.files = min(lookFiles, s.limits.DropFiles-use.Files+use.Removed)
	s.bytes = min(2*s.limits.FileBytes, s.limits.DropBytes-use.Bytes+use.RemovedBytes)
	return s.files > 0 && s.bytes > 0
}

// Filecmd allows only the removal of temporary files that are not open, and of expired
// hour files.
func (s *session) Filecmd(r *sftp.Request) error {
	name := plain(r.Filepath)
	if r.Method != "Remove" || !tempName().MatchString(name) && !expired(name, s.now()) {
		return sftp.ErrSSHFxPermissionDenied
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.temps[name]; u != nil && !u.closed {
		return sftp.ErrSSHFxFailure // the SFTP library keeps its handle
	}
	switch err := s.root.Remove(name); {
	case err == nil:
		delete(s.temps, name)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return os.ErrNotExist
	}
	return sftp.ErrSSHFxFailure
}

// PosixRename renames a finished temporary file of this session into place. A file
// is finished when it was closed without an error. A first bundle of another host is
// refused, because two nodes with one key would replace each other's. The node removes
// its own copy of an hour file that has arrived, so its name is made durable.
func (s *session) PosixRename(r *sftp.Request) error {
	from, to := plain(r.Filepath), plain(r.Target)
	if !tempName().MatchString(from) || !s.final(to) {
		return sftp.ErrSSHFxPermissionDenied
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.temps[from]
	if u == nil {
		return os.ErrNotExist
	}
	if !u.closed || u.failed {
		return sftp.ErrSSHFxFailure
	}
	if to == spool.LatestName && !s.verified {
		of := s.bundleHost(from)
		if of != "" && of != s.host {
			return fmt.Errorf("%s: this key is for %s, and the file is of %s", snapshot.BadForeign, s.host, of)
		}
		s.verified = of != ""
	}
	if err := s.root.Rename(from, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			delete(s.temps, from)
			return os.ErrNotExist
		}
		return sftp.ErrSSHFxFailure
	}
	delete(s.temps, from)
	if to == spool.LatestName {
		return nil // after a power cut it may have its old content, until the node's next push
	}
	if atomicfile.SyncDirIn(s.root, ".") != nil {
		return sftp.ErrSSHFxFailure
	}
	return nil
}

// bundleHost returns the host of a bundle; "" for any other file.
func (s *session) bundleHost(name string) string {
	f, err := s.root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	return snapshot.BundleHost(f)
}

// final reports whether a name is one that a drop holds.
func (s *session) final(name string) bool {
	hour, _, ok := spool.HourOf(name)
	return name == spool.LatestName || ok && hour.Sub(s.now()) <= maxAhead && !expired(name, s.now())
}

// file is the part of [os.File] that an upload uses.
type file interface {
	io.WriterAt
	Sync() error
	Close() error
}

func createFile(root *os.Root, name string) (file, error) {
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// upload is a temporary file that is being written.
type upload struct {
	session *session
	file    file
	limit   int64
	size    int64
	failed  bool // it is not whole, and never will be
	closed  bool
}

var errTooLarge = errors.New("the file is too large")

// WriteAt checks the offset before it writes: one byte at 8 TiB would create a file
// of that length.
func (u *upload) WriteAt(b []byte, offset int64) (int, error) {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	if u.closed {
		return 0, os.ErrClosed
	}
	if offset < 0 || offset > u.limit || int64(len(b)) > u.limit-offset {
		u.failed = true
		return 0, errTooLarge
	}
	if end := offset + int64(len(b)); end > u.size {
		u.session.bytes -= end - u.size
		u.size = end
	}
	n, err := u.file.WriteAt(b, offset)
	if err != nil {
		u.failed = true
		return n, sftp.ErrSSHFxFailure
	}
	return n, nil
}

// Close syncs the content to disk, so this server does not offer an fsync request.
func (u *upload) Close() error {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	if errors.Join(u.file.Sync(), u.file.Close()) != nil {
		u.failed = true
	}
	if u.failed {
		return sftp.ErrSSHFxFailure
	}
	return nil
}

// TransferError marks an upload that a lost connection interrupted.
func (u *upload) TransferError(error) {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	u.failed = true
}
