package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFS syncs the whole file system of root. done is false where the system cannot do that.
func syncFS(root *os.Root) (done bool, err error) {
	d, err := root.Open(".")
	if err != nil {
		return true, err
	}
	defer d.Close()
	err = unix.Syncfs(int(d.Fd()))
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return true, err
}
