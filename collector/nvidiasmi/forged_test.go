package nvidiasmi

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/snapshot"
)

// The process whose name an attacker chooses runs on the second of four GPUs.
const victim = "@NAME@"

func withName(t testing.TB, capture []byte, name string) []byte {
	t.Helper()
	if bytes.Count(capture, []byte(victim)) != 1 {
		t.Fatal("the capture has no process to be named")
	}
	return bytes.Replace(capture, []byte(victim), []byte(name), 1)
}

// targets returns captures with one process that can be named: on the first, in
// the middle and on the last GPU, and on the only one; on lines and without them.
func targets(t testing.TB) map[string][]byte {
	text := string(capture(t, "mixed-4x-processes-535.xml"))
	captures := map[string][]byte{}
	at := 0
	for _, where := range []string{"first", "second", "last"} {
		n := strings.Index(text[at:], "<process_name>") + at + len("<process_name>")
		if where == "last" {
			n = strings.LastIndex(text, "<process_name>") + len("<process_name>")
		}
		end := strings.Index(text[n:], "</process_name>") + n
		captures[where] = []byte(text[:n] + victim + text[end:])
		at = strings.Index(text[n:], "<gpu ") + n
	}
	captures["only"] = []byte(
		"<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n\t<attached_gpus>1</attached_gpus>\n\t<gpu id=\"00000000:01:00.0\">\n\t\t<product_name>A</product_name>\n\t\t<uuid>GPU-1</uuid>\n" +
			"\t\t<fb_memory_usage>\n\t\t\t<total>100 MiB</total>\n\t\t\t<used>90 MiB</used>\n\t\t</fb_memory_usage>\n\t\t<processes>\n\t\t\t<process_info>\n\t\t\t\t<pid>7</pid>\n\t\t\t\t<type>C</type>\n" +
			"\t\t\t\t<process_name>" + victim +
			"</process_name>\n\t\t\t\t<used_memory>90 MiB</used_memory>\n\t\t\t</process_info>\n\t\t</processes>\n\t</gpu>\n\n</nvidia_smi_log>\n")
	captures["flat"] = one("<processes>" + proc(7, victim) + proc(8, "other") + "</processes>")
	captures["flat"] = bytes.Replace(captures["flat"], []byte("<processes></processes>"), nil, 1)
	return captures
}

