package nvidiasmi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/snapshot"
)

var update = flag.Bool("update", false, "write the golden files anew")

// capture reads one of our own captures and gives its processes pids.
func capture(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 9; i++ {
		text = bytes.ReplaceAll(text, fmt.Appendf(nil, "@PID%d@", i), fmt.Appendf(nil, "%d", 4000+i))
	}
	return text
}

func TestOwnCapturesAreReadAsTheirGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*[0-9].*")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, ".golden.json") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := Parse(capture(t, name), nil)
			checkSane(t, r)
			got, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := file + ".golden.json"
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Error(diff)
			}
			if bytes.Contains(got, []byte("CANARY")) {
				t.Error("an argument of a process is in the reading")
			}
		})
	}
}

// one makes a document of one GPU with these elements.
func one(elements string) []byte {
	return []byte("<nvidia_smi_log><driver_version>550.1</driver_version><attached_gpus>1</attached_gpus>" +
		`<gpu id="00000000:01:00.0"><uuid>GPU-1</uuid>` + elements + "<processes></processes></gpu></nvidia_smi_log>")
}

func TestEverySpellingOfAbsenceIsNoValue(t *testing.T) {
	for _, word := range []string{
		"[N/A]", "N/A", "n/a", "Not Supported", "[Not Supported]", "Unknown Error", "[Unknown Error]", "GPU is lost", "[GPU is lost]",
		"GPU requires reset", "Insufficient Permissions", "[Insufficient Permissions]", "Requested functionality has been deprecated",
		"Function Not Found", "None", "ERR!", "", "  ", "Not Found",
	} {
		r := Parse(one("<utilization><gpu_util>"+word+"</gpu_util></utilization><fan_speed>"+word+"</fan_speed>"), nil)
		if len(r.GPUs) != 1 || r.GPUs[0].UtilizationGPU != nil || r.GPUs[0].Fan != nil {
			t.Errorf("%q: %+v", word, r.GPUs)
		}
		if hasProblem(r, "smi:unknown-token") || hasProblem(r, "smi:range") {
			t.Errorf("%q: %v", word, r.Problems)
		}
	}
}

func TestAnUnknownTokenIsSaidOnce(t *testing.T) {
	gpu := `<gpu id="00000000:0%d:00.0"><fan_speed>Sideways</fan_speed><processes/></gpu>`
	r := Parse([]byte("<nvidia_smi_log>"+fmt.Sprintf(gpu, 1)+fmt.Sprintf(gpu, 2)+"</nvidia_smi_log>"), nil)
	n := 0
	for _, p := range r.Problems {
		if p.Code == "smi:unknown-token" && strings.Contains(p.Message, `"Sideways"`) && strings.Contains(p.Message, "fan_speed") {
			n++
		}
	}
	if n != 1 || r.GPUs[0].Fan != nil || len(r.Problems) != 1 {
		t.Errorf("said %d times: %v", n, r.Problems)
	}
}

func TestNumbersThatCannotBeAreNotKnown(t *testing.T) {
	wrap := func(path, value string) string {
		before, after := "", ""
		for part := range strings.SplitSeq(path, "/") {
			before, after = before+"<"+part+">", "</"+part+">"+after
		}
		return before + value + after
	}
	for _, c := range []struct{ path, value string }{
		{"utilization/gpu_util", "105 %"}, {"utilization/gpu_util", "-1 %"}, {"utilization/gpu_util", "NaN %"}, {"utilization/gpu_util", "1e999 %"},
		{"utilization/gpu_util", "9223372036854775808 %"}, {"temperature/gpu_temp", "1000 C"}, {"fb_memory_usage/total", "-5 MiB"},
		{"fb_memory_usage/total", "1e999 MiB"}, {"power_readings/power_draw", "Inf W"}, {"clocks/sm_clock", "-1 MHz"}, {"fan_speed", "-3 %"},
	} {
		r := Parse(one(wrap(c.path, c.value)), nil)
		g := r.GPUs[0]
		if g.UtilizationGPU != nil || g.Temperature != nil || g.MemoryTotal != nil || g.PowerDraw != nil || g.ClockSM != nil || g.Fan != nil {
			t.Errorf("%s %q is believed: %+v", c.path, c.value, g)
		}
		if !hasProblem(r, "smi:range") {
			t.Errorf("%s %q: %v", c.path, c.value, r.Problems)
		}
	}
	r := Parse(one("<fb_memory_usage><total>100 MiB</total><used>101 MiB</used><free>5 MiB</free></fb_memory_usage>"), nil)
	if g := r.GPUs[0]; g.MemoryUsed != nil || g.MemoryTotal == nil || g.MemoryFree == nil || !hasProblem(r, "smi:range") {
		t.Errorf("more is used than there is: %+v %v", g, r.Problems)
	}
}

