package publisher_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/need"
	"gpuboard/publisher"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// pipeServer is an SFTP server in this process. It keeps no content; it logs each request.
type pipeServer struct {
	vfs *sftp.StatVFS

	mu       sync.Mutex
	fails    string        // how the request begins that fails: open, write, close, rename or remove
	err      error         // how it fails; nil: it is not answered
	slow     time.Duration // what it takes to write a piece
	log      []string
	sessions int           // that are open
	ended    chan struct{} // closed when the test ends
}

// options are how to reach the server.
func (s *pipeServer) options(t *testing.T) publisher.Options {
	t.Helper()
	s.ended = make(chan struct{})
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions += n
	}
	o := letsIn(t, func(_ net.Conn, channels <-chan ssh.NewChannel) {
		for asked := range channels {
			channel, requests, err := asked.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := range requests {
					_ = r.Reply(r.Type == "subsystem", nil)
				}
			}()
			count(1)
			_ = sftp.NewRequestServer(channel, sftp.Handlers{FilePut: s, FileCmd: s}).Serve()
			count(-1)
			channel.Close()
		}
	})
	t.Cleanup(func() { close(s.ended) })
	o.StateDir = t.TempDir()
	return o
}

// fail sets which request is not answered from now on; "" is none.
func (s *pipeServer) fail(request string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = request
}

func (s *pipeServer) answer(request string) error {
	s.mu.Lock()
	s.log = append(s.log, request)
	fails, slow := s.fails != "" && strings.HasPrefix(request, s.fails), s.slow
	s.mu.Unlock()
	switch {
	case !fails && request == "write":
		time.Sleep(slow)
		return nil
	case !fails:
		return nil
	case s.err == nil:
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

// removed is whether the server was asked to remove such a file.
func (s *pipeServer) removed(prefix string) bool {
	return slices.ContainsFunc(s.requests(), func(r string) bool { return strings.HasPrefix(r, "remove "+prefix) })
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

// Each request of an upload has half of the budget for itself, so a slow server is not a dead one. Between two pushes
// nothing bounds a connection that is kept.
func TestASlowServerIsNotADeadOne(t *testing.T) {
	need.Time(t, "a server that takes more than half of a budget")
	s := &pipeServer{}
	o := s.options(t)
	o.Keep = true
	for o.Budget = 4 * time.Second; ; o.Budget *= 2 { // too little for a busy machine
		s.slow = o.Budget / 6
		p, src := open(t, o), newMemorySpool()
		src.set(publisher.LatestName, make([]byte, 4*32<<10)) // in four pieces
		_, err := p.Publish(t.Context(), src)
		s.slow = 0
		if err == nil {
			time.Sleep(o.Budget/2 + 100*time.Millisecond) // what the last request had is over
			src.set(publisher.LatestName, []byte("second"))
			if r := publish(t, p, src); r.Dialed != 0 {
				t.Errorf("after a while without a push: %+v", r)
			}
			return
		}
		if o.Budget > 30*time.Second {
			t.Fatal(err)
		}
	}
}

func TestConnectionEndsWithThePushUnlessKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := &pipeServer{}
		o := s.options(t)
		o.Keep = keep
		p := open(t, o)
		publish(t, p, newMemorySpool(publisher.LatestName))
		over := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.sessions == 0
		}
		if !keep {
			eventually(t, "the connection ends with the push", over)
		}
		if r := publish(t, p, newMemorySpool(publisher.LatestName)); r.Dialed == 0 != keep {
			t.Errorf("keep %v: %+v", keep, r)
		}
		p.Close()
		eventually(t, "the connection ends", over)
	}
}

