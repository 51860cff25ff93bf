package faulttest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Require does nothing: this machine can trace.
func Require(testing.TB) {}

// What the arguments of a call are.
const (
	aboutPath  = iota // a path, from the working directory
	aboutAt           // a directory and a path below it
	aboutTwo          // two paths
	aboutTwoAt        // two directories and paths
	aboutTo           // a text and a path
	aboutToAt         // a text, a directory and a path below it
	aboutFile         // a descriptor
	aboutNone
)

type syscallInfo struct {
	name    string
	about   int
	changes bool
}

// syscalls are those that a program can be told about: what the Go runtime
// needs to live at all (memory, threads, timers, signals) is left out.
var syscalls = map[uint64]syscallInfo{
	unix.SYS_OPEN: {"open", aboutPath, true}, unix.SYS_OPENAT: {"openat", aboutAt, true},
	unix.SYS_OPENAT2: {"openat2", aboutAt, true}, unix.SYS_CREAT: {"creat", aboutPath, true},
	unix.SYS_WRITE: {"write", aboutFile, true}, unix.SYS_PWRITE64: {"pwrite64", aboutFile, true},
	unix.SYS_WRITEV: {"writev", aboutFile, true}, unix.SYS_PWRITEV: {"pwritev", aboutFile, true},
	unix.SYS_FTRUNCATE: {"ftruncate", aboutFile, true}, unix.SYS_TRUNCATE: {"truncate", aboutPath, true},
	unix.SYS_FALLOCATE: {"fallocate", aboutFile, true},
	unix.SYS_FSYNC:     {"fsync", aboutFile, true}, unix.SYS_FDATASYNC: {"fdatasync", aboutFile, true},
	unix.SYS_SYNCFS: {"syncfs", aboutFile, true}, unix.SYS_SYNC_FILE_RANGE: {"sync_file_range", aboutFile, true},
	unix.SYS_CLOSE: {"close", aboutFile, true}, unix.SYS_COPY_FILE_RANGE: {"copy_file_range", aboutFile, true},
	unix.SYS_SENDFILE: {"sendfile", aboutFile, true},
	unix.SYS_RENAME:   {"rename", aboutTwo, true}, unix.SYS_RENAMEAT: {"renameat", aboutTwoAt, true},
	unix.SYS_RENAMEAT2: {"renameat2", aboutTwoAt, true},
	unix.SYS_LINK:      {"link", aboutTwo, true}, unix.SYS_LINKAT: {"linkat", aboutTwoAt, true},
	unix.SYS_SYMLINK: {"symlink", aboutTo, true}, unix.SYS_SYMLINKAT: {"symlinkat", aboutToAt, true},
	unix.SYS_UNLINK: {"unlink", aboutPath, true}, unix.SYS_UNLINKAT: {"unlinkat", aboutAt, true},
	unix.SYS_RMDIR: {"rmdir", aboutPath, true},
	unix.SYS_MKDIR: {"mkdir", aboutPath, true}, unix.SYS_MKDIRAT: {"mkdirat", aboutAt, true},
	unix.SYS_MKNOD: {"mknod", aboutPath, true}, unix.SYS_MKNODAT: {"mknodat", aboutAt, true},
	unix.SYS_CHMOD: {"chmod", aboutPath, true}, unix.SYS_FCHMOD: {"fchmod", aboutFile, true},
	unix.SYS_FCHMODAT: {"fchmodat", aboutAt, true}, unix.SYS_FCHMODAT2: {"fchmodat2", aboutAt, true},
	unix.SYS_CHOWN: {"chown", aboutPath, true}, unix.SYS_LCHOWN: {"lchown", aboutPath, true},
	unix.SYS_FCHOWN: {"fchown", aboutFile, true}, unix.SYS_FCHOWNAT: {"fchownat", aboutAt, true},
	unix.SYS_UTIMENSAT: {"utimensat", aboutAt, true}, unix.SYS_FUTIMESAT: {"futimesat", aboutAt, true},

	unix.SYS_READ: {"read", aboutFile, false}, unix.SYS_PREAD64: {"pread64", aboutFile, false},
	unix.SYS_READV: {"readv", aboutFile, false}, unix.SYS_LSEEK: {"lseek", aboutFile, false},
	unix.SYS_STAT: {"stat", aboutPath, false}, unix.SYS_LSTAT: {"lstat", aboutPath, false},
	unix.SYS_FSTAT: {"fstat", aboutFile, false}, unix.SYS_NEWFSTATAT: {"newfstatat", aboutAt, false},
	unix.SYS_STATX:  {"statx", aboutAt, false},
	unix.SYS_ACCESS: {"access", aboutPath, false}, unix.SYS_FACCESSAT: {"faccessat", aboutAt, false},
	unix.SYS_FACCESSAT2: {"faccessat2", aboutAt, false},
	unix.SYS_READLINK:   {"readlink", aboutPath, false}, unix.SYS_READLINKAT: {"readlinkat", aboutAt, false},
	unix.SYS_GETDENTS64: {"getdents64", aboutFile, false},
	unix.SYS_STATFS:     {"statfs", aboutPath, false}, unix.SYS_FSTATFS: {"fstatfs", aboutFile, false},
	unix.SYS_FCNTL: {"fcntl", aboutFile, false}, unix.SYS_FLOCK: {"flock", aboutFile, false},
	unix.SYS_GETCWD: {"getcwd", aboutNone, false}, unix.SYS_CHDIR: {"chdir", aboutPath, false},
	unix.SYS_SOCKET: {"socket", aboutNone, false}, unix.SYS_CONNECT: {"connect", aboutFile, false},
	unix.SYS_BIND: {"bind", aboutFile, false}, unix.SYS_SENDTO: {"sendto", aboutFile, false},
	unix.SYS_SENDMSG: {"sendmsg", aboutFile, false}, unix.SYS_RECVFROM: {"recvfrom", aboutFile, false},
	unix.SYS_RECVMSG:     {"recvmsg", aboutFile, false},
	unix.SYS_GETSOCKNAME: {"getsockname", aboutFile, false}, unix.SYS_GETPEERNAME: {"getpeername", aboutFile, false},
	unix.SYS_SETSOCKOPT: {"setsockopt", aboutFile, false}, unix.SYS_GETSOCKOPT: {"getsockopt", aboutFile, false},
}

