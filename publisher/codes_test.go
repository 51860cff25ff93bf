package publisher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/sftp"
)

// TestCodesOfRareFailures: what no server of the tests does by itself.
func TestCodesOfRareFailures(t *testing.T) {
	p := open(t, Options{Target: Target{Scheme: "sftp", Host: "web.example.org"}})
	if e := p.remoteError(stepRename, LatestName, os.ErrNotExist); e.Code != "remote:temp-gone" || e.Hint() == "" ||
		!e.Temporary() {
		t.Errorf("%s (%v), hint %q, temporary %v", e.Code, e, e.Hint(), e.Temporary())
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
