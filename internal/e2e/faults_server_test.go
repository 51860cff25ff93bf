package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuboard/internal/testenv/faulttest"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// TestServerAtEverySystemCall lets the server's half die or fail: the process
// that speaks SFTP is killed at each of its system calls, or told that the disk
// is full or broken, while a node pushes. That process has one thread, so strace
// can count for it.
func TestServerAtEverySystemCall(t *testing.T) {
	t.Parallel() // beside those that mostly wait
	strace, server := need.Program(t, "strace"), need.Program(t, "sftp-server")
	program := builtProgram(t)
	root := faulttest.Dir(t)
	live, base, script, trace := filepath.Join(root, "live"), filepath.Join(root, "base"), filepath.Join(root,
		"server"), filepath.Join(root, "trace")
	serve := func(inject string) {
		options := strings.TrimPrefix(sshtest.LockedDown, "internal-sftp")
		putFile(t, script,
			[]byte(
				fmt.Sprintf("#!/bin/sh\nexec %s -y -qq -o %s -e trace=file,desc %s %s %s \"$@\"\n", strace, trace,
					inject, server, options)), 0o755)
	}
	if err := os.Mkdir(live, 0o755); err != nil {
		t.Fatal(err)
	}
	serve("")
	s := overSFTP(t, program, live, script)
	faulttest.Copy(t, live, base)
	calls := callsOfServer(t, s, trace, live)
	if len(calls) < 3 {
		t.Fatalf("the server made only %v", calls)
	}
	// Some faults leave the client without an answer, for which it need not wait long.
	s.Args = append(slices.Clone(s.Args), "--push-timeout", "4s")
	grows := map[string]bool{"openat": true, "write": true, "pwrite64": true, "fsync": true, "rename": true,
		"link": true}
	runs := 0
	for _, c := range calls {
		for _, f := range []faulttest.Fault{faulttest.Killed, faulttest.NoSpace, faulttest.Broken} {
			// An hour that the server does not let go is not asked for again.
			if (c.reply || c.name == "unlink") && !f.Kill || f.Growing && !grows[c.name] || t.Failed() {
				continue
			}
			if err := os.RemoveAll(live); err != nil {
				t.Fatal(err)
			}
			faulttest.Copy(t, base, live)
			how := "signal=KILL"
			if !f.Kill {
				how = "error=" + f.Name
			}
			serve(fmt.Sprintf("-e inject=%s:%s:when=%d", c.name, how, c.at))
			r := s.Run(t, faulttest.Fault{}, 0)
			serve("")
			r.Fault, r.At, r.Hit = f, c.at, &faulttest.Call{Name: "the server's " + c.name}
			r.Fault.Kill = false // the client lives
			s.Check(t, r)
			runs++
		}
	}
	t.Logf("%d calls, %d runs", len(calls), runs)
}

// A serverCall is one system call of the server's half, and the how-manyeth of
// its name.
type serverCall struct {
	name  string
	at    int
	reply bool // to the client, and nothing of a file's
}

// callsOfServer lists those calls of one run that change a file below dir, or
// answer the client.
func callsOfServer(t *testing.T, s faulttest.Scene, trace, dir string) (calls []serverCall) {
	t.Helper()
	if r := s.Run(t, faulttest.Fault{}, 0); r.Exit != 0 {
		t.Fatalf("without a fault: exit %d: %s", r.Exit, r.Said)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, "(")
		counts[name]++
		switch name {
		case "openat", "write", "pwrite64", "fsync", "close", "rename", "link", "unlink", "fchmod", "fchown", "chmod", "chown", "ftruncate":
			ours := strings.Contains(rest, dir+"/") && !(name == "openat" && !strings.Contains(rest, "O_CREAT"))
			if reply := name == "write" && !ours; ours || reply {
				calls = append(calls, serverCall{name, counts[name], reply})
			}
		}
	}
	return calls
}