func TestUnitsAndCommas(t *testing.T) {
	r := Parse(one("<fb_memory_usage><total>2 GiB</total><used>512 MB</used></fb_memory_usage><gpu_power_readings><power_draw>67,03 W</power_draw></gpu_power_readings>"+
		"<temperature><gpu_temp>-8 C</gpu_temp></temperature><fan_speed>104 %</fan_speed>"), nil)
	g := r.GPUs[0]
	if *g.MemoryTotal != 2048 || *g.MemoryUsed != 512 || *g.PowerDraw != 67.03 || *g.Temperature != -8 || *g.Fan != 104 {
		t.Errorf("%+v", g)
	}
	if len(r.Problems) != 0 {
		t.Error(r.Problems)
	}
}

func TestAmountsOfMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"20000 MiB": 20000, "20000": 20000, "20 GiB": 20480, "512,5 MiB": 513, "512.5 MiB": 513, "0 MiB": 0, "24576 MiB": 24576,
		"20,000 MiB": -1, "20.000 MiB": -1, "20 000 MiB": -1, "20\u00a0000 MiB": -1, "20'000 MiB": -1, "2,0,0 MiB": -1, "-1 MiB": -1,
		"NaN MiB": -1, "NaN": -1, "Inf MiB": -1, "24577 MiB": -1, "1e999 MiB": -1, "0x10 MiB": -1, "5 bananas": -1, "5 %": -1, "MiB": -1,
	} {
		r := Parse(one("<fb_memory_usage><total>24576 MiB</total><used>"+text+"</used></fb_memory_usage>"), nil)
		got := int64(-1)
		if m := r.GPUs[0].MemoryUsed; m != nil {
			got = *m
		}
		if got != want || (want < 0) != (len(r.Problems) == 1) {
			t.Errorf("%q is %d, want %d; %v", text, got, want, r.Problems)
		}
	}
	r := Parse(one("<fb_memory_usage><total>0 MiB</total><used>0 MiB</used><free>0 MiB</free></fb_memory_usage>"), nil)
	if g := r.GPUs[0]; g.MemoryTotal != nil || g.MemoryUsed != nil || g.MemoryFree != nil || !hasProblem(r, "smi:range") {
		t.Errorf("a GPU without memory: %+v %v", g, r.Problems)
	}
	// Thousands are not believed elsewhere, either.
	r = Parse(one("<clocks><sm_clock>1 410 MHz</sm_clock><mem_clock>9,501 MHz</mem_clock></clocks><gpu_power_readings><power_draw>1.234 W</power_draw></gpu_power_readings>"), nil)
	if g := r.GPUs[0]; g.ClockSM != nil || g.ClockMemory != nil || g.PowerDraw != nil || len(r.Problems) != 3 {
		t.Errorf("%+v %v", g, r.Problems)
	}
}

func TestPathsAreWholePaths(t *testing.T) {
	r := Parse(one("<max_clocks><sm_clock>9 MHz</sm_clock></max_clocks><bar1_memory_usage><used>7 MiB</used></bar1_memory_usage>"+
		"<module_power_readings><average_power_draw>5 W</average_power_draw></module_power_readings>"+
		"<gpu_memory_power_readings><average_power_draw>6 W</average_power_draw></gpu_memory_power_readings>"), nil)
	if g := r.GPUs[0]; g.ClockSM != nil || g.MemoryUsed != nil || g.PowerDraw != nil {
		t.Errorf("%+v", g)
	}
}