// attacks are names that try to write into the document.
func attacks() []string {
	const tail = "</process_name><used_memory>1 MiB</used_memory></process_info>"
	const laid = "</process_name>\n\t\t\t\t<used_memory>1 MiB</used_memory>\n\t\t\t</process_info>\n\t\t"
	const gpu = `<gpu id="00000000:F0:00.0"><product_name>Forged</product_name><uuid>GPU-F</uuid><fb_memory_usage><total>80000 MiB</total><used>0 MiB</used></fb_memory_usage><processes>`
	const next = "<process_info><pid>1</pid><type>C</type><process_name>y"
	document := "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n<driver_version>6.6.6</driver_version>\n<attached_gpus>1</attached_gpus>\n"
	return []string{
		"", "python", "<", "<<<>>>", "a<b", "</", "<x", "&lt;/process_name&gt;", "&#0;", "\xff\xfe\x80", "\x1b[31m",
		"a\nb", strings.Repeat("<process_name>", 99),
		"<nvidia_smi_log>", "</nvidia_smi_log>", "<gpu>", `<gpu id="00000000:F0:00.0">`, "</gpu>",
		"</gpu><gpu id=\"00000000:F0:00.0\">", "</process_info>", "</processes>", "<!--", "<![CDATA[", "<?",
		"<!DOCTYPE x [",
		"<supported_clocks>", "</process_name>", "x</process_name><process_name>", "<process_name>",
		"<used_memory>0 MiB</used_memory>",
		"</process_name></process_info></processes></gpu><gpu id=\"00000000:F0:00.0\">",
		"x" + tail, "x" + tail + "</processes>", "x" + tail + "</processes></gpu>",
		"x" + tail + "</processes></gpu><!--", "x" + tail + "</processes></gpu></nvidia_smi_log>",
		"x" + tail +
			"</processes></gpu></nvidia_smi_log>\nUnable to determine the device handle for GPU 0000:01:00.0: GPU is lost\n",
		"x" + tail + "</processes></gpu>\nUnable to determine the device handle for GPU 0000:01:00.0: GPU is lost\n" +
			gpu + next,
		"x" + tail + "</processes></gpu>" + gpu + next,
		"x" + tail + "</processes></gpu>" + gpu + "</processes></gpu>" + gpu + next,
		"x" + tail + "</processes></gpu></nvidia_smi_log>" + document + gpu + next,
		"x" + tail +
			"</processes><fb_memory_usage><used>0 MiB</used></fb_memory_usage><temperature><gpu_temp>GPU is lost</gpu_temp></temperature><accounted_processes>" + next,
		"x" + tail + "</processes><mig_devices><mig_device><index>0</index></mig_device></mig_devices><processes>" +
			next,
		"x" + tail + "</processes>GPU is lost<processes>" + next,
		"x" + laid + "</processes>\n\t</gpu>\n\n", "x" + laid + "</processes>\n\t</gpu>\n\n</nvidia_smi_log>\n",
		"x" + laid + "</processes>\n\t</gpu>\n<!--", "x" + laid + "</processes>\n\t</gpu>\n<![CDATA[",
		"x" + laid +
			"</processes>\n\t</gpu>\n\n</nvidia_smi_log>\nUnable to determine the device handle for GPU 0000:01:00.0: GPU is lost\n",
		"x" + laid + "</processes>\n\t</gpu>\n\n\t" + gpu + next,
		"x" + laid + "</processes>\n\t</gpu>\n\n</nvidia_smi_log>\n" + document + gpu + next,
		"x" + laid + "</processes>\n\t</gpu>\n\n</nvidia_smi_log>\n" + document + gpu +
			"</processes></gpu></nvidia_smi_log>\n",
		"x" + laid +
			"</processes>\n\t</gpu>\nUnable to determine the device handle for GPU 0000:01:00.0: GPU is lost\n\t" +
			gpu + next,
		"x" + laid + "</processes>\n\t\t<accounted_processes>" + next,
		"x" + laid + "</processes>\n\t\t<processes>" + next,
		"x" + laid +
			"</processes>\n\t\t<gpu_recovery_action>Reset</gpu_recovery_action>\n\t\t<mig_devices><mig_device/></mig_devices>\n\t\t<processes>" + next,
		"x" + laid + "</processes>\n\t\t<supported_clocks>",
		"x" + laid +
			"</processes>\n\t</gpu>\n\t<attached_gpus>9</attached_gpus>\n\t<driver_version>6</driver_version>\n\t" +
			gpu + next,
	}
}

// checkName holds a reading with a name against the one without: nothing of any
// GPU is another, save that its processes, or all of it, may not be known. What
// is known of its processes is the same, save the one that bears the name.
func checkName(t *testing.T, plain, r Reading, name string) {
	t.Helper()
	if r.Driver != plain.Driver || len(r.GPUs) != len(plain.GPUs) {
		t.Errorf("%q: %d GPUs, driver %q", name, len(r.GPUs), r.Driver)
		return
	}
	doubted := false
	for i := range r.GPUs {
		got, want := r.GPUs[i], plain.GPUs[i]
		if got.ProcessesUnknown == "" {
			of := func(list []snapshot.Process) (pids []string) {
				for _, p := range list {
					if p.GPU == i {
						pids = append(pids, fmt.Sprint(p.PID, p.Type, deref(p.UsedMemory)))
					}
				}
				return pids
			}
			if diff := cmp.Diff(of(plain.Processes), of(r.Processes)); diff != "" {
				t.Errorf("%q: the processes of GPU %d count as known: %s", name, i, diff)
			}
		} else {
			doubted = true
		}
		got.ProcessesUnknown = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: GPU %d: %s", name, i, diff)
		}
	}
	said := slices.ContainsFunc(r.Problems,
		func(p snapshot.Problem) bool { return p.Code == "smi:process-name" || p.Code == "smi:malformed" })
	if doubted && !said {
		t.Errorf("%q: no problem says why: %v", name, r.Problems)
	}
}

func TestForgedProcessNamesChangeNothing(t *testing.T) {
	for where, text := range targets(t) {
		plain := Parse(withName(t, text, "python"), nil)
		if len(plain.Problems) > 0 || len(plain.GPUs) == 0 || plain.GPUs[0].ProcessesUnknown != "" {
			t.Fatalf("%s: %v", where, plain.Problems)
		}
		for _, name := range attacks() {
			r := Parse(withName(t, text, name), nil)
			checkSane(t, r)
			checkName(t, plain, r, where+": "+name)
		}
	}
}

