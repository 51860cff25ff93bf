package cli_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gpuboard/cli"
	"gpuboard/internal/fakesmi"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpuboard":   func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"nvidia-smi": fakesmi.Main,
	})
}
