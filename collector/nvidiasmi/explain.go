package nvidiasmi

import (
	"fmt"
	"slices"
	"strings"

	"gpuboard/internal/snapshot"
)

// A failure is one reason for which nvidia-smi fails: its exit status by NVIDIA's
// manual, texts that it prints, and what to do.
type failure struct {
	exit    int
	texts   []string // lower case
	code    string
	message string
}

func failures() []failure {
	return []failure{
		{18, []string{"driver/library version mismatch"}, "smi:driver-mismatch",
			"the loaded driver and its library have different versions, as after an upgrade without a reboot: reboot the node, or unload and load the nvidia modules"},
		{9, []string{"couldn't communicate with the nvidia driver", "driver not loaded"}, "smi:driver-not-loaded",
			"the NVIDIA driver is not loaded: see `dmesg | grep -i nvidia`, load it with `modprobe nvidia`, or install it again for this kernel"},
		{6, []string{"no devices were found"}, "smi:no-devices",
			"the driver finds no GPU: see `lspci | grep -i nvidia` and `dmesg`; in a container, hand the GPUs in"},
		{12, []string{"libnvidia-ml", "nvml shared library"}, "smi:no-library",
			"the library libnvidia-ml.so is missing: install the driver's libraries, or run `ldconfig`"},
		{4, []string{"insufficient permissions"}, "smi:permission",
			"this account may not ask the driver: see the permissions of /dev/nvidia*"},
		{0, []string{"blocked by the operating system"}, "smi:blocked",
			"the operating system keeps nvidia-smi from the GPU: under WSL, update Windows' driver"},
		{0, []string{"failed to initialize nvml: unknown error"}, "smi:nvml-unknown",
			"NVML could not be started; in a container this happens after systemd reloads its units: start the container again"},
		{0, []string{"failed to initialize nvml"}, "smi:nvml", "NVML could not be started"},
		{15, []string{"fallen off the bus", "gpu is lost"}, "gpu:lost",
			"a GPU has fallen off the bus: reboot the node, and see `dmesg | grep -i xid`"},
		{2, []string{"is not a valid field"}, "smi:usage",
			"this version of nvidia-smi does not know what it was asked for: update the driver, or the collector"},
		{3, nil, "smi:unsupported", "this device or driver cannot say what it was asked"},
		{8, nil, "smi:power-cable", "a GPU's external power cables are not attached: look inside"},
		{10, nil, "smi:interrupt", "the kernel has a problem with a GPU's interrupts: see `dmesg | grep -i nvrm`"},
		{13, nil, "smi:function-missing",
			"the installed libnvidia-ml.so is older than nvidia-smi: install driver and library of one version"},
		{14, nil, "smi:inforom",
			"a GPU's infoROM is corrupted: nvidia-smi says which; NVIDIA's support replaces such cards"},
		{126, nil, "smi:missing", "nvidia-smi cannot be started: see --nvidia-smi"},
		{127, nil, "smi:missing", "nvidia-smi cannot be started: see --nvidia-smi"},
		{255, nil, "smi:failed", "nvidia-smi failed for a reason that it does not know"},
	}
}

// Explain returns the reason for which nvidia-smi ended with this exit status (negative
// for a signal), given the text that it printed beside or in place of XML. The text
// decides before the status, because some versions and wrappers end with another status
// than the manual's. ok is false when there is nothing to explain.
func Explain(exit int, text string) (p snapshot.Problem, ok bool) {
	lower := strings.ToLower(text)
	contained := func(s string) bool { return strings.Contains(lower, s) }
	all := failures()
	i := slices.IndexFunc(all, func(f failure) bool { return slices.ContainsFunc(f.texts, contained) })
	if i < 0 {
		i = slices.IndexFunc(all, func(f failure) bool { return exit != 0 && f.exit == exit })
	}
	switch {
	case i >= 0:
		return problem(all[i].code, exit, all[i].message, text), true
	case exit < 0:
		return problem("smi:killed", exit, fmt.Sprintf("nvidia-smi was ended by signal %d", -exit), text), true
	case exit != 0:
		return problem("smi:failed", exit, "nvidia-smi failed", text), true
	}
	return snapshot.Problem{}, false
}

func problem(code string, exit int, message, text string) snapshot.Problem {
	if exit > 0 {
		message += fmt.Sprintf(" (exit status %d)", exit)
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); line != "" {
		message += ": " + strings.TrimSpace(line)
	}
	return snapshot.NewProblem(code, "%s", message)
}