func TestHealthFromDriverWords(t *testing.T) {
	for _, c := range []struct {
		elements string
		want     snapshot.Health
	}{
		{"<fan_speed>30 %</fan_speed>", snapshot.HealthOK},
		{"<product_name>GPU is lost</product_name>", snapshot.HealthLost},
		{"<fabric><state>[GPU is lost]</state></fabric>", snapshot.HealthLost},
		{"GPU is lost", snapshot.HealthLost},
		{"<temperature><gpu_temp>GPU requires reset</gpu_temp></temperature>", snapshot.HealthError},
		{"<temperature><gpu_temp>ERR!</gpu_temp></temperature>", snapshot.HealthError},
		{"<fan_speed>GPU requires reset</fan_speed>", snapshot.HealthError},
		{"<temperature><gpu_temp>Unknown Error</gpu_temp></temperature>", snapshot.HealthError},
		{"<gpu_power_readings><power_draw>Unknown Error</power_draw></gpu_power_readings>", snapshot.HealthOK},
		{"<gpu_recovery_action>Reset</gpu_recovery_action>", snapshot.HealthError},
		{"<gpu_recovery_action>None</gpu_recovery_action>", snapshot.HealthOK},
		{"<gpu_recovery_action>GPU_RESET</gpu_recovery_action>", snapshot.HealthError},
		{"<gpu_recovery_action>Node Reboot</gpu_recovery_action>", snapshot.HealthError},
		{"<gpu_recovery_action>Bus Reset</gpu_recovery_action>", snapshot.HealthError},
		{"<gpu_recovery_action>GPU Reset Bus</gpu_recovery_action>", snapshot.HealthError},
		{"<gpu_recovery_action>Drain P2P</gpu_recovery_action>", snapshot.HealthError},
		{"<gpu_recovery_action>Drain and Reset</gpu_recovery_action>", snapshot.HealthError},
		{"<gpu_recovery_action>Reset Recommended Later</gpu_recovery_action>", snapshot.HealthOK},
		{"<gpu_recovery_action>Recover IMEX Domain</gpu_recovery_action>", snapshot.HealthOK},
		{"<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", snapshot.HealthError},
		{"<gpu_reset_status><drain_and_reset_recommended>Yes</drain_and_reset_recommended></gpu_reset_status>", snapshot.HealthError},
		{"<gpu_reset_status><reset_required>No</reset_required><drain_and_reset_recommended>No</drain_and_reset_recommended></gpu_reset_status>", snapshot.HealthOK},
		{"<processes><process_info><pid>1</pid><process_name>GPU is lost</process_name></process_info></processes>", snapshot.HealthOK},
	} {
		r := Parse(one(c.elements), nil)
		if len(r.GPUs) != 1 || r.GPUs[0].Health != c.want || r.GPUs[0].UUID != "GPU-1" || (c.want != snapshot.HealthOK) != (r.GPUs[0].HealthReason != "") {
			t.Errorf("%s: %+v", c.elements, r.GPUs)
		}
	}
}

func TestALostGPUWithoutABlockKeepsItsPlace(t *testing.T) {
	gpu := func(bus string) string {
		return `<gpu id="` + bus + `"><uuid>GPU-` + bus[9:11] + `</uuid><processes/></gpu>`
	}
	two := "<nvidia_smi_log><attached_gpus>3</attached_gpus>" + gpu("00000000:01:00.0") + "%s" + gpu("00000000:41:00.0") + "</nvidia_smi_log>"
	for _, c := range []struct {
		name, out string
		beside    string
		want      int
	}{
		{"named with its index, before", "Unable to determine the device handle for GPU0: 0000:00:1E.0: GPU is lost.  Reboot the system to recover this GPU\n" + fmt.Sprintf(two, ""), "", 0},
		{"old spelling, by PCI order", fmt.Sprintf(two, "\nUnable to determine the device handle for GPU 0000:21:00.0: GPU is lost.  Reboot the system to recover this GPU\n"), "", 1},
		{"unknown error, after", fmt.Sprintf(two, "") + "\nUnable to determine the device handle for GPU 0000:81:00.0: Unknown Error\n", "", 2},
		{"without a blank", "Unable to determine the device handle for GPU0000:21:00.0: Unknown Error\n" + fmt.Sprintf(two, ""), "", 1},
		{"on standard error", fmt.Sprintf(two, ""), "Unable to determine the device handle for GPU 0000:21:00.0: Unknown Error\n", 1},
	} {
		r := Parse([]byte(c.out), []byte(c.beside))
		if len(r.GPUs) != 3 || hasProblem(r, "smi:truncated") {
			t.Fatalf("%s: %+v %v", c.name, r.GPUs, r.Problems)
		}
		for i, g := range r.GPUs {
			if g.Index != i || (g.Health == snapshot.HealthLost) != (i == c.want) || (g.UUID == "") != (i == c.want) {
				t.Errorf("%s: GPU %d is %+v", c.name, i, g)
			}
		}
		if !hasProblem(r, "gpu:lost") || r.GPUs[c.want].PCIBusID == "" {
			t.Errorf("%s: %v", c.name, r.Problems)
		}
	}
	// Nothing but the line.
	r := Parse([]byte("Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.  Reboot the system to recover this GPU\n"), nil)
	if len(r.GPUs) != 1 || r.GPUs[0].Health != snapshot.HealthLost || r.GPUs[0].PCIBusID != "0000:05:00.0" {
		t.Errorf("%+v", r.GPUs)
	}
	// Named, and there all the same.
	r = Parse([]byte("Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error\n"+fmt.Sprintf(two, "")), nil)
	if len(r.GPUs) != 2 || r.GPUs[1].Health != snapshot.HealthLost || r.GPUs[1].UUID == "" {
		t.Errorf("%+v", r.GPUs)
	}
}

