package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/testenv/need"
)

// TestPagesRead has every page formatted and checked by groff.
func TestPagesRead(t *testing.T) {
	groff := need.Program(t, "groff")
	dir := t.TempDir()
	if err := write(dir, "1.2.3", "2026-11-20"); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*.1"))
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		c := exec.Command(groff, "-man", "-Tascii", "-ww", "-z", page)
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(page), err, out)
		}
	}
	out, err := exec.Command(groff, "-man", "-Tascii", "-P-cbou", filepath.Join(dir, "man", "gpuboard-run.1")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpuboard-run - collect and publish until stopped", "--every DURATION",
		"gpuboard run --every 1m --to file:///srv/gpuboard/data", "75     try again", "gpuboard 1.2.3"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the page lacks %q:\n%s", want, out)
		}
	}
}

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		`a\b`: `a\eb`, ".TH x": `\&.TH x`, "'x": `\&'x`, "--x": `\-\-x`, "a\nb": "a b",
	} {
		if got := escape(s); got != want {
			t.Errorf("escape(%q) = %q, want %q", s, got, want)
		}
	}
	if got := quote(`say "x"`); got != `"say \(dqx\(dq"` {
		t.Errorf("quote: %s", got)
	}
}

func TestCompletionsAreThere(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, "1", "2026-11-20"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gpuboard.bash", "_gpuboard", "gpuboard.fish"} {
		if data, err := os.ReadFile(filepath.Join(dir, "completions", name)); err != nil ||
			!strings.Contains(string(data), "gpuboard") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
