package collector

import (
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxMountBytes = 1 << 20
	maxMounts     = 2048
)

// A mount is a line of mountinfo: root is the directory of the file system that is seen at point.
type mount struct {
	device, root, point string
	writable            bool
}

// parseMounts parses /proc/PID/mountinfo.
func parseMounts(text string) []mount {
	var list []mount
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimRight(line, "\n"), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 || len(list) == maxMounts {
			continue
		}
		writable := func(options string) bool { return slices.Contains(strings.Split(options, ","), "rw") }
		list = append(list, mount{
			device: left[2], root: unescape(left[3]), point: unescape(left[4]),
			writable: writable(left[5]) && writable(right[2]),
		})
	}
	return list
}

// unescape decodes the characters that the kernel escapes in paths.
func unescape(path string) string {
	return strings.NewReplacer(`\011`, "\t", `\012`, "\n", `\040`, " ", `\043`, "#", `\134`, `\`).Replace(path)
}

// homeOf returns the one person whose home, or a part of it, a container can write; nil for nobody, or several. A
// mount of the container is at a path of the host if the host has mounted the same device with that directory.
func (a *accounts) homeOf(id string, container, host []mount) *account {
	var found *account
	var paths []string
	for _, m := range container {
		// What the engine itself keeps for the container may lie in somebody's home.
		if m.point == "/" || strings.Contains(m.root, id) || strings.HasSuffix(m.root, "/_data") {
			continue
		}
		for _, h := range host {
			if h.device != m.device || !within(m.root, h.root) {
				continue
			}
			path := filepath.Join(h.point, strings.TrimPrefix(m.root, h.root))
			paths = append(paths, path)
			owner := a.atHome(path)
			switch {
			case owner == nil || !m.writable:
			case found != nil && found.uid != owner.uid:
				return nil
			default:
				found = owner
			}
		}
	}
	// Below a directory with the homes of all, only those may be seen that are mounted at the moment.
	shared := func(path string) bool { return found != nil && path != found.home && within(found.home, path) }
	if slices.ContainsFunc(paths, shared) {
		return nil
	}
	return found
}
