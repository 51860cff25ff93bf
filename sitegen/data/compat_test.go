package data

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

// compatKinds is a JSON value with every scalar replaced by its kind, and lists by
// their first element: what a program that reads it relies on.
func compatKinds(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, member := range v {
			m[k] = compatKinds(member)
		}
		return m
	case []any:
		if len(v) == 0 {
			return []any{}
		}
		return []any{compatKinds(v[0])}
	default:
		return fmt.Sprintf("%T", v)
	}
}

func compatRead(t testing.TB, content []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(content, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func compatShape(t testing.TB, name string, got any, want string) {
	t.Helper()
	a, err := json.Marshal(compatKinds(got))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(compatKinds(compatRead(t, []byte(want))))
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("%s:\n got %s\nwant %s", name, a, b)
	}
}

// The documents below have the fields, and each field the kind, that the
// systems of before document; names and values are made up.
func TestStatesShape(t *testing.T) {
	files := apiData(t, boardtest.Lab())
	all := compatRead(t, files["states/index.json"]).(map[string]any)
	one := compatRead(t, files["states/atlas/index.json"]).(map[string]any)
	atlas := one["atlas"].(map[string]any)
	if len(one) != 1 || len(all) != len(boardtest.Lab().Board.Hosts) {
		t.Errorf("%d and %d hosts", len(one), len(all))
	}
	data := atlas["data"].([]any)[0].(map[string]any)
	gpus := data["gpu_data"].(map[string]any)
	compatShape(t, "gpu:0", gpus["gpu:0"],
		`{"available_memory": "10934", "device_num": "0", "gpu_name": "x", "gpu_volatile": "0",
		"processes": [{"name": "x", "pid": "1963", "used_memory": "148", "user": "root"}],
		"temperature": "36", "timestamp": "2018/11/30 23:29:47.115", "total_memory": "11169", "used_memory": "235", "uuid": "GPU-"}`)
	delete(data, "gpu_data")
	compatShape(t, "host", atlas,
		`{"data": [{"timestamp": 20181130232947}], "ip_address": "127.0.0.1", "status": "running"}`)

	g := gpus["gpu:0"].(map[string]any)
	if g["timestamp"] != "2026/11/20 10:41:58.000" || data["timestamp"] != 20261120104158.0 {
		t.Errorf("at %v and %.0f; both are in the site's zone", g["timestamp"], data["timestamp"])
	}
	if g["used_memory"] != "72900" || g["available_memory"] != "8659" || g["gpu_volatile"] != "97" {
		t.Errorf("readings %v", g)
	}
	for host, status := range map[string]string{"fornax": "down", "icarus": "waiting for re-uplink",
		"boreas": "running"} {
		if got := all[host].(map[string]any)["status"]; got != status {
			t.Errorf("%s is %v, want %s", host, got, status)
		}
	}
	stale := all["fornax"].(map[string]any)["data"].([]any)[0].(map[string]any)
	if len(stale["gpu_data"].(map[string]any)) != 0 || stale["timestamp"] != 20261120074000.0 {
		t.Errorf("a stale host shows %v", stale)
	}
}

// TestStatesHaveTheNewestSample: a client that takes the first of the data, or draws all of it,
// gets what the older server gave without fetch_num.
func TestStatesHaveTheNewestSample(t *testing.T) {
	in := boardtest.Lab()
	atlas := in.Board.Hosts[0]
	earlier := snapshot.Sample{At: atlas.SnapshotAt.Add(-20 * time.Second), GPUs: []snapshot.GPUSample{
		{Index: atlas.GPUs[0].Index, UUID: atlas.GPUs[0].UUID, Utilization: new(12)},
	}}
	in.Samples = map[string][]snapshot.Sample{atlas.Name: {earlier}}
	files := apiData(t, in)
	for path, want := range map[string][]float64{
		"states/index.json":                      {20261120104158},
		"states/" + atlas.Name + "/index.json":   {20261120104158},
		"states/" + atlas.Name + "/samples.json": {20261120104138, 20261120104158},
	} {
		var got []float64
		for _, point := range compatRead(t, files[path]).(map[string]any)[atlas.Name].(map[string]any)["data"].([]any) {
			got = append(got, point.(map[string]any)["timestamp"].(float64))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the samples of %.0f, want %.0f", path, got, want)
		}
	}
}

func TestGetStatusShape(t *testing.T) {
	doc := compatRead(t, apiData(t, boardtest.Lab())["compat/get-status.json"]).(map[string]any)
	nodes := doc["Nodes"].([]any)
	compatShape(t, "node", nodes[0], `{"hostname": "x", "last_update": "2023-04-29T21:17:41.419592", "ips": [["eno1"]],
		"gpus": [{"index": 0, "name": "x", "use_mem": 1, "tot_mem": 2, "utilize": 3, "temp": 4,
		"users": [{"pid": 123, "username": "xx", "mem(MiB)": 1024, "command": "xx"}]}], "version": "x", "status": true}`)
	first := nodes[0].(map[string]any)
	if ips := fmt.Sprint(first["ips"]); ips != "[[eno1 10.0.4.21]]" {
		t.Errorf("ips %s", ips)
	}
	for _, n := range nodes {
		m := n.(map[string]any)
		if down := m["hostname"] == "fornax" || m["hostname"] == "helios" ||
			m["hostname"] == "icarus"; m["status"] == down {
			t.Errorf("%v has status %v", m["hostname"], m["status"])
		}
	}
}

// TestGetStatusOfUnknownNumbers: what is not known is empty, because that system's page puts a unit behind every value.
func TestGetStatusOfUnknownNumbers(t *testing.T) {
	in := boardtest.Lab()
	g := &in.Board.Hosts[0].GPUs[2]
	g.MemoryUsed, g.MemoryTotal, g.UtilizationGPU, g.Temperature = nil, nil, nil, nil
	if len(g.Computing()) == 0 {
		t.Fatal("nobody computes on it")
	}
	g.Processes[0].UsedMemory = nil
	doc := compatRead(t, apiData(t, in)["compat/get-status.json"]).(map[string]any)
	gpu := doc["Nodes"].([]any)[0].(map[string]any)["gpus"].([]any)[2].(map[string]any)
	for _, name := range []string{"use_mem", "tot_mem", "utilize", "temp"} {
		if gpu[name] != "" {
			t.Errorf("%s is %v", name, gpu[name])
		}
	}
	if user := gpu["users"].([]any)[0].(map[string]any); user["mem(MiB)"] != "" {
		t.Errorf("a process of unknown memory is %v", user)
	}
}

func TestAgentShape(t *testing.T) {
	files := apiData(t, boardtest.Lab())
	agent := compatRead(t, files["compat/gpu_status/atlas.json"]).(map[string]any)
	cluster := compatRead(t, files["compat/cluster_status.json"]).([]any)
	gpus := agent["gpus"].([]any)
	busy := gpus[2].(map[string]any)
	busy["clock_mhz"] = 1.0 // not in the fleet
	compatShape(t, "gpu",
		busy, `{"type": "x", "is_available": false, "pids": "1,2", "users": "a,b", "running_since": "x",
		"utilization": 1, "clock_mhz": 139, "temperature": 44, "cmd": "train.py"}`)
	if busy["pids"] != "50121,50640,50702" || busy["users"] != "tomas,lea,noor" || busy["cmd"] != "finetune.py" ||
		busy["running_since"] != "7 hours ago" {
		t.Errorf("%v", busy)
	}
	if !slices.ContainsFunc(gpus, func(g any) bool { return g.(map[string]any)["is_available"] == true }) {
		t.Error("nothing is available")
	}
	// A master has the addresses of agents, and asks each for gpu_status below it.
	for host, content := range map[string][]byte{
		"atlas":  files["compat/gpu_status/atlas.json"],
		"europa": files["compat/gpu_status/europa.json"],
	} {
		if got := files["gpu_status/"+host+"/gpu_status/index.json"]; len(got) == 0 || string(got) != string(content) {
			t.Errorf("the agent of %s answers a master\n%s\nwant\n%s", host, got, content)
		}
	}
	stuck := compatRead(t, files["compat/gpu_status/europa.json"]).(map[string]any)["gpus"].([]any)[1].(map[string]any)
	if stuck["users"] != "kai" || stuck["is_available"] != false {
		t.Errorf("a stuck GPU is %v", stuck)
	}
	if len(cluster) != 9 || cluster[5].(map[string]any)["error"] != "Connection timeout" ||
		cluster[8].(map[string]any)["error"] != "Host not available" {
		t.Errorf("cluster %v", cluster)
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "just now", 59 * time.Second: "just now", 90 * time.Second: "a minute ago",
		59 * time.Minute: "59 minutes ago",
		time.Hour:        "an hour ago", 47 * time.Hour: "a day ago", 48 * time.Hour: "2 days ago",
		15 * 24 * time.Hour: "2 weeks ago", 800 * 24 * time.Hour: "2 years ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestInfoShape(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Hosts[5].GPUs[0].MemoryUsed, in.Board.Hosts[5].GPUs[0].MemoryTotal = new(int64(1)), new(int64(2))
	info := compatRead(t, apiData(t, in)["compat/gpu_info.json"]).(map[string]any)
	compatShape(t, "atlas", info["atlas"],
		`[{"index": "0", "mem_total": 8119, "mem_used": 7881, "mem_used_percent": 97.06, "type": "x", "uuid": "GPU-"}]`)
	if n := len(info["europa"].([]any)); n != 3 {
		t.Errorf("europa has %d GPUs; the lost one has no memory to tell", n)
	}
	if n := len(info["fornax"].([]any)); n != 0 {
		t.Errorf("a silent host has %d", n)
	}
}

func TestBadgesAreWellFormed(t *testing.T) {
	for name, in := range map[string]render.Input{
		"fleet":   boardtest.Lab(),
		"hostile": boardtest.Hostile(boardtest.Lab(), boardtest.Evil),
	} {
		found := 0
		for p, content := range apiData(t, in) {
			if !strings.HasPrefix(p, "badges/") {
				continue
			}
			found++
			dec := xml.NewDecoder(strings.NewReader(string(content)))
			for {
				if _, err := dec.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s: %s: %v", name, p, err)
				}
			}
		}
		if found < 2 {
			t.Errorf("%s: %d badges", name, found)
		}
	}
	if s := string(
		apiData(t, boardtest.Lab())["badges/free-rtx-3090.svg"],
	); !strings.Contains(s, "free RTX 3090: 1 of 3") {
		t.Errorf("badge %s", s)
	}
}

// The files of another system are written where the configuration names it.
func TestCompatNamesTheSystems(t *testing.T) {
	files := map[string][]string{
		"vesta": {"states/boreas/index.json", "states/index.json"},
		"nvgpu": {"compat/cluster_status.json", "compat/gpu_info.json", "compat/gpu_status/boreas.json",
			"cluster_status/index.json", "gpu_status/boreas/gpu_status/index.json", "gpu_status/boreas/index.json",
			"gpu_status/index.json"},
		"gpu-cluster-monitor": {"compat/get-status.json", "get-status/index.json"},
	}
	for _, want := range [][]string{nil, {"vesta"}, {"nvgpu"}, {"gpu-cluster-monitor"}, {"nvgpu", "vesta"}, {"all"}} {
		in := boardtest.Lab()
		in.Board.Hosts = in.Board.Hosts[1:2]
		in.Site.Compat = want
		var expected, got []string
		for system, paths := range files {
			if slices.Contains(want, system) || slices.Contains(want, "all") {
				expected = append(expected, paths...)
			}
		}
		for path := range apiData(t, in) {
			if top, _, _ := strings.Cut(path, "/"); slices.Contains(
				[]string{"states", "compat", "get-status", "cluster_status", "gpu_status"},
				top,
			) {
				got = append(got, path)
			}
		}
		slices.Sort(expected)
		slices.Sort(got)
		if !slices.Equal(got, expected) {
			t.Errorf("compat %v writes %v, want %v", want, got, expected)
		}
	}
}
