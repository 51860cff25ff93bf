package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A use is what some work cost.
type use struct {
	cpu  time.Duration // user and system
	wall time.Duration
	peak int64 // resident memory, bytes
}

// milliseconds of processor time.
func (u use) ms() float64 { return float64(u.cpu.Microseconds()) / 1000 }

// mine is what f costs this process.
func mine(f func() error) (use, error) {
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return use{}, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return use{}, err
	}
	wall := time.Since(start)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		return use{}, err
	}
	return use{cpu: total(&after) - total(&before), wall: wall}, nil
}

func total(r *syscall.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// program runs a program to its end: what it and all its children cost. Exit
// codes in fine are no errors; 3 is gpuboard's "done, but something is not well".
func program(fine []int, name string, args ...string) (use, []byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return use{}, nil, err
	}
	var u use
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		// The kernel counts the memory of whoever started a program as the program's
		// own peak; what it has itself stands in its status while it lives.
		for {
			u.peak = max(u.peak, peak(cmd.Process.Pid))
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	err := cmd.Wait()
	u.wall = time.Since(start)
	close(done)
	<-watched
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		for _, code := range fine {
			if exit.ExitCode() == code {
				err = nil
			}
		}
	}
	if err != nil {
		return u, nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, errs.Bytes())
	}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.cpu = total(r)
	}
	return u, out.Bytes(), nil
}

// peak is the most memory that a living process had, in bytes; 0 for none.
func peak(pid int) int64 { return inStatus(pid, "VmHWM:") }

// inStatus is a size in the status of a living process, in bytes; 0 for none.
func inStatus(pid int, name string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// busy is how many processes wanted a processor in the last minute, on average.
func busy() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}

// spent is the processor time of all threads of living processes, to the
// nanosecond.
func spent(pids ...int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, task := range tasks {
			data, err := os.ReadFile(task)
			if err != nil {
				continue
			}
			ns, _ := strconv.ParseInt(strings.Fields(string(data) + " 0")[0], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// reaped is the processor time of a process and its children that have ended,
// in the kernel's ticks of 10 ms.
func reaped(pid int) (self, children time.Duration) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	tick := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * 10 * time.Millisecond
	}
	return tick(11) + tick(12), tick(13) + tick(14)
}

// pssMiB is the memory of living processes, in MiB, where each has its part of what several share.
func pssMiB(pids []int) float64 {
	var kib int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				kib += n
			}
		}
	}
	return float64(kib) / 1024
}

// openFiles is how many files processes have open.
func openFiles(pids []int) int {
	sum := 0
	for _, pid := range pids {
		files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		sum += len(files)
	}
	return sum
}

// fileLimit is how many files a process of this user may open.
func fileLimit() uint64 {
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Max
}
