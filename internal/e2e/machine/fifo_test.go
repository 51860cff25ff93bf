package machine_test

import (
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"gpuboard/internal/doctor"
	"gpuboard/internal/failure"
	"gpuboard/internal/node"
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
		for _, name := range append(b.below("data", "state"), "state/generate.lock", "site/index.html",
			"site/index.html.gz", "site/health.json") {
			undo := b.fifo(name)
			stderr, code := b.ends(name, b.generate()...)
			if name == "state/generate.lock" &&
				(code != failure.ExitError || !strings.Contains(stderr, "remove it") ||
					!strings.Contains(stderr, b.path(name))) {
				t.Errorf("a FIFO as %s: exit %d, and the error does not say what to do:\n%s", name, code, stderr)
			}
			b.ends(name, append([]string{"doctor"}, b.args...)...)
			undo()
		}
		defer b.fifo("password")()
		b.ends("password", "serve", "--site", b.path("site"), "--listen", "127.0.0.1:0", "--private", "--password",
			b.path("password"))
	})
	t.Run("node", func(t *testing.T) {
		b := plainNode(t)
		node := []string{"--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi"), "--to",
			"file://" + b.path("data")}
		b.do(append([]string{"run", "--once"}, node...)...)
		for _, name := range append(b.below("spool"), "spool/run.lock", "spool/check.lock", "spool/run.log") {
			undo := b.fifo(name)
			b.ends(name, append([]string{"run", "--once"}, node...)...)
			b.ends(name, append([]string{"doctor"}, b.args...)...)
			if name == "spool/run.lock" || name == "spool/check.lock" {
				if stderr, code := b.ends(name, "check", "gpu01", "--spool", b.path("spool")); code == failure.ExitOK ||
					!strings.Contains(stderr, "remove it") {
					t.Errorf("a FIFO as %s: gpuboard check: exit %d, and the error does not say what to do:\n%s", name,
						code, stderr)
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
	text := "plant " + hidden + " and &#x1b;[2J &#8238; &#x9b; `" + hidden + "`\r\n\tcode " + hidden + "\n\n[" +
		hidden + "](https://example.org/" + hidden + "&#x202e;)\n"
	b.write("data/notice.md", text)
	b.write("data/hosts/gpu01.md", text)
	b.write("data/aliases.csv", "adal"+hidden+",ada"+hidden+"\n# "+hidden+"\n@team"+hidden+",ada\n")
	b.write("data/comments.json",
		`{"gpu01": [{"name": "adal`+"\u202e"+`", "date": "2030-01-01", "comment": "\u001b[2J \u009b \u202e `+"\u2066"+
			` plant"}, {"name": "\u0000"}], "no\u001bhost": []}`)
	b.write("own/words/en.json", `{"past.title": "plant \u001b[2J\u202e"}`)
	_, stderr, code := b.run(b.generate("--templates", b.path("own"), "--title", "lab "+hidden, "--lab", hidden)...)
	if code != failure.ExitDegraded ||
		strings.ContainsFunc(stderr, func(r rune) bool { return r != '\n' && unicode.Is(unicode.Cc, r) }) {
		t.Errorf("exit %d:\n%q", code, stderr)
	}
	seen := 0
	for _, name := range b.below("site") {
		if !slices.Contains([]string{".html", ".txt", ".json", ".ics", ".xml", ".csv", ".svg", ".js", ".css"},
			filepath.Ext(name)) {
			continue
		}
		data, err := os.ReadFile(b.path(name))
		b.must(err)
		seen += strings.Count(string(data), "plant")
		for i, r := range string(data) {
			if r != '\n' && r != '\t' && (r != '\r' || filepath.Ext(name) != ".ics" && filepath.Ext(name) != ".csv") &&
				unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Errorf("%s has %U: %q", name, r, data[max(0, i-40):min(len(data), i+40)])
				break
			}
		}
	}
	if seen < 4 {
		t.Errorf("what was planted is on the site %d times", seen)
	}
}

// TestAStateFileOfAnotherKind: the hint is a command that mends it.
func TestAStateFileOfAnotherKind(t *testing.T) {
	for name, exit := range map[string]int{"memory.json": failure.ExitError, "generate.lock": failure.ExitError,
		"manifest.json": failure.ExitError, "salt": failure.ExitUsage} {
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
			if code != exit || !ok || !strings.Contains(stderr, kind) {
				t.Errorf("%s is a %s: %d, %s", name, kind, code, stderr)
				continue
			}
			if out, err := exec.Command("sh", "-c", hint).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", hint, err, out)
			}
			if _, stderr, code := b.run(b.generate()...); code == exit {
				t.Errorf("%s after %s: %s", name, hint, stderr)
			}
		}
	}
}

