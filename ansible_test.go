package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuboard/internal/sshtest"
)

// TestAnsible runs the playbook on this machine, as web host and as node, below
// a root of each one's own but with real accounts: the first run makes a board
// to which the node can push, the second changes nothing.
func TestAnsible(t *testing.T) {
	sshtest.RequireRoot(t)
	ansible := sshtest.Require(t, "ansible-playbook")
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	dir := t.TempDir()
	board, err := os.MkdirTemp("/srv", "gpbt-ansible-")
	if err != nil {
		sshtest.Skip(t, err.Error())
	}
	t.Cleanup(func() {
		os.RemoveAll(board)
		for _, name := range []string{"gpbt-a-gpu01", "gpbt-ansible"} {
			_ = exec.Command("userdel", name).Run()
			_ = exec.Command("groupdel", name).Run()
		}
		_ = exec.Command("groupdel", "gpbt-adrop").Run()
	})
	// The node's account must be able to walk to its key, and sshd to trust the way to its drop.
	roots := filepath.Join(board, "roots")
	if err := os.Chmod(board, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "gpuboard")
	mustRun(t, ".", nil, "go", "build", "-o", program, ".")
	sshd := sshtest.Start(t, sshtest.Options{Config: "Include " + roots + "/web/etc/ssh/sshd_config.d/*.conf\n"})
	for _, sub := range []string{"web/etc/cron.d", "web/etc/nginx/conf.d", "gpu01/etc/cron.d"} {
		if err := os.MkdirAll(filepath.Join(roots, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inventory := filepath.Join(dir, "inventory")
	text := fmt.Sprintf(`[webserver]
web gpuboard_root=%[1]s/web
[gpunodes]
gpu01 gpuboard_root=%[1]s/gpu01
`, roots)
	settings := fmt.Sprintf(`ansible_connection: local
ansible_python_interpreter: /usr/bin/python3
gpuboard_binary: %[1]s/gpuboard
gpuboard_start: cron
gpuboard_nginx: true
gpuboard_web: 127.0.0.1
gpuboard_ssh_port: %[2]d
gpuboard_host_key: %[3]s/host_ed25519.pub
gpuboard_dir: %[4]s
gpuboard_user: gpbt-ansible
gpuboard_drop_group: gpbt-adrop
gpuboard_account: "gpbt-a-{{ gpuboard_host }}"
`, dir, sshd.Port, sshd.Root, board)
	vars := filepath.Join(dir, "vars.yml")
	for path, content := range map[string]string{inventory: text, vars: settings} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	play := func() string {
		t.Helper()
		return mustRun(t, dir, []string{"ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1", "ANSIBLE_LOCAL_TEMP=" + dir + "/tmp", "ANSIBLE_REMOTE_TEMP=" + dir + "/tmp", "HOME=" + dir, "LC_ALL=C.UTF-8"},
			ansible, "-i", inventory, "-e", "@"+vars, mustAbs(t, "deploy/ansible/site.yml"))
	}
	first := play()
	if !regexp.MustCompile(`(?m)^gpu01 +: ok=\d+ +changed=[1-9]`).MatchString(first) {
		t.Errorf("the first run:\n%s", first)
	}
	second := play()
	if n := len(regexp.MustCompile(`(?m)^(gpu01|web) +: ok=\d+ +changed=0 .*failed=0`).FindAllString(second, -1)); n != 2 {
		t.Errorf("the second run changes something:\n%s", second)
	}

	// What it made is a board: sshd lets the node in, and its snapshot arrives.
	sshd.Stop()
	sshd.Restart()
	node, web := roots+"/gpu01/etc/gpuboard/gpuboard.yml", roots+"/web/etc/gpuboard/gpuboard.yml"
	env := []string{"GPUBOARD_PS=ps", "GPUBOARD_NVIDIA_SMI=" + dir + "/none", "HOME=" + dir}
	mustRun(t, dir, env, program, "collect", "--config", node)
	mustRun(t, dir, env, program, "publish", "--config", node)
	latest := board + "/data/drop/gpu01/in/latest.json.gz"
	if info, err := os.Stat(latest); err != nil || info.Mode().Perm() != 0o640 {
		t.Fatalf("in the drop: %v, %v", info, err)
	}
	c := exec.Command(program, "doctor", "web", "--config", web)
	out, _ := c.CombinedOutput()
	for _, want := range []string{"the news of gpu01 is", "[booking:ok]", "[paths:ok]"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("doctor does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "chroot") {
		t.Errorf("the modes are not what sshd asks for:\n%s", out)
	}
	for _, cron := range []string{"/web/etc/cron.d/gpuboard", "/gpu01/etc/cron.d/gpuboard"} {
		line := mustReadFile(t, roots+cron)
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[5] != "gpbt-ansible" || fields[6] != "/usr/bin/gpuboard" {
			t.Errorf("%s: %q", cron, line)
		}
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