// entry is what PTRACE_GET_SYSCALL_INFO writes.
type entry struct {
	op       uint8
	_        [3]uint8
	arch     uint32
	ip, sp   uint64
	nr       uint64
	args     [6]uint64
	_padding [2]uint64
}

const (
	ptraceGetSyscallInfo = 0x420e
	atEntry              = 1
	atExit               = 2
	sysgood              = 0x80
)

// trace runs the program with its output going to out.
func (s Scene) trace(f Fault, at int, out *os.File) (r Run, err error) {
	// Only the thread that started a process may trace it. It waits for the
	// process group alone: the thread may have started other programs before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.Fault = f
	null, err := os.Open(os.DevNull)
	if err != nil {
		return r, err
	}
	defer null.Close()
	process, err := os.StartProcess(s.Program, append([]string{s.Program}, s.Args...), &os.ProcAttr{
		Dir: s.Dir, Env: append(os.Environ(), s.Env...), Files: []*os.File{null, out, out},
		Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true}})
	if err != nil {
		return r, err
	}
	defer process.Release()
	tr := tracer{Scene: s, run: &r, pid: process.Pid, at: at, failing: map[int]bool{}}
	err = tr.follow()
	if err != nil {
		_ = syscall.Kill(tr.pid, syscall.SIGKILL)
		var ws syscall.WaitStatus
		_, _ = syscall.Wait4(tr.pid, &ws, syscall.WALL, nil)
	}
	return r, err
}

type tracer struct {
	Scene
	run     *Run
	pid, at int
	failing map[int]bool // threads in a call that shall fail
}

// follow goes from stop to stop of all threads until the process has ended.
func (tr *tracer) follow() error {
	started := false
	for {
		var ws syscall.WaitStatus
		tid, err := syscall.Wait4(-tr.pid, &ws, syscall.WALL|syscall.WNOTHREAD, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("waiting: %w", err)
		case ws.Exited() && tid == tr.pid:
			tr.run.Exit = ws.ExitStatus()
			return nil
		case ws.Signaled() && tid == tr.pid:
			tr.run.Exit = -1
			return nil
		case !ws.Stopped():
			continue // the end of a thread
		}
		signal := 0
		switch stop := ws.StopSignal(); {
		case tid == tr.pid && !started:
			started = true
			err = syscall.PtraceSetOptions(tid,
				syscall.PTRACE_O_TRACESYSGOOD|syscall.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL)
			if err != nil {
				return fmt.Errorf("tracing: %w", err)
			}
		case stop == syscall.SIGTRAP|sysgood:
			if err := tr.stopped(tid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		case stop == syscall.SIGTRAP, stop == syscall.SIGSTOP:
			// A new thread, and its first stop.
		default:
			signal = int(stop)
		}
		resume := syscall.PtraceSyscall
		if tr.run.Hit != nil && !tr.run.Fault.Stays && len(tr.failing) == 0 {
			resume = syscall.PtraceCont // there is nothing more to see
		}
		if err := resume(tid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("going on: %w", err)
		}
	}
}

// stopped looks at a call that begins or ends.
func (tr *tracer) stopped(tid int) error {
	var e entry
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(tid), unsafe.Sizeof(e),
		uintptr(unsafe.Pointer(&e)), 0, 0); errno != 0 {
		return errno
	}
	if e.op == atExit && tr.failing[tid] {
		delete(tr.failing, tid)
		return setRegister(tid, func(regs *syscall.PtraceRegs) { regs.Rax = uint64(-int64(tr.run.Fault.Errno)) })
	}
	if e.op != atEntry {
		return nil
	}
	info, known := syscalls[e.nr]
	if !known || !info.changes && !tr.Reads {
		return nil
	}
	c := tr.call(info, e)
	if !tr.Choose(c) || !tr.run.Fault.meets(c) {
		return nil
	}
	tr.run.Calls = append(tr.run.Calls, c)
	n := len(tr.run.Calls)
	switch {
	case tr.at == 0 || n < tr.at || n > tr.at && !tr.run.Fault.Stays:
		return nil
	case n == tr.at:
		tr.run.At, tr.run.Hit = n, &c
	}
	if tr.run.Fault.Kill {
		return syscall.Kill(tr.pid, syscall.SIGKILL) // the call is not carried out any more
	}
	tr.failing[tid] = true
	return setRegister(tid, func(regs *syscall.PtraceRegs) { regs.Orig_rax = ^uint64(0) })
}