// A name without lines of its own cannot even make the processes unknown where
// the document has lines, and such a name is said to be one.
func TestForgedNameOnOneLineHidesNoProcess(t *testing.T) {
	text := targets(t)["second"]
	for _, name := range attacks() {
		if strings.ContainsRune(name, '\n') {
			continue
		}
		r := Parse(withName(t, text, name), nil)
		if unknown := r.GPUs[1].ProcessesUnknown != ""; unknown != strings.Contains(name, "</process_name>") ||
			unknown != hasProblem(r, "smi:process-name") {
			t.Errorf("%q: %q, %v", name, r.GPUs[1].ProcessesUnknown, r.Problems)
		}
		if !r.Complete {
			t.Errorf("%q: the list of GPUs is not complete", name)
		}
	}
}

// A GPU that is written into a name with every element of a real one cannot be
// told from it; then there are no readings, and no GPU twice.
func TestForgedGPUHasNoReadings(t *testing.T) {
	text := targets(t)["first"]
	real := string(capture(t, "mixed-4x-processes-535.xml"))
	start := strings.Index(real, "<gpu id")
	forged := real[start : strings.Index(real, "<processes>")+len("<processes>")]
	for _, id := range []string{"00000000:01:00.0", "00000000:F0:00.0"} {
		name := "x</process_name>\n\t\t\t\t<used_memory>1 MiB</used_memory>\n\t\t\t</process_info>\n\t\t</processes>\n\t</gpu>\n\n\t" +
			strings.ReplaceAll(forged, "00000000:01:00.0", id) +
			"\n\t\t\t<process_info>\n\t\t\t\t<pid>1</pid>\n\t\t\t\t<process_name>y"
		r := Parse(withName(t, text, name), nil)
		if r.Complete || len(r.GPUs) > 5 || r.GPUs[0].Health != snapshot.HealthOK ||
			!hasProblem(r, "smi:process-name") {
			t.Errorf("%s: complete %v, %d GPUs, %v", id, r.Complete, len(r.GPUs), r.Problems)
		}
		for _, g := range r.GPUs[1:] {
			if g.Health != snapshot.HealthUnknown || g.MemoryUsed != nil || g.UtilizationGPU != nil ||
				g.ProcessesUnknown == "" {
				t.Errorf("%s: %+v", id, g)
			}
		}
	}
}

func TestDocumentWithoutGPUs(t *testing.T) {
	for out, want := range map[string]string{
		"<nvidia_smi_log></nvidia_smi_log>":                                                     "smi:no-gpus",
		"<nvidia_smi_log><driver_version>550.1</driver_version></nvidia_smi_log>":               "smi:no-gpus",
		"<nvidia_smi_log><attached_gpus>N/A</attached_gpus></nvidia_smi_log>":                   "smi:no-gpus",
		"<nvidia_smi_log><attached_gpus>2</attached_gpus></nvidia_smi_log>":                     "smi:truncated",
		"<nvidia_smi_log><driver_version>550.1</driver_version>":                                "smi:truncated",
		"<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>":                     "",
		"<nvidia_smi_log>\n\t<attached_gpus>0</attached_gpus>\n</nvidia_smi_log>\nWARNING: x\n": "smi:warning",
	} {
		r := Parse([]byte(out), nil)
		code := ""
		if len(r.Problems) > 0 {
			code = r.Problems[0].Code
		}
		none := want == "" || want == "smi:warning"
		if code != want || (r.GPUs != nil) != none || r.Complete != none {
			t.Errorf("%s: %v, GPUs %v, complete %v", out, r.Problems, r.GPUs, r.Complete)
		}
	}
}

func FuzzProcessName(f *testing.F) {
	for _, name := range attacks() {
		f.Add([]byte(name))
	}
	captures := targets(f)
	plain := map[string]Reading{}
	for where, text := range captures {
		plain[where] = Parse(withName(f, text, "python"), nil)
	}
	f.Fuzz(func(t *testing.T, name []byte) {
		if bytes.Contains(name, []byte(victim)) {
			return
		}
		// A name that writes whole processes as nvidia-smi lays them out, or whole
		// GPUs, is beyond what one output can tell; see the tests above for those.
		if bytes.Count(name, []byte("<process_name>")) > 0 && bytes.Contains(name, []byte("</process_name>")) {
			return
		}
		for where, text := range captures {
			checkName(t, plain[where], Parse(withName(t, text, string(name)), nil), where+": "+string(name))
		}
	})
}
