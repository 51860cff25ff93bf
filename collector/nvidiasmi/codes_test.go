package nvidiasmi

import (
	"os"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// TestCodesOfWords: what nvidia-smi says in words, with the code that the board
// shows it under.
func TestCodesOfWords(t *testing.T) {
	for text, want := range map[string]string{
		"GPU access blocked by the operating system":                 "smi:blocked",
		"Failed to initialize NVML: Insufficient Permissions":        "smi:permission",
		"Failed to initialize NVML: GPU is sulking":                  "smi:nvml",
		"Failed to initialize NVML: Unknown Error":                   "smi:nvml-unknown",
		"Unable to determine the device handle: GPU is lost":         "gpu:lost",
		"Failed to initialize NVML: Driver/library version mismatch": "smi:driver-mismatch",
	} {
		if p, ok := Explain(255, text); !ok || p.Code != want {
			t.Errorf("%s is %s, want %s", text, p.Code, want)
		}
	}
	capture, err := os.ReadFile("testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	beside := func(line string) []snapshot.Problem { return Parse(append(capture, line...), nil).Problems }
	if got := beside("WARNING: something is odd\n"); len(got) != 1 || got[0].Code != "smi:warning" ||
		!strings.Contains(got[0].Message, "something is odd") {
		t.Errorf("a warning is %+v", got)
	}
	healthy, err := os.ReadFile("testdata/new-595.xml")
	if err != nil {
		t.Fatal(err)
	}
	ill := strings.Replace(string(healthy), "<gpu_recovery_action>None<", "<gpu_recovery_action>GPU Reset<", 1)
	if ill == string(healthy) {
		t.Fatal("the capture says nothing about recovery")
	}
	r := Parse([]byte(ill), nil)
	if len(r.Problems) == 0 || r.Problems[0].Code != "gpu:error" || r.GPUs[0].Health != snapshot.HealthError {
		t.Errorf("a GPU that wants to be reset: %+v, %+v", r.Problems, r.GPUs[0])
	}
}
