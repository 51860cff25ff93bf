package amdsmi

import (
	"strings"

	"gpuboard/internal/snapshot"
)

var (
	refused  = snapshot.Pattern(`(?i)missing the following required groups|permission (denied|needed)|no permission`)
	outdated = snapshot.Pattern(`(?i)unrecognized arguments|invalid choice|(unknown|no such) option`)
)

// Explain returns the code and the first words of a tool that ended and did not tell of GPUs. fatal is true where the
// driver may be at fault, so that the processes are unknown; a tool that this account may not use, or that is too old,
// says nothing about the driver.
func Explain(exit int, notes string) (code, words string, fatal bool) {
	words, _, _ = strings.Cut(strings.TrimSpace(notes), "\n")
	switch {
	case refused().MatchString(notes):
		return "amd:permission", words, false
	case outdated().MatchString(notes):
		return "amd:too-old", words, false
	case exit == 0:
		return "amd:parse", words, true
	}
	return "amd:failed", words, true
}
