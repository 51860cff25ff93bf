package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gpuboard/internal/testenv/sshtest"
)

// This file has what a node could run instead of gpuboard: the least program
// that does the work, and a shell script.

// build makes the program in folder, of the module in the directory module, as
// releases are made: without cgo.
func (s *suite) build(name, module, folder string) (string, error) {
	path := filepath.Join(s.dir, name)
	say("building %s", name)
	c := exec.Command("go", "-C", module, "build", "-trimpath", "-o", path, folder)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// probe returns the command line of the least program, see bench/probe, for a server.
func (s *suite) probe(server *sshtest.Server, smi string, more ...string) ([]string, error) {
	if s.leastProbe == "" {
		path, err := s.build("probe", "bench", "./probe")
		if err != nil {
			return nil, err
		}
		s.leastProbe = path
	}
	return append(
		[]string{s.leastProbe, "-smi", smi, "-to", server.Addr, "-user", server.User, "-key", server.Key,
			"-known-hosts", server.KnownHosts}, more...), nil
}

// script is a shell script of the kind that nodes ran before there was gpuboard:
// what programs say goes into six files, and scp takes them away, all at once.
const script = `#!/bin/sh
set -e
smi=$1 dir=$2
shift 2
mkdir -p "$dir"
cd "$dir"
"$smi" -q -x >smi.xml
awk -F '[<>]' '/<(uuid|used|gpu_util|gpu_temp)>/ { print $2, $3 }' smi.xml >gpus
ps -eo pid,user,etimes,args | awk 'NR > 1 { n[$2]++; print } END { for (u in n) print u, n[u] >"users" }' >processes
df -P -x tmpfs 2>/dev/null | tail -n +2 >disks || :
free -b | awk '/^Mem/ { print $2, $3 }' >memory
awk '{ print $1, $2, $3 }' /proc/loadavg >load
exec scp "$@"
`

// scripted returns the command line of the script for a server.
func (s *suite) scripted(server *sshtest.Server, smi string) ([]string, error) {
	scp, err := exec.LookPath("scp")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.dir, "script")
	if err := os.WriteFile(path, []byte(strings.Replace(script, "exec scp", "exec "+scp, 1)), 0o755); err != nil {
		return nil, err
	}
	args := append([]string{path, smi, filepath.Join(s.dir, "scripted")}, sshOptions(server)...)
	return append(args, "-P", fmt.Sprint(server.Port), "gpus", "processes", "users", "disks", "memory", "load",
		server.User+"@127.0.0.1:"), nil
}

// keptSCP is what scp costs a node, in ms, over a connection that ssh keeps.
func (s *suite) keptSCP(h *harness, server *sshtest.Server, file string) (float64, error) {
	control := filepath.Join(s.dir, "control")
	at := append(sshOptions(server), "-o", "ControlPath="+control)
	master := exec.Command("ssh",
		append(append([]string{}, at...), "-p", fmt.Sprint(server.Port), "-o", "ControlMaster=yes", "-N",
			server.User+"@127.0.0.1")...)
	if err := master.Start(); err != nil {
		return 0, err
	}
	h.Cleanup(func() {
		_ = master.Process.Kill()
		_ = master.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(control); err == nil {
			break
		}
		if time.Now().After(end) {
			return 0, fmt.Errorf("ssh keeps no connection")
		}
	}
	return leastProgram(9, "scp", append(at, "-P", fmt.Sprint(server.Port), file, server.User+"@127.0.0.1:x")...)
}

// programs counts the processes that execute something while a command runs:
// itself, and all that it starts.
func (s *suite) programs(fine []int, command []string) (float64, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return 0, err
	}
	trace := filepath.Join(s.dir, "trace")
	if _, _, err := program(fine, strace,
		append([]string{"-f", "-qq", "-e", "trace=execve", "-e", "signal=none", "-o", trace},
			command...)...); err != nil {
		return 0, err
	}
	out, err := os.ReadFile(trace)
	return float64(executed(string(out))), err
}

// executed counts the processes in strace's log that executed something.
func executed(trace string) int {
	pids := map[string]bool{}
	for line := range strings.Lines(trace) {
		if pid, rest, _ := strings.Cut(line, " "); strings.Contains(rest, "execve") &&
			strings.HasSuffix(strings.TrimSpace(rest), "= 0") {
			pids[pid] = true
		}
	}
	return len(pids)
}
