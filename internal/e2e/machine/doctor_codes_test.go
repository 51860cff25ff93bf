package machine_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/doctor"
	"gpuboard/internal/node"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// The tests here are of what needs neither a server nor Consul; between them
// and those of doctor_test.go every code that doctor says is provoked.

// plainNode is a node that pushes into a directory of its own machine.
func plainNode(t *testing.T) *bed {
	b := newBed(t)
	b.must(os.MkdirAll(b.path("data/drop/gpu01"), 0o755))
	b.do("collect", "--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi"))
	b.args = []string{"node", "--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi"),
		"--to", "file://" + b.path("data")}
	return b
}

// readOnly puts a file system below the bed that nobody can write to.
func (b *bed) readOnly(name string) {
	b.t.Helper()
	need.Root(b.t)
	b.mount(name, "mode=700")
	b.must(syscall.Mount("none", b.path(name), "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
}

// directory puts a directory where a file is.
func (b *bed) directory(name string) {
	b.must(os.Remove(b.path(name)))
	b.must(os.Mkdir(b.path(name), 0o755))
}

// hold takes a lock as another process would.
func (b *bed) hold(name string) {
	b.t.Helper()
	l, err := atomicfile.Lock(b.path(name), 0o600)
	b.must(err)
	b.t.Cleanup(func() { l.Close() })
}

type spoilt struct {
	code, words string
	spoil       func(b *bed)
}

func TestDoctorNamesEveryCauseOnANode(t *testing.T) {
	plainNode(t).wantWell()
	for _, test := range []spoilt{
		{"host:name", "--host NAME", func(b *bed) { b.with("--host", "no host") }},
		{"smi:slow", "set every:", func(b *bed) {
			b.program("nvidia-smi", "sleep 1.2\nexec cat "+smiCapture(b.t))
			b.with("--every", "2s")
		}},
		{"smi:driver-mismatch", "nvidia-smi", func(b *bed) {
			b.program("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
		}},
		{"spool:unusable", "--spool DIR", func(b *bed) { b.with("--spool", b.path("nvidia-smi")) }},
		{"spool:unwritable", "chown", func(b *bed) { b.readOnly("spool") }},
		{"disk:space", "df -h", func(b *bed) { need.Root(b.t); b.mount("spool", "mode=700,size=1m") }},
		{"disk:inodes", "df -i", func(b *bed) { need.Root(b.t); b.mount("spool", "mode=700,nr_inodes=20") }},
		{"loop:no-heartbeat", "gpuboard check gpu01", func(b *bed) { b.hold("spool/" + node.LockFile) }},
		{"loop:unknown", "gpuboard check gpu01",
			func(b *bed) { b.must(os.Mkdir(b.path("spool", node.LockFile), 0o755)) }},
		{"loop:old-version", "gpuboard check kill", func(b *bed) {
			b.hold("spool/" + node.LockFile)
			b.must(
				node.Heartbeat{PID: 4711, Every: time.Second, Beat: time.Now(), Version: "0.1"}.Write(b.path("spool")))
		}},
		{"loop:not-pushing", "see whether sshd runs", func(b *bed) {
			b.hold("spool/" + node.LockFile)
			b.must(node.Heartbeat{PID: 4711, Every: time.Second, Beat: time.Now(), Version: b.version(),
				Push: node.Pushes{Since: time.Now(), Error: "connection refused", Code: "ssh:refused",
					Hint: "see whether sshd runs"}}.Write(b.path("spool")))
		}},
		{"loop:other-settings", " --to=sftp://gpu09@web:2222/ --identity=/key", func(b *bed) {
			b.hold("spool/" + node.LockFile)
			b.must(
				node.Heartbeat{PID: 4711, Host: "gpu09", Every: time.Second, Beat: time.Now(), Version: b.version(),
					Push: node.Pushes{Since: time.Now(), Worked: time.Now()},
					Settings: map[string]string{"host": "gpu09", "to": "sftp://gpu09@web:2222/",
						"identity": "/key"}}.Write(b.path("spool")))
		}},
		{"local:directory", "mkdir -p", func(b *bed) { b.must(os.RemoveAll(b.path("data/drop"))) }},
		{"local:unwritable", "chown", func(b *bed) { b.readOnly("data/drop") }},
		{"publish:target", "sftp://", func(b *bed) { b.with("--to", "web.example.org:/in") }},
		{"ssh:known-hosts", "--known-hosts FILE", func(b *bed) {
			b.with("--to", "sftp://x@127.0.0.1:1", "--identity", b.key(), "--known-hosts", b.path("spool"))
		}},
		{"ssh:key-unreadable", "ssh-keygen",
			func(b *bed) { b.with("--to", "sftp://x@127.0.0.1:1", "--identity", b.path("none")) }},
		{"ssh:key-passphrase", "ssh-add", func(b *bed) {
			sshtest.WriteKey(b.t, b.path("locked"), "ed25519", "secret")
			b.with("--to", "sftp://x@127.0.0.1:1", "--identity", b.path("locked"))
		}},
		{"ssh:timeout", "sftp", func(b *bed) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			b.must(err)
			b.t.Cleanup(func() { l.Close() })
			b.with("--to", "sftp://x@"+l.Addr().String(), "--identity", b.key(), "--push-timeout", "2s")
		}},
		{"ssh:handshake", "sftp -v", func(b *bed) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			b.must(err)
			b.t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					b.t.Cleanup(func() { c.Close() })
					fmt.Fprintf(c, "SSH-2.0-x\r\n%s", strings.Repeat("and what follows is no packet ", 20))
				}
			}()
			b.with("--to", "sftp://x@"+l.Addr().String(), "--identity", b.key(), "--push-timeout", "5s")
		}},
		{"consul:config", "env", func(b *bed) {
			b.t.Setenv("CONSUL_HTTP_ADDR", "gopher://x")
			b.with("--register")
		}},
	} {
		t.Run(test.code, func(t *testing.T) {
			b := plainNode(t)
			test.spoil(b)
			b.wantNamed(test.code, test.words)
		})
	}
}

