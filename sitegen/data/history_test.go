package data

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

func TestFormulasInCSV(t *testing.T) {
	for in, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-x": "'-x", "@SUM(A1)": "'@SUM(A1)", "ada": "ada", "": "", "a=b": "a=b",
		"\t=1": "\\x09=1", " =cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0",
	} {
		got := csvText(in)
		if got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
		if got != "" && strings.ContainsAny(got[:1], "=+-@\t\r\n ") {
			t.Errorf("%q begins with what a spreadsheet runs: %q", in, got)
		}
	}
	in := boardtest.Remembered(boardtest.Lab())
	in.History.Fleet.Windows[1].Users[0].Name = "=HYPERLINK(\"http://x\")\r\n,\"y"
	data, err := boardtest.Files(in, Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"api/v1/history/users.csv", "api/v1/history/hosts.csv"} {
		lines, err := csv.NewReader(bytes.NewReader(boardtest.FileOf(t, data, path).Content)).ReadAll()
		if err != nil || len(lines) < 10 {
			t.Fatalf("%s: %d lines, %v", path, len(lines), err)
		}
		for _, line := range lines {
			for _, cell := range line {
				if cell != "" && strings.ContainsAny(cell[:1], "=+-@") {
					t.Errorf("%s has the formula %q", path, cell)
				}
			}
		}
	}
}

func TestPastMatchesItsSchemas(t *testing.T) {
	young := boardtest.Lab()
	young.History = &render.History{Fleet: &render.FleetPast{AsOf: boardtest.Now}}
	for i := range young.History.Fleet.Windows {
		young.History.Fleet.Windows[i].From, young.History.Fleet.Windows[i].To = boardtest.Now.AddDate(0, 0, -1),
			boardtest.Now
	}
	for name, in := range map[string]render.Input{
		"rich":    boardtest.Remembered(boardtest.Lab()),
		"dense":   boardtest.Remembered(boardtest.Thin(boardtest.Big(render.FullHistoryHosts + 1))),
		"hostile": boardtest.HostilePast(boardtest.Evil),
		"young":   young,
	} {
		files := apiData(t, in)
		checked := 0
		for p, content := range files {
			schema := ""
			switch {
			case strings.HasPrefix(p, "api/v1/hosts/") && strings.HasSuffix(p, "/history.json"):
				schema = "history-host"
			case strings.HasPrefix(p, "api/v1/history/") && strings.HasSuffix(p, ".json"):
				schema = "history-" + strings.TrimSuffix(p[len("api/v1/history/"):], ".json")
			default:
				continue
			}
			checked++
			for _, err := range schemaErrors(t, files["api/v1/schema/"+schema+".json"], content) {
				t.Errorf("%s: %s: %s", name, p, err)
			}
		}
		if checked != 3+len(in.History.Hosts) {
			t.Errorf("%s: %d files of the past", name, checked)
		}
	}
}

func TestStatesHoldSamples(t *testing.T) {
	in := boardtest.Lab()
	atlas := &in.Board.Hosts[0]
	sample := func(before time.Duration, used int64) snapshot.Sample {
		return snapshot.Sample{At: atlas.SnapshotAt.Add(-before), GPUs: []snapshot.GPUSample{
			{Index: 0, UUID: atlas.GPUs[0].UUID, MemoryUsed: &used},
			{Index: 7, UUID: "GPU-of-before", MemoryUsed: &used}}}
	}
	in.Samples = map[string][]snapshot.Sample{"atlas": {sample(40*time.Second, 1001), sample(20*time.Second, 1002),
		sample(0, 1003)}}
	var states map[string]struct {
		Data []struct {
			Timestamp int64
			GPUs      map[string]map[string]any `json:"gpu_data"`
		}
	}
	if err := json.Unmarshal(apiData(t, in)["states/atlas/samples.json"], &states); err != nil {
		t.Fatal(err)
	}
	data := states["atlas"].Data
	if len(data) != 3 || data[0].GPUs["gpu:0"]["used_memory"] != "1001" ||
		data[1].GPUs["gpu:0"]["used_memory"] != "1002" || len(data[0].GPUs) != 1 {
		t.Fatalf("%+v", data)
	}
	for i, point := range data {
		if i > 0 && point.Timestamp <= data[i-1].Timestamp {
			t.Errorf("%d comes after %d", point.Timestamp, data[i-1].Timestamp)
		}
		processes := point.GPUs["gpu:0"]["processes"].([]any)
		if newest := i == len(data)-1; newest != (len(processes) > 0) {
			t.Errorf("point %d has %d processes", i, len(processes))
		}
	}
}

// A slice is found by its UUID, and has the number of its GPU beside it.
func TestPastOfSlices(t *testing.T) {
	in := boardtest.Remembered(boardtest.Lab())
	ceres := &in.Board.Hosts[2]
	ceres.GPUs[2].Slices[0].UUID = "" // of which nothing is kept
	var api struct {
		Spans []struct {
			GPUs []struct {
				Key   string `json:"key"`
				GPU   *int   `json:"gpu"`
				Slice *int   `json:"mig_device"`
			} `json:"gpus"`
		} `json:"spans"`
	}
	if err := json.Unmarshal(apiData(t, in)["api/v1/hosts/ceres/history.json"], &api); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, g := range api.Spans[0].GPUs {
		if g.Key == "MIG-00000001-0000-4000-8000-000000000000" && g.GPU != nil && *g.GPU == 2 && g.Slice != nil &&
			*g.Slice == 1 ||
			g.Key == ceres.GPUs[2].UUID && g.GPU != nil && g.Slice == nil {
			found++
		}
	}
	if found != 2 {
		t.Errorf("history.json has %+v", api.Spans[0].GPUs)
	}
}
