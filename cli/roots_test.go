package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/sshtest"
)

// deliverTo puts news of a host, as of the bed's clock, into a data directory.
func (b *bed) deliverTo(data, host string) {
	b.t.Helper()
	b.do("collect", "--host", host, "--spool", b.path("spool-"+host), "--nvidia-smi", b.path("nvidia-smi"))
	b.must(os.MkdirAll(filepath.Join(data, "drop", host), 0o755))
	b.must(os.WriteFile(filepath.Join(data, "drop", host, "latest.json.gz"), mustRead(b, "spool-"+host+"/latest.json.gz"), 0o644))
}

// board reads what the site says of each host, and the codes of all problems.
func (b *bed) board() (states map[string]string, codes string) {
	b.t.Helper()
	var board struct {
		Hosts []struct {
			Name, State string
			SnapshotAt  time.Time `json:"snapshot_at"`
		}
	}
	b.must(json.Unmarshal(mustRead(b, "site/api/v1/board.json"), &board))
	states = map[string]string{}
	for _, h := range board.Hosts {
		states[h.Name] = h.State
	}
	var health struct {
		Problems []struct{ Code, File string }
	}
	b.must(json.Unmarshal(mustRead(b, "site/health.json"), &health))
	for _, p := range health.Problems {
		codes += p.Code + " "
	}
	return states, codes
}

// TestGenerateReadsRootsHereAndElsewhere has a board of three drop hosts: this
// machine, a directory as if mounted, and a real server. Each dies and comes back.
func TestGenerateReadsRootsHereAndElsewhere(t *testing.T) {
	b := newBed(t)
	for _, dir := range []string{"data/drop", "site", "state"} {
		b.must(os.MkdirAll(b.path(dir), 0o755))
	}
	server := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -R"})
	mounted, far := b.path("mounted"), filepath.Join(server.Dir, "data")
	b.deliverTo(b.path("data"), "gpu01")
	b.deliverTo(mounted, "gpu02")
	b.deliverTo(far, "gpu03")
	args := b.generate("--roots", mounted+","+fmt.Sprintf("sftp://%s@%s%s", server.User, server.Addr, far),
		"--identity", server.Key, "--known-hosts", server.KnownHosts, "--roots-timeout", "5s", "--no-history")
	generate := func(code int, hosts map[string]string, problems string) {
		t.Helper()
		out, errs, got := b.run(args...)
		if got != code {
			t.Errorf("exit %d, want %d\n%s%s", got, code, out, errs)
		}
		states, codes := b.board()
		if fmt.Sprint(states) != fmt.Sprint(hosts) || strings.TrimSpace(codes) != problems {
			t.Errorf("hosts %v with problems %q, want %v with %q", states, codes, hosts, problems)
		}
	}
	all := map[string]string{"gpu01": "up", "gpu02": "up", "gpu03": "up"}
	generate(exitOK, all, "")

	server.Stop()
	b.must(os.Rename(mounted, mounted+"-away"))
	generate(exitDegraded, all, "root:unreachable root:unreachable")
	began := time.Now()
	b.now = func() time.Time { return time.Now().Add(10 * time.Minute) }
	b.deliverTo(b.path("data"), "gpu01") // goes on
	generate(exitDegraded, map[string]string{"gpu01": "up", "gpu02": "stale", "gpu03": "stale"}, "root:unreachable root:unreachable")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("a root that is away held the others up for %v", took)
	}

	b.must(os.Rename(mounted+"-away", mounted))
	server.Restart()
	b.deliverTo(mounted, "gpu02")
	b.deliverTo(far, "gpu03")
	generate(exitOK, all, "")

	// A node moves from one drop host to another: its newest news count, and what
	// the old one still holds does not.
	b.now = func() time.Time { return time.Now().Add(20 * time.Minute) }
	for _, host := range []string{"gpu01", "gpu02"} {
		b.deliverTo(b.path("data"), host)
	}
	b.deliverTo(b.path("data"), "gpu03")
	generate(exitOK, all, "")

	// A server that is another than it was is not asked for anything.
	other := sshtest.WriteKey(t, b.path("other"), "ed25519", "")
	b.must(os.WriteFile(server.KnownHosts, []byte(fmt.Sprintf("[127.0.0.1]:%d %s %s\n", server.Port, other.Type(), strings.Fields(string(mustRead(b, "other.pub")))[1])), 0o600))
	_, errs, _ := b.run(args...)
	if !strings.Contains(errs, "ssh:hostkey-changed") {
		t.Errorf("%q does not name what is wrong with the server", errs)
	}
}

