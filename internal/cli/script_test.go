package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpuboard/internal/cli"
	"gpuboard/internal/testenv/fakeps"
	"gpuboard/internal/testenv/fakesmi"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpuboard":   func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"nvidia-smi": fakesmi.Main,
		"fake-ps":    fakeps.Main, // not called ps, so that other scripts have the real one
	})
}

// TestScripts runs the program as a person would: one script per command, what
// goes wrong first.
func TestScripts(t *testing.T) {
	captures, err := filepath.Abs("../../collector/nvidiasmi/testdata")
	if err != nil {
		t.Fatal(err)
	}
	older, err := filepath.Abs("testdata/older")
	if err != nil {
		t.Fatal(err)
	}
	node, err := filepath.Abs("testdata/node")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CAPTURES", captures)
			env.Setenv("NODE", node)
			env.Setenv("OLDER", older)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
	})
}
