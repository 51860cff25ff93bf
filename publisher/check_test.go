package publisher

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/sshtest"
)

func TestCheckAccess(t *testing.T) {
	o, dir := receiver(t)
	connected := 0
	if err := CheckAccess(t.Context(), o, func() { connected++ }); err != nil || connected != 1 {
		t.Errorf("%v, connected %d times", err, connected)
	}
	if left := content(t, dir); len(left) != 0 {
		t.Errorf("left in the drop: %v", left)
	}
	o.Identity = []string{filepath.Join(t.TempDir(), "stranger")}
	sshtest.WriteKey(t, o.Identity[0], "ed25519", "")
	if err := CheckAccess(t.Context(), o, func() { connected++ }); Code(err) != CodeAuth || connected != 1 {
		t.Errorf("with a key that is refused: %v, connected %d times", err, connected)
	}
}

// The check needs all that a push needs, and says which request failed.
func TestCheckAccessWithoutPermission(t *testing.T) {
	for request, c := range map[string]struct{ code, step string }{
		"open": {CodeRemoteDenied, stepOpen}, "write": {CodeRemoteDenied, stepWrite},
		"remove": {CodeRemoteDenied, stepRemove}, "posix-rename": {"ssh:no-posix-rename", ""},
	} {
		s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P " + request})
		if err := CheckAccess(t.Context(), toServer(t, s, s.Port), func() {}); Code(err) != c.code ||
			!strings.HasPrefix(err.Error(), c.step) {
			t.Errorf("without %s: %v (%s), want %s", request, err, Code(err), c.code)
		}
		if left := content(t, s.Dir); len(left) != 0 && request != "remove" {
			t.Errorf("without %s: left in the drop: %v", request, left)
		}
	}
}

func TestAStaleRecordStaysUntilItsFileIsGone(t *testing.T) {
	const temp = tempPrefix + "0123"
	o, _ := receiver(t)
	o.Keep = true
	p := open(t, o)
	publish(t, p, newMemorySpool(LatestName))
	if err := p.records.write(temp); err != nil {
		t.Fatal(err)
	}
	p.records.fail(temp)
	p.conn.Conn.Close()
	if err := p.removeStale(t.Context(), p.conn); err == nil {
		t.Error("a file is removed without a connection")
	}
	if left := p.records.abandoned(time.Now()); !slices.Equal(left, []string{temp}) {
		t.Errorf("records left: %q", left)
	}
}