func TestDoctorLooksAtEachRoot(t *testing.T) {
	web := webBed(t)
	server := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -R"})
	mounted, far := web.path("mounted"), filepath.Join(server.Dir, "data")
	web.deliverTo(mounted, "gpu02")
	web.deliverTo(far, "gpu03")
	address := fmt.Sprintf("sftp://%s@%s%s", server.User, server.Addr, far)
	with := func(b *bed, roots string) *bed {
		b.args = append(b.args, "--roots", roots, "--identity", server.Key, "--known-hosts", server.KnownHosts)
		return b
	}
	with(web.again(t), mounted+","+address).wantWell()
	with(web.again(t), web.path("nowhere")).wantNamed("root:unreachable", "mount ")
	with(web.again(t), web.path("spool-gpu01")).wantNamed("root:unreachable", "drop")
	with(web.again(t), "http://x.example/data").wantNamed("config:roots", "roots:")
	with(web.again(t), address+"/none").wantNamed("remote:directory", "sftp ")
	if os.Getuid() != 0 { // root reads everything
		web.must(os.Chmod(filepath.Join(far, "drop"), 0))
		with(web.again(t), address).wantNamed("remote:permission", "read")
		web.must(os.Chmod(filepath.Join(far, "drop"), 0o755))
	}
	known, err := os.ReadFile(server.KnownHosts)
	web.must(err)
	web.must(os.WriteFile(server.KnownHosts, nil, 0o600))
	with(web.again(t), address).wantNamed("ssh:hostkey-unknown", "ssh-keyscan")
	web.must(os.WriteFile(server.KnownHosts, known, 0o600))
	server.Stop()
	with(web.again(t), address).wantNamed("ssh:refused", "sshd")
}

// TestWatchFollowsARootThatDies has one process see a server go and come back.
func TestWatchFollowsARootThatDies(t *testing.T) {
	b := newBed(t)
	b.must(os.MkdirAll(b.path("data/drop"), 0o755))
	server := sshtest.Start(t, sshtest.Options{Command: "internal-sftp -R"})
	far := filepath.Join(server.Dir, "data")
	b.deliverTo(far, "gpu03")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan int)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, now: time.Now,
			getenv: func(k string) string { return b.env[k] },
			args: b.generate("--watch", "--interval", "1s", "--roots-timeout", "2s", "--identity", server.Key, "--known-hosts", server.KnownHosts,
				"--roots", fmt.Sprintf("sftp://%s@%s%s", server.User, server.Addr, far))}
		done <- a.run(ctx)
	}()
	until := func(what string, seen func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !seen(); time.Sleep(20 * time.Millisecond) { // polling for another goroutine's files
			if time.Now().After(end) {
				t.Fatalf("waited in vain for: %s", what)
			}
		}
	}
	holds := func(file, words string) func() bool {
		return func() bool {
			content, _ := os.ReadFile(b.path("site", file))
			return strings.Contains(string(content), words)
		}
	}
	until("the host", holds("api/v1/board.json", `"name":"gpu03"`))
	server.Stop()
	until("the root is away", holds("health.json", "root:unreachable"))
	if !holds("api/v1/board.json", `"name":"gpu03"`)() {
		t.Error("its host has vanished")
	}
	server.Restart()
	b.deliverTo(far, "gpu04")
	until("the new host", holds("api/v1/board.json", `"name":"gpu04"`))
	until("the root is well", func() bool { return !holds("health.json", "root:unreachable")() })
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit %d", code)
	}
	if files, err := filepath.Glob(b.path("state/history.db*")); err != nil || len(files) != 1 {
		t.Errorf("its history is in %q, want it closed and in one file (%v)", files, err)
	}
}