func TestErrorOfAnUploadNamesTheRequest(t *testing.T) {
	for fails, want := range map[string]string{
		"open": "creating the temporary file for latest", "write": "writing latest",
		"close": "closing latest", "rename": "renaming into place latest",
	} {
		s := &pipeServer{fails: fails, err: errors.New("broken")}
		o := s.options(t)
		e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), publisher.CodeRemoteFailure)
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%s: %q, want %q", fails, e, want)
		}
		if left := content(t, o.StateDir); !s.removed(".tmp-") || len(left) != 0 {
			t.Errorf("%s: %q, upload records left behind: %v", fails, s.requests(), left)
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
			publisher.CodeRemoteFailure},
		"no space": {"", "/", &sftp.StatVFS{Files: 9, Favail: 9, Bavail: 1, Frsize: size - 1},
			errors.New("broken"), "remote:nospace"},
		"just enough space": {"", "/", &sftp.StatVFS{Files: 9, Favail: 9, Bavail: 1, Frsize: size},
			errors.New("broken"), publisher.CodeRemoteFailure},
		"the server does not tell": {"", "/", nil, errors.New("broken"), publisher.CodeRemoteFailure},
		"a cause that is told":     {"", "", &sftp.StatVFS{}, sftp.ErrSSHFxPermissionDenied, publisher.CodeRemoteDenied},
	} {
		s := &pipeServer{fails: "write", err: c.err, vfs: c.vfs}
		o := s.options(t)
		o.Target.Dir = c.dir
		src := newMemorySpool()
		src.set(publisher.LatestName, make([]byte, size))
		if e := refused(t, open(t, o), src, c.code); e.Hint() == "" {
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
	src := newMemorySpool(publisher.LatestName)
	src.unreadable = map[string]error{publisher.LatestName: os.ErrPermission}
	o, _ := localOptions(t)
	if r, err := open(t, o).Publish(ctx, src); publisher.Code(err) != sshclient.CodeTimeout || r.Waiting != 1 {
		t.Errorf("%v, %+v", err, r)
	}
}

// lostPush begins a push to a server that stops answering at a request, and returns how to end it. Then its record is
// left.
func lostPush(t *testing.T, s *pipeServer, o publisher.Options, request string) (end func() (record string)) {
	t.Helper()
	before := content(t, o.StateDir)
	s.fail(request)
	asked := len(s.requests())
	o.Budget = 2 * need.Patience
	p := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Publish(ctx, newMemorySpool(publisher.LatestName))
		ended <- err
	}()
	eventually(t, "the server does not answer",
		func() bool { return slices.Contains(s.requests()[asked:], request) })
	s.fail("")
	return func() string {
		t.Helper()
		cancel()
		if err := <-ended; publisher.Code(err) != sshclient.CodeCancelled {
			t.Errorf("%s: %v, want %s", request, err, sshclient.CodeCancelled)
		}
		var left []string
		for name := range content(t, o.StateDir) {
			if _, old := before[name]; !old {
				left = append(left, name)
			}
		}
		if len(left) != 1 {
			t.Fatalf("%s: the upload records are %q", request, left)
		}
		return filepath.Join(o.StateDir, left[0])
	}
}

// random is the end of the names of a record and of its temporary file.
func random(record string) string { return record[strings.LastIndexByte(record, '-')+1:] }

// A server that stops answering in the middle leaves a temporary file. Its record stays, so that a later push removes
// the file, and is there until the server has answered; while the lost push may go on, its file is left alone.
func TestServerThatStopsAnsweringLeavesARecord(t *testing.T) {
	for _, request := range []string{"open", "write", "close", "rename"} {
		s := &pipeServer{}
		o := s.options(t)
		end := lostPush(t, s, o, request)
		publish(t, open(t, o), newMemorySpool(publisher.LatestName))
		if s.removed("") {
			t.Errorf("%s: the file of a push under way is removed: %q", request, s.requests())
		}
		record := end()

		s.fail("remove")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := open(t, o).Publish(ctx, newMemorySpool(publisher.LatestName)); err == nil {
			t.Errorf("%s: a push goes on before the file is removed", request)
		}
		cancel()
		if left := content(t, o.StateDir); len(left) != 1 {
			t.Errorf("%s: the upload records are %v", request, left)
		}

		s.fail("")
		publish(t, open(t, o), newMemorySpool(publisher.LatestName))
		if left := content(t, o.StateDir); len(left) != 0 || !s.removed(".tmp-"+random(record)) {
			t.Errorf("%s: the upload records are %v, requests %q", request, left, s.requests())
		}
	}
}

