package amdsmi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// capture returns a real capture beside the checkout, which does not belong to the project: without it there is
// nothing to hold the parser against here.
func capture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../shared/fixtures/vendors", name))
	if err != nil {
		t.Skipf("no captures at ../../../shared/fixtures/vendors: %v", err)
	}
	return string(text)
}

// rocmOfCSV is a table of rocm-smi --csv as its --json has it.
func rocmOfCSV(table string) string {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	heads := strings.Split(lines[0], ",")
	cards := map[string]map[string]string{}
	for _, line := range lines[1:] {
		card := map[string]string{}
		for i, cell := range strings.Split(line, ",") {
			card[heads[i]] = cell
		}
		cards[card["device"]] = card
	}
	text, _ := json.Marshal(cards)
	return string(text)
}

func row(r Reading, i int) string { return rowOf(&r.GPUs[i]) }

// rowOf is what is known of a GPU, one number after the other: name, UUID, bus; total, used; utilization of chip and
// memory; temperature; power and its limit; fan; lanes; clocks.
func rowOf(g *snapshot.GPU) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %s; %s;", g.Name, g.UUID, g.PCIBusID)
	whole := func(p *int) {
		if p == nil {
			b.WriteString(" -")
		} else {
			fmt.Fprintf(&b, " %d", *p)
		}
	}
	for _, p := range []*int64{g.MemoryTotal, g.MemoryUsed} {
		if p == nil {
			whole(nil)
		} else {
			whole(new(int(*p)))
		}
	}
	whole(g.UtilizationGPU)
	whole(g.UtilizationMemory)
	whole(g.Temperature)
	for _, p := range []*float64{g.PowerDraw, g.PowerLimit} {
		if p == nil {
			whole(nil)
		} else {
			fmt.Fprintf(&b, " %gW", *p)
		}
	}
	whole(g.Fan)
	whole(g.PCIeWidth)
	whole(g.PCIeWidthMax)
	whole(g.ClockSM)
	whole(g.ClockMemory)
	return b.String()
}

