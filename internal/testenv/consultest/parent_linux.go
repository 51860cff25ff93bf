package consultest

import "syscall"

// dieWithParent ends an agent whose test was killed before it could do that.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
