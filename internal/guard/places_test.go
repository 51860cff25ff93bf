package guard

import (
	"os"
	"strings"
	"testing"
)

// TestEveryPackageIsInArchitecture holds the table of ARCHITECTURE.md to the plan.
func TestEveryPackageIsInArchitecture(t *testing.T) {
	data, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for i, cell := range strings.Split(cells[1], "`") {
			if name, isDir := strings.CutSuffix(cell, "/"); i%2 == 1 && isDir {
				table[name] = true
			}
		}
	}
	for room := range rooms {
		if room != "." && !table[room] {
			t.Errorf("%s is a package, and has no line in the table of ARCHITECTURE.md", room)
		}
		delete(table, room)
	}
	for name := range table {
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			t.Errorf("ARCHITECTURE.md has a line for %s, and there is no such directory", name)
		}
	}
}
