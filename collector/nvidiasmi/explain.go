package nvidiasmi

import (
	"fmt"
	"strings"

	"gpuboard/internal/snapshot"
)

// A failure is one way in which nvidia-smi ends: its exit status by NVIDIA's
// manual, the words it says, a stable code, what it means and what to do.
type failure struct {
	exit    int
	words   string // in lower case; "" where the status alone decides
	code    string
	message string
}

// failures in the order in which they are tried: words first, because some
// versions and wrappers end with another status than the manual's.
func failures() []failure {
	return []failure{
		{18, "driver/library version mismatch", "smi:driver-mismatch", "the loaded driver and its library have different versions, as after an upgrade without a reboot: reboot the node, or unload and load the nvidia modules"},
		{9, "couldn't communicate with the nvidia driver", "smi:driver-not-loaded", "the NVIDIA driver is not loaded: see `dmesg | grep -i nvidia`, load it with `modprobe nvidia`, or install it again for this kernel"},
		{9, "driver not loaded", "smi:driver-not-loaded", "the NVIDIA driver is not loaded: load it with `modprobe nvidia`, or install it again for this kernel"},
		{6, "no devices were found", "smi:no-devices", "the driver finds no GPU: see `lspci | grep -i nvidia` and `dmesg`; in a container, hand the GPUs in"},
		{12, "libnvidia-ml", "smi:no-library", "the library libnvidia-ml.so is missing: install the driver's libraries, or run `ldconfig`"},
		{12, "nvml shared library", "smi:no-library", "the library libnvidia-ml.so is missing: install the driver's libraries, or run `ldconfig`"},
		{4, "insufficient permissions", "smi:permission", "this account may not ask the driver: see the permissions of /dev/nvidia*"},
		{255, "blocked by the operating system", "smi:blocked", "the operating system keeps nvidia-smi from the GPU: under WSL, update Windows' driver"},
		{255, "failed to initialize nvml: unknown error", "smi:nvml-unknown", "NVML could not be started; in a container this happens after systemd reloads its units: start the container again"},
		{255, "failed to initialize nvml", "smi:nvml", "NVML could not be started"},
		{15, "fallen off the bus", "gpu:lost", "a GPU has fallen off the bus: reboot the node, and see `dmesg | grep -i xid`"},
		{15, "gpu is lost", "gpu:lost", "a GPU has fallen off the bus: reboot the node, and see `dmesg | grep -i xid`"},
		{2, "is not a valid field", "smi:usage", "this version of nvidia-smi does not know what it was asked for: update the driver, or the collector"},
		{2, "", "smi:usage", "this version of nvidia-smi does not know what it was asked for: update the driver, or the collector"},
		{3, "", "smi:unsupported", "this device or driver cannot say what it was asked"},
		{4, "", "smi:permission", "this account may not ask the driver: see the permissions of /dev/nvidia*"},
		{6, "", "smi:no-devices", "the driver finds no GPU: see `lspci | grep -i nvidia` and `dmesg`"},
		{8, "", "smi:power-cable", "a GPU's external power cables are not attached: look inside"},
		{9, "", "smi:driver-not-loaded", "the NVIDIA driver is not loaded: load it with `modprobe nvidia`, or install it again for this kernel"},
		{10, "", "smi:interrupt", "the kernel has a problem with a GPU's interrupts: see `dmesg | grep -i nvrm`"},
		{12, "", "smi:no-library", "the library libnvidia-ml.so is missing: install the driver's libraries, or run `ldconfig`"},
		{13, "", "smi:function-missing", "the installed libnvidia-ml.so is older than nvidia-smi: install driver and library of one version"},
		{14, "", "smi:inforom", "a GPU's infoROM is corrupted: nvidia-smi says which; NVIDIA's support replaces such cards"},
		{15, "", "gpu:lost", "a GPU has fallen off the bus: reboot the node, and see `dmesg | grep -i xid`"},
		{18, "", "smi:driver-mismatch", "the loaded driver and its library have different versions: reboot the node"},
		{255, "", "smi:failed", "nvidia-smi failed for a reason that it does not know"},
	}
}

// Explain says in plain words why nvidia-smi ended with this exit status
// (negative when a signal ended it), given the text it wrote beside or in place
// of XML. ok is false when there is nothing to explain.
func Explain(exit int, text string) (p snapshot.Problem, ok bool) {
	lower := strings.ToLower(text)
	for _, f := range failures() {
		if f.words != "" && strings.Contains(lower, f.words) || f.words == "" && f.exit == exit {
			return problem(f.code, exit, f.message, text), true
		}
	}
	switch {
	case exit < 0:
		return problem("smi:killed", exit, fmt.Sprintf("nvidia-smi was ended by signal %d", -exit), text), true
	case exit == 126 || exit == 127:
		return problem("smi:missing", exit, "nvidia-smi cannot be started: see --nvidia-smi", text), true
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
	return snapshot.Problem{Code: code, Message: snapshot.Text(message, snapshot.MaxTextBytes)}
}
