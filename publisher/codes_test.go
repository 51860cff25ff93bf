package publisher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/sftp"
)

// TestCodesOfRareFailures: what no server of the tests does by itself.
func TestCodesOfRareFailures(t *testing.T) {
	p := open(t, Options{Target: Target{Scheme: "sftp", Host: "web.example.org"}})
	noName := &net.DNSError{Err: "no such host", Name: "web.example.org", IsNotFound: true}
	for want, e := range map[string]*Error{
		"ssh:resolve":      p.transportError(context.Background(), nil, "connecting", noName),
		"remote:temp-gone": p.remoteError(stepRename, LatestName, os.ErrNotExist),
		"ssh:handshake":    p.transportError(context.Background(), nil, "logging in", errors.New("ssh: no common tongue")),
	} {
		if e.Code != want || e.Hint() == "" || !e.Temporary() {
			t.Errorf("%s (%v), hint %q, temporary %v", e.Code, e, e.Hint(), e.Temporary())
		}
	}

	if e := p.transportError(context.Background(), nil, "connecting", noName); e.retry {
		t.Error("a name that does not exist is asked for again in the same push")
	}

	o, drop := localOptions(t)
	if err := os.MkdirAll(filepath.Join(drop, LatestName), 0o755); err != nil { // no file can take its place
		t.Fatal(err)
	}
	refused(t, open(t, o), newMemorySpool(LatestName), CodeLocal)
}

// An answer of the server about a request says that the connection works.
func TestAnswered(t *testing.T) {
	status := func(code uint32) error { return fmt.Errorf("renaming: %w", &sftp.StatusError{Code: code}) }
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{status(uint32(sftp.ErrSSHFxFailure)), true}, {status(uint32(sftp.ErrSSHFxOpUnsupported)), true},
		{status(uint32(sftp.ErrSSHFxConnectionLost)), false}, {status(uint32(sftp.ErrSSHFxNoConnection)), false},
		{os.ErrNotExist, true}, {os.ErrPermission, true}, {os.ErrDeadlineExceeded, false}, {errors.New("EOF"), false},
	} {
		if got := answered(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

// A hint about sftp names the port, the keys and the files of host keys of the push.
func TestArgumentsOfSFTP(t *testing.T) {
	for want, o := range map[string]Options{
		"web": {Target: Target{Scheme: "sftp", Host: "web"}},
		"-i /k -i '/a b' -o UserKnownHostsFile='/x /y' -P 2222 u@web": {Target: Target{Scheme: "sftp", Host: "web", User: "u", Port: 2222}, Identity: []string{"/k", "/a b"}, KnownHosts: []string{"/x", "/y"}},
	} {
		if got := open(t, o).sftpArgs(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
