package nvidiasmi

import (
	"fmt"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// proc is one process_info with these leaves.
func proc(pid int, name string) string {
	return fmt.Sprintf(
		"<process_info><pid>%d</pid><type>C</type><process_name>%s</process_name><used_memory>5 MiB</used_memory></process_info>", pid, name)
}

// TestProcessesAreKnownOrNot: what stands in place of the processes of the
// second of two GPUs, and whether it says who uses the GPU.
func TestProcessesAreKnownOrNot(t *testing.T) {
	gpu := func(n int, elements string) string {
		return fmt.Sprintf(`<gpu id="00000000:0%d:00.0"><uuid>GPU-%d</uuid>%s</gpu>`, n, n, elements)
	}
	for _, c := range []struct {
		elements string
		want     string // the reason; "" for known
	}{
		{"<processes></processes>", ""},
		{"<processes/>", ""},
		{"<processes>\n\t\t</processes>", ""},
		{"<processes>" + proc(7, "python") + "</processes>", ""},
		{"<processes>" + proc(7, "[Insufficient Permissions]") + "</processes>", ""},
		{"", "not listed"},
		{"<processes>N/A</processes>", "N/A"},
		{"<processes>[N/A]</processes>", "[N/A]"},
		{"<processes>Insufficient Permissions</processes>", "Insufficient Permissions"},
		{"<processes>None of your business</processes>", "None of your business"},
		{"<processes><process_info><pid>N/A</pid></process_info></processes>", "N/A"},
		{"<processes><process_info><pid>0</pid></process_info>" + proc(7, "python") + "</processes>", "0"},
		{"<processes><process_info><type>C</type></process_info></processes>", "no pid"},
		{"<processes><process_info><pid>99999999999</pid></process_info></processes>", "99999999999"},
		{"<processes><process_info><pid>7</pid></processes>", "the output is damaged"},
		{"<processes>" + proc(7, "python") + "</processes></x>", "the output is damaged"},
		{"<processes></processes><processes></processes>", "the name of a process holds a part of nvidia-smi's output"},
		{"<processes>" + strings.Repeat(proc(7, "p"), maxProcsPerGPU+3) + "</processes>", "4 more than are read"},
		{"<mig_devices><mig_device><index>0</index></mig_device></mig_devices><processes>" + proc(7, "python") +
			"</processes>", "a process without its MIG instance"},
		{"<mig_devices><mig_device/></mig_devices><processes>" +
			strings.Replace(proc(7, "python"), "<pid>", "<gpu_instance_id>1</gpu_instance_id><pid>", 1) +
			"</processes>", ""},
		{"<temperature><gpu_temp>GPU is lost</gpu_temp></temperature><processes></processes>", "GPU is lost"},
	} {
		r := Parse(
			[]byte(
				"<nvidia_smi_log><attached_gpus>2</attached_gpus>"+gpu(1, "<processes>"+proc(6, "x")+"</processes>")+
					gpu(2, c.elements)+"</nvidia_smi_log>"), nil)
		if len(r.GPUs) != 2 || r.GPUs[1].ProcessesUnknown != c.want {
			t.Errorf("%.90s: %q, want %q", c.elements, r.GPUs[1].ProcessesUnknown, c.want)
		}
		if r.GPUs[0].ProcessesUnknown != "" {
			t.Errorf("%.90s: the other GPU's processes are %q", c.elements, r.GPUs[0].ProcessesUnknown)
		}
		said := false
		for _, p := range r.Problems {
			said = said || p.Code == snapshot.CodeProcesses && p.GPU != nil && *p.GPU == 1
		}
		if want := c.want != "" && r.GPUs[1].Health == snapshot.HealthOK; said != want {
			t.Errorf("%.90s: %v", c.elements, r.Problems)
		}
	}
}

func TestCompleteNeedsEveryGPU(t *testing.T) {
	text := string(capture(t, "mixed-4x-processes-535.xml"))
	lost := "Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
	third := strings.LastIndex(text[:strings.LastIndex(text, "<gpu id")], "<gpu id")
	many := "<nvidia_smi_log><attached_gpus>65</attached_gpus>" +
		strings.Repeat(`<gpu id="00000000:01:00.0"><processes/></gpu>`, 65) + "</nvidia_smi_log>"
	for _, c := range []struct {
		name, out string
		want      bool
	}{
		{"whole", text, true},
		{"a warning after it", text + "WARNING: infoROM is corrupted at gpu 00000000:17:00.0\n", true},
		{"one without a handle, counted", lost + strings.Replace(text, "<attached_gpus>4<", "<attached_gpus>5<", 1),
			true},
		{"one without a handle, not counted", lost + text, true},
		{"no GPUs", "<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>", true},
		{"no devices", "No devices were found\n", true},
		{"no GPUs and no number", "<nvidia_smi_log></nvidia_smi_log>", false},
		{"nothing", "", false},
		{"a failure", "Failed to initialize NVML: Unknown Error\n", false},
		{"nothing but a line about a handle", lost, false},
		{"cut in the head", text[:120], false},
		{"cut after two", text[:third], false},
		{"the end is missing", strings.TrimSuffix(strings.TrimSpace(text), "</nvidia_smi_log>"), false},
		{"no number", strings.Replace(text, "<attached_gpus>4</attached_gpus>", "", 1), false},
		{"more are attached", strings.Replace(text, "<attached_gpus>4<", "<attached_gpus>5<", 1), false},
		{"fewer are attached", strings.Replace(text, "<attached_gpus>4<", "<attached_gpus>3<", 1), false},
		{"a GPU is taken out", text[:third] + text[strings.LastIndex(text, "<gpu id"):], false},
		{"an end of a GPU is taken out, and its processes are there", strings.Replace(text, "</gpu>", "", 1), true},
		{"a UUID is taken out", strings.Replace(text, "<uuid>GPU-00000022-1111-4222-8333-000000000022</uuid>", "", 1),
			false},
		{"a UUID is there twice",
			strings.ReplaceAll(text, "GPU-00000022-1111-4222-8333-000000000022",
				"GPU-00000021-1111-4222-8333-000000000021"), false},
		{"cut in the second document", text + text[:len(text)/2], false},
		{"more GPUs than are read", many, false},
		{"longer than is read", strings.Replace(text, "<gpu id", strings.Repeat(" ", MaxOutputBytes)+"<gpu id", 1),
			false},
	} {
		if r := Parse([]byte(c.out), nil); r.Complete != c.want {
			t.Errorf("%s: complete is %v with %d GPUs, %v", c.name, r.Complete, len(r.GPUs), r.Problems)
		}
	}
}

func TestInstancesWithoutNumbersAreNotZero(t *testing.T) {
	device := "<mig_device><index>%d</index><gpu_instance_id>%s</gpu_instance_id><compute_instance_id>%s</compute_instance_id></mig_device>"
	r := Parse(
		one(
			"<mig_devices>"+fmt.Sprintf(device, 0, "N/A", "[N/A]")+fmt.Sprintf(device, 1, "3", "0")+
				"<mig_device/></mig_devices>"), nil)
	d := r.GPUs[0].MIGDevices
	if len(d) != 3 || d[0].GPUInstanceID != nil || d[0].ComputeInstanceID != nil || d[1].GPUInstanceID == nil ||
		*d[1].GPUInstanceID != 3 ||
		d[1].ComputeInstanceID == nil || *d[1].ComputeInstanceID != 0 || d[2].GPUInstanceID != nil || d[2].Index != 2 {
		t.Errorf("%+v", d)
	}
}
