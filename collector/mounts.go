package collector

import (
	"path/filepath"
	"slices"
	"strings"

	"gpuboard/collector/hostinfo"
)

const (
	maxMountBytes = 1 << 20
	maxMounts     = 2048
)

// mounts returns what a process sees mounted.
func (e *evidence) mounts(pid int) []hostinfo.Mount {
	all := hostinfo.Mounts(e.read(pid, "mountinfo", maxMountBytes))
	return all[:min(len(all), maxMounts)]
}

// homeOf returns the one person whose home, or a part of it, a container can write; nil for nobody, or several. A
// mount of the container is at a path of the host if the host has mounted the same device with that directory.
func (a *accounts) homeOf(id string, container, host []hostinfo.Mount) *account {
	var found *account
	var paths []string
	for _, m := range container {
		// What the engine itself keeps for the container may lie in somebody's home.
		if m.Point == "/" || strings.Contains(m.Root, id) || strings.HasSuffix(m.Root, "/_data") {
			continue
		}
		for _, h := range host {
			if h.Device != m.Device || !within(m.Root, h.Root) {
				continue
			}
			path := filepath.Join(h.Point, strings.TrimPrefix(m.Root, h.Root))
			paths = append(paths, path)
			owner := a.atHome(path)
			switch {
			case owner == nil || !m.Writable:
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
