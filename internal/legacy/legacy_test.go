package legacy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/costtest"
	"gpuboard/internal/testenv/need"
)

var now = time.Date(2026, 11, 20, 10, 42, 10, 0, time.UTC)

func paris(t testing.TB) *time.Location {
	t.Helper()
	return need.Zone(t, "Europe/Paris")
}

func codes(list []snapshot.Problem) (out []string) {
	for _, p := range list {
		out = append(out, p.Code)
	}
	return out
}

func stamp(s string) *snapshot.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return new(snapshot.TimeOf(t))
}

func TestRead(t *testing.T) {
	data, err := Read("testdata/old", now, paris(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(data.Hosts)); !slices.Equal(got, []string{"atlas", "borg", "cygnus", "delta"}) ||
		len(data.Problems) != 0 {
		t.Fatalf("hosts %q, problems %+v", got, data.Problems)
	}
	if d := data.Hosts["delta"]; d.Snapshot != nil || d.Address != "delta.lab.example" || len(d.Problems) != 0 {
		t.Errorf("delta, which only hosts.json knows: %+v", d)
	}
	atlas := data.Hosts["atlas"].Snapshot
	if atlas == nil || len(atlas.Errors) != 0 || data.Hosts["atlas"].Address != "atlas.lab.example" {
		t.Fatalf("atlas %+v", data.Hosts["atlas"])
	}
	if want := "2026-11-20T10:42:00.105Z"; atlas.CollectedAt.String() != want || atlas.IntervalSeconds != 30 ||
		len(atlas.GPUs) != 4 {
		t.Errorf("collected at %v, want %s; %d GPUs", atlas.CollectedAt, want, len(atlas.GPUs))
	}
	want := snapshot.GPU{
		Index: 2, UUID: "GPU-a7000002-aaaa-bbbb-cccc-000000000002", Name: "NVIDIA A100-SXM4-40GB",
		MemoryUsed:  new(int64(40214)),
		MemoryTotal: new(int64(40960)), MemoryFree: new(int64(746)),
		Readings: snapshot.Readings{UtilizationGPU: new(55), UtilizationMemory: new(30), Temperature: new(59)},
		Health:   snapshot.HealthOK,
	}
	if diff := cmp.Diff(want, atlas.GPUs[2]); diff != "" {
		t.Errorf("GPU 2 (-want +got):\n%s", diff)
	}
	uuid := func(i int) string { return atlas.GPUs[i].UUID }
	processes := []snapshot.Process{
		{GPU: 0, GPUUUID: uuid(0), PID: 4101, Type: "C", User: "mira", Program: "python",
			StartedAt: stamp("2026-11-20T08:12:07Z"), UsedMemory: new(int64(31100)), Alive: new(true)},
		{GPU: 2, GPUUUID: uuid(2), PID: 4250, Type: "C", User: "averyveryverylongna+", Program: "python",
			StartedAt: stamp("2026-11-05T22:59:59Z"), UsedMemory: new(int64(40100)), Alive: new(true)},
		{GPU: 3, GPUUUID: uuid(3), PID: 4300, Type: "C", Program: "a,b", UsedMemory: new(int64(7000)),
			Alive: new(false), Children: []snapshot.Child{{PID: 4301, User: "kai"}}},
	}
	if diff := cmp.Diff(processes, atlas.Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	node := snapshot.Node{
		UptimeSeconds: new(int64(21*86400 + 3*3600 + 4*60)), Cores: new(64), Load1: new(12.52), Load5: new(11.58),
		Load15:      new(9.59),
		MemoryTotal: new(int64(515872)), MemoryUsed: new(int64(125772)),
		Disks: []snapshot.Disk{{Mount: "/", Total: 467921, Used: 205187},
			{Mount: "/var/opt", Total: 3662378, Used: 2746783}},
		DiskUsers: []snapshot.DiskUser{{Path: "/local", User: "mira", Used: 12288},
			{Path: "/local", User: "averyveryverylongname", Used: 1572864}, {Path: "/local", User: "lost+found"}},
	}
	if diff := cmp.Diff(node, atlas.Node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}

	// borg: a line that is still being written, readings that are absent, an
	// older free, a decimal comma, and no word about users.
	borg := data.Hosts["borg"].Snapshot
	if borg == nil || len(borg.GPUs) != 1 || borg.GPUs[0].UtilizationGPU != nil || *borg.GPUs[0].MemoryUsed != 10 {
		t.Fatalf("borg %+v", borg)
	}
	if got := codes(borg.Errors); !slices.Equal(got, []string{"legacy:users"}) {
		t.Errorf("errors %+v", borg.Errors)
	}
	if n := borg.Node; *n.MemoryUsed != 9303 || *n.Load1 != 0.52 || *n.UptimeSeconds != 300 || n.Cores != nil {
		t.Errorf("node %+v", n)
	}
}

// scene is one host's files as they are most often, and what a test changes.
func scene(change map[string]string) map[string][]byte {
	files := map[string]string{
		gpusFile:      "0, GPU-1, A100, 100, 40960, 5, 1, 40, 2026/11/20 11:42:00.000\n1, GPU-2, A100, 200, 40960, 5, 1, 40, 2026/11/20 11:42:00.001\n",
		processesFile: "2026/11/20 11:42:00.000, GPU-1, 90, python, 11\n",
		usersFile:     "{}\n11 mira Fri Nov 20 09:00:00 2026\n",
	}
	maps.Copy(files, change)
	out := map[string][]byte{}
	for name, content := range files {
		if content != "-" {
			out[name] = []byte(content)
		}
	}
	return out
}

func TestParse(t *testing.T) {
	const row = "0, GPU-1, A100, 100, 40960, 5, 1, 40, 2026/11/20 11:42:00.000\n"
	for _, tc := range []struct {
		name   string
		files  map[string]string
		errors string
		check  func(*snapshot.Snapshot) bool
	}{
		{"as always", nil, "", func(s *snapshot.Snapshot) bool {
			return len(s.GPUs) == 2 && *s.Processes[0].Alive && s.ProcessesKnownOf(&s.GPUs[0]) &&
				s.ProcessesKnownOf(&s.GPUs[1])
		}},
		{"nothing runs", map[string]string{processesFile: ""}, "",
			func(s *snapshot.Snapshot) bool { return s.ProcessesKnownOf(&s.GPUs[0]) }},
		{"a process without a pid",
			map[string]string{processesFile: "2026/11/20 11:42:00.000, GPU-1, 90, python, [N/A]\n"}, "legacy:line",
			func(s *snapshot.Snapshot) bool {
				return !s.ProcessesKnownOf(&s.GPUs[0]) && s.ProcessesKnownOf(&s.GPUs[1])
			}},
		{"a process without a pid, of yesterday",
			map[string]string{processesFile: "2026/11/19 11:42:00.000, GPU-1, 90, python, [N/A]\n"}, "legacy:line",
			func(s *snapshot.Snapshot) bool { return s.ProcessesKnownOf(&s.GPUs[0]) }},
		{"a line of processes that says nothing", map[string]string{processesFile: "[Insufficient Permissions]\n"},
			"legacy:line", func(s *snapshot.Snapshot) bool {
				return !s.ProcessesKnownOf(&s.GPUs[0]) && !s.ProcessesKnownOf(&s.GPUs[1])
			}},
		{"a GPU that no process can name",
			map[string]string{gpusFile: "0, [N/A], A100, 100, 40960, 5, 1, 40, 2026/11/20 11:42:00.000\n"}, "",
			func(s *snapshot.Snapshot) bool { return !s.ProcessesKnownOf(&s.GPUs[0]) }},
		{"numbers in groups of digits",
			map[string]string{gpusFile: row +
				"1, GPU-2, A100, 20,000 MiB, 40960 MiB, 5, 1, 40, 2026/11/20 11:42:00.001\n"}, "legacy:line",
			func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 1 && !s.GPUsComplete }},
		{"a GPU that is listed no more",
			map[string]string{gpusFile: "1, GPU-2, A100, 1, 2, 3, 4, 5, 2026/11/20 11:41:00.000\n" + row}, "",
			func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 1 }},
		{"a moment that is only half written",
			map[string]string{gpusFile: "1, GPU-2, A100, 1, 2, 3, 4, 5, 2026/11/20 11:41:40.000\n" + row}, "",
			func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 2 }},
		{"a line without end",
			map[string]string{gpusFile: row + "1, GPU-2, A100, 1, 2, 3, 4, 5, 2026/11/20 11:42:00.0"}, "",
			func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 1 }},
		{"an error among the lines",
			map[string]string{gpusFile: "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n" +
				row}, "legacy:line", func(s *snapshot.Snapshot) bool {
				return !s.GPUsComplete && s.Errors[0].Line == 1 && s.Errors[0].File == "gpu01_gpus.csv"
			}},
		{"a lost GPU",
			map[string]string{gpusFile: row +
				"1, GPU-2, A100, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], 2026/11/20 11:42:00.001\n"}, "", func(s *snapshot.Snapshot) bool {
				return s.GPUs[1].Health == snapshot.HealthLost && s.GPUs[1].MemoryUsed == nil &&
					!s.ProcessesKnownOf(&s.GPUs[1]) && s.ProcessesKnownOf(&s.GPUs[0])
			}},
		{"a GPU without any reading",
			map[string]string{gpusFile: row +
				"1, GPU-2, A100, [N/A], [N/A], [N/A], [N/A], [N/A], 2026/11/20 11:42:00.001\n"}, "",
			func(s *snapshot.Snapshot) bool { return s.GPUs[1].Health == snapshot.HealthUnknown }},
		{"units and commas in a name",
			map[string]string{gpusFile: "0, GPU-1, A100, the big one, 100 MiB, 40960 MiB, 5 %, 1 %, 40, 2026/11/20 11:42:00.000\n"}, "", func(s *snapshot.Snapshot) bool {
				return s.GPUs[0].Name == "A100, the big one" && *s.GPUs[0].MemoryTotal == 40960 &&
					*s.GPUs[0].UtilizationGPU == 5
			}},
		{"readings that cannot be",
			map[string]string{gpusFile: "0, GPU-1, A100, 50000, 40960, 500, 1, 40, 2026/11/20 11:42:00.000\n"},
			"bad:range bad:range",
			func(s *snapshot.Snapshot) bool { return s.GPUs[0].MemoryUsed == nil && s.GPUs[0].UtilizationGPU == nil }},
		{"the last process has ended",
			map[string]string{processesFile: "2026/11/20 11:40:20.000, GPU-1, 90, python, 11\n"}, "",
			func(s *snapshot.Snapshot) bool { return len(s.Processes) == 0 }},
		{"one of two has ended",
			map[string]string{processesFile: "2026/11/20 11:41:40.000, GPU-1, 90, python, 12\n2026/11/20 11:42:00.000, GPU-1, 90, python, 11\n"}, "", func(s *snapshot.Snapshot) bool { return len(s.Processes) == 1 && s.Processes[0].PID == 11 }},
		{"a process in two lines of one moment",
			map[string]string{processesFile: "2026/11/20 11:42:00.000, GPU-1, 90, python, 11\n2026/11/20 11:42:01.000, GPU-1, 95, python, 11\n"}, "", func(s *snapshot.Snapshot) bool {
				return len(s.Processes) == 1 && *s.Processes[0].UsedMemory == 95
			}},
		{"lines out of order",
			map[string]string{gpusFile: row + "0, GPU-1, A100, 7, 40960, 5, 1, 40, 2026/11/20 11:41:40.000\n"}, "",
			func(s *snapshot.Snapshot) bool { return *s.GPUs[0].MemoryUsed == 100 }},
		{"nobody to ask about processes", map[string]string{processesFile: "-"}, "legacy:processes",
			func(s *snapshot.Snapshot) bool { return len(s.Processes) == 0 && !s.ProcessesKnownOf(&s.GPUs[0]) }},
		{"ps was not asked", map[string]string{usersFile: "-"}, "legacy:users",
			func(s *snapshot.Snapshot) bool { return s.Processes[0].Alive == nil && s.Processes[0].User == "" }},
		{"ps does not know the pid",
			map[string]string{usersFile: "{\"11\": [12, 13]}\n12 kai Fri Nov 20 09:00:00 2026\n"}, "",
			func(s *snapshot.Snapshot) bool {
				p := s.Processes[0]
				return !*p.Alive && len(p.Children) == 1 && p.Children[0] == snapshot.Child{PID: 12, User: "kai"}
			}},
		{"a first line that is no JSON", map[string]string{usersFile: "{\"11\": [\n11 mira Fri Nov 20 09:00:00 2026\n"},
			"legacy:line", func(s *snapshot.Snapshot) bool { return *s.Processes[0].Alive }},
		{"a start in the future", map[string]string{usersFile: "{}\n11 mira Fri Nov 20 12:00:00 2026\n"}, "",
			func(s *snapshot.Snapshot) bool {
				return s.Processes[0].StartedAt == nil && s.Processes[0].User == "mira"
			}},
		{"a start before the boot", map[string]string{usersFile: "{}\n11 mira Thu Jan 1 00:00:00 1970\n"}, "",
			func(s *snapshot.Snapshot) bool { return s.Processes[0].StartedAt == nil }},
		{"arguments go no further",
			map[string]string{processesFile: "2026/11/20 11:42:00.000, GPU-1, 90, /opt/bin/python --token /x/SECRET, 11\n"}, "", func(s *snapshot.Snapshot) bool { return s.Processes[0].Program == "python" }},
		{"text that a terminal obeys", map[string]string{usersFile: "{}\n11 mi\x1b[2Jra\xff\n"}, "",
			func(s *snapshot.Snapshot) bool { return s.Processes[0].User == `mi\x1b[2Jra`+"\ufffd" }},
		{"lines move up when df fails",
			map[string]string{statusFile: "Mem: 100 50 10 1 40 45\n8\n x up 1 day, 5 min, 1 user, load average: 1.00, 2.00, 3.00\n"}, "", func(s *snapshot.Snapshot) bool {
				n := s.Node
				return *n.Cores == 8 && *n.MemoryUsed == 55 && *n.UptimeSeconds == 86400+300 && *n.Load15 == 3 &&
					len(n.Disks) == 0
			}},
		{"more GPUs than lines", map[string]string{gpusFile: twentyGPUs()}, "legacy:cut",
			func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 20 && !s.GPUsComplete }},
		{"as many lines as are kept are all GPUs", map[string]string{gpusFile: rounds(20)}, "",
			func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 5 && s.GPUsComplete }},
		{"fewer lines may be a part of the file", map[string]string{gpusFile: rounds(3)}, "",
			func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 3 && !s.GPUsComplete }},
		{"a line that is torn may be of another GPU", map[string]string{gpusFile: "4, GPU-4, A1\n" + rounds(20)},
			"legacy:line", func(s *snapshot.Snapshot) bool { return len(s.GPUs) == 5 && !s.GPUsComplete }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, problems := parse("gpu01", scene(tc.files), paris(t), now, time.Time{})
			if s == nil {
				t.Fatal(problems)
			}
			if got := strings.Join(codes(s.Errors), " "); got != tc.errors {
				t.Errorf("errors %+v, want %q", s.Errors, tc.errors)
			}
			if !tc.check(s) {
				out, _ := json.MarshalIndent(s, "", " ")
				t.Errorf("%s", out)
			}
		})
	}
	for name, content := range map[string]string{"missing": "-", "empty": "",
		"no line of a GPU": "NVIDIA-SMI has failed\n", "no moment": "0, GPU-1, A100, 1, 2, 3, 4, 5, yesterday\n"} {
		if s, problems := parse("gpu01", scene(map[string]string{gpusFile: content}), paris(t), now,
			time.Time{}); s != nil || !slices.Contains(codes(problems), "legacy:empty") {
			t.Errorf("%s: %+v, %+v", name, s, problems)
		}
	}
}

