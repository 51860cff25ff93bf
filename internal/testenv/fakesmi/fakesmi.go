// Package fakesmi is a stand-in for nvidia-smi in tests: it replays a capture
// and misbehaves on demand. Environment variables tell it how, because it is
// started like the real one:
//
//	GPUBOARD_FAKE_SMI         the file to write on standard output
//	GPUBOARD_FAKE_SMI_LIST    the file to write for -L; without it, -L fails
//	GPUBOARD_FAKE_SMI_PIDS    "123,456": what @PID1@, @PID2@, … become
//	GPUBOARD_FAKE_SMI_CARDS   a hexadecimal digit in each UUID, for cards of another host
//	GPUBOARD_FAKE_SMI_STDERR  text for standard error
//	GPUBOARD_FAKE_SMI_EXIT    exit status
//	GPUBOARD_FAKE_SMI_DELAY   how long to wait before the first byte (Go duration)
//	GPUBOARD_FAKE_SMI_HANG    if set, never end, and ignore SIGTERM
//	GPUBOARD_FAKE_SMI_LEAVE   if set, leave the process group it was put in
//	GPUBOARD_FAKE_SMI_FREEZE  a freezer cgroup (v1) to join, where not even SIGKILL ends it
//	GPUBOARD_FAKE_SMI_ORPHAN  if set, leave a child behind that holds standard output
//	GPUBOARD_FAKE_SMI_LOG     a file that gets a line for each start
package fakesmi

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Main is the whole program, for testscript.Main and for a test binary that
// finds itself started under another name. It does not return. It ends without
// os.Exit, with which a program that has the race detector waits for a second.
func Main() {
	source := "GPUBOARD_FAKE_SMI"
	if slices.Contains(os.Args[1:], "-L") {
		source = "GPUBOARD_FAKE_SMI_LIST"
	}
	syscall.Exit(Play("GPUBOARD_FAKE_SMI", os.Getenv(source), os.Args[1:], os.Stdout, os.Stderr))
}

// AMDMain is amd-smi and rocm-smi: GPUBOARD_FAKE_AMD is a directory with a file for each of their answers (static,
// metric, process, version; rocm), and the other variables are as above with this prefix.
func AMDMain() {
	answer := "rocm"
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		answer = os.Args[1]
	}
	syscall.Exit(
		Play("GPUBOARD_FAKE_AMD", filepath.Join(os.Getenv("GPUBOARD_FAKE_AMD"), answer), os.Args[1:], os.Stdout,
			os.Stderr))
}

// Play replays a file as the variables that begin with prefix say, and returns
// the exit status.
func Play(prefix, file string, args []string, stdout, stderr io.Writer) int {
	option := func(name string) string { return os.Getenv(prefix + "_" + name) }
	if err := logStart(option("LOG"), args); err != nil {
		fmt.Fprintln(stderr, err)
		return 97
	}
	if d, err := time.ParseDuration(option("DELAY")); err == nil {
		time.Sleep(d)
	}
	if text := option("STDERR"); text != "" {
		fmt.Fprintln(stderr, text)
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 98
		}
		out := fill(string(text), option("PIDS"))
		if cards := option("CARDS"); cards != "" {
			out = strings.ReplaceAll(out, "GPU-0", "GPU-"+cards)
		}
		fmt.Fprint(stdout, out)
	} else if slices.Contains(args, "-L") {
		return 6
	}
	if option("ORPHAN") != "" {
		orphan := exec.Command("sleep", "60")
		orphan.Stdout = os.Stdout
		if err := orphan.Start(); err != nil {
			fmt.Fprintln(stderr, err)
			return 99
		}
	}
	if option("LEAVE") != "" {
		if group, err := syscall.Getpgid(os.Getppid()); err == nil {
			_ = syscall.Setpgid(0, group)
		}
	}
	if dir := option("FREEZE"); dir != "" {
		freeze(dir)
	}
	if option("HANG") != "" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		for {
			time.Sleep(time.Hour)
		}
	}
	status, _ := strconv.Atoi(option("EXIT"))
	return status
}

// fill puts real pids in the places of @PID1@, @PID2@, …
func fill(text, pids string) string {
	for i, pid := range strings.Split(pids, ",") {
		if pid != "" {
			text = strings.ReplaceAll(text, fmt.Sprintf("@PID%d@", i+1), pid)
		}
	}
	return text
}

func logStart(file string, args []string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, os.Getpid(), strings.Join(args, " "), strings.Join(os.Environ(), " "))
	return err
}

// freeze puts this process where the kernel keeps it in state D.
func freeze(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("FROZEN"), 0o600)
}
