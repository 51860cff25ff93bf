package collector

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuboard/collector/containers"
	"gpuboard/collector/hostinfo"
	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// evidence is what says whose processes are: /proc, the accounts of this node, and what engines say of containers.
type evidence struct {
	procRoot   string
	accounts   *accounts
	containers map[string]containers.Container
	hostMounts []hostinfo.Mount // of process 1, once they are needed
}

// apply sets, for each process that ps shows, what it belongs to, and the claims about whose it is. Zombies have a
// container, too. What cannot be read claims nothing: an account without rights reads what it can.
func (e *evidence) apply(list []snapshot.Process) {
	known := map[int]*snapshot.Process{}
	for i := range list {
		p := &list[i]
		same := known[p.PID] // on another GPU
		switch {
		case p.UID == nil:
		case same != nil:
			p.Container, p.OwnUserNamespace, p.ContainerName = same.Container, same.OwnUserNamespace, same.ContainerName
			p.Pod, p.Unit, p.Job, p.Claims = same.Pod, same.Unit, same.Job, same.Claims
		case len(known) < maxLookups:
			known[p.PID] = p
			e.process(p)
		}
	}
}

func (e *evidence) read(pid int, file string, limit int64) string {
	text, _ := atomicfile.Read(filepath.Join(e.procRoot, strconv.Itoa(pid), file), limit)
	if int64(len(text)) == limit {
		return "" // half of a path is another one
	}
	return string(text)
}

// process sets the fields of one process.
func (e *evidence) process(p *snapshot.Process) {
	group := parseCgroup(e.read(p.PID, "cgroup", maxCgroupBytes))
	container := e.containers[group.container]
	p.Container, p.ContainerName = group.container, container.Name
	p.Pod, p.Unit, p.Job = cmp.Or(container.Pod, group.pod), group.unit, group.job
	namespace := parseUIDMap(e.read(p.PID, "uid_map", maxCgroupBytes))
	alone := namespace.alone()
	p.OwnUserNamespace = p.Container != "" && slices.Contains(alone, strconv.FormatInt(*p.UID, 10))

	whose := e.accounts
	claim := func(who *account, source snapshot.Source) {
		if who != nil {
			p.Claims = append(p.Claims, snapshot.Claim{User: who.name, Source: source})
		}
	}
	starters := append(alone, group.session)
	for _, uid := range starters {
		whose.askRange(uid)
	}
	if who := whose.ofSubUID(*p.UID); who != nil {
		switch {
		case slices.Contains(starters, who.uid) && namespace.maps(*p.UID):
			claim(who, snapshot.BySubUID)
		case p.Container != "": // anybody's whose engine has been told to use this person's uids
			claim(who, snapshot.ByRange)
		}
	}
	login, named := p.Login(), !p.BareUID() && *p.UID != 0
	if p.Container == "" && named || login != "" && p.OwnUserNamespace {
		return // the account is enough, and a service that somebody has started is nobody's
	}

	claim(whose.find(byUID, group.session), snapshot.BySession)
	claim(whose.find(byUID, group.slurm), snapshot.BySlurm)
	claim(whose.find(byUID, e.loginUID(p)), snapshot.ByLoginUID)
	claim(whose.find(byName, container.User), snapshot.ByLabel)
	if p.Container == "" {
		return
	}
	if e.hostMounts == nil {
		e.hostMounts = e.mounts(1)
	}
	claim(whose.homeOf(p.Container, e.mounts(p.PID), e.hostMounts), snapshot.ByHome)
	claim(whose.ofFolder(container.Folder), snapshot.ByFolder)
}

const (
	// maxParents is how far the engine is from what runs in a container of podman, at most.
	maxParents = 64
	// noLogin is what the kernel shows where nobody has logged in.
	noLogin = "4294967295"
)

// loginUID returns who has logged in and then started the process; "" if that is not known. Processes of a container
// may have logged in to that container, whose uids are others. For one of podman, which has no daemon, its monitor
// is asked, which is outside. The daemons of other engines belong to whoever has started them last.
func (e *evidence) loginUID(p *snapshot.Process) string {
	pid := p.PID
	if p.Container != "" {
		pid = e.monitorOf(p)
	}
	login := e.loginAt(pid)
	// In another pid namespace it has several pids. And if process 1 has one, somebody has started all of this machine.
	if len(e.status(pid, "NSpid")) != 1 || login == noLogin || login == e.loginAt(1) {
		return ""
	}
	return login
}

func (e *evidence) loginAt(pid int) string { return strings.TrimSpace(e.read(pid, "loginuid", 64)) }

// status returns the words of a line of /proc/PID/status.
func (e *evidence) status(pid int, key string) []string {
	for line := range strings.Lines(e.read(pid, "status", maxCgroupBytes)) {
		if words, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Fields(words)
		}
	}
	return nil
}

// monitorOf returns the monitor of a container of podman; 0 if there is none.
func (e *evidence) monitorOf(p *snapshot.Process) int {
	pid := p.PID
	for range maxParents {
		if pid, _ = strconv.Atoi(strings.Join(e.status(pid, "PPid"), "")); pid <= 1 {
			return 0
		}
		if strings.Contains(e.read(pid, "cgroup", maxCgroupBytes), "/libpod-conmon-"+p.Container) {
			return pid
		}
	}
	return 0
}
