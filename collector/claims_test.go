package collector

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/collector/containers"
	"gpuboard/internal/snapshot"
)

// A node with mira (1001), kai (1002) and lea (1003), who is in a directory service, and services of several kinds.
const (
	passwd = `root:x:0:0:root:/root:/bin/bash
ollama:x:998:998::/usr/share/ollama:/bin/false
mira:x:1001:1001:Mira:/home/mira:/bin/bash
kai:x:1002:1002:Kai:/home/kai:/bin/bash
twin:x:1002:1002:the same as kai:/home/twin:/bin/bash
lab:x:1004:1004:a home that is none:/home:/bin/bash
deep:x:1005:1005::/srv/lab/deep:/bin/bash
outer:x:1006:1006::/srv/lab:/bin/bash
evil;sh:x:1007:1007::/home/evil:/bin/bash
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
a broken line
short:x:1010
`
	subuid = `root:1000000:1000000000
mira:100000:65536
1002:165536:65536
dockremap:231072:65536
containers:300000:65536
both:400000:65536
kai:500000:65536
mira:500000:65536
mira:x:65536
mira:-5:65536
mira:600000
`
	hostMounts = `22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 8:3 / /home rw,relatime shared:2 - ext4 /dev/sda3 rw
24 22 0:50 /lea /home/lea rw shared:3 - nfs4 nas:/export/lea rw
25 22 0:60 /@data /data rw shared:4 - btrfs /dev/sdb rw
26 22 0:99 / /home/mira/docker/overlay2/x/merged rw - overlay overlay rw
`
)

var (
	boxA = strings.Repeat("a1b2c3d4", 8)
	boxB = strings.Repeat("b", 64)
)

const (
	mapHost     = "         0          0 4294967295\n"
	mapMira     = "0 1001 1\n1 100000 65536\n"
	mapRemapped = "0 100000 65536\n"
	unset       = "4294967295"
)

// A nodeProcess is a process of which the truth is known.
type nodeProcess struct {
	name   string
	truth  string // who runs it; "" for nobody that a person is
	want   string // who it is said to be: "mira", "mira?" or what is known of an unknown user
	by     snapshot.Source
	user   string
	uid    int64
	cgroup string
	uidMap string // mapHost if ""
	login  string // loginuid; unset if ""
	inner  bool   // in another pid namespace
	mounts string
	box    containers.Container
	owner  int64  // of the box's folder
	conmon string // loginuid of podman's monitor; none if ""
	first  string // loginuid of process 1; unset if ""
}

func bind(device, root, options string) string {
	return fmt.Sprintf("30 1 0:99 / / rw - overlay overlay rw\n31 30 %s %s /work %s - ext4 /dev/x rw\n", device, root, options)
}

