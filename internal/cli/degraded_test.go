package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// TestASnapshotWithErrorsEndsWithThree: what cron sees of a node where something
// is not well is exit status 3 and one line, and the snapshot is there all the same.
func TestASnapshotWithErrorsEndsWithThree(t *testing.T) {
	captures, err := filepath.Abs("../../collector/nvidiasmi/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, capture string
		want          string // the line, "" for none
	}{
		{"well", "idle-8x-a100-550.xml", ""},
		{"one problem", "trimmed-3of6-535.xml", "gpuboard: gpu01: nvidia-smi says that 6 GPUs are attached, and lists 3 [smi:truncated]\n"},
		{"several", "old-tesla-p100-384.xml", "gpuboard: gpu01 #0: the memory of GPU 0 (00000000:02:00.0) has had 3 uncorrectable errors since the last reset: " +
			"see `dmesg | grep -i xid`, and reset the GPU when nobody uses it (+1 more) [gpu:ecc]\n"},
	} {
		b := newBed(t)
		b.program("nvidia-smi", "sed -e s/@PID.@/"+"1/ "+filepath.Join(captures, c.capture))
		b.must(os.Mkdir(b.path("data"), 0o755))
		node := []string{"--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi")}
		code := exitOK
		if c.want != "" {
			code = exitDegraded
		}
		for _, args := range [][]string{
			append([]string{"collect", "--json"}, node...),
			append([]string{"collect", "--spool", b.path("spool")}, node...),
			{"publish", "--host", "gpu01", "--spool", b.path("spool"), "--to", "file://" + b.path("data")},
			append([]string{"run", "--once", "--spool", b.path("once"), "--to", "file://" + b.path("data")}, node...),
		} {
			stdout, stderr, got := b.run(args...)
			if got != code || stderr != c.want {
				t.Errorf("%s: %v: exit %d, want %d: %q, want %q", c.name, args[:2], got, code, stderr, c.want)
			}
			var s snapshot.Snapshot
			if args[1] == "--json" {
				if err := json.Unmarshal([]byte(stdout), &s); err != nil || len(s.GPUs) == 0 {
					t.Errorf("%s: %v: %.100s", c.name, err, stdout)
				}
			} else if stdout != "" {
				t.Errorf("%s: %v: %q", c.name, args[:2], stdout)
			}
		}
		if files, err := filepath.Glob(b.path("data/drop/gpu01/latest*")); err != nil || len(files) != 1 {
			t.Errorf("%s: delivered are %v, %v", c.name, files, err)
		}
		// A push that fails is more than a snapshot with errors.
		if _, stderr, got := b.run("publish", "--host", "gpu01", "--spool", b.path("spool"), "--to", "file://"+b.path("nowhere")); got == exitOK || got == exitDegraded || !strings.Contains(stderr, "error: ") {
			t.Errorf("%s: a push to nowhere: exit %d, %s", c.name, got, stderr)
		}
	}
}
