package cli

import (
	"fmt"
	"os"
	"syscall"
)

// diskFree is what is left for this user where a path lies, in bytes and in
// inodes; file systems without inodes count as having enough.
func diskFree(path string) (bytes, inodes uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("asking for the free space of %s: %w", path, err)
	}
	inodes = uint64(s.Ffree)
	if s.Files == 0 {
		inodes = 1 << 40
	}
	return uint64(s.Bavail) * uint64(s.Bsize), inodes, nil
}

// deviceOf is the file system that a path lies on; a link is not followed.
func deviceOf(path string) (uint64, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(stat.Dev), true
}

// ownerUID is who owns a file; -1 where that is not known.
func ownerUID(info os.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
