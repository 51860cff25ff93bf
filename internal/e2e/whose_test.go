package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/machinetest"
	"gpuboard/internal/testenv/need"
)

// engineSettings lets podman run on a machine that may set no limits, has no network, and no controllers of cgroups.
const engineSettings = `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
default_sysctls = []
netns = "none"
pids_limit = 0
[engine]
events_logger = "file"
`

// TestWhoseProcessesAre: on a machine with systemd, people start programs by the ways that there are, in rootless
// containers of podman and in root's, by sudo, su and tmux. Each process is on a GPU, and the collector names whoever
// has started it and by what it knows, and nobody else.
func TestWhoseProcessesAre(t *testing.T) {
	for _, name := range []string{"podman", "newuidmap", "crun", "sudo", "tmux", "su", "pgrep"} {
		need.Program(t, name)
	}
	box := mustReadFile(t, need.Program(t, "busybox"))
	m := machinetest.Boot(t, machinetest.Options{})
	m.Run("chmod", "755", "/sys/fs/cgroup") // the root of a machine is not private
	// Nobody may mount a proc of which something is hidden everywhere, and a machine hides the settings of the kernel.
	m.Run("mkdir", "/srv/proc")
	m.Run("mount", "--types", "proc", "proc", "/srv/proc")
	m.Run("systemctl", "start", "dbus.socket", "systemd-logind.service")
	for _, account := range [][]string{{"mira", "4001"}, {"kai", "4002"}} {
		m.Run("useradd", "--create-home", "--uid", account[1], account[0])
	}
	m.Write("/etc/subuid", "mira:2000000:65536\nkai:2100000:65536\n", 0o644)
	m.Write("/etc/subgid", "mira:2000000:65536\nkai:2100000:65536\n", 0o644)
	m.Write("/etc/sudoers.d/kai", "kai ALL=(ALL) NOPASSWD: ALL\n", 0o440)
	m.Write("/etc/containers/containers.conf", engineSettings, 0o644)
	m.Write("/etc/containers/storage.conf",
		"[storage]\ndriver = \"vfs\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \"/var/lib/containers/storage\"\n", 0o644)
	m.Write("/srv/image/busybox", box, 0o755)
	m.Run("tar", "--create", "--file=/srv/image.tar", "--directory=/srv/image", "busybox")
	m.Write("/usr/bin/gpuboard", mustReadFile(t, builtProgram(t)), 0o755)

	// session runs a script as somebody who has logged in.
	session := func(who, script string) {
		t.Helper()
		m.Run("systemd-run", "--quiet", "--uid="+who, "--property=PAMName=login", "--unit=login-"+who, "bash", "-c",
			"cd; "+script+"\nexec sleep 1000")
	}
	const load = "podman import --quiet /srv/image.tar box >/dev/null; "
	session("mira", "systemd-run --quiet --user sh -c 'exec sleep 3001'; "+load+
		"podman run --detach box /busybox sleep 3002; podman run --detach --user=5 box /busybox sleep 3003; podman run --detach --userns=keep-id box /busybox sleep 3004")
	session("kai",
		"sudo -n sleep 3011 & sudo -n su -c 'exec sleep 3012' & sudo -n tmux new-session -d 'exec sleep 3013'")
	m.Run("systemd-run", "--quiet", "--unit=trainer", "sh", "-c", "exec sleep 3021")
	m.Run("systemd-run", "--quiet", "--unit=elsewhere", "sh", "-c", "echo 4002 >/proc/self/loginuid; exec sleep 3022")
	for _, box := range [][]string{{"--name=labelled", "--label=gpuboard.user=kai", "--label=x=1,gpuboard.user=mira",
		"3031"}, {"--name=plain", "3032"}} {
		id := m.Run("env", "--chdir=/", "HOME=/root", "sh", "-c",
			load+"podman run --detach --cgroups=disabled "+strings.Join(box[:len(box)-1], " ")+" box /busybox sleep "+
				box[len(box)-1])
		// Podman's own cgroup, which crun makes only where it may set limits.
		group := "/sys/fs/cgroup/machine.slice/libpod-" + strings.TrimSpace(id) + ".scope"
		m.Run("mkdir", "-p", group)
		m.Until("its program", func() bool {
			_, err := m.Try("sh", "-c", "pgrep -xf '/busybox sleep "+box[len(box)-1]+"' >"+group+"/cgroup.procs")
			return err == nil
		})
	}

	truth := []struct {
		command       string
		before, after string // by what name, before root has asked the engines, and after it
		by            snapshot.Source
	}{
		{"sleep 3001", "mira", "mira", snapshot.ByOwner},
		{"/busybox sleep 3002", "mira", "mira", snapshot.ByNamespace},
		{"/busybox sleep 3003", "mira", "mira", snapshot.BySubUID},
		{"/busybox sleep 3004", "mira", "mira", snapshot.ByNamespace},
		{"sleep 3011", "kai", "kai", snapshot.BySession},
		{"sleep 3012", "kai", "kai", snapshot.BySession},
		{"sleep 3013", "kai", "kai", snapshot.BySession},
		{"sleep 3021", "unknown (trainer.service)", "unknown (trainer.service)", ""},
		{"sleep 3022", "kai", "kai", snapshot.ByLoginUID},
		{"/busybox sleep 3031", "unknown (root in container ID)", "kai", snapshot.ByLabel},
		{"/busybox sleep 3032", "unknown (root in container ID)", "unknown (root in container plain)", ""},
	}
	var listed strings.Builder
	commands := map[int]string{}
	for _, p := range truth {
		var pid int
		m.Until(p.command, func() bool {
			out, _ := m.Try("pgrep", "-xf", p.command)
			_, err := fmt.Sscan(out, &pid)
			return err == nil
		})
		commands[pid] = p.command
		fmt.Fprintf(&listed,
			"<process_info><pid>%d</pid><type>C</type><process_name>x</process_name><used_memory>900 MiB</used_memory></process_info>\n", pid)
	}
	capture := mustReadFile(t, "collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	m.Write("/srv/capture.xml", strings.Replace(capture, "<processes>\n", "<processes>\n"+listed.String(), 1), 0o644)
	m.Write("/usr/bin/nvidia-smi", "#!/bin/sh\nexec cat /srv/capture.xml\n", 0o755)
	m.Run("useradd", "--system", "--no-create-home", "collector")

	// Neither root nor the collector's own account takes anybody for somebody else.
	look := func(asked bool) {
		t.Helper()
		for _, as := range []string{"root", "collector"} {
			out, err := m.Try("env", "--chdir=/", "runuser", "-u", as, "--", "sh", "-c",
				"exec gpuboard collect --json --host gpu01 2>/dev/null")
			var s snapshot.Snapshot
			if json.Unmarshal([]byte(out), &s) != nil || len(s.Processes) != len(truth) {
				t.Fatalf("as %s: %v: %s", as, err, out)
			}
			named := map[string]snapshot.Process{}
			for _, p := range s.Processes {
				named[commands[p.PID]] = p
			}
			for _, want := range truth {
				p := named[want.command]
				owner, claims := p.Whose()
				name, by := want.before, want.by
				if asked {
					name = want.after
				} else if name != want.after {
					by = ""
				}
				if got := owner.String(); got != strings.Replace(name, "ID", p.Container, 1) || by != "" &&
					(len(claims) == 0 || claims[0].Source != by) {
					t.Errorf("asked %t, as %s: %s is of %s by %v, want %s by %s\n%+v", asked, as, want.command, got,
						claims, name, by, p)
				}
			}
		}
	}
	look(false)
	if out := m.Run("env", "--chdir=/", "gpuboard", "containers", "podman"); out != "podman: 2 containers\n" {
		t.Errorf("it says %q", out)
	}
	look(true)
	if t.Failed() {
		log, _ := m.Try("journalctl", "--no-pager", "--unit=login-*")
		t.Log(log)
	}
}
