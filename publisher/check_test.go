package publisher

import (
	"path/filepath"
	"testing"

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