func TestTextAroundTheXML(t *testing.T) {
	text := string(capture(t, "idle-8x-a100-550.xml"))
	for name, out := range map[string]string{
		"blank line before": "\n\n" + text,
		"warning before":    "WARNING: something\n" + text,
		"warning after":     text + "WARNING: infoROM is corrupted at gpu 00000000:17:00.0\n",
		"no DOCTYPE":        strings.Replace(text, `<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">`, "", 1),
		"a whole DTD":       strings.Replace(text, `SYSTEM "nvsmi_device_v12.dtd"`, "[\n<!ELEMENT gpu (product_name)>\n<!ATTLIST gpu id CDATA #REQUIRED>\n]", 1),
		"CRLF":              strings.ReplaceAll(text, "\n", "\r\n"),
		"a comment":         strings.Replace(text, "<fan_speed>", "<!-- <gpu> --><fan_speed>", 1),
		"two, one cut":      text + text[:len(text)/2],
		"invalid UTF-8":     "\xff\xfe\n" + text,
	} {
		r := Parse([]byte(out), nil)
		if len(r.GPUs) != 8 || r.Driver != "550.90.07" || r.GPUs[7].UUID == "" || r.GPUs[0].MemoryTotal == nil {
			t.Errorf("%s: %d GPUs, driver %q, %v", name, len(r.GPUs), r.Driver, r.Problems)
		}
	}
	r := Parse([]byte(text+"WARNING: infoROM is corrupted at gpu 0000:17:00.0\n"), nil)
	if len(r.Problems) != 1 || r.Problems[0].Code != "smi:inforom" || r.Problems[0].GPU == nil || *r.Problems[0].GPU != 1 {
		t.Errorf("%v", r.Problems)
	}
	// The root may be missing altogether.
	start, end := strings.Index(text, "<gpu id"), strings.LastIndex(text, "</gpu>")+len("</gpu>")
	if r := Parse([]byte(text[start:end]), nil); len(r.GPUs) != 8 {
		t.Errorf("without a root: %d GPUs, %v", len(r.GPUs), r.Problems)
	}
}

// Cut anywhere, the output gives the GPUs that are whole, says that it is cut,
// and never a reading that the whole output does not have.
func TestCutAtEveryByte(t *testing.T) {
	text := capture(t, "mixed-4x-processes-535.xml")
	whole := Parse(text, nil)
	end := bytes.LastIndex(text, []byte("</nvidia_smi_log>")) + len("</nvidia_smi_log>")
	for n := range end {
		if n > 2048 && n%7 != 0 && n < end-64 {
			continue
		}
		r := Parse(text[:n], nil)
		complete := bytes.Count(text[:n], []byte("</gpu>"))
		if len(r.GPUs) != complete {
			t.Fatalf("cut at %d: %d GPUs, and %d are whole", n, len(r.GPUs), complete)
		}
		if diff := cmp.Diff(whole.GPUs[:complete], append([]snapshot.GPU{}, r.GPUs...)); diff != "" {
			t.Fatalf("cut at %d: %s", n, diff)
		}
		if bytes.Contains(text[:n], []byte("<nvidia_smi_log>")) && !hasProblem(r, "smi:truncated") {
			t.Fatalf("cut at %d: %v", n, r.Problems)
		}
		if complete == 0 && r.GPUs != nil {
			t.Fatalf("cut at %d: an empty list says that there are no GPUs", n)
		}
	}
}

