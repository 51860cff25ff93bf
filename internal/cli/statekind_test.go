package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpuboard/internal/failure"
)

// TestAStateFileOfAnotherKind: the hint is a command that mends it.
func TestAStateFileOfAnotherKind(t *testing.T) {
	for _, name := range []string{"memory.json", "generate.lock", "manifest.json"} {
		for kind, put := range map[string]func(path string) error{
			"directory": func(path string) error { return os.Mkdir(path, 0o700) },
			"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		} {
			b := webBed(t)
			b.do(b.generate()...)
			b.must(os.Remove(b.path("state/" + name)))
			b.must(put(b.path("state/" + name)))
			stderr, code := b.ends(name, b.generate()...)
			_, hint, ok := strings.Cut(stderr, "gpuboard: hint: ")
			if code != failure.ExitError || !ok || !strings.Contains(stderr, kind) {
				t.Errorf("%s is a %s: %d, %s", name, kind, code, stderr)
				continue
			}
			if out, err := exec.Command("sh", "-c", hint).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", hint, err, out)
			}
			if _, stderr, code := b.run(b.generate()...); code == failure.ExitError {
				t.Errorf("%s after %s: %s", name, hint, stderr)
			}
		}
	}
}
