package cli

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/publisher"
	"gpuboard/sitegen"
)

// because gives an error the stable code under which docs/troubleshooting.md
// explains it, for when it carries none that says more.
func because(code string, err error) error {
	if err == nil {
		return nil
	}
	return &reasoned{code, err}
}

type reasoned struct {
	code string
	err  error
}

func (r *reasoned) Error() string { return r.err.Error() }
func (r *reasoned) Unwrap() error { return r.err }

// A cause is what the system and the rooms say without a code of their own.
type cause struct {
	is   error
	code string
	// hint is for what a disk says that is full, failing or locked against
	// writing: nothing is wrong with the command, and the same one may work later.
	hint string
}

func causes() []cause {
	const full, failing = "look at: df -h; df -i; quota", "the disk or the file server fails; look at: dmesg"
	return []cause{
		{spool.ErrLocked, "loop:busy", ""}, {spool.ErrNotPrivate, "spool:not-private", ""}, {sitegen.ErrLocked, "state:in-use", ""},
		{syscall.ENOSPC, "disk:space", full}, {syscall.EDQUOT, "disk:quota", full},
		{syscall.EROFS, "disk:readonly", "the file system is mounted read-only, as after an error of the disk; look at: mount; dmesg"},
		{syscall.EIO, "disk:io", failing}, {syscall.ESTALE, "disk:io", failing},
		{syscall.EMFILE, "limits:files", ""}, {syscall.ENFILE, "limits:files", ""}, {syscall.ENOMEM, "limits:memory", ""},
		{atomicfile.ErrNotRegular, "file:kind", ""},
		{syscall.EADDRINUSE, "listen:in-use", ""}, {syscall.EADDRNOTAVAIL, "listen:address", ""},
		{fs.ErrPermission, "file:permission", ""},
	}
}

// passes recognises an error that may pass by itself.
func passes(err error) (hint string, passing bool) {
	for _, c := range causes() {
		if c.hint != "" && errors.Is(err, c.is) {
			return c.hint, true
		}
	}
	return "", false
}

// reason is the code of an error: the one that says most. It is "" for what was
// typed wrong, which the message says, for "no match", which is an answer, and
// for an end that somebody asked for.
func reason(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	if code := publisher.Code(err); code != "" {
		return code
	}
	if code := snapshot.CodeOf(err); code != "" {
		return code
	}
	for _, c := range causes() {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	var r *reasoned
	if errors.As(err, &r) {
		return r.code
	}
	return ""
}

// coded is an error's message with its code behind it, as every line of a log
// has them that says what is not well.
func coded(message, code string) string {
	if code == "" {
		return message
	}
	return message + " [" + code + "]"
}
