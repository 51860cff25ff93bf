package cli

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/doctor"
	"gpuboard/internal/failure"
	"gpuboard/internal/node"
	"gpuboard/internal/testenv/need"
)

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
			return []string{"collect", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool", b.path("nvidia-smi/x")}
		}},
		{"spool:not-private", failure.ExitUsage, func(b *bed) []string {
			b.must(os.Mkdir(b.path("spool"), 0o700))
			b.must(os.Chmod(b.path("spool"), 0o777))
			return []string{"run", "--host", "gpu01", "--spool", b.path("spool")}
		}},
		{"disk:readonly", failure.ExitTryAgain, func(b *bed) []string {
			b.must(os.Mkdir(b.path("spool"), 0o700))
			b.readOnly("spool")
			return []string{"collect", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool", b.path("spool")}
		}},
		{"disk:space", failure.ExitTryAgain, func(b *bed) []string {
			need.Root(b.t)
			b.must(os.Mkdir(b.path("spool"), 0o700))
			b.mount("spool", "mode=700,size=4k")
			return []string{"collect", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool", b.path("spool")}
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
			return []string{"register", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--spool", b.path("spool")}
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
		{"site:missing", failure.ExitUsage, func(b *bed) []string { return []string{"serve", "--site", b.path("site")} }},
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
			return []string{"publish", "--host", "gpu01", "--spool", b.path("spool"), "--to", "sftp://x@127.0.0.1:1", "--identity", b.key(), "--push-timeout", "3s"}
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
	for _, args := range [][]string{{"generate", "--no-such"}, {"run", "--every", "1s"}, {"available", "--host", "gpu01", "--nvidia-smi", b.path("nvidia-smi"), "--min-memory", "900G"}} {
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
	if code != failure.ExitDegraded || !strings.Contains(stderr, "[discovery:unreachable]") || !strings.Contains(stderr, b.path("none")) {
		t.Errorf("exit %d, want %d:\n%s", code, failure.ExitDegraded, stderr)
	}
	if board := string(mustRead(b, "site/api/v1/board.json")); !strings.Contains(board, `"name":"gpu01"`) {
		t.Error("the host is gone from the board")
	}
}
