package failure_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/sshclient"
	"gpuboard/publisher"
)

func TestCodeOf(t *testing.T) {
	again := func(err error) error { return &failure.Error{Exit: failure.ExitTryAgain, Err: err} }
	path := func(errno syscall.Errno) error { return &fs.PathError{Op: "write", Path: "/x", Err: errno} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("something"), ""},
		{failure.Because("site:failed", errors.New("something")), "site:failed"},
		{failure.Because("site:failed", again(fmt.Errorf("writing: %w", path(syscall.ENOSPC)))), "disk:space"},
		{path(syscall.EDQUOT), "disk:quota"},
		{path(syscall.EROFS), "disk:readonly"},
		{path(syscall.EBUSY), "file:mount"},
		{path(syscall.EIO), "disk:io"},
		{path(syscall.EACCES), "file:permission"},
		{path(syscall.EMFILE), "limits:files"},
		{path(syscall.ENFILE), "limits:files"},
		{path(syscall.ENOMEM), "limits:memory"},
		{&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}, "listen:in-use"},
		{&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}, "listen:address"},
		{fmt.Errorf("adding: %w", spool.ErrLocked), "loop:busy"},
		{fmt.Errorf("pushing: %w", &publisher.Error{Code: sshclient.CodeAuth, Err: path(syscall.EACCES)}),
			sshclient.CodeAuth},
		{fmt.Errorf("reading: %w", &snapshot.DecodeError{Code: snapshot.BadDepth, Err: errors.New("deep")}),
			snapshot.BadDepth},
		{failure.Because("site:failed", context.Canceled), ""}, // somebody asked for it
		{failure.Usage("", "no such thing"), ""},
	} {
		if got := failure.CodeOf(test.err); got != test.want {
			t.Errorf("%v is %q, want %q", test.err, got, test.want)
		}
	}
	var f *failure.Error
	if err := failure.Because("site:failed", again(errors.New("x"))); !errors.As(err, &f) ||
		f.Exit != failure.ExitTryAgain {
		t.Error("a reason hides the exit code")
	}
	if failure.Because("site:failed", nil) != nil {
		t.Error("nothing went wrong, for a reason")
	}
}

// TestTheLoopsLogHasCodes: one line when it begins, with the code, and one when
// it is over.
func TestTheLoopsLogHasCodes(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	l := failure.NewLog(&log, func() time.Time { return now })
	l.Report("publishing", publisher.CodeLost,
		&publisher.Error{Code: sshclient.CodeRefused, Err: errors.New("nobody listens")})
	l.Report("publishing", publisher.CodeLost,
		&publisher.Error{Code: sshclient.CodeRefused, Err: errors.New("nobody listens")})
	l.Report("telling Consul", "register:failed", errors.New("no answer"))
	l.Report("heartbeat", "spool:unwritable", syscall.ENOSPC)
	l.Report("publishing", publisher.CodeLost, nil)
	want := "gpuboard: 2026-11-20T08:00:00Z publishing: nobody listens [ssh:refused]\n" +
		"gpuboard: 2026-11-20T08:00:00Z telling Consul: no answer [register:failed]\n" +
		"gpuboard: 2026-11-20T08:00:00Z heartbeat: no space left on device [disk:space]\n" +
		"gpuboard: hint: look at: df -h; df -i; quota\n" +
		"gpuboard: 2026-11-20T08:00:00Z publishing: well again\n"
	if log.String() != want {
		t.Errorf("the log is\n%swant\n%s", log.String(), want)
	}
}
