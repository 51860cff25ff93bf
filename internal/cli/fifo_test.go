package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"gpuboard/internal/failure"
	"gpuboard/internal/testenv/need"
)

// below lists the regular files below some directories of a bed.
func (b *bed) below(dirs ...string) (files []string) {
	b.t.Helper()
	for _, dir := range dirs {
		b.must(filepath.WalkDir(b.path(dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				rel, _ := filepath.Rel(b.dir, path)
				files = append(files, rel)
			}
			return err
		}))
	}
	return files
}

// fifo puts a FIFO in the place of a file, or where there is none, and gives back
// how to undo that.
func (b *bed) fifo(name string) (undo func()) {
	b.t.Helper()
	path := b.path(name)
	was, err := os.ReadFile(path)
	if err == nil {
		b.must(os.Remove(path))
	}
	b.must(unix.Mkfifo(path, 0o600))
	return func() {
		b.must(os.RemoveAll(path))
		if err == nil {
			b.must(os.WriteFile(path, was, 0o600))
		}
	}
}

// ends runs a command and fails the test when it waits for the other end of a FIFO.
func (b *bed) ends(name string, args ...string) (stderr string, code int) {
	b.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, stderr, code = b.run(args...)
	}()
	select {
	case <-done:
		return stderr, code
	case <-time.After(need.Patience):
		b.t.Fatalf("a FIFO as %s: gpuboard %s waits for ever", name, args[0])
		return "", 0
	}
}

// TestNoFIFOStopsACommand: in the place of any file that a command reads, writes
// or locks, a FIFO is an error or a problem, at once.
func TestNoFIFOStopsACommand(t *testing.T) {
	t.Run("web host", func(t *testing.T) {
		b := webBed(t)
		b.write("data/notice.md", "all is well")
		b.write("data/hosts/gpu01.md", "a note")
		b.write("password", "ada:x")
		b.do(b.generate()...)
		for _, name := range append(b.below("data", "state"), "state/generate.lock", "site/index.html", "site/index.html.gz", "site/health.json") {
			undo := b.fifo(name)
			stderr, code := b.ends(name, b.generate()...)
			if name == "state/generate.lock" && (code != failure.ExitError || !strings.Contains(stderr, "remove it") || !strings.Contains(stderr, b.path(name))) {
				t.Errorf("a FIFO as %s: exit %d, and the error does not say what to do:\n%s", name, code, stderr)
			}
			b.ends(name, append([]string{"doctor"}, b.args...)...)
			undo()
		}
		defer b.fifo("password")()
		b.ends("password", "serve", "--site", b.path("site"), "--listen", "127.0.0.1:0", "--private", "--password", b.path("password"))
	})
	t.Run("node", func(t *testing.T) {
		b := plainNode(t)
		node := []string{"--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi"), "--to", "file://" + b.path("data")}
		b.do(append([]string{"run", "--once"}, node...)...)
		for _, name := range append(b.below("spool"), "spool/run.lock", "spool/check.lock", "spool/run.log") {
			undo := b.fifo(name)
			b.ends(name, append([]string{"run", "--once"}, node...)...)
			b.ends(name, append([]string{"doctor"}, b.args...)...)
			if name == "spool/run.lock" || name == "spool/check.lock" {
				if stderr, code := b.ends(name, "check", "gpu01", "--spool", b.path("spool")); code == failure.ExitOK || !strings.Contains(stderr, "remove it") {
					t.Errorf("a FIFO as %s: gpuboard check: exit %d, and the error does not say what to do:\n%s", name, code, stderr)
				}
			}
			undo()
		}
	})
}

// TestNoHiddenCharacters: what a terminal obeys or an eye cannot see reaches no
// file of the site, whoever wrote it.
func TestNoHiddenCharacters(t *testing.T) {
	b := webBed(t)
	const hidden = "\x1b[2J\a\x00\u0085\u009b\u202e\u2066\u200b\x7f"
	text := "plant " + hidden + " and &#x1b;[2J &#8238; &#x9b; `" + hidden + "`\r\n\tcode " + hidden + "\n\n[" + hidden + "](https://example.org/" + hidden + "&#x202e;)\n"
	b.write("data/notice.md", text)
	b.write("data/hosts/gpu01.md", text)
	b.write("data/aliases.csv", "adal"+hidden+",ada"+hidden+"\n# "+hidden+"\n@team"+hidden+",ada\n")
	b.write("data/comments.json", `{"gpu01": [{"name": "adal`+"\u202e"+`", "date": "2030-01-01", "comment": "\u001b[2J \u009b \u202e `+"\u2066"+` plant"}, {"name": "\u0000"}], "no\u001bhost": []}`)
	b.write("own/words/en.json", `{"past.title": "plant \u001b[2J\u202e"}`)
	_, stderr, code := b.run(b.generate("--templates", b.path("own"), "--title", "lab "+hidden, "--lab", hidden)...)
	if code != failure.ExitDegraded || strings.ContainsFunc(stderr, func(r rune) bool { return r != '\n' && unicode.Is(unicode.Cc, r) }) {
		t.Errorf("exit %d:\n%q", code, stderr)
	}
	seen := 0
	for _, name := range b.below("site") {
		if !slices.Contains([]string{".html", ".txt", ".json", ".ics", ".xml", ".csv", ".svg", ".js", ".css"}, filepath.Ext(name)) {
			continue
		}
		data, err := os.ReadFile(b.path(name))
		b.must(err)
		seen += strings.Count(string(data), "plant")
		for i, r := range string(data) {
			if r != '\n' && r != '\t' && (r != '\r' || filepath.Ext(name) != ".ics" && filepath.Ext(name) != ".csv") && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Errorf("%s has %U: %q", name, r, data[max(0, i-40):min(len(data), i+40)])
				break
			}
		}
	}
	if seen < 4 {
		t.Errorf("what was planted is on the site %d times", seen)
	}
}
