package e2e

import (
	"debug/buildinfo"
	"os"
	"strings"
	"testing"
)

// TestLicencesAreListed compares deploy/package/licences.md with what is linked in.
func TestLicencesAreListed(t *testing.T) {
	program := builtProgram(t)
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("deploy/package/licences.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			listed[strings.TrimSpace(cells[1])+"@"+strings.TrimSpace(cells[2])] = true
			if licence := strings.TrimSpace(cells[3]); licence == "" || licence == "?" {
				t.Errorf("no licence: %s", line)
			}
		}
	}
	if len(info.Deps) < 20 {
		t.Fatalf("only %d modules in the program", len(info.Deps))
	}
	for _, dep := range info.Deps {
		if name := dep.Path + "@" + dep.Version; !listed[name] {
			t.Errorf("%s is linked in and not in deploy/package/licences.md", name)
		}
		delete(listed, dep.Path+"@"+dep.Version)
	}
	for name := range listed {
		if strings.Contains(name, "/") {
			t.Errorf("%s is in deploy/package/licences.md and not in the program", name)
		}
	}
}
