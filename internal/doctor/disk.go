package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"gpuboard/collector/hostinfo"
)

// A fileSystem is where a path lies; its numbers are zero where they are not known.
type fileSystem struct {
	size, free         uint64 // bytes
	inodes, inodesFree uint64
}

// fileSystemOf asks for the file system of a path. One without inodes has enough free.
func fileSystemOf(path string) (fileSystem, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return fileSystem{}, fmt.Errorf("asking for the free space of %s: %w", path, err)
	}
	fs := fileSystem{uint64(s.Blocks) * uint64(s.Bsize), uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Files),
		uint64(s.Ffree)}
	if s.Files == 0 {
		fs.inodesFree = 1 << 40
	}
	return fs, nil
}

// isMounted reports whether something is mounted exactly at a path. It may come from the
// same disk, so device numbers do not show it.
func (d *examination) isMounted(path string) bool {
	if d.mounts == nil {
		d.mounts = map[string]bool{}
		text, _ := os.ReadFile(filepath.Join(d.proc, "self", "mountinfo")) // Linux has it
		for _, m := range hostinfo.Mounts(string(text)) {
			d.mounts[m.Point] = true
		}
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		parent, err = filepath.Abs(parent)
	}
	return err == nil && d.mounts[filepath.Join(parent, filepath.Base(path))]
}

// ownerUID is who owns a file.
func ownerUID(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
