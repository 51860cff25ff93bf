package collector

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/collector/ps"
	"gpuboard/internal/snapshot"
)

func at(seconds float64) time.Time {
	return time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// nvidia-smi is started at 100 s, ps at 101 s.
func TestAttribution(t *testing.T) {
	anna := ps.Process{PID: 10, PPID: 1, PGID: 10, UID: 1001, Elapsed: 60, State: 'S', User: "anna"}
	with := func(change func(*ps.Process)) ps.Process { p := anna; change(&p); return p }
	exact := func(start float64) func(int) (time.Time, bool) {
		return func(int) (time.Time, bool) { return at(start), true }
	}
	for _, c := range []struct {
		name    string
		table   []ps.Process
		began   func(int) (time.Time, bool)
		partial bool
		alive   string
		user    string
		started bool
	}{
		{"alive", []ps.Process{anna}, nil, false, "true", "anna", true},
		{"gone", []ps.Process{{PID: 11}}, nil, false, "false", "", false},
		{"gone, or in what was not read", []ps.Process{{PID: 11}}, nil, true, "nil", "", false},
		{"ps could not be run", nil, nil, false, "nil", "", false},
		{"zombie keeps its owner", []ps.Process{with(func(p *ps.Process) { p.State = 'Z' })}, nil, false, "false",
			"anna", false},
		{"pid used again", []ps.Process{with(func(p *ps.Process) { p.Elapsed = 0 })}, exact(100.5), false, "false", "",
			false},
		{"started just before", []ps.Process{with(func(p *ps.Process) { p.Elapsed = 0 })}, exact(99.9), false, "true",
			"anna", true},
		{"started in the same tick", []ps.Process{with(func(p *ps.Process) { p.Elapsed = 0 })}, exact(100.01), false,
			"true", "anna", true},
		{"old enough by whole seconds", []ps.Process{with(func(p *ps.Process) { p.Elapsed = 1 })}, nil, false, "true",
			"anna", true},
		{"a running time that cannot be, the start is not known",
			[]ps.Process{with(func(p *ps.Process) { p.Elapsed = -1 })},
			func(int) (time.Time, bool) { return time.Time{}, false }, false, "nil", "", false},
		{"a running time that cannot be, the kernel knows better",
			[]ps.Process{with(func(p *ps.Process) { p.Elapsed = -1 })}, exact(99.5), false, "true", "anna", true},
		{"a running time that cannot be, the pid was used again",
			[]ps.Process{with(func(p *ps.Process) { p.Elapsed = -1 })}, exact(100.5), false, "false", "", false},
		{"too close to decide", []ps.Process{with(func(p *ps.Process) { p.Elapsed = 0 })},
			func(int) (time.Time, bool) { return time.Time{}, false }, false, "nil", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := []snapshot.Process{{PID: 10, Program: "python"}}
			attribution{table: c.table, partial: c.partial, smiStarted: at(100), psStarted: at(101),
				began: c.began}.apply(list)
			p := list[0]
			if p.StartedAt != nil && p.StartedAt.Before(at(0)) {
				t.Errorf("it started %s", p.StartedAt)
			}
			alive := "nil"
			if p.Alive != nil {
				alive = map[bool]string{true: "true", false: "false"}[*p.Alive]
			}
			if alive != c.alive || p.User != c.user || (p.UID != nil) != (c.user != "") ||
				(p.StartedAt != nil) != c.started {
				t.Errorf("alive %s, %+v", alive, p)
			}
			if c.user == "" && p.Program != "python" {
				t.Errorf("another process's program: %q", p.Program)
			}
		})
	}
	// Without the exact start, and with a slow nvidia-smi, whole seconds decide.
	list := []snapshot.Process{{PID: 10}}
	attribution{table: []ps.Process{with(func(p *ps.Process) { p.Elapsed = 1 })}, smiStarted: at(100),
		psStarted: at(105)}.apply(list)
	if list[0].Alive == nil || *list[0].Alive || list[0].User != "" {
		t.Errorf("%+v", list[0])
	}
}