// grows reports calls that a full disk can refuse.
func (tr *tracer) grows(c Call, e entry) bool {
	switch c.Name {
	case "write", "pwrite64", "writev", "pwritev", "copy_file_range", "sendfile", "fallocate", "fsync", "fdatasync", "syncfs",
		"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "mknod", "mknodat":
		return true
	case "open", "openat", "creat":
		_, err := os.Lstat(c.On)
		return err != nil
	case "ftruncate":
		info, err := os.Stat(c.On)
		return err != nil || int64(e.args[1]) > info.Size()
	}
	return false
}

func setRegister(tid int, set func(*syscall.PtraceRegs)) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	set(&regs)
	return syscall.PtraceSetRegs(tid, &regs)
}

// call says what a call is about.
func (tr *tracer) call(info syscallInfo, e entry) Call {
	c := Call{Name: info.name, Changes: info.changes}
	switch info.about {
	case aboutPath:
		c.On = tr.path(^uint64(99), e.args[0])
	case aboutAt:
		c.On = tr.path(e.args[0], e.args[1])
	case aboutTwo:
		c.On = tr.path(^uint64(99), e.args[0]) + " " + tr.path(^uint64(99), e.args[1])
	case aboutTwoAt:
		c.On = tr.path(e.args[0], e.args[1]) + " " + tr.path(e.args[2], e.args[3])
	case aboutTo:
		c.On = tr.path(^uint64(99), e.args[1])
	case aboutToAt:
		c.On = tr.path(e.args[1], e.args[2])
	case aboutFile:
		c.On = tr.file(e.args[0])
	}
	const writing = syscall.O_WRONLY | syscall.O_RDWR | syscall.O_CREAT | syscall.O_TRUNC
	switch info.name {
	case "openat":
		c.Changes = e.args[2]&writing != 0
	case "open":
		c.Changes = e.args[1]&writing != 0
	case "close":
		c.Changes = tr.open(e.args[0])&(syscall.O_WRONLY|syscall.O_RDWR) != 0
	}
	// What is no file, or is none of a disk's, cannot be changed.
	if !strings.HasPrefix(c.On, "/") || strings.HasPrefix(c.On, "/dev/") && !strings.HasPrefix(c.On, "/dev/shm/") ||
		strings.HasPrefix(c.On, "/proc/") || strings.HasPrefix(c.On, "/sys/") {
		c.Changes = false
	}
	c.Grows = c.Changes && tr.grows(c, e)
	return c
}

// path is a path of the process, with the directory that it starts from.
func (tr *tracer) path(dir, address uint64) string {
	buf := make([]byte, 4096)
	n := 0
	// A page at a time: the next one may not be there.
	for n < len(buf) {
		piece := min(len(buf)-n, int(4096-(address+uint64(n))%4096))
		local := []unix.Iovec{{Base: &buf[n], Len: uint64(piece)}}
		got, err := unix.ProcessVMReadv(tr.pid, local,
			[]unix.RemoteIovec{{Base: uintptr(address) + uintptr(n), Len: piece}}, 0)
		if err != nil || got <= 0 {
			break
		}
		if end := strings.IndexByte(string(buf[n:n+got]), 0); end >= 0 {
			n += end
			break
		}
		n += got
	}
	name := string(buf[:n])
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	from := tr.Dir
	if int32(dir) != unix.AT_FDCWD {
		from = tr.file(dir)
	}
	return filepath.Join(from, name)
}

func (tr *tracer) file(fd uint64) string {
	on, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tr.pid, int32(fd)))
	if err != nil {
		return "?"
	}
	return strings.TrimSuffix(on, " (deleted)")
}

// open returns the flags that a descriptor was opened with.
func (tr *tracer) open(fd uint64) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tr.pid, int32(fd)))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(data), "\n") {
		if rest, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, _ := strconv.ParseInt(strings.TrimSpace(rest), 8, 64)
			return int(flags)
		}
	}
	return 0
}