// rounds is so many lines of a node with five GPUs.
func rounds(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "%d, GPU-%d, A100, 100, 40960, 5, 1, 40, 2026/11/20 11:41:%02d.000\n", i%5, i%5, 10+i/5*10)
	}
	return b.String()
}

func twentyGPUs() string {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, "%d, GPU-%d, A100, 1, 40960, 5, 1, 40, 2026/11/20 11:42:00.000\n", i, i)
	}
	return b.String()
}

func TestZones(t *testing.T) {
	tokyo := need.Zone(t, "Asia/Tokyo")
	for _, tc := range []struct {
		name    string
		zone    *time.Location
		written time.Duration // before now
		zoned   bool
	}{
		{"the right one", paris(t), 5 * time.Second, false},
		{"the node is west of the site", tokyo, 5 * time.Second, true},
		{"the node is east of the site", time.UTC, 5 * time.Second, true},
		{"a file of last month that was copied just now", nil, 5 * time.Second, false},
		{"just old", tokyo, 30 * time.Minute, false},
	} {
		at := now
		if tc.zone == nil {
			tc.zone, at = paris(t), now.Add(30*24*time.Hour)
		}
		s, _ := parse("gpu01", scene(nil), tc.zone, at, at.Add(-tc.written))
		if got := slices.Contains(codes(s.Errors), "clock:zone"); got != tc.zoned {
			t.Errorf("%s: %+v", tc.name, s.Errors)
		}
	}

	// 02:30 comes twice in the night of 25 October 2026.
	r := &reader{zone: paris(t)}
	for _, want := range []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"} {
		at, err := time.Parse(time.RFC3339, want)
		if err != nil {
			t.Fatal(err)
		}
		r.now = at.Add(10 * time.Second)
		if got, ok := r.local(stampLayout, "2026/10/25 02:30:00.000"); !ok || !got.Equal(at) {
			t.Errorf("read at %v: %v, want %v", r.now, got.UTC(), want)
		}
	}
}

func TestHostileDirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	good := "0, GPU-1, A100, 100, 40960, 5, 1, 40, 2026/11/20 11:42:00.000\n"
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, make := range []error{
		os.Symlink(outside, filepath.Join(dir, "link_gpus.csv")),
		syscall.Mkfifo(filepath.Join(dir, "fifo_gpus.csv"), 0o644),
		os.Mkdir(filepath.Join(dir, "folder_gpus.csv"), 0o755),
	} {
		if make != nil {
			t.Fatal(make)
		}
	}
	write("big_gpus.csv", strings.Repeat(good, maxFileBytes/len(good)+1))
	write("UPPER_gpus.csv", good)
	write("upper_gpus.csv", good)
	write("a b_gpus.csv", good)
	write("..._gpus.csv", good)
	write("_gpus.csv", good)
	write("well_gpus.csv", good)
	write("well_users.csv", "{}\n")
	write("well_processes.csv", "")
	write("hosts.json", `{"well": 7, "../../etc": "x", "new": "`+strings.Repeat("x", 9000)+`"`)
	data, err := Read(dir, now, paris(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(data.Hosts)); !slices.Equal(got,
		[]string{"big", "fifo", "folder", "link", "upper", "well"}) {
		t.Errorf("hosts %q", got)
	}
	for name, h := range data.Hosts {
		well := name == "well" || name == "upper"
		if (h.Snapshot != nil) != well {
			t.Errorf("%s: %+v", name, h)
		}
		if !well && !slices.Contains(codes(h.Problems), "legacy:unreadable") {
			t.Errorf("%s: %+v", name, h.Problems)
		}
	}
	if got := codes(data.Problems); !slices.Equal(got, []string{"legacy:host", "legacy:unreadable"}) {
		t.Errorf("problems %+v", data.Problems)
	}
	write("hosts.json", `{"well": 7, "../../etc": "x", "new": "`+strings.Repeat("x", 9000)+`"}`)
	listed, err := Hosts(dir)
	if err != nil || len(listed.Hosts["new"].Address) > snapshot.MaxTextBytes || listed.Hosts["well"].Address != "" ||
		len(listed.Hosts) != 7 {
		t.Errorf("%+v, %v", listed, err)
	}
	if !Found(dir) || Found(t.TempDir()) || Found(filepath.Join(dir, "none")) {
		t.Error("Found is wrong about what is there")
	}
	if _, err := Read(filepath.Join(dir, "none"), now, time.UTC); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// FuzzParse: whatever a node writes, the result fits the contract, can be
// written and read again, and shows nothing that a terminal obeys.
func FuzzParse(f *testing.F) {
	seed := scene(nil)
	f.Add(seed[gpusFile], seed[processesFile], seed[usersFile],
		[]byte("/dev/sda1 10 5 5 50% /\nMem: 1 2 3\n4\nup 3:04, load average: 1, 2, 3\n"), []byte("12G /local/x\n"))
	for _, host := range []string{"atlas", "borg", "cygnus"} {
		var files [5][]byte
		for i, suffix := range []string{gpusFile, processesFile, usersFile, statusFile, localFile} {
			files[i], _ = os.ReadFile("testdata/old/" + host + suffix)
		}
		f.Add(files[0], files[1], files[2], files[3], files[4])
	}
	for _, list := range costtest.Lists(`{"5":`, "}\n") {
		f.Add(seed[gpusFile], seed[processesFile], list, []byte{}, []byte{})
	}
	zone := paris(f)
	f.Fuzz(func(t *testing.T, gpus, processes, users, status, local []byte) {
		var s *snapshot.Snapshot
		var problems []snapshot.Problem
		size := len(gpus) + len(processes) + len(users) + 2*len(status) + 2*len(local)
		costtest.Check(t, size, 128, func() {
			s, problems = parse("gpu01",
				map[string][]byte{gpusFile: gpus, processesFile: processes, usersFile: users, statusFile: status,
					cpusFile: local, disksFile: status, localFile: local}, zone, now, now)
		})
		if (s == nil) == (len(problems) == 0) {
			t.Fatalf("a snapshot %v and %d problems", s != nil, len(problems))
		}
		if s == nil {
			return
		}
		if again := s.Validate(); len(again) != 0 {
			t.Fatalf("still not valid: %+v", again)
		}
		if len(s.GPUs) == 0 || len(s.Processes) > snapshot.MaxProcesses {
			t.Fatalf("%d GPUs, %d processes", len(s.GPUs), len(s.Processes))
		}
		known := map[int]bool{}
		for _, g := range s.GPUs {
			known[g.Index] = true
		}
		for _, p := range s.Processes {
			if !known[p.GPU] || p.User != snapshot.Text(p.User, snapshot.MaxNameBytes) || p.StartedAt != nil &&
				p.StartedAt.After(s.CollectedAt.Add(processGap)) {
				t.Fatalf("process %+v", p)
			}
		}
		raw, err := snapshot.EncodeBundle(
			&snapshot.Bundle{Host: s.Host, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := snapshot.DecodeBundle(strings.NewReader(string(raw))); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHostNamesWithUnderscores: a name with underscores is no host name, and the older
// scripts do not mind. Such a host is shown with hyphens, and said.
func TestHostNamesWithUnderscores(t *testing.T) {
	dir := t.TempDir()
	const good = "0, GPU-1, A100, 100, 40960, 5, 1, 40, 2026/11/20 11:42:00.000\n"
	for name, content := range map[string]string{
		"gpu_01_gpus.csv": good, "gpu_02_gpus.csv": good, "gpu-02_gpus.csv": good, "_odd_gpus.csv": good,
		"hosts.json": `{"gpu_01": "gpu_01.example.org", "gpu_02": "wrong.example.org", "gpu-02": "gpu-02.example.org"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 11, 20, 11, 42, 5, 0, time.UTC)
	data, err := Read(dir, now, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(data.Hosts)); !slices.Equal(got, []string{"gpu-01", "gpu-02"}) {
		t.Fatalf("hosts %q", got)
	}
	one, two := data.Hosts["gpu-01"], data.Hosts["gpu-02"]
	if one.Snapshot == nil || one.Snapshot.Host != "gpu-01" || one.Address != "gpu_01.example.org" ||
		two.Address != "gpu-02.example.org" {
		t.Errorf("%+v\n%+v", one, two)
	}
	if got := codes(data.Problems); !slices.Equal(got, []string{"legacy:host", "legacy:renamed"}) {
		t.Fatalf("problems %+v", data.Problems)
	}
	for i, want := range [][]string{{"2 *_gpus.csv files", "_odd_gpus.csv", "gpu_02_gpus.csv", "hyphens"},
		{"gpu_01_gpus.csv as gpu-01"}} {
		for _, words := range want {
			if !strings.Contains(data.Problems[i].Message, words) {
				t.Errorf("%q does not say %q", data.Problems[i].Message, words)
			}
		}
	}
}