// The record of a push that may be under way is left alone. The process of a record may be any text that somebody left
// there, and other files and targets share the directory.
func TestUploadRecords(t *testing.T) {
	ended := exec.Command(need.Program(t, "true"))
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	s := &pipeServer{}
	o := s.options(t)
	elsewhere := o
	elsewhere.Target.Dir = "elsewhere"
	another := lostPush(t, s, elsewhere, "write")()
	own := lostPush(t, s, o, "write")()
	leave := func(pid string, age time.Duration) string {
		record := writeFile(t, strings.TrimSuffix(own, random(own))+rand.Text(), pid)
		at := time.Now().Add(-age)
		if err := os.Chtimes(record, at, at); err != nil {
			t.Fatal(err)
		}
		return record
	}
	self := strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		pid       string
		age       time.Duration
		abandoned bool
	}{
		{self, 0, false}, {self, publisher.DefaultBudget, false}, {self, 2 * publisher.DefaultBudget, true},
		{self, -time.Hour, true},
		{strconv.Itoa(ended.Process.Pid), 0, true}, {"", 0, true}, {"0", 0, true}, {"-1", 0, true}, {"x", 0, true},
	} {
		record := leave(tt.pid, tt.age)
		publish(t, open(t, o), newMemorySpool(publisher.LatestName))
		_, err := os.Stat(record)
		if errors.Is(err, fs.ErrNotExist) != tt.abandoned || s.removed(".tmp-"+random(record)) != tt.abandoned {
			t.Errorf("%+v: the record is there: %v", tt, err)
		}
		os.Remove(record)
	}

	other := writeFile(t, filepath.Join(o.StateDir, "another"), "0")
	const most = 16 // files that one push removes
	for range most + 1 {
		leave("0", 0)
	}
	publish(t, open(t, o), newMemorySpool(publisher.LatestName))
	left := content(t, o.StateDir)
	if _, there := left[filepath.Base(another)]; !there || left[filepath.Base(other)] == "" || len(left) != 3 {
		t.Errorf("after one push, %d files are left: %v", len(left), left)
	}
	if s.removed(".tmp-" + random(another)) {
		t.Error("the file of another target is removed")
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
	o := (&pipeServer{}).options(t)
	const name = publisher.LatestName
	target := o.Target.String()
	for want, src := range map[string]brokenSpool{
		"listing what waits for " + target:                                {newMemorySpool(name), broken, nil},
		"publishing to " + target + ": marking " + name + " as delivered": {newMemorySpool(name), nil, broken},
	} {
		e := refused(t, open(t, o), src, publisher.CodeSpool)
		if !errors.Is(e, broken) || !strings.Contains(e.Error(), want) || !e.Temporary() {
			t.Errorf("%q, temporary %v; want %q", e, e.Temporary(), want)
		}
	}
}

func TestAttemptsAreLogged(t *testing.T) {
	var log strings.Builder
	o := (&pipeServer{fails: "open", err: errors.New("broken")}).options(t)
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	refused(t, open(t, o), newMemorySpool(publisher.LatestName), publisher.CodeRemoteFailure)
	want := "target=" + o.Target.String() + " attempt=1 code=" + publisher.CodeRemoteFailure
	if !strings.Contains(log.String(), want) {
		t.Errorf("log %q, want %q", log.String(), want)
	}
}

// No push begins without its record.
func TestPushWithoutARecordIsRefused(t *testing.T) {
	s := &pipeServer{}
	o := s.options(t)
	o.StateDir = filepath.Join(writeFile(t, filepath.Join(t.TempDir(), "file"), ""), "below")
	e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), publisher.CodeSpool)
	if !strings.Contains(e.Error(), "recording") {
		t.Errorf("message %q", e)
	}
	if slices.Contains(s.requests(), "open") {
		t.Errorf("requests %q", s.requests())
	}
}
