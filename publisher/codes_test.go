package publisher_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"gpuboard/publisher"
)

// TestCodesOfRareFailures: what no other server of the tests does by itself. An answer about a request says that the
// connection works.
func TestCodesOfRareFailures(t *testing.T) {
	for _, tt := range []struct {
		err       error
		code      string
		temporary bool
	}{
		{os.ErrNotExist, "remote:temp-gone", true},
		{sftp.ErrSSHFxPermissionDenied, publisher.CodeRemoteDenied, false},
		{errors.New("broken"), publisher.CodeRemoteFailure, true},
		{sftp.ErrSSHFxOpUnsupported, publisher.CodeRemoteDenied, false},
		{sftp.ErrSSHFxConnectionLost, publisher.CodeLost, true},
	} {
		s := &pipeServer{fails: "rename", err: tt.err}
		o := s.options(t)
		o.Budget = 2 * time.Second // within which a push is made again
		e := refused(t, open(t, o), newMemorySpool(publisher.LatestName), tt.code)
		if e.Hint() == "" || e.Temporary() != tt.temporary {
			t.Errorf("%v: hint %q, temporary %v", e, e.Hint(), e.Temporary())
		}
	}

	o, drop := localOptions(t)
	if err := os.MkdirAll(filepath.Join(drop, publisher.LatestName), 0o755); err != nil { // no file can take its place
		t.Fatal(err)
	}
	refused(t, open(t, o), newMemorySpool(publisher.LatestName), publisher.CodeLocal)
}
