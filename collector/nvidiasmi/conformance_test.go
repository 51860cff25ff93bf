package nvidiasmi

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// fixtures returns the real captures beside the checkout, which do not belong to
// the project: without them there is nothing to hold the parser against here.
func fixtures(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../../shared/fixtures", pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no captures at ../../../shared/fixtures/%s", pattern)
	}
	return files
}

// A seen is what a reader of the lines alone, who knows nothing of the parser,
// expects of one GPU.
type seen struct {
	name, uuid, pstate      string
	total, used, free       string
	gpuUtil, memUtil, temp  string
	power, limit, fan       string
	lanes, lanesMax         string
	smClock, memClock       string
	pids, memories, letters []string
	lost                    bool
}

var lineTag = regexp.MustCompile(`^\s*<(\w+)(?: [^>]*)?>([^<]*)</`)

// scanLines reads a capture line by line: it remembers the enclosing section
// by the lines that only open or close one.
func scanLines(text string) (driver string, gpus []*seen) {
	opening := regexp.MustCompile(`^\s*<(\w+)(?: [^>]*)?>\s*$`)
	closing := regexp.MustCompile(`^\s*</(\w+)>\s*$`)
	var section []string
	var g *seen
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, "\r")
		if m := opening.FindStringSubmatch(line); m != nil {
			section = append(section, m[1])
			if m[1] == "gpu" {
				g = &seen{}
				gpus = append(gpus, g)
			}
			continue
		}
		if m := closing.FindStringSubmatch(line); m != nil {
			if len(section) > 0 {
				section = section[:len(section)-1]
			}
			continue
		}
		m := lineTag.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		in := ""
		if len(section) > 0 {
			in = section[len(section)-1]
		}
		if m[1] == "driver_version" {
			driver = m[2]
		}
		if g == nil {
			continue
		}
		if in != "process_info" && m[2] == "GPU is lost" {
			g.lost = true
		}
		set := func(field *string) {
			if *field == "" {
				*field = m[2]
			}
		}
		switch in + "/" + m[1] {
		case "gpu/product_name":
			set(&g.name)
		case "gpu/uuid":
			set(&g.uuid)
		case "gpu/performance_state":
			set(&g.pstate)
		case "gpu/fan_speed":
			set(&g.fan)
		case "link_widths/current_link_width":
			set(&g.lanes)
		case "link_widths/max_link_width":
			set(&g.lanesMax)
		case "fb_memory_usage/total", "fb_memory_usage/used", "fb_memory_usage/free":
			if slices.Contains(section, "mig_device") {
				continue
			}
			set(map[string]*string{"total": &g.total, "used": &g.used, "free": &g.free}[m[1]])
		case "utilization/gpu_util":
			set(&g.gpuUtil)
		case "utilization/memory_util":
			set(&g.memUtil)
		case "temperature/gpu_temp":
			set(&g.temp)
		case "clocks/sm_clock":
			set(&g.smClock)
		case "clocks/mem_clock":
			set(&g.memClock)
		case "power_readings/power_draw", "gpu_power_readings/power_draw",
			"gpu_power_readings/average_power_draw", "gpu_power_readings/instant_power_draw":
			if !strings.HasSuffix(g.power, " W") {
				g.power = m[2]
			}
		case "power_readings/power_limit", "gpu_power_readings/current_power_limit":
			set(&g.limit)
		case "process_info/pid":
			g.pids = append(g.pids, m[2])
		case "process_info/type":
			g.letters = append(g.letters, m[2])
		case "process_info/used_memory":
			g.memories = append(g.memories, m[2])
		}
	}
	return driver, gpus
}

// wantNumber turns "81920 MiB" into "81920" and anything without digits into "nil".
func wantNumber(s string) string {
	if m := regexp.MustCompile(`^-?[0-9.]+`).FindString(s); m != "" {
		return strings.TrimSuffix(strings.TrimRight(m, "0"), ".") + "|" + m
	}
	return "nil"
}

func sameNumber(want string, got any) bool {
	text := "nil"
	switch v := got.(type) {
	case *int:
		if v != nil {
			text = strconv.Itoa(*v)
		}
	case *int64:
		if v != nil {
			text = strconv.FormatInt(*v, 10)
		}
	case *float64:
		if v != nil {
			text = strconv.FormatFloat(*v, 'f', -1, 64)
		}
	}
	short, whole, _ := strings.Cut(want, "|")
	return text == short || text == whole
}

