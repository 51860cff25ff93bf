package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	if code, out := ran(t, program, "generate", "--config", filepath.Join(web, "gpuboard.yml")); code != 2 ||
		!strings.Contains(out, "hint: runuser -u nobody -- gpuboard generate --config "+web) {
		t.Errorf("root generates: exit %d\n%s", code, out)
	}
	for drop := filepath.Join(web, "data/drop"); drop != dir; drop = filepath.Dir(drop) {
		var s syscall.Stat_t
		if err := syscall.Stat(drop, &s); err != nil || s.Uid != 0 || s.Mode&0o022 != 0 {
			t.Errorf("%s is of user %d, mode %o: %v", drop, s.Uid, s.Mode&0o777, err)
		}
	}
}

// TestMembersBookAsThePageSays follows what init prints for members, as the account that set up the board. Then
// a second account, with the line for its profile, types the command that the page of a host shows.
func TestMembersBookAsThePageSays(t *testing.T) {
	t.Parallel()
	need.Root(t)
	const owner, member, shared = 65534, 1, 100 // nobody, daemon, and a group that neither is in by itself
	dir, err := os.MkdirTemp("", "gpuboard-members")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mustRun(t, ".", nil, "install", "--mode=755", builtProgram(t), filepath.Join(dir, "gpuboard"))
	capture, err := os.ReadFile("collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"smi.xml": string(capture),
		"nvidia-smi": "#!/bin/sh\nexec cat " + dir + "/smi.xml\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	web := filepath.Join(dir, "web")
	if err := os.Mkdir(web, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(web, owner, owner); err != nil {
		t.Fatal(err)
	}
	as := func(uid uint32, script string) (string, error) {
		c := exec.Command("sh", "-c", "umask 022; "+script)
		c.Dir = dir
		c.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=/nonexistent",
			"GPUBOARD_SPOOL=" + filepath.Join(web, "spool")}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid,
			Groups: []uint32{shared}}}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	must := func(uid uint32, script string) string {
		t.Helper()
		out, err := as(uid, script)
		if err != nil {
			t.Fatalf("%s\n%v\n%s", script, err, out)
		}
		return out
	}

	said := must(owner, "gpuboard init web "+web)
	must(owner, "gpuboard collect --host gpu01 && gpuboard publish --host gpu01 --to file://"+web+"/data")
	must(owner, "gpuboard generate --config "+web+"/gpuboard.yml")
	page, err := os.ReadFile(filepath.Join(web, "site/hosts/gpu01/index.html"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`gpuboard book gpu01:0 [^<]* NAME`).FindString(string(page))
	if shown == "" {
		t.Fatal("the page of gpu01 shows no command that books GPU 0")
	}
	book := strings.Replace(shown, "NAME", "ada", 1)
	if out, err := as(member, book); err == nil || !strings.Contains(out, "export GPUBOARD_CONFIG=FILE") {
		t.Errorf("without anything, a second account hears (%v)\n%s", err, out)
	}

	_, step, found := strings.Cut(said, "# members: ")
	if !found {
		t.Fatalf("init prints nothing for members:\n%s", said)
	}
	_, step, _ = strings.Cut(step, "\n")
	step, _, _ = strings.Cut(step, "\n  #")
	var profile string
	for line := range strings.Lines(step) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "export ") {
			profile = line + "; "
		} else {
			must(owner, strings.Replace(line, "GROUP", "100", 1))
		}
	}
	must(member, profile+book)
	must(owner, "gpuboard book gpu01:1 --for 1h --name eva --config "+web+"/gpuboard.yml") // and who set it up still may
	must(member, profile+"gpuboard release gpu01:0 --name ada")
	must(member, profile+strings.Replace(book, "gpu01:0", "gpu01:2", 1))
	must(owner, "gpuboard generate --config "+web+"/gpuboard.yml")
	if out := must(member, profile+"gpuboard bookings"); !strings.Contains(out, "ada") ||
		!strings.Contains(out, "eva") {
		t.Errorf("the bookings are\n%s", out)
	}
}
