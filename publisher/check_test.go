package publisher_test

import (
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/sshclient"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/publisher"
)

func TestCheckAccess(t *testing.T) {
	o, dir := receiver(t)
	connected := 0
	if err := publisher.CheckAccess(t.Context(), o, func() { connected++ }); err != nil || connected != 1 {
		t.Errorf("%v, connected %d times", err, connected)
	}
	if left := content(t, dir); len(left) != 0 {
		t.Errorf("left in the drop: %v", left)
	}
	o.Identity = []string{filepath.Join(t.TempDir(), "stranger")}
	sshtest.WriteKey(t, o.Identity[0], "ed25519", "")
	err := publisher.CheckAccess(t.Context(), o, func() { connected++ })
	if publisher.Code(err) != sshclient.CodeAuth || connected != 1 {
		t.Errorf("with a key that is refused: %v, connected %d times", err, connected)
	}
}

// The check needs all that a push needs, and says which request failed.
func TestCheckAccessWithoutPermission(t *testing.T) {
	for request, c := range map[string]struct{ code, step string }{
		"open":   {publisher.CodeRemoteDenied, "creating the temporary file for"},
		"write":  {publisher.CodeRemoteDenied, "writing"},
		"remove": {publisher.CodeRemoteDenied, "removing"}, "posix-rename": {"ssh:no-posix-rename", ""},
	} {
		s := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -P " + request})
		if err := publisher.CheckAccess(t.Context(), toServer(t, s, s.Port), func() {}); publisher.Code(err) != c.code ||
			!strings.HasPrefix(err.Error(), c.step) {
			t.Errorf("without %s: %v (%s), want %s", request, err, publisher.Code(err), c.code)
		}
		if left := content(t, s.Dir); len(left) != 0 && request != "remove" {
			t.Errorf("without %s: left in the drop: %v", request, left)
		}
	}
}
