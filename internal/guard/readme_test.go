package guard

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeHasTheCommandOfCI: README shows the command that continuous integration runs, beside the
// demo and a pull, as commands of their own. Every page builds the program in the same way, so that nobody compiles it twice.
func TestReadmeHasTheCommandOfCI(t *testing.T) {
	last := ""
	for line := range strings.Lines(readFile(t, ".ci/run")) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "exec "); ok {
			last = command
		}
	}
	if last == "" {
		t.Fatal(".ci/run executes no command")
	}

	section := regexp.MustCompile(`(?ms)^## Three commands\n(.*?)^## `).FindStringSubmatch(readFile(t, "README.md"))
	if section == nil {
		t.Fatal("README.md has no section of three commands")
	}
	var shown []string
	for _, m := range regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(section[1], -1) {
		shown = append(shown, m[1])
	}
	if want := []string{"CGO_ENABLED=0 go build -o gpuboard . && ./gpuboard demo", "./gpuboard pull user@gpu07",
		last}; !slices.Equal(shown, want) {
		t.Errorf("README.md shows %q, want %q", shown, want)
	}
}
