// Package failure is an error with what its reader needs beside the text: the exit status of the
// command, the code under which the manual explains it, and what to type next.
package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
)

// The exit statuses, the same for every command.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitUsage    = 2  // usage or configuration
	ExitDegraded = 3  // done, and something is not well
	ExitNoMatch  = 5  // nothing matches the request
	ExitTryAgain = 75 // a lock is held, or the cause may pass
)

// An Error is an error with its exit status. Code and Hint may be empty.
type Error struct {
	Exit int
	Code string
	Err  error
	Hint string // the next command to type
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// New is an error with its exit status. hint may be empty.
func New(exit int, err error, hint string) error { return &Error{Exit: exit, Err: err, Hint: hint} }

// Usage is an error in what somebody typed or configured. The message says all, so it has no code.
func Usage(hint, format string, args ...any) error {
	return &Error{Exit: ExitUsage, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Because gives err the code under which the manual explains it, unless the cause has a more
// specific one. It returns nil for nil, and an interrupt as it is.
func Because(code string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	e := *Explain(err)
	e.Code, e.Err = code, err
	return &e
}

// temporary is implemented by errors that know whether they may pass, and what to do next. The system's own error
// numbers have a method Temporary with another meaning, and no Hint.
type temporary interface {
	error
	Hint() string
	Temporary() bool
}

// Explain returns err with its exit status and hint: those that it carries, or those that follow
// from its kind. A full disk, or one that fails, means to try again, unless what was asked for is done.
func Explain(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Exit: ExitError, Err: err}
		t, ok := errors.AsType[temporary](err)
		if ok {
			e.Hint = t.Hint()
		}
		switch {
		case ok && t.Temporary(), errors.Is(err, context.DeadlineExceeded):
			e.Exit = ExitTryAgain
		case ok:
			e.Exit = ExitUsage // somebody has to change something
		case errors.Is(err, context.Canceled):
			e.Exit, e.Err = ExitTryAgain, errors.New("interrupted")
		}
	}
	for _, c := range causes() {
		if c.hint != "" && e.Exit != ExitDegraded && errors.Is(err, c.is) && (e.Exit != ExitTryAgain || e.Hint == "") {
			return &Error{Exit: cmp.Or(c.exit, ExitTryAgain), Code: e.Code, Err: e.Err, Hint: c.hint}
		}
	}
	return e
}

// A cause is an error without a code of its own.
type cause struct {
	is   error
	code string
	hint string // for a disk that is full, fails or is read-only: the same command may work later
	exit int    // the exit status with this hint; 0 for ExitTryAgain
}

func causes() []cause {
	const full, failing = "look at: df -h; df -i; quota", "the disk or the file server fails; look at: dmesg"
	const mounted = "a file that is mounted by itself, as into a container, cannot be replaced; mount the directory that holds it; look at: findmnt"
	return []cause{
		{is: spool.ErrLocked, code: "loop:busy"},
		{is: spool.ErrNotPrivate, code: "spool:not-private"},
		{is: syscall.ENOSPC, code: "disk:space", hint: full},
		{is: syscall.EDQUOT, code: "disk:quota", hint: full},
		{is: syscall.EROFS, code: "disk:readonly",
			hint: "the file system is mounted read-only, as after an error of the disk; look at: mount; dmesg"},
		{is: syscall.EBUSY, code: "file:mount", hint: mounted, exit: ExitUsage},
		{is: syscall.EIO, code: "disk:io", hint: failing},
		{is: syscall.ESTALE, code: "disk:io", hint: failing},
		{is: syscall.EMFILE, code: "limits:files"},
		{is: syscall.ENFILE, code: "limits:files"},
		{is: syscall.ENOMEM, code: "limits:memory"},
		{is: atomicfile.ErrNotRegular, code: "file:kind"},
		{is: syscall.EADDRINUSE, code: "listen:in-use"},
		{is: syscall.EADDRNOTAVAIL, code: "listen:address"},
		{is: fs.ErrPermission, code: "file:permission"},
	}
}

// CodeOf is the most specific code of err. It is "" for usage errors, for "no match", which is an
// answer, and for an interrupt.
func CodeOf(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	if code := publisher.Code(err); code != "" {
		return code
	}
	if code := snapshot.CodeOf(err); code != "" {
		return code
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "listen" && errors.Is(err, fs.ErrPermission) {
		return "listen:address"
	}
	for _, c := range causes() {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
