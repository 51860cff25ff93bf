//go:build !linux

package atomicfile

import "os"

// syncFS is not available here: files are synced one by one.
func syncFS(*os.Root) (done bool, err error) { return false, nil }
