package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	// The tests run the program and do not call it: with this import a change of
	// the program is one of the test's inputs, and runs it again.
	_ "gpuboard/internal/cli"
	"gpuboard/internal/testenv/sitetest"
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

// TestAgentAsksTheProgram: what an agent starts answers it over stdin and stdout, and ends when it goes.
func TestAgentAsksTheProgram(t *testing.T) {
	site := t.TempDir()
	sitetest.Site{At: time.Now().Add(50 * time.Second)}.Write(t, site)
	program := exec.Command(builtProgram(t), "mcp", "--from", site)
	agent := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := agent.Connect(t.Context(), &mcp.CommandTransport{Command: program}, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "find_free", Arguments: map[string]any{"count": 2}})
	if err != nil || answer.IsError || len(answer.Content) != 2 {
		t.Fatalf("%v: %+v", err, answer)
	}
	if words := answer.Content[0].(*mcp.TextContent).Text; !strings.HasPrefix(words,
		"2 GPUs can be used now: gpu01:0, gpu01:1") {
		t.Error(words)
	}
	if err := session.Close(); err != nil || !program.ProcessState.Success() {
		t.Errorf("it ends with %v, %v", err, program.ProcessState)
	}
}
