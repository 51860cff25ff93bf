package publisher

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/need"

	"github.com/pkg/sftp"
)

// pipeServer is an SFTP server in this process. It keeps no content; it logs each
// request and each deadline that the client sets before one.
type pipeServer struct {
	fails string        // the request that fails: open, write, close or rename
	err   error         // how it fails; nil: it is not answered
	ended chan struct{} // closed when the test ends
	vfs   *sftp.StatVFS

	mu        sync.Mutex
	log       []string
	deadlines []time.Time
}

func (s *pipeServer) answer(request string) error {
	s.mu.Lock()
	s.log = append(s.log, request)
	s.mu.Unlock()
	if step, _, _ := strings.Cut(request, " "); step != s.fails {
		return nil
	} else if s.err == nil {
		<-s.ended
	}
	return s.err
}

// requests returns a copy of the log. The server may still write to it, because it closes the
// files of a connection that has ended.
func (s *pipeServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *pipeServer) Filewrite(*sftp.Request) (io.WriterAt, error) {
	return pipeFile{s}, s.answer("open")
}
func (s *pipeServer) PosixRename(*sftp.Request) error { return s.answer("rename") }
func (s *pipeServer) Filecmd(r *sftp.Request) error {
	return s.answer(strings.ToLower(r.Method) + " " + path.Base(r.Filepath))
}

func (s *pipeServer) StatVFS(r *sftp.Request) (*sftp.StatVFS, error) {
	if s.vfs == nil {
		return nil, errors.Join(os.ErrInvalid, s.answer("statvfs "+r.Filepath))
	}
	return s.vfs, s.answer("statvfs " + r.Filepath)
}

type pipeFile struct{ s *pipeServer }

func (f pipeFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), f.s.answer("write") }
func (f pipeFile) Close() error                           { return f.s.answer("close") }

// loggedConn is the client's end of the connection.
type loggedConn struct {
	net.Conn
	s *pipeServer
}

func (c loggedConn) SetDeadline(t time.Time) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.log = append(c.s.log, "deadline")
	c.s.deadlines = append(c.s.deadlines, t)
	return c.Conn.SetDeadline(t)
}

// connected is a publisher with a connection to the server.
func connected(t *testing.T, s *pipeServer, o Options) *Publisher {
	t.Helper()
	near, far := net.Pipe()
	server := sftp.NewRequestServer(far, sftp.Handlers{FilePut: s, FileCmd: s})
	s.ended = make(chan struct{})
	served := make(chan struct{})
	go func() { _ = server.Serve(); close(served) }()
	base := sshclient.Watch(loggedConn{near, s})
	client, err := sftp.NewClientPipe(base, base)
	if err != nil {
		t.Fatal(err)
	}
	o.Target.Scheme, o.Target.Host = "sftp", "web"
	p := open(t, o)
	p.conn = &connection{Conn: base, sftp: client, temp: newTempName(), statvfs: true}
	t.Cleanup(func() { near.Close(); close(s.ended); server.Close(); <-served })
	return p
}

// Each request of an upload has a deadline of its own: half of the budget, but not later
// than the end of the push. A kept connection has none until the next push.
func TestEachRequestOfAnUploadHasADeadline(t *testing.T) {
	const budget = 1000 * time.Hour
	s := &pipeServer{}
	p := connected(t, s, Options{Budget: budget, Keep: true})
	src := newMemorySpool()
	src.set(LatestName, make([]byte, 64<<10+1))
	begin := time.Now()
	if r := publish(t, p, src); r.Dialed != 0 {
		t.Errorf("report = %+v", r)
	}
	end := time.Now()
	want := strings.Fields(
		"deadline open deadline write deadline write deadline write deadline close deadline rename deadline")
	if !slices.Equal(s.requests(), want) {
		t.Errorf("requests %q, want %q", s.requests(), want)
	}
	for i, at := range s.deadlines {
		if last := i == len(s.deadlines)-1; last && !at.IsZero() || !last &&
			(at.Before(begin.Add(budget/2)) || at.After(end.Add(budget/2))) {
			t.Errorf("deadline %d is %v after the begin", i, at.Sub(begin))
		}
	}
	s.log, s.deadlines = nil, nil
	ctx, cancel := context.WithTimeout(t.Context(), budget/4)
	defer cancel()
	bound, _ := ctx.Deadline()
	src.set(LatestName, []byte("second"))
	if _, err := p.Publish(ctx, src); err != nil {
		t.Fatal(err)
	}
	for i, at := range s.deadlines[:len(s.deadlines)-1] {
		if !at.Equal(bound) {
			t.Errorf("deadline %d is %v, want the end of the push, %v", i, at, bound)
		}
	}
}

func TestConnectionEndsWithThePushUnlessKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		p := connected(t, &pipeServer{}, Options{Keep: keep})
		publish(t, p, newMemorySpool(LatestName))
		if kept := p.conn != nil; kept != keep {
			t.Errorf("keep %v: connection kept: %v", keep, kept)
		}
		p.Close()
		if p.conn != nil {
			t.Error("the connection is kept after Close")
		}
	}
}

func TestErrorOfAnUploadNamesTheRequest(t *testing.T) {
	for fails, want := range map[string]string{
		"open": "creating the temporary file for latest", "write": "writing latest", "sync": "syncing latest",
		"close": "closing latest", "rename": "renaming into place latest",
	} {
		s := &pipeServer{fails: fails, err: errors.New("broken")}
		p := connected(t, s, Options{})
		c := p.conn
		code := CodeRemoteFailure
		if fails == "sync" {
			c.fsync, code = true, CodeRemoteDenied // this server has no such request
		}
		if e := refused(t, p, newMemorySpool(LatestName), code); !strings.Contains(e.Error(), want) {
			t.Errorf("%s: %q, want %q", fails, e, want)
		}
		if removed := "remove " + c.temp; !slices.Contains(s.requests(), removed) || c.tempLeft {
			t.Errorf("%s: %q, want %q", fails, s.requests(), removed)
		}
	}
}

func TestCauseOfAFailure(t *testing.T) {
	const size = 10
	for name, c := range map[string]struct {
		dir, asked string
		vfs        *sftp.StatVFS
		err        error
		code       string
	}{
		"no inode": {"", "/", &sftp.StatVFS{Files: 9, Bavail: 9, Frsize: 9}, errors.New("broken"),
			"remote:noinode"},
		"no inode of another directory": {"in/drop", "/in/drop", &sftp.StatVFS{Files: 9, Bavail: 9, Frsize: 9},
			errors.New("broken"), "remote:noinode"},
		"inodes are not counted": {"", "/", &sftp.StatVFS{Bavail: 9, Frsize: 9}, errors.New("broken"),
			CodeRemoteFailure},
		"no space": {"", "/", &sftp.StatVFS{Files: 9, Favail: 9, Bavail: 1, Frsize: size - 1},
			errors.New("broken"), "remote:nospace"},
		"just enough space": {"", "/", &sftp.StatVFS{Files: 9, Favail: 9, Bavail: 1, Frsize: size},
			errors.New("broken"), CodeRemoteFailure},
		"the server does not tell": {"", "/", nil, errors.New("broken"), CodeRemoteFailure},
		"a cause that is told":     {"", "", &sftp.StatVFS{}, sftp.ErrSSHFxPermissionDenied, CodeRemoteDenied},
	} {
		s := &pipeServer{fails: "write", err: c.err, vfs: c.vfs}
		p := connected(t, s, Options{Target: Target{Dir: c.dir}})
		src := newMemorySpool()
		src.set(LatestName, make([]byte, size))
		if e := refused(t, p, src, c.code); e.Hint() == "" {
			t.Errorf("%s: no hint", name)
		}
		asked := ""
		for _, request := range s.requests() {
			if dir, ok := strings.CutPrefix(request, "statvfs "); ok {
				asked = dir
			}
		}
		if asked != c.asked {
			t.Errorf("%s: asked about %q, want %q", name, asked, c.asked)
		}
	}
}

