package guard

import (
	"os/exec"
	"testing"
)

// TestBenchIsUpToDate: bench is a module of its own, which a change of the program,
// or of what it depends on, can break.
func TestBenchIsUpToDate(t *testing.T) {
	sources(t) // the inputs of this test: a change runs it again
	readFile(t, "go.mod")
	readFile(t, "bench/go.mod")
	c := exec.Command("go", "vet", "./...")
	c.Dir = "bench"
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("go -C bench vet ./...: %v (after a change of go.mod: go -C bench mod tidy)\n%s", err, out)
	}
}
