// Package fakeps is a stand-in for ps in tests. It understands the variables
// of fakesmi with GPUBOARD_FAKE_PS for a prefix.
package fakeps

import (
	"os"
	"syscall"

	"gpuboard/internal/testenv/fakesmi"
)

// Main is the whole program. It does not return, and ends as [fakesmi.Main] does.
func Main() {
	syscall.Exit(fakesmi.Play("GPUBOARD_FAKE_PS", os.Getenv("GPUBOARD_FAKE_PS"), os.Args[1:], os.Stdout, os.Stderr))
}