func TestDamagedGPUElementHarmsNoOther(t *testing.T) {
	text := capture(t, "mixed-4x-processes-535.xml")
	// The end of the second GPU and the start of the third are lost.
	from := bytes.Index(text, []byte("GPU-00000022"))
	gap := bytes.Index(text[from:], []byte("<temperature>")) + from
	to := bytes.Index(text, []byte("GPU-00000023"))
	to = bytes.Index(text[to:], []byte("<ecc_mode>")) + to
	r := Parse(append(append([]byte{}, text[:gap]...), text[to:]...), nil)
	if !hasProblem(r, "smi:truncated") && !hasProblem(r, "smi:malformed") {
		t.Errorf("%v", r.Problems)
	}
	if len(r.GPUs) < 3 || r.GPUs[0].UUID != "GPU-00000021-1111-4222-8333-000000000021" || r.GPUs[len(r.GPUs)-1].UUID != "GPU-00000024-1111-4222-8333-000000000024" {
		t.Errorf("%+v", r.GPUs)
	}
	checkSane(t, r)
}

func TestLimits(t *testing.T) {
	var b strings.Builder
	b.WriteString("<nvidia_smi_log>")
	for i := range 65 {
		fmt.Fprintf(&b, `<gpu id="00000000:%02X:00.0"><uuid>%s</uuid><mig_devices>%s</mig_devices><processes>`, i, strings.Repeat("a", 40),
			strings.Repeat("<mig_device><index>0</index></mig_device>", 20))
		for pid := range 100 {
			fmt.Fprintf(&b, "<process_info><gpu_instance_id>1</gpu_instance_id><pid>%d</pid><process_name>%s</process_name></process_info>", pid+1, strings.Repeat("p", 2000))
		}
		b.WriteString("</processes></gpu>")
	}
	b.WriteString("</nvidia_smi_log>")
	r := Parse([]byte(b.String()), nil)
	checkSane(t, r)
	if len(r.GPUs) != snapshot.MaxGPUs || len(r.Processes) != snapshot.MaxProcesses {
		t.Errorf("%d GPUs, %d processes", len(r.GPUs), len(r.Processes))
	}
	said := fmt.Sprint(r.Problems)
	for _, want := range []string{"+1 more GPUs", "+2304 more processes"} {
		if !strings.Contains(said, want) {
			t.Errorf("no problem says %q", want)
		}
	}
	deep := "<nvidia_smi_log><gpu id=\"00000000:01:00.0\">" + strings.Repeat("<x>", 100000) + strings.Repeat("</x>", 100000) + "<fan_speed>3 %</fan_speed></gpu></nvidia_smi_log>"
	if r := Parse([]byte(deep), nil); len(r.GPUs) != 1 || r.GPUs[0].Fan == nil || !hasProblem(r, "smi:malformed") {
		t.Errorf("%+v %v", r.GPUs, r.Problems)
	}
}

func TestProcessesThatCannotBeListedAreNotNone(t *testing.T) {
	gpu := `<nvidia_smi_log><gpu id="00000000:01:00.0">%s</gpu></nvidia_smi_log>`
	for elements, want := range map[string]bool{"<processes>N/A</processes>": true, "": true, "<processes>\n\t</processes>": false, "<processes/>": false} {
		r := Parse(fmt.Appendf(nil, gpu, elements), nil)
		if hasProblem(r, "smi:processes") != want || (r.Processes == nil) != want {
			t.Errorf("%q: %v %v", elements, r.Processes, r.Problems)
		}
	}
}

