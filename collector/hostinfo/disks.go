package hostinfo

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpuboard/internal/snapshot"
)

// A Mount is a line of /proc/PID/mountinfo: Root is the directory of the file system that is seen at Point.
type Mount struct {
	Device       string // major:minor
	Root, Point  string
	Kind, Source string
	Writable     bool
}

// Mounts reads mountinfo: "36 35 98:0 /sub /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw".
func Mounts(text string) (list []Mount) {
	writable := func(options string) bool { return slices.Contains(strings.Split(options, ","), "rw") }
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimRight(line, "\n"), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if ok && len(left) >= 6 && len(right) >= 3 {
			list = append(list, Mount{Device: left[2], Root: octal(left[3]), Point: octal(left[4]), Kind: right[0],
				Source: octal(right[1]), Writable: writable(left[5]) && writable(right[2])})
		}
	}
	return list
}

// local reports whether a file system is on a local disk. statfs of any other may block
// forever if its server is gone.
func local(kind string) bool {
	return slices.Contains([]string{
		"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "reiser4", "bcachefs", "ufs",
		"nilfs2", "ntfs", "ntfs3", "vfat", "exfat", "hfsplus",
	}, kind)
}

// localMounts keeps one mount per device, the one with the shortest path: the others are bind
// mounts, overlays of containers and subvolumes.
func localMounts(all []Mount) (list []Mount) {
	for _, m := range all {
		if !local(m.Kind) || hidden(m.Point) {
			continue
		}
		same := func(other Mount) bool {
			return other.Device == m.Device || other.Source == m.Source && strings.HasPrefix(m.Source, "/dev/")
		}
		switch i := slices.IndexFunc(list, same); {
		case i < 0:
			list = append(list, m)
		case len(m.Point) < len(list[i].Point):
			list[i] = m
		}
	}
	slices.SortStableFunc(list, func(a, b Mount) int { return strings.Compare(a.Point, b.Point) })
	return list
}

// hidden reports whether a mount is not meant for users' files.
func hidden(point string) bool {
	prefixes := []string{"/snap/", "/var/snap/", "/var/lib/snapd/", "/var/lib/docker/", "/run/", "/proc/", "/sys/",
		"/dev/", "/boot", "/etc/"}
	return strings.Contains(point, "/containers/storage/") || strings.Contains(point, "/kubelet/pods/") ||
		slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(point, prefix) })
}

// octal decodes the characters that the kernel escapes in paths.
func octal(s string) string {
	return strings.NewReplacer(`\011`, "\t", `\012`, "\n", `\040`, " ", `\043`, "#", `\134`, `\`).Replace(s)
}

func (r *reader) disks(mounts []Mount) {
	more, failed, first := 0, 0, ""
	for _, m := range mounts {
		if len(r.info.Node.Disks) >= snapshot.MaxDisks {
			more++
			continue
		}
		total, used, err := r.roots.Usage(m.Point)
		if err != nil {
			if failed++; failed == 1 {
				first = err.Error()
			}
			continue
		}
		if total > 0 {
			r.info.Node.Disks = append(r.info.Node.Disks, snapshot.Disk{
				Mount: snapshot.Text(path.Clean(m.Point), snapshot.MaxNameBytes), Total: total, Used: used})
		}
	}
	if failed > 0 {
		r.problem("disks", fmt.Sprintf("%d of them: %s", failed, first))
	}
	r.limit("disks", more, snapshot.MaxDisks)
}

// statfs returns MiB. As in df, blocks reserved for root are neither used nor free.
func statfs(point string) (total, used int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(point, &st); err != nil {
		return 0, 0, fmt.Errorf("measuring %s: %w", point, err)
	}
	block := uint64(max(st.Bsize, 1))
	if st.Bfree > st.Blocks {
		return 0, 0, fmt.Errorf("measuring %s: more is free than there is", point)
	}
	return int64(st.Blocks * block >> 20), int64((st.Blocks - st.Bfree) * block >> 20), nil
}
