package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// diskSize is how much fits on the file system where a path lies, in bytes and in
// inodes; zero where that is not known.
func diskSize(path string) (bytes, inodes uint64) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0
	}
	return uint64(s.Blocks) * uint64(s.Bsize), uint64(s.Files)
}

// isTmpfs reports whether a path lies in memory.
func isTmpfs(path string) bool {
	const magic = 0x01021994 // TMPFS_MAGIC of statfs(2)
	var s syscall.Statfs_t
	return syscall.Statfs(path, &s) == nil && int64(s.Type) == magic
}

// isMounted reports whether something is mounted exactly at a path. Numbers of
// devices do not tell: a file that is mounted may come from the same disk, and
// in an overlay files and directories have different ones.
func (d *examination) isMounted(path string) bool {
	if d.mounts == nil {
		d.mounts = map[string]bool{}
		text, _ := os.ReadFile(filepath.Join(d.proc, "self", "mountinfo")) // Linux has it
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 4 {
				d.mounts[mountEscapes.Replace(fields[4])] = true
			}
		}
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		parent, err = filepath.Abs(parent)
	}
	return err == nil && d.mounts[filepath.Join(parent, filepath.Base(path))]
}

// mountEscapes are the four characters that the kernel writes as numbers there.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// ownerUID is who owns a file; -1 where that is not known.
func ownerUID(info os.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
