package collector

import (
	"strings"

	"gpuboard/internal/snapshot"
)

const maxCgroupBytes = 16 << 10

// A cgroup is what /proc/PID/cgroup tells of a process.
type cgroup struct {
	// container is the short id of its container, "" for a process of the host. pod is the uid of its pod.
	container, pod string
	// unit is its service of systemd, and job the id of its Slurm job.
	unit, job string
	// session and slurm are the uids whose session and whose job it belongs to.
	session, slurm string
}

var (
	// Docker, containerd, CRI-O and podman name a cgroup after 64 hex digits.
	hexContainer = snapshot.Pattern(`(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
	lxcContainer = snapshot.Pattern(`/lxc(?:\.payload\.|/)([A-Za-z0-9][A-Za-z0-9_.-]{0,62})(?:/|$)`)
	// The cgroupfs driver of Kubernetes writes hyphens, and that of systemd underscores.
	podUID = snapshot.Pattern(`/kubepods[./].*pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12})(?:\.slice)?/`)
	// These count at the beginning alone. What follows may be the cgroups of a container, which has sessions and
	// uids of its own, or those of an account, which can name them as it likes.
	userSlice = snapshot.Pattern(`^/user\.slice/user-([0-9]{1,10})\.slice(?:/|$)`)
	slurmUser = snapshot.Pattern(`^/slurm(?:_[^/]+)?/uid_([0-9]{1,10})/job_([0-9]{1,10})(?:/|$)`)
	slurmJob  = snapshot.Pattern(`^/system\.slice/(?:[^/]+_)?slurmstepd\.scope/job_([0-9]{1,10})(?:/|$)`)
	service   = snapshot.Pattern(`^/system\.slice/(?:[^/]+\.slice/)*([0-9A-Za-z:_.\\@-]{1,100}\.service)(?:/|$)`)
)

// parseCgroup parses /proc/PID/cgroup: of version 2 one line, of version 1 a line for each hierarchy. For a
// process in a container only the lines count that say so. The others may name whoever has started the engine.
func parseCgroup(text string) cgroup {
	var g cgroup
	var paths, contained []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, path, ok := strings.Cut(strings.TrimSuffix(rest, " (deleted)"), ":") // of a zombie
		if !ok {
			continue
		}
		for strings.HasPrefix(path, "/../") { // from within another cgroup namespace
			path = path[len("/.."):]
		}
		paths = append(paths, path)
		if id := containerOf(path); id != "" {
			contained = append(contained, path)
			if g.container == "" {
				g.container = id
			}
		}
	}
	if g.container != "" {
		paths = contained
	}
	for _, path := range paths {
		g.add(path)
	}
	return g
}

// containerOf returns the short id of the container of a cgroup. The cheap checks come first, because regular
// expressions are slow and rarely match.
func containerOf(path string) string {
	if len(path) >= 64 {
		if m := hexContainer().FindStringSubmatch(path); m != nil {
			return m[1][:12]
		}
	}
	if strings.Contains(path, "/lxc") {
		if m := lxcContainer().FindStringSubmatch(path); m != nil {
			return snapshot.Text(m[1], snapshot.MaxNameBytes)
		}
	}
	return ""
}

// add reads one cgroup.
func (g *cgroup) add(path string) {
	if m := userSlice().FindStringSubmatch(path); m != nil {
		g.session = m[1]
	}
	if m := slurmUser().FindStringSubmatch(path); m != nil {
		g.slurm, g.job = m[1], m[2]
	}
	if m := slurmJob().FindStringSubmatch(path); m != nil {
		g.job = m[1]
	}
	if m := service().FindStringSubmatch(path); m != nil {
		g.unit = m[1]
	}
	if m := podUID().FindStringSubmatch(path); m != nil {
		g.pod = strings.ReplaceAll(m[1], "_", "-")
	}
}