func TestAProcessThatPSDoesNotShowIsNotGone(t *testing.T) {
	list := []snapshot.Process{{PID: 10}, {PID: 11}}
	unseen := attribution{table: []ps.Process{{PID: 1}}, exists: func(pid int) bool { return pid == 10 }}.apply(list)
	if unseen != 1 || list[0].Alive != nil || list[1].Alive == nil || *list[1].Alive {
		t.Errorf("%d unseen, %+v", unseen, list)
	}
	if !exists(1) || exists(1<<22+1) {
		t.Error("the kernel was misunderstood")
	}
}

func TestStartTimesAreStable(t *testing.T) {
	list := []snapshot.Process{{PID: 10}}
	known := map[int]start{}
	var first time.Time
	for i, elapsed := range []int64{60, 81, 99, 120} { // truly 20 apart
		psStarted := at(float64(100 + 20*i))
		attribution{table: []ps.Process{{PID: 10, UID: 7, Elapsed: elapsed, State: 'S', User: "u"}},
			smiStarted: psStarted, psStarted: psStarted, known: known}.apply(list)
		if i == 0 {
			first = list[0].StartedAt.Time
		} else if !list[0].StartedAt.Equal(first) {
			t.Errorf("reading %d: %s, before %s", i, list[0].StartedAt, first)
		}
		known = starts(list)
	}
	for name, p := range map[string]ps.Process{
		"another owner": {PID: 10, UID: 8, Elapsed: 141, State: 'S', User: "v"},
		"another start": {PID: 10, UID: 7, Elapsed: 5, State: 'S', User: "u"},
	} {
		attribution{table: []ps.Process{p}, smiStarted: at(180), psStarted: at(180), known: known}.apply(list)
		if list[0].StartedAt.Equal(first) {
			t.Errorf("%s keeps the start", name)
		}
	}
}

func TestChildrenOfDeadProcesses(t *testing.T) {
	table := []ps.Process{
		{PID: 20, PPID: 10, PGID: 20, State: 'S', User: "a"},
		{PID: 21, PPID: 1, PGID: 10, State: 'R', User: "b"},
		{PID: 22, PPID: 10, PGID: 10, State: 'R', User: "c"},
		{PID: 23, PPID: 10, PGID: 10, State: 'Z', User: "d"},
		{PID: 24, PPID: 1, PGID: 24, State: 'S', User: "e"},
		{PID: 30, PPID: 1, PGID: 30, State: 'S', Elapsed: 0, User: "f"},
		{PID: 31, PPID: 30, PGID: 30, State: 'S', User: "f"},
	}
	list := []snapshot.Process{{GPU: 0, PID: 10}, {GPU: 1, PID: 10}, {PID: 30}, {PID: 24}}
	attribution{table: table, smiStarted: at(100), psStarted: at(105),
		began: func(int) (time.Time, bool) { return at(104), true }}.apply(list[:3])
	for _, p := range list[:2] {
		if len(p.Children) != 3 || p.Children[0].User != "a" || p.Children[1].User != "b" || p.Children[2].PID != 22 {
			t.Errorf("%+v", p.Children)
		}
	}
	if list[2].Children != nil || list[2].User != "" {
		t.Errorf("a pid that was used again has children: %+v", list[2])
	}
	var many []ps.Process
	for i := range 50 {
		many = append(many, ps.Process{PID: 100 + i, PPID: 10, PGID: 10, State: 'S'})
	}
	attribution{table: many, smiStarted: at(1), psStarted: at(1)}.apply(list[:1])
	if len(list[0].Children) != snapshot.MaxChildren {
		t.Errorf("%d children", len(list[0].Children))
	}
}