// published are the GPUs of a reading as board.json has them: the snapshot in a drop, and a generation of it.
func published(t *testing.T, r Reading) []snapshot.GPU {
	t.Helper()
	dir, now := t.TempDir(), time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	s := snapshotOf(r)
	s.Host, s.Seq, s.BootID, s.CollectedAt = "amd01", 1, "00000000-0000-4000-8000-000000000001", snapshot.TimeOf(now)
	sent, err := snapshot.EncodeBundle(&snapshot.Bundle{Host: s.Host, BootID: s.BootID, Snapshot: s})
	drop := filepath.Join(dir, "data/drop/amd01")
	if err := errors.Join(err, os.MkdirAll(drop, 0o755),
		os.WriteFile(filepath.Join(drop, "latest.json.gz"), sent, 0o644)); err != nil {
		t.Fatal(err)
	}

	g, err := sitegen.New(sitegen.Options{
		Data: dir + "/data", Site: dir + "/site", State: dir + "/state", NoHelp: true,
		Inventory: func(context.Context, time.Time, inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: []inventory.Host{{Name: "amd01"}}, AsOf: now}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(t.Context(), now.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(dir + "/site/api/v1/board.json")
	var doc struct {
		Hosts []struct{ GPUs []snapshot.GPU }
	}
	if err := errors.Join(err, json.Unmarshal(text, &doc)); err != nil || len(doc.Hosts) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return doc.Hosts[0].GPUs
}

// TestCaptures holds every capture of AMD's against what a person has read in it.
func TestCaptures(t *testing.T) {
	rocm := func(text string) Answer { return ParseROCm([]byte(text)) }
	csv := func(text string) Answer { return ParseROCm([]byte(rocmOfCSV(text))) }
	static := func(text string) Answer { return ParseSMI(nil, []byte(text), nil, nil) }
	for _, c := range []struct {
		file, driver string
		parse        func(string) Answer
		integrated   bool
		rows         []string
	}{
		// Bytes: 17163091968 of 2^20 are 16368, 11615076352 are 11077.
		{"gpustack-rocmsmi-rx7800xt-rocm624.json", "", rocm, false,
			[]string{"Radeon RX 7700 XT / 7800 XT; GPU-5c88007d760374f3; ; 16368 11077 100 - 45 53W - - - - - -"}},
		{"marimo-issue9237-rocmsmi-rx7900xt.json", "", rocm, false,
			[]string{"Radeon RX 7900 XT; ; ; 20464 26 0 - - - - - - - - -"}},
		{"marimo-issue9237-rocmsmi-rx7900xt.csv", "", csv, false,
			[]string{"Radeon RX 7900 XT; ; ; 20464 26 0 - - - - - - - - -"}},
		{"slurmmonitor-rocmsmi-radeonvii.csv", "", csv, false,
			[]string{"Radeon Pro VII/Radeon Instinct MI50 32GB; GPU-2490210172fc1a88; ; 16368 10 0 0 33 19W - - - - - -"}},
		{"slurmmonitor-rocmsmi-1.4.1-2x-mi210.csv", "", csv, false, []string{
			"Instinct MI210; GPU-18f68e602b8a790f; ; 65520 10 0 0 40 41W - - - - - -",
			"Instinct MI210; GPU-95a1ca7691e7c391; ; 65520 10 0 0 43 39W - - - - - -"}},
		{"beszel-rocmsmi-radeon680m.json", "", rocm, true, []string{"Radeon 680M; ; ; - - 0 - 49 28.159W - - - - - -"}},
		{"telegraf-rocmsmi-rx6700xt_rocm571.json", "6.3.6", rocm, false,
			[]string{"Radeon RX 6700/6700 XT / 6800M; ; 00000000:07:00.0; 12272 1492 0 0 45 6W 211W - - - 500 96"}},
		{"telegraf-rocmsmi-rx6700xt_rocm612.json", "6.3.6", rocm, false,
			[]string{"Radeon RX 6700/6700 XT / 6800M; ; 00000000:07:00.0; 12272 1499 0 0 45 6W 211W - - - 0 96"}},
		{"telegraf-rocmsmi-vega-20-WKS-GL-XE.json", "5.9.17", rocm, false,
			[]string{"Radeon Instinct MI50 32GB; GPU-02f048617326b1ea; 00000000:63:00.0; 32752 10 0 0 36 26W 225W 0 - - 1725 1000"}},
		{"telegraf-rocmsmi-mi100_rocm602.json", "6.3.6", rocm, false, []string{
			"Instinct MI100; GPU-79ccd55167a2124a; 00000000:83:00.0; 32752 6 0 0 53 36W 290W - - - 300 1200",
			"Instinct MI100; GPU-04edfb117a17a07d; 00000000:a3:00.0; 32752 6 0 0 55 44W 290W - - - 300 1200",
			"Instinct MI100; GPU-d4a9ec48d03d261d; 00000000:c3:00.0; 32752 6 0 0 54 43W 290W - - - 300 1200",
			"Instinct MI100; GPU-1b9dd972253c3736; 00000000:e3:00.0; 32752 6 0 0 51 39W 290W - - - 300 1200"}},
		{"dme-amdsmi-static-mi210.json", "", static, false,
			[]string{"AMD Instinct MI210; ; ; 65520 - - - - - 300W - - 16 - -"}},
	} {
		a := c.parse(capture(t, c.file))
		r := readWith(tree(), tree(), a, Options{Integrated: c.integrated})
		if !a.Said || len(r.GPUs) != len(c.rows) || r.Tool.Driver != c.driver {
			t.Errorf("%s: %d GPUs, driver %q", c.file, len(r.GPUs), r.Tool.Driver)
			continue
		}
		onBoard := published(t, r)
		for i, want := range c.rows {
			if got := row(r, i); got != want {
				t.Errorf("%s:\n%s, want\n%s", c.file, got, want)
			}
			if got := rowOf(&onBoard[i]); got != want && !c.integrated || onBoard[i].Vendor != snapshot.AMD {
				t.Errorf("%s: board.json has\n%s, want\n%s", c.file, got, want)
			}
			if g := r.GPUs[i]; g.ProcessesUnknown == "" || r.Complete || g.MemoryShared != c.integrated {
				t.Errorf("%s: a tool alone: processes %q, complete %v, shared %v", c.file, g.ProcessesUnknown,
					r.Complete, g.MemoryShared)
			}
		}
		if c.integrated {
			if r := readWith(tree(), tree(), a, Options{}); len(r.GPUs) != 0 || !r.Integrated {
				t.Errorf("%s: the graphics of a processor are %+v", c.file, r.GPUs)
			}
		}
	}
}

// TestCaptureOfProcesses: four processes stand under both GPUs with the same bytes. KFD tells which is where.
func TestCaptureOfProcesses(t *testing.T) {
	a := ParseSMI(nil, nil, nil, []byte(capture(t, "amdsmi-process-2x-r9700-rocm720.json")))
	alone := readWith(without(tree(twoCards(29777<<20, 29777<<20)), "class/kfd"), tree(), a, Options{})
	if used(alone) != "" || unknowns(alone) != "the list of KFD cannot be read|the list of KFD cannot be read" {
		t.Errorf("without KFD: %s, unknown %s", used(alone), unknowns(alone))
	}
	kernel := twoCards(29777<<20, 29777<<20)
	for pid, on := range map[int]map[int]int64{213534: {idA: 0, idB: 0}, 213890: {idA: 0, idB: 0},
		213952: {idA: 21008920000, idB: 0}, 213953: {idA: 0, idB: 20508920000}} {
		queue := 0
		for id, n := range on {
			if n > 0 {
				queue = id
			}
		}
		kernel += kfdProcess(pid, queue, on)
	}
	r := readWith(tree(kernel), tree(), a, Options{})
	if used(r) != "0:213952:C:20035 1:213953:C:19558" || unknowns(r) != "|" || r.Processes[0].Program != "python3.12" {
		t.Errorf("%s, unknown %s, %+v", used(r), unknowns(r), r.Processes)
	}
}

// TestOtherCaptures: the kernel's files of a card, and texts that the program never asks for.
func TestOtherCaptures(t *testing.T) {
	dir, sys := "class/drm/card0/device/", map[string][]string{}
	for line := range strings.Lines(capture(t, "procfs-sysfs-amdgpu-card0.txt")) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		sys[name] = append(sys[name], text)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sys)) {
		fmt.Fprintf(&text, "%s%s: %s\n", dir, name, strings.Join(sys[name], `\n`))
	}
	r := readTree(tree(text.String()), tree())
	if len(r.GPUs) != 1 ||
		row(r, 0) != "AMD GPU 687F; GPU-0123456789abcdef; 00000000:09:00.0; 8176 1421 4 - - - - - 16 16 852 167" {
		t.Errorf("the kernel's files: %+v", r.GPUs)
	}
	if r.GPUs[0].ProcessesUnknown != "the list of KFD cannot be read" {
		t.Errorf("without KFD: %q", r.GPUs[0].ProcessesUnknown)
	}
	info := strings.ReplaceAll(capture(t, "amdgputop-issue87-fdinfo-amdgpu.txt"), "\n", `\n`)
	proc := "31/fd/24 -> /dev/dri/renderD128\n31/fdinfo/24: " + info
	with := tree(strings.ReplaceAll(text.String(), "0000:09:00.0", "0000:08:00.0"))
	if r := readTree(with, tree(proc)); used(r) != "0:31:G:2" {
		t.Errorf("fdinfo: %s", used(r))
	}
	for _, name := range []string{"amdsmi-issue130-monitor-mi300x-rocm640.txt",
		"amdsmi-issue130-process-mi300x-rocm640.txt",
		"amdsmi-issue130-monitor-process-mi300x-rocm640.txt", "amdsmi-pr110-table-radeon8050s.txt",
		"amdsmi-table-2x-r9700-rocm720.txt",
		"rocmblog-amdsmi-process-8x-mi300x.csv", "rocmblog-amdsmi-monitor-8x-mi300x.txt",
		"rocsmi-issue60-showpids.txt"} {
		out := []byte(capture(t, name))
		if a, b := ParseSMI(out, out, out, out), ParseROCm(out); a.Said || b.Said {
			t.Errorf("%s is no JSON, and told of GPUs", name)
		}
	}
}