// TestDoctorKeepsTheSettingsOfALoop: the command that starts a loop again is its own, whoever started it.
func TestDoctorKeepsTheSettingsOfALoop(t *testing.T) {
	const to = "sftp://n-gpu01@web/in"
	b := plainNode(t)
	spool := " --spool=" + b.path("spool")
	b.args = []string{"node", "--host", "gpu01", "--spool", b.path("spool"), "--nvidia-smi", b.path("nvidia-smi")}
	b.hold("spool/" + node.LockFile)
	beats := func(host, unit string) {
		b.must(node.Heartbeat{PID: 4711, Host: host, Unit: unit, Every: time.Second, Beat: time.Now(), Version: "0.1",
			Settings: map[string]string{"host": host, "to": to, "nvidia_smi": b.path("nvidia-smi")}}.Write(
			b.path("spool")))
	}

	beats("gpu01", "")
	b.wantNamed("loop:old-version",
		"gpuboard check kill"+spool+"; gpuboard check gpu01"+spool+" --nvidia-smi="+b.path("nvidia-smi")+" --to="+to)
	beats("gpu01", "gpuboard-node.service")
	b.wantNamed("loop:old-version", "systemctl restart gpuboard-node.service")

	b.cron("* * * * * gpuboard check gpu01 --to " + to + " >/dev/null")
	beats("gpu01", "")
	b.wantNamed("loop:old-version", "gpuboard check kill"+spool+"; gpuboard check gpu01 --to "+to)

	// The node has another name now, and cron knows it.
	b.cron("* * * * * gpuboard check gpu02 --to " + to + " >/dev/null")
	b.with("--host", "gpu02")
	b.wantNamed("loop:other-settings", "gpuboard check kill"+spool+"; gpuboard check gpu02 --to "+to)

	// The file says another drop than the loop has.
	b.write("gpuboard.yml", "every: 5s\nto: file://"+b.path("data")+"\n")
	b.args = []string{"node", "--host", "gpu01", "--config", b.path("gpuboard.yml"), "--spool", b.path("spool")}
	b.wantNamed("loop:other-settings", "and not as "+b.path("gpuboard.yml")+":2 says")
	e, _ := b.examine()
	if want := "gpuboard check gpu01 --config " + b.path("gpuboard.yml") +
		spool; !strings.Contains(listed(e, doctor.Bad), want) || strings.Contains(listed(e, doctor.Bad), "--to") {
		t.Errorf("found\n%s", listed(e, doctor.Bad))
	}
	b.cron("* * * * * gpuboard check gpu01 --config " + b.path("gpuboard.yml") + " --to " + to)
	b.wantNamed("loop:other-settings", "delete --to from this line of cron: gpuboard check gpu01")
}