func TestParseCgroup(t *testing.T) {
	id := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for text, want := range map[string]string{
		"0::/system.slice/docker-" + id + ".scope\n":                                    "0123456789ab",
		"12:cpu:/docker/" + id + "\n11:x:/\n":                                           "0123456789ab",
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope\n":      "0123456789ab",
		"1:name=systemd:/kubepods/besteffort/pod-1/" + id + "\n":                        "0123456789ab",
		"0::/machine.slice/libpod-" + id + ".scope/container\n":                         "0123456789ab",
		"0::/user.slice/user-1000.slice/user@1000.service/user.slice/crio-" + id + "\n": "0123456789ab",
		"0::/system.slice/docker-" + id + ".scope (deleted)\n":                          "0123456789ab",
		"0::/lxc/web-1/init.scope\n":                                                    "web-1",
		"0::/lxc.payload.web-1\n":                                                       "web-1",
		"0::/user.slice/user-1000.slice/session-3.scope\n":                              "",
		"0::/system.slice/docker-" + id[:20] + ".scope\n":                               "",
		"": "", "garbage": "", "0::/\n": "",
	} {
		if got := parseCgroup(text).container; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A user namespace is an account's own if it maps its uid alone. Containers of the host's, and of a daemon that
// maps ranges, are anybody's. A zombie still has its container, and a process that ps does not show has none.
func TestContainersAndTheirUserNamespaces(t *testing.T) {
	const docker = "0::/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n"
	const session = "0::/user.slice/user-1000.slice/session-3.scope\n"
	const host = "         0          0 4294967295\n"
	uid := new(int64(1000))
	for name, tt := range map[string]struct {
		cgroup, uidMap string
		p              snapshot.Process
		container, own bool
	}{
		"on the host":    {session, host, snapshot.Process{UID: uid}, false, false},
		"in a container": {docker, host, snapshot.Process{UID: uid}, true, false},
		"rootless, its root": {docker,
			"         0       1000          1\n         1     100000      65536\n", snapshot.Process{UID: uid}, true,
			true},
		"rootless, under the same uid": {docker, "0 100000 1000\n1000 1000 1\n1001 101000 64536\n",
			snapshot.Process{UID: uid}, true, true},
		"rootless, another of its uids": {docker, "0 1000 1\n1 100000 65536\n",
			snapshot.Process{UID: new(int64(100999))}, true, false},
		"somebody else's namespace": {docker, "0 1001 1\n1 100000 65536\n", snapshot.Process{UID: uid}, true,
			false},
		"a range of root's": {docker, "0 1000 2\n", snapshot.Process{UID: uid}, true, false},
		"a daemon that maps all": {docker, "0 100000 65536\n", snapshot.Process{UID: new(int64(100999))},
			true, false},
		"a map that cannot be read": {docker, "", snapshot.Process{UID: uid}, true, false},
		"a map that is none":        {docker, "1000 1\n0 1000\n", snapshot.Process{UID: uid}, true, false},
		"a zombie": {docker, host, snapshot.Process{UID: uid, Alive: new(false)}, true,
			false},
		"a sandbox without a container":      {session, "1000 1000 1\n", snapshot.Process{UID: uid}, false, false},
		"one whose pid is that of another":   {docker, host, snapshot.Process{Alive: new(false)}, false, false},
		"one whose owner could not be asked": {docker, host, snapshot.Process{}, false, false},
	} {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "77"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{"cgroup": tt.cgroup, "uid_map": tt.uidMap} {
			if err := os.WriteFile(filepath.Join(root, "77", file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tt.p.PID = 77
		list := []snapshot.Process{tt.p}
		(&evidence{procRoot: root, accounts: readAccounts(root, noAnswer)}).apply(list)
		if got := list[0]; (got.Container != "") != tt.container || got.OwnUserNamespace != tt.own {
			t.Errorf("%s: container %q, own user namespace %t", name, got.Container, got.OwnUserNamespace)
		}
	}
}
