package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"gpuboard/internal/testenv/machinetest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// TestAnsible runs the playbook over ssh against two machines: a web host that
// has GPUs of its own, with systemd and nginx, and a node with cron. The first
// run makes a board of both, the second changes nothing, and later ones restart
// what a change concerns and nothing else.
func TestAnsible(t *testing.T) {
	t.Parallel()
	ansible := need.Program(t, "ansible-playbook")
	for _, program := range []string{"ssh", "sshd", "nginx", "cron"} {
		need.Program(t, program)
	}
	need.Time(t, "it takes a minute")
	dir := t.TempDir()
	sshtest.WriteKey(t, dir+"/key", "ed25519", "")
	web := machinetest.Boot(t, machinetest.Options{})
	node := machinetest.Boot(t, machinetest.Options{Beside: web})
	for port, m := range map[string]*machinetest.Machine{"22": web, "2022": node} {
		// As on any machine: keys of its own, and the administrator's.
		m.Run("sh", "-c", "rm -f /etc/ssh/ssh_host_*; ssh-keygen -A")
		m.Write("/etc/ssh/sshd_config.d/port.conf", "Port "+port+"\n", 0o644)
		m.Write("/root/.ssh/authorized_keys", mustReadFile(t, dir+"/key.pub"), 0o600)
		m.Write("/usr/share/gpus.xml", mustReadFile(t, "collector/nvidiasmi/testdata/idle-8x-a100-550.xml"), 0o644)
		m.Write("/usr/bin/nvidia-smi", "#!/bin/sh\nexec cat /usr/share/gpus.xml\n", 0o755)
		m.Run("systemctl", "start", "ssh.service")
	}
	web.Run("systemctl", "start", "nginx.service")

	program, next := builtProgram(t), filepath.Join(dir, "gpuboard-next")
	files := map[string]string{
		"inventory": "[webserver]\nweb gpuboard_binary=" + program +
			" ansible_host=127.0.0.1\n[gpunodes]\nweb\ngpu01 gpuboard_binary=" + program +
			" ansible_host=127.0.0.1 ansible_port=2022 gpuboard_start=cron\n",
		// ansible may only ask the machines themselves.
		"vars.yml": fmt.Sprintf(`ansible_user: root
ansible_python_interpreter: /usr/bin/python3
ansible_ssh_private_key_file: %[1]s/key
ansible_ssh_common_args: -F none -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=%[1]s/known
gpuboard_nginx: true
gpuboard_web: 127.0.0.1
gpuboard_site_name: gpus.example.org
`, dir),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recap := regexp.MustCompile(`(?m)^(gpu01|web) +: ok=\d+ +changed=(\d+) .*failed=0`)
	// play returns what it prints, and the hosts that it changed.
	play := func() (out, changed string) {
		t.Helper()
		out, err := ansibleOn(web, dir, ansible, "-i", dir+"/inventory", "-e", "@"+dir+"/vars.yml",
			mustAbs(t, "deploy/ansible/site.yml"))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		hosts := recap.FindAllStringSubmatch(out, -1)
		if len(hosts) != 2 {
			t.Fatalf("it speaks of %d hosts:\n%s", len(hosts), out)
		}
		for _, h := range hosts {
			if h[2] != "0" {
				changed += h[1] + " "
			}
		}
		return out, changed
	}
	if out, changed := play(); changed != "gpu01 web " {
		t.Errorf("the first run changes %s:\n%s", changed, out)
	}
	web.Until("a board of both", func() bool { return shows(web, "gpu01", "web") })

	// nginx shows it, with what its snippets say.
	req, _ := http.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
	req.Host = "gpus.example.org"
	resp, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if page, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(page), "gpu01") ||
		resp.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("nginx says %s, %v:\n%s", resp.Status, err, page)
	}
	for _, test := range []struct {
		m    *machinetest.Machine
		side string
		file string
	}{{web, "web", "web"}, {web, "node", "gpuboard"}, {node, "node", "gpuboard"}} {
		out, _ := test.m.Try("runuser", "-u", "gpuboard", "--", "gpuboard", "doctor", test.side, "--config",
			"/etc/gpuboard/"+test.file+".yml")
		if strings.Contains(out, "BAD") || !strings.Contains(out, "No problems found") {
			t.Errorf("doctor %s:\n%s", test.side, out)
		}
	}
	if line := strings.Fields(node.Read("/etc/cron.d/gpuboard")); len(line) < 8 || line[5] != "gpuboard" ||
		line[6] != "/usr/bin/gpuboard" {
		t.Errorf("the crontab is %q", line)
	}

	// Of what runs, a run restarts what a change concerns: the web host gets
	// another program and title, the node another interval.
	type running struct{ watch, collector, cron string }
	now := func() running {
		loop := strings.TrimSpace(node.Run("pgrep", "-o", "-u", "gpuboard", "-f", "gpuboard run"))
		return running{web.Property("gpuboard-watch.service", "MainPID"),
			web.Property("gpuboard-node.service", "MainPID"), loop}
	}
	was := now()
	if out, changed := play(); changed != "" || now() != was {
		t.Errorf("the second run changes %s, and %+v into %+v:\n%s", changed, was, now(), out)
	}
	mustRun(t, ".", nil, "go", "build", "-ldflags", "-X gpuboard/internal/cli.release=9.9.9", "-o", next, ".")
	hosts := strings.Replace(files["inventory"], program, next+" gpuboard_web_settings=\"{'title': 'Ours'}\"", 1)
	hosts = strings.Replace(hosts, "=cron", "=cron gpuboard_node_settings=\"{'every': '2s'}\"", 1)
	if err := os.WriteFile(dir+"/inventory", []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
	play()
	if is := now(); is.watch == was.watch || is.collector == was.collector || is.cron == was.cron {
		t.Errorf("the program and the interval changed: %+v, and was %+v", is, was)
	}
	web.Until("a board by the new program", func() bool {
		return shows(web, "gpu01", "web") && strings.Contains(web.Read("/run/gpuboard/site/index.html"), "9.9.9") &&
			strings.Contains(web.Read("/run/gpuboard/site/index.html"), "Ours")
	})
}

// ansibleOn runs Ansible on the network of a machine and returns what it prints. If it does not
// end, it is killed, and the processes that ran are listed, too.
func ansibleOn(m *machinetest.Machine, dir, ansible string, args ...string) (string, error) {
	// Connections of ssh outlive Ansible for a while and would keep a pipe open.
	log, err := os.Create(dir + "/log")
	if err != nil {
		return "", err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*need.Patience)
	defer cancel()
	c := m.OnItsNetwork(ctx, append([]string{ansible}, args...)...)
	c.Env = append(os.Environ(), "ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1", "ANSIBLE_LOCAL_TEMP="+dir+"/tmp",
		"ANSIBLE_SSH_CONTROL_PATH_DIR="+dir+"/cp", "ANSIBLE_SSH_ARGS=-C -o ControlMaster=auto -o ControlPersist=10s",
		"HOME="+dir, "LC_ALL=C.UTF-8")
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error {
		processes, _ := exec.Command("ps", "axfo", "pid,ppid,stat,wchan:24,etimes,args").CombinedOutput()
		_, _ = log.Write(processes)
		return syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	err = c.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	out, readErr := os.ReadFile(log.Name())
	return string(out), errors.Join(err, readErr)
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
