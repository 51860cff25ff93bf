package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	// The tests run the program and do not call it: with this import a change of
	// the program is one of the test's inputs, and runs it again.
	_ "gpuboard/internal/cli"
)

// workshop is where this run of the tests builds the program.
var workshop string

func TestMain(m *testing.M) {
	// Paths in these tests are those of the repository.
	err := os.Chdir("../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if workshop, err = os.MkdirTemp("", "gpuboard-built-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(workshop)
	os.Exit(code)
}

// build makes the real program once, for all tests that run it.
var build = sync.OnceValues(func() (program string, err error) {
	program = filepath.Join(workshop, "gpuboard")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return program, nil
})

// builtProgram is the path of the real program.
func builtProgram(t testing.TB) string {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return program
}
