package collector

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuboard/collector/containers"
	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// evidence is what says whose processes are: /proc, the accounts of this node, and what engines say of containers.
type evidence struct {
	procRoot   string
	accounts   *accounts
	containers map[string]containers.Container
	// stat returns the owner of a folder.
	stat func(path string) (uid int64, ok bool)

	hostMounts []mount
	mountsRead bool
}

// apply sets, for each process that ps shows, what it belongs to, and the claims about whose it is. Zombies have a
// container, too. What cannot be read claims nothing: an account without rights reads what it can.
func (e *evidence) apply(list []snapshot.Process) {
	type found struct {
		snapshot.Process
		known bool
	}
	of := map[int]found{} // a process may be on several GPUs
	for i := range list {
		p := &list[i]
		if p.UID == nil {
			continue
		}
		f, ok := of[p.PID]
		if !ok && len(of) < maxLookups {
			f = found{*p, true}
			e.process(&f.Process)
			of[p.PID] = f
		}
		if f.known {
			p.Container, p.OwnUserNamespace, p.ContainerName = f.Container, f.OwnUserNamespace, f.ContainerName
			p.Pod, p.Unit, p.Job, p.Claims = f.Pod, f.Unit, f.Job, f.Claims
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
	p.Container, p.Job = group.container, group.job
	keep := func(shape, text string) string {
		if !snapshot.Fits(shape, text) {
			return ""
		}
		return text
	}
	p.Unit, p.Pod = keep("unit", group.unit), group.pod
	uidMap := e.read(p.PID, "uid_map", maxCgroupBytes)
	container := e.containers[p.Container]
	if p.Container != "" {
		p.OwnUserNamespace = mapsAlone(uidMap, *p.UID)
		p.ContainerName = keep("container name", container.Name)
		if pod := keep("pod", container.Pod); pod != "" {
			p.Pod = pod
		}
	}

	claim := func(who *account, source snapshot.Source) {
		if who != nil {
			p.Claims = append(p.Claims, snapshot.Claim{User: who.name, Source: source})
		}
	}
	if who := e.accounts.ofSubUID(*p.UID); who != nil {
		switch own := mapsAlone(uidMap, who.uid) || group.session == who.uid; {
		case own && mappedBy(uidMap, *p.UID):
			claim(who, snapshot.BySubUID)
		case p.Container != "": // anybody's whose engine has been told to use this person's uids
			claim(who, snapshot.ByRange)
		}
	}
	login, named := p.Login(), !p.BareUID() && *p.UID != 0
	if p.Container == "" && named || login != "" && p.OwnUserNamespace {
		return // the account is enough, and a service that somebody has started is nobody's
	}

	claim(e.accounts.withUID(group.session), snapshot.BySession)
	claim(e.accounts.withUID(group.slurm), snapshot.BySlurm)
	claim(e.accounts.withUID(e.loginUID(p)), snapshot.ByLoginUID)
	if container.User != "" {
		claim(e.accounts.named(container.User), snapshot.ByLabel)
	}
	if p.Container == "" {
		return
	}
	mounts := parseMounts(e.read(p.PID, "mountinfo", maxMountBytes))
	claim(e.accounts.homeOf(p.Container, mounts, e.mounts()), snapshot.ByHome)
	claim(e.folder(container.Folder), snapshot.ByFolder)
}

// mounts are those of the host, which are read once.
func (e *evidence) mounts() []mount {
	if !e.mountsRead {
		e.hostMounts, e.mountsRead = parseMounts(e.read(1, "mountinfo", maxMountBytes)), true
	}
	return e.hostMounts
}

// maxParents is how far the engine is from what runs in a container of podman, at most.
const maxParents = 64

// loginUID returns who has logged in and then started the process; 0 if that is not known. Processes of a container
// may have logged in to that container, whose uids are others. For one of podman, which has no daemon, its monitor
// is asked, which is outside. The daemons of other engines belong to whoever has started them last.
func (e *evidence) loginUID(p *snapshot.Process) int64 {
	pid := p.PID
	if p.Container != "" {
		if pid = e.monitorOf(p); pid == 0 {
			return 0
		}
	}
	if !e.ofHost(pid) {
		return 0
	}
	login := e.loginAt(pid)
	if login == e.loginAt(1) { // somebody has started all of this machine
		return 0
	}
	return login
}

func (e *evidence) loginAt(pid int) int64 {
	uid, err := strconv.ParseInt(strings.TrimSpace(e.read(pid, "loginuid", 64)), 10, 64)
	if err != nil || uid < 0 || uid >= 1<<32-1 { // the last number means that nobody has
		return 0
	}
	return uid
}

// ofHost reports whether a process is in the same pid namespace as this one.
func (e *evidence) ofHost(pid int) bool {
	for line := range strings.Lines(e.read(pid, "status", maxCgroupBytes)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(ids)) == 1
		}
	}
	return false
}

// monitorOf returns the monitor of a container of podman; 0 if there is none.
func (e *evidence) monitorOf(p *snapshot.Process) int {
	pid := p.PID
	for range maxParents {
		if pid = e.parent(pid); pid <= 1 {
			return 0
		}
		if strings.Contains(e.read(pid, "cgroup", maxCgroupBytes), "/libpod-conmon-"+p.Container) {
			return pid
		}
	}
	return 0
}

func (e *evidence) parent(pid int) int {
	stat := e.read(pid, "stat", maxStatBytes)
	fields := bytes.Fields([]byte(stat[strings.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// folder returns the owner of a folder of the host. One in somebody's home is theirs, and is not looked at.
func (e *evidence) folder(path string) *account {
	if !filepath.IsAbs(path) {
		return nil
	}
	path = filepath.Clean(path)
	if who := e.accounts.atHome(path); who != nil {
		return who
	}
	if uid, ok := e.stat(path); ok {
		return e.accounts.withUID(uid)
	}
	return nil
}

// statBudget bounds how long one reading waits for the owners of folders.
const statBudget = 500 * time.Millisecond

// A folderReader asks for the owners of folders. One on a file system that hangs is waited for once, and none is
// asked for until it has answered.
type folderReader struct{ waiting chan struct{} }

func (r *folderReader) owner(path string) (uid int64, ok bool) {
	if r.waiting != nil {
		select {
		case <-r.waiting:
		default:
			return 0, false
		}
	}
	done := make(chan struct{})
	var info os.FileInfo
	var err error
	go func() {
		defer close(done)
		info, err = os.Stat(path)
	}()
	timer := time.NewTimer(statBudget)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.waiting = done
		return 0, false
	case <-done:
	}
	if err != nil || !info.IsDir() {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int64(stat.Uid), true
}
