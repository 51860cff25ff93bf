package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

// TestASlowPushDoesNotKeepTheNodeFromBeingRead: while a server does not answer, snapshots are taken
// all the same, and the newest of them is what arrives when it does.
func TestASlowPushDoesNotKeepTheNodeFromBeingRead(t *testing.T) {
	need.Time(t, "it waits for several intervals")
	server := sshtest.Start(t, sshtest.Options{Command: sshtest.LockedDown})
	spool := filepath.Join(t.TempDir(), "spool")
	l, err := testNode(t,
		map[string]string{"host": "gpu01", "spool": spool, "every": "2s", "push_timeout": "1h",
			"nvidia_smi": "/bin/false", "ps": "/bin/false",
			"to": fmt.Sprintf("sftp://%s@%s", server.User, server.Addr), "identity": server.Key,
			"known_hosts": server.KnownHosts}).Loop(false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	resume := server.Freeze(server.PID())
	defer resume()

	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	newest := func(dir string, least uint64) (s *snapshot.Snapshot) {
		t.Helper()
		err := poll(ctx, need.Patience, func() (bool, error) {
			data, err := os.ReadFile(filepath.Join(dir, publisher.LatestName))
			if err != nil {
				return false, nil
			}
			bundle, err := snapshot.DecodeBundle(bytes.NewReader(data))
			if err == nil {
				s = bundle.Snapshot
			}
			return err == nil && s.Seq >= least, err
		})
		if err != nil || s == nil || s.Seq < least {
			t.Fatalf("%s: %v, want number %d in %+v", dir, err, least, s)
		}
		return s
	}
	first := newest(spool, 1).Seq
	newest(spool, first+3) // none would come while the push lasts, if collecting waited for it
	resume()
	newest(server.Dir, first+3)
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
