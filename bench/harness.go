package main

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// harness stands in for a test, so that the servers that tests start can be
// started here. A failure ends the measure, and not the bench.
type harness struct {
	testing.TB // not there: what is not below is not used
	dir        string
	cleanups   []func()
	skipped    bool
	reason     string
}

// with runs f with a harness and returns what went wrong.
func (s *suite) with(f func(h *harness) error) (err error) {
	h := &harness{dir: s.dir}
	defer func() {
		for i := len(h.cleanups) - 1; i >= 0; i-- {
			h.cleanups[i]()
		}
	}()
	done := make(chan error)
	go func() { // Fatal and Skip end the goroutine
		err := fmt.Errorf("%s", "it ended early")
		defer func() {
			if h.reason != "" {
				err = fmt.Errorf("%s", h.reason)
			}
			done <- err
		}()
		err = f(h)
	}()
	return <-done
}

func (h *harness) Helper()             {}
func (h *harness) Failed() bool        { return h.reason != "" && !h.skipped }
func (h *harness) Cleanup(f func())    { h.cleanups = append(h.cleanups, f) }
func (h *harness) Logf(string, ...any) {}
func (h *harness) Fatal(args ...any)   { h.stop(fmt.Sprint(args...)) }
func (h *harness) Skip(args ...any)    { h.skipped = true; h.stop(fmt.Sprint(args...)) }
func (h *harness) Fatalf(format string, args ...any) {
	h.stop(fmt.Sprintf(format, args...))
}

// Errorf is for what goes wrong beside a measure, such as a file that stays behind.
func (h *harness) Errorf(format string, args ...any) { say("  "+format, args...) }

func (h *harness) stop(reason string) {
	h.reason = reason
	runtime.Goexit()
}

func (h *harness) TempDir() string {
	dir, err := os.MkdirTemp(h.dir, "")
	if err != nil {
		h.Fatal(err)
	}
	return dir
}