func TestExplain(t *testing.T) {
	for exit, code := range map[int]string{
		2: "smi:usage", 3: "smi:unsupported", 4: "smi:permission", 6: "smi:no-devices", 8: "smi:power-cable", 9: "smi:driver-not-loaded",
		10: "smi:interrupt", 12: "smi:no-library", 13: "smi:function-missing", 14: "smi:inforom", 15: "gpu:lost", 18: "smi:driver-mismatch",
		255: "smi:failed", 77: "smi:failed", 127: "smi:missing", -9: "smi:killed", -11: "smi:killed",
	} {
		p, ok := Explain(exit, "")
		if !ok || p.Code != code || p.Message == "" {
			t.Errorf("exit %d: %+v, want %s", exit, p, code)
		}
	}
	if p, ok := Explain(0, "NVRM: all is well"); ok {
		t.Errorf("exit 0 is explained: %+v", p)
	}
	if p, _ := Explain(255, "Failed to initialize NVML: Unknown Error"); p.Code != "smi:nvml-unknown" {
		t.Errorf("%+v", p)
	}
}

func TestLabelNamesMIGDevices(t *testing.T) {
	r := Parse(capture(t, "mig-h100-590.xml"), nil)
	if !NeedsList(r.GPUs) {
		t.Fatal("the XML has no UUIDs of MIG devices")
	}
	list := ParseList(capture(t, "mig-h100-590-L.txt"))
	if !Label(r.GPUs, list) || NeedsList(r.GPUs) {
		t.Errorf("%+v", r.GPUs[0].MIGDevices)
	}
	if d := r.GPUs[0].MIGDevices[3]; d.Profile != "1c.1g.10gb" || !strings.HasPrefix(d.UUID, "MIG-0000000d") {
		t.Errorf("%+v", d)
	}
	if Label(r.GPUs, list[:2]) {
		t.Error("a list that lacks devices is taken for whole")
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*[0-9].*")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, ".golden.json") {
			f.Add(bytes.ReplaceAll(text, []byte("@PID1@"), []byte("17")))
		}
	}
	f.Add(one("<fan_speed>1e999 %</fan_speed><uuid>\x1b[31m</uuid>"))
	f.Fuzz(func(t *testing.T, out []byte) {
		checkSane(t, Parse(out, nil))
		ParseList(out)
	})
}

func BenchmarkParse8GPUs(b *testing.B) {
	text := capture(b, "idle-8x-a100-550.xml")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Parse(text, nil)
	}
}

// TestVersionsUnderEitherName: 610 names the driver and CUDA anew, and marks the old names.
func TestVersionsUnderEitherName(t *testing.T) {
	const gone = " [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]"
	for head, want := range map[string]string{
		"<driver_version>595.84</driver_version><cuda_version>13.2</cuda_version>":                                                                                                           "595.84 13.2",
		"<driver_version>610.47" + gone + "</driver_version><cuda_version>13.3" + gone + "</cuda_version>":                                                                                   "610.47 13.3",
		"<driver_version>610.47" + gone + "</driver_version><cuda_version>13.3</cuda_version><kmd_version>610.47</kmd_version><cuda_umd_version>13.3</cuda_umd_version>":                     "610.47 13.3",
		"<kmd_version>610.47</kmd_version><cuda_umd_version>13.3</cuda_umd_version>":                                                                                                         "610.47 13.3",
		"<driver_version>Deprecated, see \"KMD version\" instead</driver_version><kmd_version>610.47</kmd_version><cuda_version>N/A</cuda_version><cuda_umd_version>13.3</cuda_umd_version>": "610.47 13.3",
		"<cuda_version>13.3</cuda_version><cuda_umd_version>N/A</cuda_umd_version><driver_version>[Deprecated]</driver_version>":                                                             " 13.3",
	} {
		r := Parse([]byte("<nvidia_smi_log>"+head+"<attached_gpus>0</attached_gpus></nvidia_smi_log>"), nil)
		if got := r.Driver + " " + r.CUDA; got != want {
			t.Errorf("%s: %q, want %q", head, got, want)
		}
	}
	memory := "<fb_memory_usage><total>40960 MiB" + gone + "</total><used>[Deprecated]</used></fb_memory_usage>" +
		"<shared_fb_memory_usage><total>1 MiB</total><used>7 MiB</used></shared_fb_memory_usage>"
	if g := Parse(one(memory), nil).GPUs[0]; g.MemoryTotal == nil || *g.MemoryTotal != 40960 || g.MemoryUsed == nil || *g.MemoryUsed != 7 {
		t.Errorf("%+v", g)
	}
}
