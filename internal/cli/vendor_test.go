package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/cli"
	"gpuboard/internal/snapshot"
)

// TestAMDOnEveryFace: snapshots of AMD's cards, made by hand, go through generate to each file and command. A busy one is
// never offered, one whose processes are unknown is never free, and an idle one is offered by what its runtime takes.
func TestAMDOnEveryFace(t *testing.T) {
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	for _, host := range []string{"mi210", "mi300x", "mixed"} {
		text, err := os.ReadFile(filepath.Join("testdata/amd", host+".json"))
		if err != nil {
			t.Fatal(err)
		}
		s := &snapshot.Snapshot{}
		if err := json.Unmarshal(text, s); err != nil {
			t.Fatal(err)
		}
		s.CollectedAt = snapshot.TimeOf(time.Now())
		data, err := snapshot.EncodeBundle(&snapshot.Bundle{
			Host: host, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()},
		})
		if err != nil {
			t.Fatal(err)
		}
		drop := filepath.Join(dir, "data", "drop", host)
		if err := os.MkdirAll(drop, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(drop, "latest.json.gz"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GPUBOARD_CONFIG", "")
	t.Setenv("GPUBOARD_BOOKING_NAME", "ada")
	t.Setenv("HOME", dir)
	run := func(want int, args ...string) string {
		t.Helper()
		var out, problems bytes.Buffer
		if code := cli.Main(args, strings.NewReader(""), &out, &problems); code != want {
			t.Fatalf("gpuboard %s: exit %d\n%s", strings.Join(args, " "), code, problems.String())
		}
		return out.String()
	}
	run(0, "generate", "--data", filepath.Join(dir, "data"), "--site", site, "--state", filepath.Join(dir, "state"))

	for path, parts := range map[string][]string{
		"api/v1/hosts/mi210.json": {
			`"driver_version":null,"cuda_version":null,"tools":\[\{"vendor":"amd","name":"amd-smi","version":"26.2.0","driver_version":"6.12.12"\}\]`,
			`"index":0,"vendor":"amd","uuid":"GPU-08e5af7a8e5a7f30",.*"short_name":"MI210","state":"busy","reason":null`,
			`"index":1,"vendor":"amd",[^{]*"state":"free"`,
			`"index":2,"vendor":"amd",[^{]*"state":"unknown","reason":"unreadable"`,
			`"index":3,"vendor":"amd",[^{]*"state":"busy","reason":"utilization"`,
		},
		"api/v1/hosts/mi300x.json": {
			`"name":"sysfs","version":null`, `"short_name":"MI300X DPX NPS1","state":"busy"`,
			`"short_name":"MI300X DPX NPS1","state":"free"`, `"index":1,"vendor":"amd","uuid":null,[^{]*"state":"free"`,
		},
		"api/v1/hosts/mixed.json": {
			`"tools":\[\{"vendor":"nvidia","name":"nvidia-smi","version":null,"driver_version":"580.95.05"\},\{"vendor":"amd",`,
			`"index":0,"vendor":"nvidia"`, `"index":1,"vendor":"amd"`,
		},
		"api/v1/board.json": {`"vendor":"amd"`, `"gpus":8,"free":5`},
		"api/v1/free.json": {`"free":5,"gpus":8,"free_slices":1,"slices":2`,
			`"host":"mi210",[^}]*"gpu":1,[^}]*"vendor":"amd","model":"MI210"`},
		"hosts/mi210/index.html": {
			`amd-smi</(dt|th|span|td|b)>`, `26\.2\.0, driver 6\.12\.12`, `MI210`,
			`>ROCR_VISIBLE_DEVICES=GPU-08e5af7a8e5a7f31<`,
		},
		"detail.txt": {`amd-smi 26\.2\.0, driver 6\.12\.12`, `sysfs driver 6\.12\.12`},
		"metrics.txt": {
			`gpuboard_gpu_info\{host="mi210",gpu="1",[^}]*driver_version="6.12.12",vendor="amd"\} 1`,
			`gpuboard_gpu_info\{host="mixed",gpu="0",[^}]*driver_version="580.95.05",vendor="nvidia"\} 1`,
			`gpuboard_slice_info\{host="mi300x",gpu="0",slice="1",[^}]*vendor="amd"\} 1`,
			`gpuboard_gpu_power_draw_watts\{host="mi300x",gpu="0"\} 611`,
		},
	} {
		text, err := os.ReadFile(filepath.Join(site, path))
		if err != nil {
			t.Error(err)
		}
		for _, part := range parts {
			if !regexp.MustCompile(part).Match(text) {
				t.Errorf("%s does not say %s", path, part)
			}
		}
		if path == "metrics.txt" && bytes.Count(text, []byte("\ngpuboard_gpu_power_draw_watts{host=\"mi300x\"")) != 2 {
			t.Error("the power of partitions is counted besides that of their card")
		}
	}

	for args, want := range map[string]string{
		"--host mi210 --format env":              "ROCR_VISIBLE_DEVICES=GPU-08e5af7a8e5a7f31",
		"--host mi300x --format env":             "ROCR_VISIBLE_DEVICES=2", // two partitions come before it
		"--host mixed --format env":              "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0",
		"--host mixed --gpus 2 --format env":     "ROCR_VISIBLE_DEVICES=GPU-08e5af7a8e5a7f41,GPU-08e5af7a8e5a7f42",
		"--host mixed --gpus 2 --format uuids":   "GPU-08e5af7a8e5a7f41,GPU-08e5af7a8e5a7f42",
		"--host mixed --gpus 2":                  "mixed:1,mixed:2",
		"--model mi210 --gpus 3":                 "mixed:1,mixed:2,mi210:1",
		"--model instinct --host mixed --gpus 2": "mixed:1,mixed:2",
	} {
		if got := run(0, append([]string{"wait", "--from", site}, strings.Fields(args)...)...); got != want+"\n" {
			t.Errorf("wait %s: %swant %s", args, got, want)
		}
	}
	run(5, "wait", "--from", site, "--host", "mixed", "--gpus", "3", "--timeout", "1ms")
	run(5, "wait", "--from", site, "--host", "mi210", "--gpus", "2", "--timeout", "1ms")

	csv := run(0, "status", "--from", site, "--csv")
	if !regexp.MustCompile(`(?m)^mi210,.*,1,GPU-08e5af7a8e5a7f31,AMD Instinct MI210,free,.*,amd$`).MatchString(csv) {
		t.Errorf("the table:\n%s", csv)
	}
	if read := run(0, "status", "--from", site, "--json"); !strings.Contains(read,
		`"name":"amd-smi","version":"26.2.0"`) ||
		strings.Count(read, `"name":"nvidia-smi"`) != 1 {
		t.Error("what was read back from a site lacks the tools")
	}
	if shown := run(0, "status", "--from", site, "mi300x", "--detail"); !strings.Contains(shown,
		"sysfs driver 6.12.12") {
		t.Errorf("the status:\n%s", shown)
	}
}
