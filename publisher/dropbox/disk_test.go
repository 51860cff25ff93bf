package dropbox

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"gpuboard/internal/spool"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/sys/unix"
)

// failingFile is a file on a disk that fails at one step.
type failingFile struct {
	file
	sync, close error
}

func (f failingFile) Sync() error { return errors.Join(f.file.Sync(), f.sync) }

func (f failingFile) Close() error { return errors.Join(f.file.Close(), f.close) }

// TestADiskThatFailsIsReported: a file that the disk did not take is not in
// place, and the node hears of it.
func TestADiskThatFailsIsReported(t *testing.T) {
	for name, broken := range map[string]failingFile{
		"fsync": {sync: &os.PathError{Op: "sync", Err: unix.EIO}},
		"close": {close: &os.PathError{Op: "close", Err: unix.ENOSPC}},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			drops, err := openDrops(data)
			if err != nil {
				t.Fatal(err)
			}
			drop, err := openDrop(drops, "gpu01", DefaultLimits(), testClock)
			if err != nil {
				t.Fatal(err)
			}
			defer drop.close()
			here, there := net.Pipe()
			server := sftp.NewRequestServer(there,
				sftp.Handlers{FileGet: drop, FilePut: drop, FileCmd: drop, FileList: drop})
			go server.Serve()
			defer server.Close()
			c, err := sftp.NewClientPipe(here, here)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := put(c, ".tmp-1", spool.LatestName, []byte("good")); err != nil {
				t.Fatal(err)
			}

			drop.create = func(root *os.Root, name string) (file, error) {
				f, err := createFile(root, name)
				return failingFile{f, broken.sync, broken.close}, err
			}
			f, err := c.OpenFile(".tmp-2", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("lost")); err != nil {
				t.Fatal(err)
			}
			var status *sftp.StatusError
			if err := f.Close(); !errors.As(err, &status) || status.FxCode() != sftp.ErrSSHFxFailure {
				t.Errorf("closing: %v, want SSH_FX_FAILURE", err)
			}
			if err := c.PosixRename(".tmp-2", spool.LatestName); !errors.As(err, &status) ||
				status.FxCode() != sftp.ErrSSHFxFailure {
				t.Errorf("renaming: %v, want SSH_FX_FAILURE", err)
			}
			got, err := os.ReadFile(filepath.Join(data, "drop", "gpu01", spool.LatestName))
			if err != nil || !bytes.Equal(got, []byte("good")) {
				t.Errorf("the drop holds %q, %v", got, err)
			}
			drop.close()
			if diff := cmp.Diff([]string{spool.LatestName},
				names(t, filepath.Join(data, "drop", "gpu01"))); diff != "" {
				t.Errorf("after the session (-want +got):\n%s", diff)
			}
		})
	}
}

// closedFile says whether it was closed.
type closedFile struct {
	file
	closed *bool
}

func (f closedFile) Close() error {
	*f.closed = true
	return f.file.Close()
}

// TestAnUnfinishedUploadIsClosed: a connection that ends in the middle costs no descriptor.
func TestAnUnfinishedUploadIsClosed(t *testing.T) {
	drops, err := openDrops(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	drop, err := openDrop(drops, "gpu01", DefaultLimits(), testClock)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	drop.create = func(root *os.Root, name string) (file, error) {
		f, err := createFile(root, name)
		return closedFile{f, &closed}, err
	}
	request := sftp.NewRequest("Open", ".tmp-1")
	request.Flags = 0x2 | 0x8 | 0x20 // to write a new file: SSH_FXF_WRITE, CREAT and EXCL
	if _, err := drop.Filewrite(request); err != nil {
		t.Fatal(err)
	}
	if drop.close(); !closed {
		t.Error("the file stays open")
	}
	if _, err := drop.Filewrite(request); err == nil {
		t.Error("a session that has ended takes another file")
	}
}
