//go:build !linux

package consultest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
