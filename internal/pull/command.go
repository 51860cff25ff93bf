// Package pull reads nodes on which nothing may be installed: the web host runs one command there over SSH, and the
// collector reads what it printed as if it were of its own machine.
package pull

import (
	_ "embed"
	"strings"

	"gpuboard/collector/amdsmi"
	"gpuboard/collector/nvidiasmi"
	"gpuboard/collector/ps"
)

//go:embed remote.sh
var script string

// Command is what is run on a node, in one line for any shell.
func Command() string {
	var lines []string
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	args := func(list []string) string { return strings.Join(list, " ") }
	text := strings.NewReplacer(
		"@SMI", args(nvidiasmi.Args()), "@LIST", args(nvidiasmi.ListArgs()), "@PS", args(ps.Args()),
		"@STATIC", args(amdsmi.StaticArgs()), "@METRIC", args(amdsmi.MetricArgs()),
		"@PROCESS", args(amdsmi.ProcessArgs()), "@VERSION", args(amdsmi.VersionArgs()),
		"@ROCM", args(amdsmi.ROCmArgs()),
	).Replace(args(lines))
	return "exec sh -c '" + text + "'"
}

// Authorized returns the line of authorized_keys by which a key may run the command, and nothing else.
func Authorized(public string) string {
	return `restrict,command="` + strings.ReplaceAll(Command(), `"`, `\"`) + `" ` + strings.TrimSpace(public)
}