func (b *bed) key() string {
	b.t.Helper()
	if _, err := os.Stat(b.path("key")); err != nil {
		sshtest.WriteKey(b.t, b.path("key"), "ed25519", "")
	}
	return b.path("key")
}

func smiCapture(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDoctorNamesEveryCauseOnAWebHost(t *testing.T) {
	well := webBed(t)
	for _, test := range []spoilt{
		{"data:unreadable", "namei", func(b *bed) { b.with("--data", b.path("data/comments.json/x")) }},
		{"site:unreadable", "namei", func(b *bed) { b.with("--site", b.path("data/comments.json/x")) }},
		{"state:unreadable", "namei", func(b *bed) { b.with("--state", b.path("data/comments.json/x")) }},
		{"site:not-a-directory", "ls -ld", func(b *bed) { b.with("--site", b.path("data/comments.json")) }},
		{"state:not-a-directory", "ls -ld", func(b *bed) { b.with("--state", b.path("data/comments.json")) }},
		{"site:open", "chmod o-w", func(b *bed) { b.must(os.Chmod(b.path("site"), 0o777)) }},
		{"state:open", "chmod o-w", func(b *bed) { b.must(os.Chmod(b.path("state"), 0o777)) }},
		{"site:unwritable", "chown", func(b *bed) { b.readOnly("site") }},
		{"state:unwritable", "chown", func(b *bed) { b.readOnly("state") }},
		{"site:damaged", "gpuboard generate", func(b *bed) { b.write("site/health.json", "[]") }},
		{"drop:missing", "mkdir -p", func(b *bed) { b.must(os.RemoveAll(b.path("data/drop"))) }},
		{"drop:unreadable", "namei", func(b *bed) {
			b.must(os.RemoveAll(b.path("data/drop")))
			b.write("data/drop", "a file")
		}},
		{"drop:never", "gpuboard doctor node", func(b *bed) {
			need.Root(b.t)
			b.must(os.Mkdir(b.path("data/drop/gpu09"), 0o755))
			b.must(os.Chown(b.path("data/drop/gpu09"), 33, 33)) // root's own would have to be a chroot
		}},
		{"bad:notregular", "gpu01", func(b *bed) {
			b.must(os.Remove(b.path("data/drop/gpu01/latest.json.gz")))
			b.must(os.Symlink("/etc/passwd", b.path("data/drop/gpu01/latest.json.gz")))
		}},
		{"bad:empty", "gpu01", func(b *bed) { b.write("data/drop/gpu01/latest.json.gz", "") }},
		{"aliases:unreadable", "ls -l", func(b *bed) { b.directory("data/aliases.csv") }},
		{"booking:unreadable", "ls -l", func(b *bed) { b.directory("data/comments.json") }},
		{"history:unreadable", "chown", func(b *bed) { b.directory("state/history.db") }},
		{"state:lock", "ls -l", func(b *bed) { b.directory("state/generate.lock") }},
		{"legacy:unreadable", "ls -ld", func(b *bed) { b.with("--legacy", b.path("none")) }},
		{"notify:config", "notify.md", func(b *bed) {
			b.write("gpuboard.yml", "notify:\n  - webhook_file: "+b.path("none")+"\n")
			b.with("--config", b.path("gpuboard.yml"))
		}},
		{"notify:program", "gpuboard notify --test", func(b *bed) {
			b.write("gpuboard.yml", "notify:\n  - command: ["+b.path("none")+"]\n")
			b.with("--config", b.path("gpuboard.yml"))
		}},
		{"consul:config", "env", func(b *bed) {
			b.t.Setenv("CONSUL_HTTP_ADDR", "gopher://x")
			b.with("--consul-enabled")
		}},
	} {
		t.Run(test.code, func(t *testing.T) {
			b := well.again(t)
			test.spoil(b)
			b.wantNamed(test.code, test.words)
		})
	}
}

// TestDoctorNotesWhatIsNotSetUp: what is not there, and need not be, is said
// without being called a fault.
func TestDoctorNotesWhatIsNotSetUp(t *testing.T) {
	notes := func(b *bed, want ...string) {
		t.Helper()
		e, _ := b.examine()
		var got []string
		for _, f := range e.Findings {
			if f.State == doctor.Note {
				got = append(got, f.Code)
			}
		}
		for _, code := range want {
			if !slices.Contains(got, code) {
				t.Errorf("%s is not noted: %v", code, got)
			}
		}
	}
	node := plainNode(t)
	notes(node, "config:none", "register:off", "clock:unknown")
	if e, _ := node.examine(); !slices.ContainsFunc(e.Findings,
		func(f doctor.Finding) bool { return f.Code == "loop:none" && f.State == doctor.OK }) {
		t.Error("cron's snapshot does not count")
	}
	node.args = []string{"node", "--host", "gpu01", "--spool", node.path("none"), "--nvidia-smi",
		node.path("nvidia-smi")}
	notes(node, "spool:missing", "publish:none")
	web := webBed(t)
	notes(web, "discovery:off", "web:unknown")
	web.hold("state/generate.lock")
	notes(web, "state:in-use")
	empty := webBed(t)
	empty.must(os.Remove(empty.path("state/history.db")))
	for _, name := range []string{"data/comments.json", "data/.comments.json.last-good",
		"state/comments.last-good.json"} {
		empty.must(os.Remove(empty.path(name)))
	}
	empty.must(os.RemoveAll(empty.path("data/drop/gpu01")))
	empty.must(os.Mkdir(empty.path("older"), 0o755))
	empty.with("--legacy", empty.path("older"))
	notes(empty, "history:none", "booking:none", "drop:none", "legacy:done")
	empty.with("--no-history")
	notes(empty, "history:off")
}

// TestDoctorAsksTheBoard: of bookings, aliases, hosts and their clocks doctor finds what the page
// shows, and no more; two silent hosts whose drops were copied just now are silent on both.
func TestDoctorAsksTheBoard(t *testing.T) {
	b := webBed(t)
	b.deliver("gpu02", "gpu02")
	b.write("data/drop/gpu03/latest.json.gz", "garbage")
	b.write("data/comments.json",
		`{"gpu01": [{"name": "ada", "date": "2040-01-01"}], "gpu99": [{"name": "eva"}], "gpu02": {"31": {"name": "eva", "date": "soon"}}}`)
	b.write("data/aliases.csv", "a,b\na,c\n")
	later := time.Now().Add(time.Hour)
	b.now = func() time.Time { return later }
	for _, host := range []string{"gpu01", "gpu02"} {
		b.must(os.Chtimes(b.path("data/drop", host, "latest.json.gz"), later, later))
	}
	before := b.files()
	found, _ := b.examine()
	if after := b.files(); !maps.Equal(before, after) {
		t.Errorf("doctor has changed files:\n%v\nwere\n%v", after, before)
	}
	if _, errs, code := b.run(b.generate()...); code != 3 {
		t.Fatalf("generate: exit %d\n%s", code, errs)
	}
	var health struct {
		Problems []struct{ Code string } `json:"problems"`
	}
	b.must(json.Unmarshal(mustRead(b, "site/health.json"), &health))

	var shown, said []string
	for _, p := range health.Problems {
		if !strings.HasPrefix(p.Code, "gpu:") { // both nodes have the GPUs of one capture
			shown = append(shown, p.Code)
		}
	}
	for _, f := range found.Findings {
		if f.State == doctor.Bad && !slices.Contains([]string{"drop", "site"}, strings.Split(f.Code, ":")[0]) {
			said = append(said, f.Code)
		}
	}
	slices.Sort(shown)
	slices.Sort(said)
	want := []string{"bad:gzip", "booking:alias", "booking:date", "booking:unknown-gpu", "booking:unknown-host"}
	if !slices.Equal(shown, said) || !slices.Equal(slices.Compact(said), want) {
		t.Errorf("doctor says %v, the page %v, want %v", said, shown, want)
	}
	for _, host := range []string{"gpu01", "gpu02"} {
		if !strings.Contains(listed(found, doctor.Bad), "drop:old: the data of "+host+" is 1h0m") {
			t.Errorf("%s is not called silent:\n%s", host, listed(found, doctor.Bad))
		}
	}
}

// files are those of a bed with their times.
func (b *bed) files() map[string]string {
	all := map[string]string{}
	for _, dir := range []string{"data", "site", "state"} {
		b.must(filepath.WalkDir(b.path(dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				info, _ := e.Info()
				all[path] = fmt.Sprint(info.Size(), info.ModTime())
			}
			return err
		}))
	}
	return all
}