func TestNothingIsReadAfterTheEndOfAPush(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	src := newMemorySpool(LatestName)
	src.unreadable = map[string]error{LatestName: os.ErrPermission}
	q := &queue{src: src, files: []string{LatestName}, report: &Report{}}
	if err := q.drain(ctx, nil); Code(err) != CodeTimeout || len(q.files) != 1 || len(q.problems) != 0 {
		t.Errorf("%v, %d files left, problems %v", err, len(q.files), q.problems)
	}
}

// A server that stops answering in the middle leaves a temporary file. Its record stays, so that the next push removes
// the file, and the lost push counts as ended.
func TestServerThatStopsAnsweringLeavesARecord(t *testing.T) {
	for _, fails := range []string{"open", "write", "rename"} {
		s := &pipeServer{fails: fails}
		// There is no key for a second connection.
		p := connected(t, s,
			Options{Budget: 200 * time.Millisecond, Identity: []string{filepath.Join(t.TempDir(), "absent")}})
		c := p.conn
		ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
		defer cancel()
		r := Report{}
		q := &queue{src: newMemorySpool(LatestName), files: []string{LatestName}, report: &r}
		if err := p.attempt(ctx, q, &r); Code(err) != CodeTimeout {
			t.Errorf("%s: %v, want %s", fails, err, CodeTimeout)
		}
		if left := p.records.abandoned(time.Now()); len(left) != 0 {
			t.Errorf("%s: the push has not ended, but its record counts as abandoned: %q", fails, left)
		}
		if _, err := p.Publish(ctx, newMemorySpool(LatestName)); err == nil || p.conn != nil {
			t.Errorf("%s: the connection is still used: %v", fails, err)
		}
		if left := p.records.abandoned(time.Now()); !slices.Equal(left, []string{c.temp}) {
			t.Errorf("%s: abandoned %q, want %q", fails, left, c.temp)
		}
	}
}

// brokenSpool is a spool that fails beside its files.
type brokenSpool struct {
	*memorySpool
	pending, delivered error
}

func (s brokenSpool) Pending(target string) ([]string, error) {
	files, _ := s.memorySpool.Pending(target)
	return files, s.pending
}

func (s brokenSpool) Delivered(target, name string, data []byte) error {
	return errors.Join(s.memorySpool.Delivered(target, name, data), s.delivered)
}

func TestErrorsOfTheSpool(t *testing.T) {
	broken := errors.New("broken")
	for want, src := range map[string]brokenSpool{
		"listing what waits for sftp://web":                                 {newMemorySpool(LatestName), broken, nil},
		"publishing to sftp://web: marking " + LatestName + " as delivered": {newMemorySpool(LatestName), nil, broken},
	} {
		e := refused(t, connected(t, &pipeServer{}, Options{}), src, CodeSpool)
		if !errors.Is(e, broken) || !strings.Contains(e.Error(), want) || !e.Temporary() {
			t.Errorf("%q, temporary %v; want %q", e, e.Temporary(), want)
		}
	}
}

func TestAttemptsAreLogged(t *testing.T) {
	var log strings.Builder
	p := connected(t, &pipeServer{fails: "open", err: errors.New("broken")},
		Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	refused(t, p, newMemorySpool(LatestName), CodeRemoteFailure)
	if want := "target=sftp://web attempt=1 code=" + CodeRemoteFailure; !strings.Contains(log.String(), want) {
		t.Errorf("log %q, want %q", log.String(), want)
	}
}

// No push begins without its record.
func TestPushWithoutARecordIsRefused(t *testing.T) {
	s := &pipeServer{}
	p := connected(t, s,
		Options{StateDir: filepath.Join(writeFile(t, filepath.Join(t.TempDir(), "file"), ""), "below")})
	if e := refused(t, p, newMemorySpool(LatestName), CodeSpool); !strings.Contains(e.Error(), "recording") {
		t.Errorf("message %q", e)
	}
	if slices.Contains(s.requests(), "open") {
		t.Errorf("requests %q", s.requests())
	}
}
