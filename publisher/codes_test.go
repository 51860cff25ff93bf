package publisher

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
)

// TestCodesOfRareFailures: what no server of the tests does by itself.
func TestCodesOfRareFailures(t *testing.T) {
	p := open(t, Options{Target: Target{Scheme: "sftp", Host: "web.example.org"}, ConfigFiles: []string{}})
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

	files := func(names ...string) *memorySpool {
		s := newMemorySpool(names...)
		s.set("hour-20261120T05-b1.jsonl.gz", []byte("x"))
		return s
	}
	written := map[string]bool{}
	o := Options{Target: Target{Scheme: "file", Dir: t.TempDir()}, Host: "gpu01",
		WriteFile: func(path string, _ []byte) error { written[path[strings.LastIndex(path, "/")+1:]] = true; return nil }}
	if err := os.MkdirAll(o.Target.Dir+"/drop", 0o755); err != nil {
		t.Fatal(err)
	}
	refused(t, open(t, o), files("../../evil"), CodeFileName)
	large := files()
	large.set(LatestName, make([]byte, MaxFileBytes+1))
	refused(t, open(t, o), large, CodeTooLarge)
	if len(written) != 1 || !written["hour-20261120T05-b1.jsonl.gz"] {
		t.Errorf("written: %v, want the good file alone", written)
	}
	o.WriteFile = func(string, []byte) error { return errors.New("the disk says no") }
	refused(t, open(t, o), files(), CodeLocal)
}
