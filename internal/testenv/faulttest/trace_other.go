//go:build !linux || !amd64

package faulttest

import (
	"errors"
	"os"
	"testing"

	"gpuboard/internal/testenv/need"
)

// Require skips, or fails, a test that has to trace.
func Require(t testing.TB) {
	t.Helper()
	need.Skip(t, "tracing system calls is done for Linux on amd64")
}

func (s Scene) trace(Fault, int, *os.File) (Run, error) {
	return Run{}, errors.New("tracing system calls is done for Linux on amd64")
}