// TestLoggedErrorsEndWithTheirCode: what ends a command that nobody watches.
func TestLoggedErrorsEndWithTheirCode(t *testing.T) {
	for _, test := range []struct {
		code string
		exit int
		args func(b *bed) []string
	}{
		{"check:busy", failure.ExitTryAgain, func(b *bed) []string {
			b.write("spool/check.lock", "")
			b.hold("spool/check.lock")
			return []string{"check", "gpu01", "--spool", b.path("spool")}
		}},
		{"loop:not-stopped", failure.ExitError, func(b *bed) []string {
			b.must(os.Mkdir(b.path("spool"), 0o700))
			b.hold("spool/" + node.LockFile)
			b.must(node.Heartbeat{PID: os.Getpid(), Start: "another", Beat: time.Now()}.Write(b.path("spool")))
			return []string{"check", "kill", "--spool", b.path("spool")}
		}},
		{"spool:unusable", failure.ExitUsage, func(b *bed) []string {
			return []string{"collect", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool",
				b.path("nvidia-smi/x")}
		}},
		{"spool:not-private", failure.ExitUsage, func(b *bed) []string {
			b.must(os.Mkdir(b.path("spool"), 0o700))
			b.must(os.Chmod(b.path("spool"), 0o777))
			return []string{"run", "--host", "gpu01", "--spool", b.path("spool")}
		}},
		{"disk:readonly", failure.ExitTryAgain, func(b *bed) []string {
			b.must(os.Mkdir(b.path("spool"), 0o700))
			b.readOnly("spool")
			return []string{"collect", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool",
				b.path("spool")}
		}},
		{"disk:space", failure.ExitTryAgain, func(b *bed) []string {
			need.Root(b.t)
			b.must(os.Mkdir(b.path("spool"), 0o700))
			b.mount("spool", "mode=700,size=4k")
			return []string{"collect", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool",
				b.path("spool")}
		}},
		{"file:mount", failure.ExitUsage, func(b *bed) []string {
			need.Root(b.t)
			b.must(os.MkdirAll(b.path("data/drop"), 0o755))
			b.write("data/comments.json", "{}")
			if err := syscall.Mount(b.path("data/comments.json"), b.path("data/comments.json"), "", syscall.MS_BIND,
				""); err != nil {
				need.Skip(b.t, "no file can be mounted here: "+err.Error())
			}
			b.t.Cleanup(func() { _ = syscall.Unmount(b.path("data/comments.json"), syscall.MNT_DETACH) })
			return []string{"book", "gpu01:0", "--data", b.path("data"), "--name", "ada", "--for", "2h", "--force"}
		}},
		{"data:missing", failure.ExitUsage, func(b *bed) []string { return b.generate() }},
		{"data:unreadable", failure.ExitUsage, func(b *bed) []string {
			b.write("data", "a file")
			return b.generate("--data", b.path("data/below"))
		}},
		{"state:in-use", failure.ExitTryAgain, func(b *bed) []string {
			b.must(os.MkdirAll(b.path("data/drop"), 0o755))
			b.write("state/generate.lock", "")
			b.hold("state/generate.lock")
			return b.generate()
		}},
		{"file:kind", failure.ExitError, func(b *bed) []string {
			b.must(os.MkdirAll(b.path("data/drop"), 0o755))
			b.must(os.MkdirAll(b.path("state/generate.lock"), 0o755))
			return b.generate()
		}},
		{"site:failed", failure.ExitTryAgain, func(b *bed) []string {
			b.must(os.MkdirAll(b.path("data/drop"), 0o755))
			b.write("own/base.html", "<p>")
			return b.generate("--templates", b.path("own"))
		}},
		{"notify:config", failure.ExitUsage, func(b *bed) []string {
			b.must(os.MkdirAll(b.path("data/drop"), 0o755))
			b.write("gpuboard.yml", "notify:\n  - webhook_file: "+b.path("none")+"\n")
			return b.generate("--config", b.path("gpuboard.yml"))
		}},
		{"consul:config", failure.ExitUsage, func(b *bed) []string {
			b.t.Setenv("CONSUL_HTTP_ADDR", "gopher://x")
			return []string{"register", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool",
				b.path("spool")}
		}},
		{"listen:in-use", failure.ExitError, func(b *bed) []string {
			b.must(os.Mkdir(b.path("site"), 0o755))
			l, err := net.Listen("tcp", "127.0.0.1:0")
			b.must(err)
			b.t.Cleanup(func() { l.Close() })
			return []string{"serve", "--site", b.path("site"), "--listen", l.Addr().String()}
		}},
		{"listen:address", failure.ExitError, func(b *bed) []string {
			b.must(os.Mkdir(b.path("site"), 0o755))
			return []string{"serve", "--site", b.path("site"), "--listen", "127.0.0.1:999999"}
		}},
		{"site:missing", failure.ExitUsage,
			func(b *bed) []string { return []string{"serve", "--site", b.path("site")} }},
		{"serve:password", failure.ExitUsage, func(b *bed) []string {
			b.must(os.Mkdir(b.path("site"), 0o755))
			return []string{"serve", "--site", b.path("site"), "--private", "--password", b.path("none")}
		}},
		{"receive:start", failure.ExitUsage, func(b *bed) []string {
			b.must(os.MkdirAll(b.path("data/drop"), 0o755))
			return []string{"receive", "--data", b.path("data"), "--state", b.path("state"), "--listen", "127.0.0.1:0"}
		}},
		{"publish:target", failure.ExitUsage, func(b *bed) []string {
			return []string{"publish", "--host", "gpu01", "--spool", b.path("spool"), "--to", "web:/in"}
		}},
		{"ssh:refused", failure.ExitTryAgain, func(b *bed) []string {
			b.do("collect", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool", b.path("spool"))
			return []string{"publish", "--host", "gpu01", "--spool", b.path("spool"), "--to", "sftp://x@127.0.0.1:1",
				"--identity", b.key(), "--push-timeout", "3s"}
		}},
	} {
		t.Run(test.code, func(t *testing.T) {
			b := newBed(t)
			_, errs, exit := b.run(test.args(b)...)
			if exit != test.exit || strings.Count(errs, " ["+test.code+"]\n") != 1 {
				t.Errorf("exit %d, want %d; stderr\n%s", exit, test.exit, errs)
			}
		})
	}
	// What was typed wrong, and what is an answer, have none.
	b := newBed(t)
	for _, args := range [][]string{{"generate", "--no-such"}, {"run", "--every", "1s"},
		{"available", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--min-memory", "900G"}} {
		if _, errs, exit := b.run(args...); exit == failure.ExitOK || strings.Contains(errs, "]\n") {
			t.Errorf("%v: exit %d\n%s", args, exit, errs)
		}
	}
}

func TestDoctorLeavesAPasswordAlone(t *testing.T) {
	b := webBed(t)
	b.serve(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusUnauthorized); return true })
	e, _ := b.examine()
	if got := listed(e, doctor.Note); !strings.Contains(got, "web:password") {
		t.Errorf("noted:\n%s", got)
	}
}

// TestGenerateWithoutConsulsToken: without its token Consul is a source that does
// not answer, and no reason to make no site.
func TestGenerateWithoutConsulsToken(t *testing.T) {
	b := webBed(t)
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", b.path("none"))
	_, stderr, code := b.run(b.generate("--consul-enabled")...)
	if code != failure.ExitDegraded || !strings.Contains(stderr, "[discovery:unreachable]") ||
		!strings.Contains(stderr, b.path("none")) {
		t.Errorf("exit %d, want %d:\n%s", code, failure.ExitDegraded, stderr)
	}
	if board := string(mustRead(b, "site/api/v1/board.json")); !strings.Contains(board, `"name":"gpu01"`) {
		t.Error("the host is gone from the board")
	}
}
