package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuboard/internal/testenv/need"
)

// TestRootSetsUpAWebHost follows what init tells root, with another account in
// place of the one it names: that account makes the site and books, and
// everything above a node's drop stays root's, as sshd wants it.
func TestRootSetsUpAWebHost(t *testing.T) {
	t.Parallel()
	need.Root(t)
	const nobody = 65534
	// Others than root cannot come into t.TempDir.
	dir, err := os.MkdirTemp("", "gpuboard-setup")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program, web := filepath.Join(dir, "gpuboard"), filepath.Join(dir, "web")
	// Not written by this process: while another test starts a program, that one would have the
	// file open for writing, too, and it could not be run.
	mustRun(t, ".", nil, "install", "--mode=755", builtProgram(t), program)
	code, out := ran(t, program, "init", "web", web, "--host", "gpus.example.org", "--site", filepath.Join(web, "site"))
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	_, chown, found := strings.Cut(out, " chown -R gpuboard:gpuboard ")
	if !found {
		t.Fatalf("it does not say whose the directories are to be:\n%s", out)
	}
	chown, _, _ = strings.Cut(chown, "\n")
	for _, name := range strings.Fields(chown) {
		err := filepath.WalkDir(name, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"generate"},
		{"book", "gpu01:0", "--for", "1h", "--name", "eva"},
		{"book", "gpu01:1", "--for", "1h", "--name", "noor"},
		{"bookings"},
	} {
		c := exec.Command(program, append(args, "--config", filepath.Join(web, "gpuboard.yml"))...)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GPUBOARD_HOSTS=gpu01"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("gpuboard %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if args[0] == "bookings" && (!strings.Contains(string(out), "eva") || !strings.Contains(string(out), "noor")) {
			t.Errorf("the bookings are\n%s", out)
		}
	}
	// What root would make there, that account could not change.
	if code, out := ran(t, program, "generate", "--config", filepath.Join(web, "gpuboard.yml")); code != 2 || !strings.Contains(out, "hint: runuser -u nobody -- gpuboard generate --config "+web) {
		t.Errorf("root generates: exit %d\n%s", code, out)
	}
	for drop := filepath.Join(web, "data/drop"); drop != dir; drop = filepath.Dir(drop) {
		var s syscall.Stat_t
		if err := syscall.Stat(drop, &s); err != nil || s.Uid != 0 || s.Mode&0o022 != 0 {
			t.Errorf("%s is of user %d, mode %o: %v", drop, s.Uid, s.Mode&0o777, err)
		}
	}
}
