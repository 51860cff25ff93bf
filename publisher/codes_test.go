package publisher

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestCodesOfRareFailures: what no server of the tests does by itself.
func TestCodesOfRareFailures(t *testing.T) {
	p := open(t, Options{Target: Target{Scheme: "sftp", Host: "web.example.org"}})
	noName := &net.DNSError{Err: "no such host", Name: "web.example.org", IsNotFound: true}
	for want, e := range map[string]*Error{
		CodeResolve:    p.transportError(context.Background(), nil, "connecting", noName),
		CodeRemoteTemp: p.remoteError(stepRename, LatestName, os.ErrNotExist),
		CodeHandshake:  p.transportError(context.Background(), nil, "logging in", errors.New("ssh: no common tongue")),
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