// TestDoctorFindsWhatIsToRunAndDoesNot: a loop and servers that cron starts, and a node on which nobody
// starts anything, although somebody has just collected by hand.
func TestDoctorFindsWhatIsToRunAndDoesNot(t *testing.T) {
	node := plainNode(t)
	node.wantWell()
	node.cron("# * * * * * gpuboard check gpu01", "* * * * * gpuboard check gpu02 --config /elsewhere.yml",
		"0 3 * * * gpuboard check kill")
	node.wantNamed("loop:not-running", "neither cron nor systemd starts one")
	node.cron("GPUBOARD_CONFIG=/elsewhere.yml", "* * * * * gpuboard run --once")
	node.wantNamed("loop:not-running", "neither cron nor systemd starts one")
	node.cron("* * * * * /usr/bin/gpuboard check gpu01 >/dev/null",
		"0 * * * * gpuboard check gpu02 --config /elsewhere.yml")
	node.wantNamed("loop:not-running", "cron starts the loop, and none runs: gpuboard check gpu01")

	web := webBed(t)
	ports := []int{sshtest.FreePort(t), sshtest.FreePort(t)}
	web.cron(fmt.Sprintf("* * * * * flock -n r.lock /opt/gpuboard receive --listen :%d", ports[0]),
		fmt.Sprintf("* * * * * flock -n s.lock gpuboard serve --listen=127.0.0.1:%d --interval 1m", ports[1]))
	web.wantNamed("server:down", "cron starts gpuboard receive, and nothing answers")
	e, _ := web.examine()
	if !strings.Contains(listed(e, doctor.Bad),
		fmt.Sprintf("(gpuboard serve --listen=127.0.0.1:%d --interval 1m    (says why it ends))", ports[1])) {
		t.Errorf("found\n%s", listed(e, doctor.Bad))
	}
	for _, port := range ports {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		web.must(err)
		defer l.Close()
	}
	web.wantWell()
}