func TestCapturesMatchTheirLines(t *testing.T) {
	for _, file := range fixtures(t, "xml/*.xml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := Parse(text, nil)
			driver, want := scanLines(string(text))
			if r.Driver != driver {
				t.Errorf("driver %q, and the file says %q", r.Driver, driver)
			}
			if len(r.GPUs) != len(want) {
				t.Fatalf("%d GPUs, and the file has %d", len(r.GPUs), len(want))
			}
			for i, w := range want {
				checkGPU(t, r, i, w)
			}
			checkComplete(t, r, string(text), len(want))
			checkSane(t, r)
		})
	}
}

func checkGPU(t *testing.T, r Reading, i int, w *seen) {
	t.Helper()
	g := r.GPUs[i]
	if g.Index != i || g.Name != w.name || g.UUID != w.uuid {
		t.Errorf("GPU %d: index %d, name %q, uuid %q; the file says %q, %q", i, g.Index, g.Name, g.UUID, w.name, w.uuid)
	}
	if g.PCIBusID == "" {
		t.Errorf("GPU %d has no bus id", i)
	}
	if lost := g.Health == snapshot.HealthLost; lost != w.lost {
		t.Errorf("GPU %d: health %s, and the file says lost: %v", i, g.Health, w.lost)
	}
	checks := []struct {
		what, text string
		got        any
		live       bool // a lost GPU has no live readings
	}{
		{"memory total", w.total, g.MemoryTotal, false}, {"memory used", w.used, g.MemoryUsed, true},
		{"memory free", w.free, g.MemoryFree, true},
		{"utilization", w.gpuUtil, g.UtilizationGPU, true},
		{"memory utilization", w.memUtil, g.UtilizationMemory, true},
		{"temperature", w.temp, g.Temperature, true}, {"power", w.power, g.PowerDraw, true},
		{"limit", w.limit, g.PowerLimit, false},
		{"lanes", strings.TrimSuffix(w.lanes, "x"), g.PCIeWidth, true},
		{"lanes at most", strings.TrimSuffix(w.lanesMax, "x"), g.PCIeWidthMax, false},
		{"fan", w.fan, g.Fan, true}, {"sm clock", w.smClock, g.ClockSM, true},
		{"memory clock", w.memClock, g.ClockMemory, true},
	}
	for _, c := range checks {
		want := wantNumber(c.text)
		if c.live && w.lost {
			want = "nil"
		}
		if !sameNumber(want, c.got) {
			t.Errorf("GPU %d: %s is %v, and the file says %q", i, c.what, deref(c.got), c.text)
		}
	}
	if !w.lost && strings.HasPrefix(w.pstate, "P") && g.PState != w.pstate {
		t.Errorf("GPU %d: pstate %q, and the file says %q", i, g.PState, w.pstate)
	}
	var pids, letters []string
	var memories []*int64
	for _, p := range r.Processes {
		if p.GPU == i {
			pids, letters, memories = append(pids, strconv.Itoa(p.PID)), append(letters,
				string(p.Type)), append(memories, p.UsedMemory)
		}
	}
	if fmt.Sprint(pids) != fmt.Sprint(w.pids) || fmt.Sprint(letters) != fmt.Sprint(w.letters) {
		t.Fatalf("GPU %d: pids %v %v, and the file says %v %v", i, pids, letters, w.pids, w.letters)
	}
	for k, m := range w.memories {
		if !sameNumber(wantNumber(m), memories[k]) {
			t.Errorf("GPU %d: process %s uses %v, and the file says %q", i, pids[k], deref(memories[k]), m)
		}
	}
}

// checkComplete wants a problem for each capture that promises more than it
// has, or is not XML, and no unknown tokens in the others.
func checkComplete(t *testing.T, r Reading, text string, gpus int) {
	t.Helper()
	wellFormed := xml.Unmarshal([]byte(text), new(struct{})) == nil
	attached := regexp.MustCompile(`<attached_gpus>(\d+)<`).FindStringSubmatch(text)
	short := attached != nil && attached[1] != strconv.Itoa(gpus)
	if (!wellFormed || short) != (hasProblem(r, "smi:truncated") || hasProblem(r, "smi:malformed")) {
		t.Errorf("well-formed %v, short of GPUs %v, and the problems are %v", wellFormed, short, r.Problems)
	}
	for _, code := range []string{"smi:unknown-token", "smi:range"} {
		if hasProblem(r, code) {
			t.Errorf("a real capture is not understood: %v", r.Problems)
		}
	}
}

