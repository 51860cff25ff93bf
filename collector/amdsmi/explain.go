package amdsmi

import (
	"fmt"
	"strings"

	"gpuboard/internal/snapshot"
)

// Explain returns why a tool that ended did not tell of GPUs. fatal is true where the driver may be at fault, so that
// the processes are unknown; a tool that this account may not use, or that is too old, says nothing about the driver.
func Explain(tool string, exit int, notes string) (p snapshot.Problem, fatal bool) {
	lower := strings.ToLower(notes)
	contains := func(texts ...string) bool {
		for _, s := range texts {
			if strings.Contains(lower, s) {
				return true
			}
		}
		return false
	}
	code, message := "amd:failed", tool+" failed"
	switch fatal = true; {
	case contains("missing the following required groups", "permission denied", "permission needed", "no permission"):
		code, message, fatal = "amd:permission", tool+" refuses this account", false
	case contains("unrecognized arguments", "invalid choice", "unknown option", "no such option"):
		code, message, fatal = "amd:too-old", tool+" is too old to be read; the driver's own files are read in its place", false
	case exit == 0:
		code, message = "amd:parse", tool+" did not write JSON about GPUs"
	case exit < 0:
		message = fmt.Sprintf("%s was ended by signal %d", tool, -exit)
	default:
		message += fmt.Sprintf(" (exit status %d)", exit)
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(notes), "\n"); line != "" {
		message += ": " + strings.TrimSpace(line)
	}
	return snapshot.Problem{Code: code, Message: snapshot.Text(message, snapshot.MaxTextBytes)}, fatal
}