func nodeProcesses() []nodeProcess {
	docker2 := "0::/system.slice/docker-" + boxA + ".scope\n"
	docker1 := "12:devices:/docker/" + boxA + "\n1:name=systemd:/docker/" + boxA + "\n"
	podman := "0::/machine.slice/libpod-" + boxA + ".scope/container\n"
	rootless := "0::/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-" + boxA + ".scope/container\n"
	session := func(uid int) string { return fmt.Sprintf("0::/user.slice/user-%d.slice/session-3.scope\n", uid) }
	label := func(user string) containers.Container { return containers.Container{User: user} }
	folder := func(path string) containers.Container { return containers.Container{Folder: path} }
	in := "unknown (root in container a1b2c3d4a1b2)"
	pod := "1a2b3c4d-0000-4000-8000-00000000000f"

	return []nodeProcess{
		// Accounts.
		{name: "an account", truth: "mira", want: "mira", by: "owner", user: "mira", uid: 1001, cgroup: session(1001)},
		{name: "after su, in another's session", truth: "kai", want: "kai", by: "owner", user: "kai", uid: 1002, cgroup: session(1001), login: "1001"},
		{name: "one of a directory", truth: "lea", want: "lea", by: "owner", user: "lea", uid: 1003, cgroup: session(1003)},
		{name: "apptainer", truth: "mira", want: "mira", by: "owner", user: "mira", uid: 1001, uidMap: "1001 1001 1\n", inner: true, cgroup: session(1001)},
		{name: "a service of the account's own", truth: "mira", want: "mira", by: "owner", user: "mira", uid: 1001, cgroup: "0::/user.slice/user-1001.slice/user@1001.service/app.slice/jupyter.service\n"},
		{name: "a system service with an ordinary account", truth: "mira", want: "mira", by: "owner", user: "mira", uid: 1001, cgroup: "0::/system.slice/notebook.service\n"},
		{name: "an account with a uid of another's range", truth: "", want: "unknown (far)", by: "owner", user: "far", uid: 100500, uidMap: mapMira, cgroup: session(1001)},
		{name: "the same, on the host itself", truth: "far", want: "far", by: "owner", user: "far", uid: 100500, cgroup: session(100500)},

		// Rootless containers.
		{name: "rootless podman, its root", truth: "mira", want: "mira", by: "userns", user: "mira", uid: 1001, uidMap: mapMira, cgroup: rootless, inner: true},
		{name: "rootless podman, another uid", truth: "mira", want: "mira", by: "subuid", user: "100999", uid: 100999, uidMap: mapMira, cgroup: rootless, inner: true},
		{name: "rootless docker", truth: "mira", want: "mira", by: "subuid", user: "100005", uid: 100005, uidMap: mapMira, inner: true,
			cgroup: "0::/user.slice/user-1001.slice/user@1001.service/user.slice/docker-" + boxA + ".scope\n"},
		{name: "rootless, of version 1", truth: "mira", want: "mira", by: "subuid", user: "100005", uid: 100005, uidMap: mapMira, inner: true,
			cgroup: "4:memory:/libpod_parent/libpod-" + boxA + "\n1:name=systemd:/user.slice/user-1001.slice/session-3.scope\n"},
		{name: "a range by number", truth: "kai", want: "kai", by: "subuid", user: "165540", uid: 165540, uidMap: "0 1002 1\n1 165536 65536\n", inner: true,
			cgroup: "0::/user.slice/user-1002.slice/user@1002.service/user.slice/libpod-" + boxA + ".scope\n"},
		{name: "a user's LXC", truth: "mira", want: "mira", by: "subuid", user: "100000", uid: 100000, uidMap: mapRemapped, inner: true,
			cgroup: "0::/user.slice/user-1001.slice/session-3.scope/lxc.payload.web\n"},
		{name: "rootless, and a map that cannot be read", truth: "mira", want: "mira", by: "session", user: "100999", uid: 100999, uidMap: "-", cgroup: rootless, inner: true},
		{name: "rootless, a session within", truth: "mira", want: "mira", by: "subuid", user: "101001", uid: 101001, uidMap: mapMira, inner: true,
			cgroup: "0::/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-" + boxA + ".scope/container/user.slice/user-1002.slice/session-1.scope\n"},
		{name: "a fakeroot without a container", truth: "mira", want: "mira", by: "subuid", user: "100001", uid: 100001, uidMap: mapMira, cgroup: session(1001)},
		{name: "a range of two", truth: "", want: "unknown (uid 500001 in container a1b2c3d4a1b2)", user: "500001", uid: 500001, uidMap: "0 500000 65536\n", cgroup: docker2, inner: true},
		{name: "a daemon that maps all into one range", truth: "kai", want: "mira?", by: "range", user: "100000", uid: 100000, uidMap: mapRemapped, cgroup: docker2, inner: true},
		{name: "docker's own range", truth: "kai", want: "unknown (uid 231072 in container a1b2c3d4a1b2)", user: "231072", uid: 231072, uidMap: "0 231072 65536\n", cgroup: docker2, inner: true},
		{name: "the range of podman's root", truth: "kai", want: "unknown (uid 300001 in container a1b2c3d4a1b2)", user: "300001", uid: 300001, uidMap: "0 300000 65536\n", cgroup: podman, inner: true},
		{name: "LXD", truth: "", want: "unknown (uid 1000000 in container web)", user: "1000000", uid: 1000000, uidMap: "0 1000000 1000000000\n", inner: true, cgroup: "0::/lxc.payload.web\n"},
		{name: "a session in LXC", truth: "", want: "unknown (uid 1001001 in container web)", user: "1001001", uid: 1001001, uidMap: "0 1000000 1000000000\n", inner: true, login: "1001",
			cgroup: "0::/lxc.payload.web/user.slice/user-1001.slice/session-1.scope\n"},
		{name: "root in a privileged LXC, logged in there", truth: "", want: "unknown (root in container web)", user: "root", uid: 0, inner: true, login: "1001",
			cgroup: "1:name=systemd:/lxc/web/user.slice/user-1001.slice/session-1.scope\n"},

		// Sessions.
		{name: "sudo", truth: "mira", want: "mira", by: "session", user: "root", uid: 0, cgroup: session(1001), login: "1001"},
		{name: "sudo, of version 1", truth: "mira", want: "mira", by: "session", user: "root", uid: 0, login: "1001",
			cgroup: "9:pids:/user.slice/user-1001.slice/session-3.scope\n1:name=systemd:/user.slice/user-1001.slice/session-3.scope\n"},
		{name: "sudo, hybrid", truth: "mira", want: "mira", by: "session", user: "root", uid: 0,
			cgroup: "9:pids:/\n1:name=systemd:/user.slice/user-1001.slice/session-3.scope\n0::/user.slice/user-1001.slice/session-3.scope\n"},
		{name: "systemd-run --user", truth: "mira", want: "mira", by: "owner", user: "mira", uid: 1001, cgroup: "0::/user.slice/user-1001.slice/user@1001.service/app.slice/run-u1.scope\n"},
		{name: "sudo without a session", truth: "kai", want: "kai", by: "loginuid", user: "root", uid: 0, login: "1002", cgroup: "0::/\n"},
		{name: "tmux as root", truth: "kai", want: "kai", by: "loginuid", user: "root", uid: 0, login: "1002", cgroup: "0::/init.scope\n"},
		{name: "a session and a login of two", truth: "", want: "unknown (root)", by: "session", user: "root", uid: 0, login: "1002", cgroup: session(1001)},
		{name: "a root's login", truth: "", want: "unknown (root)", user: "root", uid: 0, login: "0", cgroup: session(0)},
		{name: "a login of a uid that nobody has", truth: "", want: "unknown (root)", user: "root", uid: 0, login: "4242", cgroup: session(4242)},
		{name: "a login of a service", truth: "", want: "unknown (root)", user: "root", uid: 0, login: "998", cgroup: session(998)},
		{name: "a login of nobody", truth: "", want: "unknown (root)", user: "root", uid: 0, login: "65534"},
		{name: "a login of a name that is no login's", truth: "", want: "unknown (root)", user: "root", uid: 0, login: "1007"},
		{name: "seen from within a container", truth: "mira", want: "mira", by: "session", user: "root", uid: 0, cgroup: "0::/../../user.slice/user-1001.slice/session-3.scope\n"},
		{name: "a slice in somebody else's", truth: "mira", want: "mira", by: "session", user: "root", uid: 0, cgroup: "0::/user.slice/user-1001.slice/user@1001.service/user.slice/user-1002.slice/x.scope\n"},
		{name: "a slice that only looks like one", truth: "", want: "unknown (root)", user: "root", uid: 0, cgroup: "0::/evil/user.slice/user-1001.slice/session-3.scope\n"},
		{name: "a uid without end", truth: "", want: "unknown (root)", user: "root", uid: 0, cgroup: "0::/user.slice/user-99999999999999999999.slice/session-3.scope\n", login: "99999999999999999999"},
		{name: "a machine that mira has started", truth: "", want: "unknown (root)", user: "root", uid: 0, login: "1001", first: "1001"},
		{name: "a nspawn container, logged in there", truth: "", want: "unknown (root)", user: "root", uid: 0, login: "1001", inner: true,
			cgroup: "0::/machine.slice/systemd-nspawn@web.service/payload/user.slice/user-1001.slice/session-1.scope\n"},

		// Services.
		{name: "a unit", truth: "", want: "unknown (ollama.service)", user: "ollama", uid: 998, cgroup: "0::/system.slice/ollama.service\n"},
		{name: "a unit of root, of version 1", truth: "", want: "unknown (vllm@1.service)", user: "root", uid: 0, cgroup: "1:name=systemd:/system.slice/system-vllm.slice/vllm@1.service\n"},
		{name: "a service that somebody has started", truth: "", want: "unknown (ollama)", user: "ollama", uid: 998, cgroup: session(1001), login: "1001"},

		// Slurm.
		{name: "slurm of version 1", truth: "mira", want: "mira", by: "slurm", user: "root", uid: 0, cgroup: "4:devices:/slurm/uid_1001/job_42/step_0/task_0\n"},
		{name: "slurm with several nodes", truth: "mira", want: "mira", by: "slurm", user: "root", uid: 0, cgroup: "4:devices:/slurm_node1/uid_1001/job_42/step_batch\n"},
		{name: "slurm of version 2", truth: "mira", want: "mira", by: "owner", user: "mira", uid: 1001, cgroup: "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n"},
		{name: "slurm of version 2, root", truth: "mira", want: "unknown (root in Slurm job 42)", user: "root", uid: 0, cgroup: "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n"},
		{name: "a slurmd that kai has started", truth: "mira", want: "unknown (root in Slurm job 42)", by: "slurm", user: "root", uid: 0, login: "1002", cgroup: "4:devices:/slurm/uid_1001/job_42/step_0\n"},

		// Containers of root.
		{name: "docker of version 2", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true},
		{name: "docker of version 1", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker1, inner: true},
		{name: "a dockerd that mira has started", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, login: "1001"},
		{name: "the same, hybrid", truth: "kai", want: in, user: "root", uid: 0, inner: true, login: "1001",
			cgroup: docker1 + "0::/user.slice/user-1001.slice/session-3.scope\n"},
		{name: "docker with the pids of the host", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, login: "1001"},
		{name: "containerd of Kubernetes", truth: "kai", want: "unknown (root in pod " + pod + ")", user: "root", uid: 0, inner: true,
			cgroup: "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-" + boxA + ".scope\n"},
		{name: "Kubernetes with cgroupfs", truth: "kai", want: "unknown (root in pod lab/train-0)", user: "root", uid: 0, inner: true,
			cgroup: "4:memory:/kubepods/burstable/pod" + pod + "/" + boxA + "\n", box: containers.Container{Pod: "lab/train-0"}},
		{name: "an ordinary uid", truth: "kai", want: "mira?", by: "uid", user: "mira", uid: 1001, cgroup: docker2, inner: true},
		{name: "podman by sudo", truth: "mira", want: "mira", by: "loginuid", user: "root", uid: 0, cgroup: podman, inner: true, conmon: "1001", login: "1001"},
		{name: "podman of a unit, logged in there", truth: "", want: in, user: "root", uid: 0, cgroup: podman, inner: true, conmon: unset, login: "1001"},
		{name: "podman, and a label of another", truth: "", want: in, by: "loginuid", user: "root", uid: 0, cgroup: podman, inner: true, conmon: "1001", box: label("kai")},
		{name: "a name of its own", truth: "kai", want: "unknown (root in container train_1)", user: "root", uid: 0, cgroup: docker2, inner: true, box: containers.Container{Name: "train_1"}},

		// Labels.
		{name: "a label", truth: "mira", want: "mira", by: "label", user: "root", uid: 0, cgroup: docker2, inner: true, box: label("mira")},
		{name: "a label, and another's uid", truth: "mira", want: "mira", by: "label", user: "kai", uid: 1002, cgroup: docker2, inner: true, box: label("mira")},
		{name: "a label of nobody", truth: "", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, box: label("stranger")},
		{name: "a label of root", truth: "", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, box: label("root")},
		{name: "a label of a service", truth: "", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, box: label("ollama")},
		{name: "a label that is no login", truth: "", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, box: label("evil;sh")},
		{name: "somebody else's container in one's own slice", truth: "kai", want: "unknown (kai in container a1b2c3d4a1b2)", by: "session", user: "kai", uid: 1002,
			cgroup: "0::/user.slice/user-1002.slice/user@1002.service/app.slice/" + boxA + "\n", box: label("mira")},
		{name: "a label on a rootless container of another", truth: "kai", want: "kai", by: "userns", user: "kai", uid: 1002, uidMap: "0 1002 1\n", inner: true,
			cgroup: "0::/user.slice/user-1002.slice/user@1002.service/user.slice/libpod-" + boxA + ".scope\n", box: label("mira")},

		// Homes and folders.
		{name: "a home", truth: "mira", want: "mira?", by: "home", user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:3", "/mira", "rw,relatime")},
		{name: "a part of one", truth: "mira", want: "mira?", by: "home", user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:3", "/mira/my\\040project", "rw")},
		{name: "a home to read", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:3", "/mira", "ro,relatime")},
		{name: "a home on a disk to read", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, mounts: strings.Replace(bind("8:3", "/mira", "rw"), "x rw", "x ro", 1)},
		{name: "all homes", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:3", "/", "rw")},
		{name: "all homes, one of them mounted", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true,
			mounts: bind("8:3", "/", "rw") + bind("8:3", "/mira", "rw")},
		{name: "two homes", truth: "mira", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:3", "/mira", "rw") + bind("8:3", "/kai/data", "rw")},
		{name: "a name that begins alike", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:3", "/mira2", "rw")},
		{name: "the same path on another device", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:9", "/mira", "rw")},
		{name: "a home in a home", truth: "mira", want: "deep?", by: "home", user: "root", uid: 0, cgroup: docker2, inner: true, mounts: bind("8:2", "/srv/lab/deep/x", "rw")},
		{name: "docker's own files in a home", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true,
			mounts: bind("8:3", "/mira/docker/containers/"+boxA+"/hosts", "rw") + bind("8:3", "/mira/docker/volumes/x/_data", "rw")},
		{name: "a mountinfo that is none", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, mounts: "31 30 8:3 /mira /work rw\n\n - - -\n8:3 /mira"},
		{name: "a home and a uid of two", truth: "", want: "unknown (kai in container a1b2c3d4a1b2)", by: "uid", user: "kai", uid: 1002, cgroup: docker2, inner: true, mounts: bind("8:3", "/mira", "rw")},
		{name: "a home and a uid of one", truth: "mira", want: "mira?", by: "uid", user: "mira", uid: 1001, cgroup: docker2, inner: true, mounts: bind("8:3", "/mira", "rw")},
		{name: "a folder at home", truth: "mira", want: "mira?", by: "folder", user: "root", uid: 0, cgroup: docker2, inner: true, box: folder("/home/mira/app")},
		{name: "a folder elsewhere", truth: "kai", want: "kai?", by: "folder", user: "root", uid: 0, cgroup: docker2, inner: true, box: folder("/srv/app"), owner: 1002},
		{name: "a folder of root", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, box: folder("/srv/app")},
		{name: "a folder that is none", truth: "kai", want: in, user: "root", uid: 0, cgroup: docker2, inner: true, box: folder("home/mira"), owner: 1001},
		{name: "a folder with a way out", truth: "kai", want: "kai?", by: "folder", user: "root", uid: 0, cgroup: docker2, inner: true, box: folder("/home/mira/../kai")},
		{name: "a folder and a home of two", truth: "", want: in, by: "home", user: "root", uid: 0, cgroup: docker2, inner: true, box: folder("/home/kai/x"), mounts: bind("8:3", "/mira", "rw")},
		{name: "a home and a label", truth: "kai", want: "kai", by: "label", user: "root", uid: 0, cgroup: docker2, inner: true, box: label("kai"), mounts: bind("8:3", "/mira", "rw")},

		// Nothing.
		{name: "nothing can be read", truth: "mira", want: "unknown (root)", user: "root", uid: 0, uidMap: "-", login: "-"},
		{name: "a cgroup that is none", truth: "", want: "unknown (root)", user: "root", uid: 0, cgroup: "user.slice/user-1001.slice\n:::\n\x00\xff\n"},
	}
}

// A tree is a directory of files, of which those are written that change.
type tree struct {
	t       *testing.T
	root    string
	content map[string]string
}

// write sets the content of a file; "-" removes it.
func (f *tree) write(file, content string) {
	f.t.Helper()
	path := filepath.Join(f.root, file)
	switch before, ok := f.content[file]; {
	case content == before && ok || content == "-" && !ok:
		return
	case content == "-":
		delete(f.content, file)
		_ = os.Remove(path)
		return
	}
	f.content[file] = content
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// look returns what a collector makes of a process. without names what it cannot see.
func (c nodeProcess) look(t *testing.T, f *tree, without string) snapshot.Process {
	t.Helper()
	remove := func(what string, text *string, with string) {
		if what == without {
			*text = with
		}
	}
	group, subuids, box := c.cgroup, subuid, c.box
	switch without {
	case "session":
		group = regexp.MustCompile(`user-\d+\.slice`).ReplaceAllString(group, "x.slice")
	case "slurm":
		group = regexp.MustCompile(`uid_\d+`).ReplaceAllString(group, "x")
	}
	remove("subuid", &subuids, "")
	remove("label", &box.User, "")
	remove("folder", &box.Folder, "")
	remove("uid_map", &c.uidMap, "-")
	remove("loginuid", &c.login, "-")
	remove("loginuid", &c.conmon, "")
	remove("home", &c.mounts, "-")

	write := f.write
	write("passwd", passwd)
	write("subuid", subuids)
	write("1/mountinfo", hostMounts)
	write("1/loginuid", cmp.Or(c.first, unset))
	write("7/cgroup", group)
	write("7/uid_map", cmp.Or(c.uidMap, mapHost))
	write("7/loginuid", cmp.Or(c.login, unset))
	write("7/status", "Name:\tpython\nPPid:\t6\nNSpid:\t7"+map[bool]string{true: "\t1"}[c.inner]+"\n")
	write("7/mountinfo", cmp.Or(c.mounts, "30 1 0:99 / / rw - overlay overlay rw\n"))
	write("6/status", "PPid:\t1\nNSpid:\t6\n")
	write("6/cgroup", map[bool]string{false: "0::/\n", true: "0::/machine.slice/libpod-conmon-" + boxA + ".scope\n"}[c.conmon != ""])
	write("6/loginuid", cmp.Or(c.conmon, unset))

	known := map[string]containers.Container{boxA[:12]: box, boxB[:12]: {User: "kai", Folder: "/home/kai"}}
	if without == "containers.json" {
		known = nil
	}
	ask := func(program string, args ...string) string {
		if path := args[len(args)-1]; program == "stat" && path == c.box.Folder {
			return fmt.Sprintln(c.owner)
		}
		return ""
	}
	e := evidence{procRoot: f.root, accounts: readAccounts(f.root, ask), containers: known}
	list := []snapshot.Process{{PID: 7, User: c.user, UID: &c.uid, Type: snapshot.Compute}}
	e.apply(list)
	s := snapshot.Snapshot{Processes: list}
	if problems := s.Validate(); len(problems) > 0 {
		t.Errorf("%s: %v", c.name, problems)
	}
	return s.Processes[0]
}

// Nobody is certain who has not done it, and what cannot be seen makes nobody more certain.
func TestWhoIsBehindAProcess(t *testing.T) {
	cases := nodeProcesses()
	if len(cases) < 60 {
		t.Errorf("only %d processes", len(cases))
	}
	removed := map[string]int{}
	f := &tree{t, t.TempDir(), map[string]string{}}
	for _, c := range cases {
		p := c.look(t, f, "")
		owner, by := p.Whose()
		source := snapshot.Source("")
		if len(by) > 0 {
			source = by[0].Source
		}
		if owner.String() != c.want || source != c.by {
			t.Errorf("%s: %s by %q, want %s by %q: %+v", c.name, owner, source, c.want, c.by, p.Claims)
		}
		if owner.Person != "" && owner.Person != c.truth {
			t.Errorf("%s: it is certain that it is %s's, and it is %q's", c.name, owner.Person, c.truth)
		}
		contradicted := owner.Name() == "" && len(by) > 0
		for _, source := range []string{"session", "slurm", "subuid", "label", "folder", "uid_map", "loginuid", "home", "containers.json"} {
			q := c.look(t, f, source)
			less, _ := q.Whose()
			if less != owner {
				removed[source]++
			}
			if less.Person != "" && less.Person != owner.Person && !contradicted {
				t.Errorf("%s: without %s it is certainly %s's, and was %s", c.name, source, less.Person, owner)
			}
			if less.Person != "" && owner.Likely != "" {
				t.Errorf("%s: without %s it is certainly %s's, and was only likely %s", c.name, source, less.Person, owner)
			}
		}
	}
	for _, source := range []string{"session", "slurm", "subuid", "label", "folder", "uid_map", "loginuid", "home", "containers.json"} {
		if removed[source] == 0 {
			t.Errorf("without %s nothing is less certain", source)
		}
	}
}

// noAnswer is a node without a directory service.
func noAnswer(string, ...string) string { return "" }

// Accounts of a directory service are asked for, and answers are kept.
func TestAccountsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := "#!/bin/sh\necho $3 >>" + log + "\n" + `case $3 in
1003|lea) echo 'lea:*:1003:1003:Lea:/home/lea:/bin/bash';;
1009) echo 'other:*:1010:1010::/home/other:/bin/bash';;
svc) echo 'svc:*:500:500::/srv:/bin/false';;
short) echo 'short:*:1011';;
*) exit 2;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	asked := func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "\n")
	}

	a := readAccounts(dir, (&asker{left: slack}).ask)
	if who := a.find(byUID, "1003"); who == nil || who.name != "lea" || who.home != "/home/lea" {
		t.Errorf("uid 1003 is %+v", who)
	}
	for key, who := range map[string]*account{
		"another uid": a.find(byUID, "1009"), "a service": a.find(byName, "svc"), "root": a.find(byName, "root"),
		"an option": a.find(byName, "-x"), "a uid as a name": a.find(byName, "1003"), "half a line": a.find(byName, "short"),
		"nobody": a.find(byUID, ""), "nobody's path": a.atHome("/data/lea/x"), "a path of the system": a.atHome("/var/lea/x"),
	} {
		if who != nil {
			t.Errorf("%s is %+v", key, who)
		}
	}
	if who := a.atHome("/home/lea/project/x/y/z"); who == nil || who.name != "lea" {
		t.Errorf("the home is %+v", who)
	}
	before := asked()
	if a.find(byUID, "1003") == nil || a.find(byUID, "1009") != nil || asked() != before {
		t.Error("it is asked again for what is known")
	}
}

// A collector asks a program that hangs once, and goes on.
func TestADirectoryThatHangs(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := "#!/bin/sh\necho asked >>" + log + "\nexec sleep 1000\n"
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	asks := asker{left: time.Second}
	a := readAccounts(dir, asks.ask)
	for uid := range 5 {
		if who := a.find(byUID, strconv.Itoa(2000+uid)); who != nil {
			t.Errorf("%d is %+v", uid, who)
		}
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != "asked\n" {
		t.Errorf("%q, %v", text, err)
	}

	// One that cannot be ended is not asked again before it is gone.
	if asks = (asker{left: slack, hung: os.Getpid()}); asks.ask("echo", "x") != "" {
		t.Error("a program is started beside one that hangs")
	}
	if asks.hung = 1<<22 + 1; asks.ask("echo", "x") != "x\n" { // above the largest pid
		t.Error("no program is started after one that hung")
	}
	if asks.ask("false") != "" || asks.ask("head", "-c", "100000", "/dev/zero") != "" || asks.ask("no-such-program") != "" {
		t.Error("half an answer is one")
	}
}

// Where nsswitch.conf names a directory service for them, the ranges of uids are not those of /etc/subuid.
func TestRangesOfADirectory(t *testing.T) {
	for _, test := range []struct {
		nsswitch, answer, want string
		asked                  int
	}{
		{"passwd: files sss\n", "0: mira 700000 65536\n", "", 0},
		{"subid: files\n", "0: mira 700000 65536\n", "", 0},
		{"subid: sss\n", "0: mira 700000 65536\n1: mira 900000 65536\n", "mira", 1},
		{"subid:\tsss\n", "Error fetching ranges\n", "", 1},
		{"subid: sss\n", "0: kai 700000 65536\n", "", 1},
		{"subid: sss\n", "0: mira 0 4294967295\n", "", 1},
	} {
		etc := t.TempDir()
		for file, text := range map[string]string{"passwd": passwd, "subuid": "mira:100000:65536\n", "nsswitch.conf": test.nsswitch} {
			if err := os.WriteFile(filepath.Join(etc, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		asked := 0
		a := readAccounts(etc, func(program string, args ...string) string {
			if program != "getsubids" || len(args) != 1 || args[0] != "mira" {
				return ""
			}
			asked++
			return test.answer
		})
		for range 3 { // processes
			a.askRange("1001")
			a.askRange("0")
			a.askRange("")
		}
		got, ofFile := a.ofSubUID(700001), a.ofSubUID(100001)
		if asked != test.asked || (got != nil) != (test.want != "") || (ofFile != nil) != (test.asked == 0) {
			t.Errorf("%q: asked %d times: %+v, and of the file %+v", test.nsswitch, asked, got, ofFile)
		}
	}
}

// TestAHomeOfTwo: a home that two accounts have is nobody's, whichever of them is read first, and a home inside it is
// still its owner's.
func TestAHomeOfTwo(t *testing.T) {
	etc := t.TempDir()
	lines := "ada:x:1001:1001::/srv/team:/bin/sh\neva:x:1002:1002::/srv/team:/bin/sh\nkai:x:1003:1003::/srv/team/kai:/bin/sh\n"
	if err := os.WriteFile(filepath.Join(etc, "passwd"), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 20 { // maps have no order
		a := readAccounts(etc, noAnswer)
		if who := a.atHome("/srv/team/run"); who != nil {
			t.Fatalf("the home of ada and eva is %s's", who.name)
		}
		if who := a.atHome("/srv/team/kai/run"); who == nil || who.name != "kai" {
			t.Fatalf("the home of kai is %v's", who)
		}
	}
}