func TestEveryFailureTextHasAReason(t *testing.T) {
	exits := map[string]int{
		"driver-library-mismatch-535.stdout": 18, "driver-library-mismatch-old.stdout": 18,
		"driver-not-loaded.stdout":          9,
		"gpu-lost-device-handle-old.stdout": 15, "invalid-field.stdout": 2, "no-devices-were-found.stdout": 6,
	}
	codes := map[int]string{18: "smi:driver-mismatch", 9: "smi:driver-not-loaded", 15: "gpu:lost", 2: "smi:usage",
		6: "smi:no-devices"}
	for _, file := range fixtures(t, "errors/*.stdout") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := Parse(text, nil)
		exit, known := exits[filepath.Base(file)]
		p, ok := Explain(exit, string(text))
		if !ok && !hasProblem(r, "gpu:lost") {
			t.Errorf("%s: nothing explains it", file)
		}
		if known && p.Code != codes[exit] {
			t.Errorf("%s: code %q, want %q", file, p.Code, codes[exit])
		}
		// The words alone have to do, too: wrappers lose the exit status.
		if q, ok := Explain(1, string(text)); known && (!ok || q.Code != codes[exit]) {
			t.Errorf("%s with exit 1: code %q, want %q", file, q.Code, codes[exit])
		}
	}
}

func TestEveryListIsRead(t *testing.T) {
	for _, file := range fixtures(t, "text/*-L.txt") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list := ParseList(text)
		if want := strings.Count(string(text), "  MIG "); len(list) != want {
			t.Errorf("%s: %d MIG devices, and the file has %d", file, len(list), want)
		}
		for i, l := range list {
			if !strings.HasPrefix(l.UUID, "MIG-") || !strings.Contains(string(text), l.Profile) || l.Device != i ||
				l.GPUUUID == "" {
				t.Errorf("%s: device %d is %+v", file, i, l)
			}
		}
	}
}

func deref(v any) any {
	switch v := v.(type) {
	case *int:
		if v != nil {
			return *v
		}
	case *int64:
		if v != nil {
			return *v
		}
	case *float64:
		if v != nil {
			return *v
		}
	}
	return nil
}

func hasProblem(r Reading, code string) bool {
	for _, p := range r.Problems {
		if p.Code == code {
			return true
		}
	}
	return false
}

// checkSane is what holds of every reading, whatever the input was.
func checkSane(t *testing.T, r Reading) {
	t.Helper()
	inside := func(what string, v any, low, high float64) {
		var f float64
		switch v := deref(v).(type) {
		case nil:
			return
		case int:
			f = float64(v)
		case int64:
			f = float64(v)
		case float64:
			f = v
		}
		if !(f >= low && f <= high) {
			t.Errorf("%s is %v", what, f)
		}
	}
	if len(r.GPUs) > snapshot.MaxGPUs || len(r.Processes) > snapshot.MaxProcesses ||
		len(r.Problems) > snapshot.MaxErrors {
		t.Errorf("%d GPUs, %d processes, %d problems", len(r.GPUs), len(r.Processes), len(r.Problems))
	}
	for i, g := range r.GPUs {
		if g.Index != i {
			t.Errorf("GPU %d has index %d", i, g.Index)
		}
		inside("total", g.MemoryTotal, 0, maxMemory)
		for _, d := range snapshot.Descriptors() {
			if value, known := d.Of(&g.Readings); known {
				inside(d.Name, &value, d.Low, d.High)
			}
		}
		if g.MemoryTotal != nil {
			inside("used", g.MemoryUsed, 0, float64(*g.MemoryTotal))
		}
		if len(g.MIGDevices) > snapshot.MaxMIGDevices || len(g.Name) > snapshot.MaxNameBytes ||
			len(g.UUID) > snapshot.MaxNameBytes {
			t.Errorf("GPU %d is too large: %+v", i, g)
		}
		if g.Health == "" {
			t.Errorf("GPU %d has no health", i)
		}
	}
	for _, p := range r.Processes {
		if p.PID < 1 || p.GPU < 0 || p.GPU >= len(r.GPUs) || len(p.Program) > snapshot.MaxProgramBytes ||
			strings.ContainsAny(p.Program, " \n\x1b") {
			t.Errorf("process %+v", p)
		}
		inside("used memory", p.UsedMemory, 0, maxMemory)
	}
	// And what the reader of a drop would change, he should not have to.
	if found := (&snapshot.Snapshot{GPUs: slices.Clone(r.GPUs), Processes: slices.Clone(r.Processes), Errors: slices.Clone(r.Problems)}).Validate(); len(found) > 0 {
		t.Errorf("%v", found)
	}
	for _, p := range r.Problems {
		if p.Code == "" || p.Message == "" || len(p.Message) > snapshot.MaxTextBytes || snapshot.Text(p.Message, snapshot.MaxTextBytes) != p.Message {
			t.Errorf("problem %+v", p)
		}
	}
}
