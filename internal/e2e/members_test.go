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
	for name, content := range map[string]string{"smi.xml": string(capture), "nvidia-smi": "#!/bin/sh\nexec cat " + dir + "/smi.xml\n"} {
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
		c.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=/nonexistent", "GPUBOARD_SPOOL=" + filepath.Join(web, "spool")}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{shared}}}
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
	if out := must(member, profile+"gpuboard bookings"); !strings.Contains(out, "ada") || !strings.Contains(out, "eva") {
		t.Errorf("the bookings are\n%s", out)
	}
}
