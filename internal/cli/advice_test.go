package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpuboard/internal/node"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/internal/testenv/sshtest"
)

// A beginner knows nothing and does what doctor says, to the letter.
type beginner struct {
	t   *testing.T
	dir string
	env []string
}

// types has a shell run a line, as somebody would who copies it.
func (b *beginner) types(line string) (string, int) {
	c := exec.Command("sh", "-c", line)
	c.Dir, c.Env = b.dir, b.env
	out, _ := c.CombinedOutput()
	return string(out), c.ProcessState.ExitCode()
}

type advice struct{ State, Code, Message, Fix string }

// asks is what doctor finds that is not well, or that is not there at all.
func (b *beginner) asks(line string) (bad []advice, all []advice) {
	b.t.Helper()
	c := exec.Command("sh", "-c", line+" --json")
	c.Dir, c.Env = b.dir, b.env
	out, _ := c.Output()
	var report struct{ Findings []advice }
	if err := json.Unmarshal(out, &report); err != nil {
		b.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	for _, f := range report.Findings {
		if f.State == "bad" {
			bad = append(bad, f)
		}
	}
	return bad, report.Findings
}

// remark is what stands behind a command for the reader.
var remark = regexp.MustCompile(`\s{2,}\(.*$`)

// follow does what the first finding says until nothing is left, and returns
// which findings there were. by are steps that happen elsewhere than here.
func (b *beginner) follow(line string, by map[string]func()) []string {
	b.t.Helper()
	var codes []string
	deadline := time.Now().Add(need.Patience)
	for {
		bad, _ := b.asks(line)
		if len(bad) == 0 {
			return codes
		}
		first := bad[0]
		again := len(codes) > 0 && codes[len(codes)-1] == first.Code
		switch step := by[first.Code]; {
		case again && (step == nil || time.Now().After(deadline)):
			b.t.Fatalf("the advice has not helped: %+v", first)
		case again:
			time.Sleep(time.Second) // until the other side has noticed; who asks too often is turned away
			continue
		case slices.Contains(codes, first.Code):
			b.t.Fatalf("in a circle: %v, and again %+v", codes, first)
		case step != nil:
			step()
		default:
			command := remark.ReplaceAllString(first.Fix, "")
			if out, code := b.types(command); code != 0 {
				b.t.Fatalf("%v: %s (%s) says to type %q, which ends with %d:\n%s", codes, first.Code, first.Message, command, code, out)
			}
		}
		codes = append(codes, first.Code)
	}
}

// TestFollowingDoctorMakesABoard goes from a bare directory to a board that works, on a web
// host and then on a node, by nothing but what doctor and init print.
func TestFollowingDoctorMakesABoard(t *testing.T) {
	t.Parallel() // it waits most of the time
	need.Program(t, "ssh-keygen")
	need.Program(t, "ssh-keyscan")
	capture, err := filepath.Abs("../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	b := &beginner{t: t, dir: t.TempDir()}
	b.env = append(os.Environ(), "HOME="+b.dir, "XDG_STATE_HOME="+b.dir+"/xdg", "GPUBOARD_SPOOL="+b.dir+"/nowhere", "GPUBOARD_STATE="+b.dir+"/none", "GPUBOARD_FAKE_SMI="+capture)

	// It says what to begin with.
	_, all := b.asks("gpuboard doctor web")
	begin := map[string]string{}
	for _, line := range strings.Split(all[0].Fix, ", or ") {
		begin[strings.Fields(line)[2]] = line
	}
	if all[0].Code != "config:none" || begin["web"] != "gpuboard init web DIR" || begin["node"] != "gpuboard init node DIR" {
		t.Fatalf("it begins with %+v", all[0])
	}
	b.env = slices.DeleteFunc(b.env, func(v string) bool {
		return strings.HasPrefix(v, "GPUBOARD_SPOOL=") || strings.HasPrefix(v, "GPUBOARD_STATE=")
	})

	said, code := b.types(strings.Replace(begin["web"], "DIR", "web", 1))
	if code != 0 {
		t.Fatal(said)
	}
	if codes := b.follow("gpuboard doctor web --config web/gpuboard.yml", nil); !slices.Equal(codes, []string{"site:never"}) {
		t.Errorf("on the web host there was %v to do", codes)
	}

	// The node. A drop box is the door, at an address of this test's.
	port := sshtest.FreePort(t)
	said, code = b.types(strings.Replace(begin["node"], "DIR", "node", 1) + fmt.Sprintf(" --host gpu01 --to sftp://gpu01@127.0.0.1:%d/", port))
	if code != 0 {
		t.Fatal(said)
	}
	var door *exec.Cmd
	codes := b.follow("gpuboard doctor node --config node/gpuboard.yml", map[string]func(){
		"ssh:refused": func() { // on the web host: what init said there
			if out, code := b.types("ssh-keygen -q -t ed25519 -N '' -f other && cp other.pub web/state/keys/gpu99.pub"); code != 0 {
				t.Fatal(out)
			}
			door = exec.Command("gpuboard", "receive", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--config", b.dir+"/web/gpuboard.yml")
			door.Env = b.env
			door.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := door.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = door.Process.Signal(syscall.SIGTERM)
				_ = door.Wait()
			})
		},
		"ssh:auth": func() {
			if out, code := b.types("cp node/id_ed25519.pub web/state/keys/gpu01.pub"); code != 0 {
				t.Fatal(out)
			}
		},
	})
	t.Cleanup(func() { b.types("gpuboard check kill --config node/gpuboard.yml") })
	if want := []string{"ssh:key-unreadable", "ssh:refused", "ssh:hostkey-unknown", "ssh:auth", "loop:not-running"}; !slices.Equal(codes, want) {
		t.Errorf("on the node there was %v to do, want %v", codes, want)
	}
	// What was launched pushes, and doctor on the web host agrees.
	deadline := time.Now().Add(need.Patience)
	for {
		if _, err := os.Stat(b.dir + "/web/data/drop/gpu01/latest.json.gz"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			out, _ := b.types("gpuboard doctor node --config node/gpuboard.yml")
			t.Fatalf("nothing arrives:\n%s", out)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if out, code := b.types("gpuboard generate --config web/gpuboard.yml && gpuboard doctor web --config web/gpuboard.yml"); code != 0 || !strings.Contains(out, "the data of gpu01 is") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if board, err := os.ReadFile(b.dir + "/web/site/api/v1/board.json"); err != nil || !strings.Contains(string(board), `"gpu01"`) {
		t.Errorf("the board: %v\n%s", err, board)
	}
}

// write is an advice about a line of the configuration file.
var write = regexp.MustCompile(`(in|below|at the end of) (\S+?)(?::(\d+))? write: (.*)`)

// edits does what an advice says about the configuration file.
func (b *beginner) edits(fix string) {
	b.t.Helper()
	m := write.FindStringSubmatch(remark.ReplaceAllString(fix, ""))
	if m == nil {
		b.t.Fatalf("this names no line of a file: %s", fix)
	}
	path := m[2]
	if !filepath.IsAbs(path) {
		path = filepath.Join(b.dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	n, _ := strconv.Atoi(m[3])
	switch m[1] {
	case "in":
		lines[n-1] = m[4]
	case "below":
		lines = slices.Insert(lines, n, m[4])
	default:
		lines = append(lines, m[4])
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// said is the finding with a code; nil for none.
func (b *beginner) said(line, code string) *advice {
	b.t.Helper()
	_, all := b.asks(line)
	if i := slices.IndexFunc(all, func(f advice) bool { return f.Code == code }); i >= 0 {
		return &all[i]
	}
	return nil
}

// TestAdviceLasts: what doctor and check say to type keeps the settings of a loop, and what they say to write is in
// force afterwards, also when cron's line runs again.
func TestAdviceLasts(t *testing.T) {
	t.Parallel()
	capture, err := filepath.Abs("../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	b := &beginner{t: t, dir: t.TempDir()}
	cron := "gpuboard check gpu01 --config node/gpuboard.yml"
	for name, text := range map[string]string{
		"bin/crontab": "#!/bin/sh\necho '* * * * * " + strings.Replace(cron, " node", " "+b.dir+"/node", 1) + " >/dev/null'\n",
		"plain.yml":   "data: web\nsite: site\nconsul:\n    tags: [a]\n",
	} {
		if err := errors.Join(os.MkdirAll(b.dir+"/bin", 0o755), os.MkdirAll(b.dir+"/web/drop", 0o755), os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	b.env = append(os.Environ(), "HOME="+b.dir, "XDG_STATE_HOME="+b.dir+"/xdg", "GPUBOARD_FAKE_SMI="+capture, "CONSUL_HTTP_ADDR=127.0.0.1:1", "GPUBOARD_STATE="+b.dir+"/state")
	settings := func(spool string) map[string]string {
		t.Helper()
		beat, err := node.ReadHeartbeat(filepath.Join(b.dir, spool))
		if err != nil {
			t.Fatal(err)
		}
		return beat.Settings
	}
	types := func(line string) string {
		t.Helper()
		out, code := b.types(remark.ReplaceAllString(line, ""))
		if code != 0 {
			t.Fatalf("%q ends with %d:\n%s", line, code, out)
		}
		return out
	}

	// A loop that was started by flags alone, and died.
	t.Cleanup(func() {
		b.types("gpuboard check kill --spool bare")
		b.types("gpuboard check kill --config node/gpuboard.yml")
	})
	types("gpuboard check gpu02 --spool bare --every 2s --to file://" + b.dir + "/web")
	before := settings("bare")
	types("gpuboard check kill --spool bare")
	types(b.said("gpuboard doctor node --host gpu02 --spool bare", "loop:not-running").Fix)
	if now := settings("bare"); !maps.Equal(before, now) || now["to"] == "" {
		t.Errorf("the loop ran with %v, and now with %v", before, now)
	}

	// What somebody gives to check by hand is undone by cron, which says so once, and where it belongs.
	types("gpuboard init node node --host gpu01 --to file://" + b.dir + "/web")
	types(cron)
	b.types(cron + " --every 2s")
	out := types(cron)
	if !strings.Contains(out, "note: the loop ran with another every until now: every was 2s, and is auto (default)") {
		t.Errorf("cron says\n%s", out)
	}
	b.edits(out)
	if out = types(cron); !strings.Contains(out, "(node/gpuboard.yml:") {
		t.Errorf("then cron says\n%s", out)
	}
	if out = types(cron); !strings.HasPrefix(out, "Running") || strings.Contains(out, "note") || settings("node/spool")["every"] != "2s" {
		t.Errorf("and then\n%s%v", out, settings("node/spool"))
	}

	// Settings belong into the file.
	b.env = append(b.env, "PATH="+b.dir+"/bin:"+os.Getenv("PATH"))
	for _, line := range []string{"gpuboard doctor node --config node/gpuboard.yml", "CONSUL_HTTP_ADDR= gpuboard doctor web --config plain.yml"} {
		for _, code := range []string{"register:off", "discovery:off"} {
			note := b.said(line, code)
			if note == nil {
				continue
			}
			b.edits(note.Fix)
			if again := b.said(line, code); again != nil {
				t.Errorf("%s has changed nothing: %+v", note.Fix, again)
			}
		}
	}
	b.types(cron)
	if settings("node/spool")["register.enabled"] != "true" || !strings.Contains(types("cat plain.yml"), "\n    enabled: true\n") {
		t.Errorf("the loop runs with %v", settings("node/spool"))
	}
}

// TestCheckSaysWhatTheNewestCycleCameTo: a real loop whose nvidia-smi is missing, and then whose drop
// is. check says either at once, and when it is over.
func TestCheckSaysWhatTheNewestCycleCameTo(t *testing.T) {
	need.Time(t, "a real loop makes some cycles")
	t.Parallel()
	capture, err := os.ReadFile("../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path("data"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := &beginner{t: t, dir: dir, env: append(os.Environ(), "HOME="+dir, "GPUBOARD_SPOOL="+path("spool"), "GPUBOARD_TO=file://"+path("data"),
		"GPUBOARD_EVERY=2s", "GPUBOARD_NVIDIA_SMI="+path("nvidia-smi"))}
	t.Cleanup(func() { b.types("gpuboard check kill") })
	// checked waits until the heartbeat has this code, and then asks check.
	checked := func(code, said string, exit int) {
		t.Helper()
		for end := time.Now().Add(need.Patience); ; time.Sleep(20 * time.Millisecond) { // polling for a file
			beat, err := node.ReadHeartbeat(path("spool"))
			if err == nil && beat.Push.Code == code {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the heartbeat is %+v, %v, want the code %q", beat.Push, err, code)
			}
		}
		out, got := b.types("gpuboard check gpu01")
		if got != exit || !strings.HasPrefix(out, said) || code != "" && !strings.Contains(out, "["+code+"]") {
			t.Errorf("exit %d, want %d, %s and %q:\n%s", got, exit, said, code, out)
		}
	}

	out, exit := b.types("gpuboard check gpu01")
	if exit != 3 || !strings.HasPrefix(out, "Launched gpu01 ") || !strings.Contains(out, "nvidia-smi cannot be started") || !strings.Contains(out, "[smi:missing]") {
		t.Fatalf("without nvidia-smi: exit %d\n%s", exit, out)
	}
	if _, err := os.Stat(path("data/drop/gpu01/latest.json.gz")); err != nil {
		t.Errorf("the board learns nothing of it: %v", err)
	}
	checked("smi:missing", "Running gpu01 ", 3)

	write("capture.xml", string(capture))
	write("nvidia-smi", "#!/bin/sh\nexec cat "+path("capture.xml")+"\n")
	checked("", "Running gpu01 ", 0)

	if err := os.Rename(path("data"), path("away")); err != nil {
		t.Fatal(err)
	}
	checked("local:directory", "Running gpu01 ", 3)

	if err := os.Rename(path("away"), path("data")); err != nil {
		t.Fatal(err)
	}
	checked("", "Running gpu01 ", 0)
}

// A key that means a host, or one of its GPUs, in another spelling holds what it means for commands, too.
func TestOddKeysHoldTheirGPU(t *testing.T) {
	site := sitetest.Site{}.Files(t)
	url := sitetest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(site[strings.TrimPrefix(r.URL.Path, "/")])
	})
	for key, by := range map[string]string{
		"gpu01:0": "ann", "gpu01.example.org": "ann", "gpu\u200b01": "ann", "gpu01,gpu02": "?", "gpu[01-02]": "?", "gpu01-gpu02": "?",
	} {
		c := newCounter(t)
		if err := os.WriteFile(c.file, []byte("{\n  \""+key+"\": { \"*\": { \"name\": \"ann\", \"date\": \"2026-12-01\" } }\n}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if key == "gpu01:0" {
			by = "?" // the key says GPU 0, and the value the whole host
		}
		at := []string{"--site-url", url, "--now=2026-11-20T09:42:00Z"}
		_, stderr := c.run(1, append([]string{"book", "gpu01:0", "--for", "1d", "--name", "eve"}, at...)...)
		if !strings.Contains(stderr, "gpu01 is booked by "+by) {
			t.Errorf("%q: %s", key, stderr)
		}
		stdout, stderr := c.run(3, append([]string{"bookings"}, at...)...)
		if !strings.Contains(stdout, "gpu01") || strings.Contains(stdout, "example.org") || !strings.Contains(stderr, "comments.json:2:") || !strings.Contains(stderr, "[booking:host]") || strings.Contains(stderr, "unknown-host") {
			t.Errorf("%q is listed as\n%s%s", key, stdout, stderr)
		}
		if offer, _ := c.run(5, append([]string{"book", "--gpus", "3", "--for", "1d", "--name", "eve"}, at...)...); offer != "" {
			t.Errorf("%q: picked %s", key, offer)
		}
	}
}

// On a disk with room for the bookings, and none for the record of changes, what was done is said, and
// that it could not be recorded.
func TestAFullDiskSaysWhatIsDone(t *testing.T) {
	need.Root(t)
	c := newCounter(t)
	if err := syscall.Mount("none", c.dir, "tmpfs", 0, "size=256k"); err != nil {
		need.Skip(t, fmt.Sprintf("mounting a small disk: %v", err))
	}
	t.Cleanup(func() { _ = syscall.Unmount(c.dir, syscall.MNT_DETACH) })
	const block = 4096
	now := "--now=2026-11-20T09:42:00Z"
	c.run(0, "book", "gpu01:3", "--until", "2026-11-24", now)
	record := filepath.Join(c.dir, "bookings.log")

	// room leaves one block for the next content of comments.json, and the record at the end of its own.
	room := func() {
		t.Helper()
		_ = os.Remove(filepath.Join(c.dir, ".comments.json.previous"))
		_ = os.Remove(filepath.Join(c.dir, "ballast"))
		data, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, strings.Repeat("\n", block-len(data)%block)...)
		ballast, ballastErr := make([]byte, 256<<10), error(nil)
		if err := os.WriteFile(record, data, 0o664); err == nil {
			ballastErr = os.WriteFile(filepath.Join(c.dir, "ballast"), ballast, 0o664)
		}
		info, err := os.Stat(filepath.Join(c.dir, "ballast"))
		if err != nil || !errors.Is(ballastErr, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v, %v", err, ballastErr)
		}
		if err := os.Truncate(filepath.Join(c.dir, "ballast"), (info.Size()-1)/block*block); err != nil {
			t.Fatal(err)
		}
	}
	// keep settles what a booking means that the record does not know, as one written by hand.
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "memory.json"), []byte(`{"booking_zone": "UTC"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	byHand := strings.Replace(c.read(), `"id"`, `"comment": "by hand", "id"`, 1)
	keep := []string{"bookings", "--keep", "words", "--state", state}

	for _, step := range []struct {
		args       []string
		said, file string
	}{
		{[]string{"book", "gpu01:0", "--until", "2026-11-22"}, "gpu01:0 booked for ada", `"0": `},
		{[]string{"extend", "gpu01:0", "--until", "2026-11-23"}, "gpu01:0 extended for ada", `"2026-11-24 00:00`},
		{[]string{"release", "gpu01:0"}, "gpu01:0 released for ada", `"2026-11-20 10:42`},
		{keep, "gpu01:3 stays for ada", `"2026-11-25 00:00 +01:00`},
	} {
		if slices.Equal(step.args, keep) {
			if err := errors.Join(os.WriteFile(c.file, []byte(byHand), 0o664), os.WriteFile(record, nil, 0o664)); err != nil {
				t.Fatal(err)
			}
		}
		room()
		stdout, stderr := c.run(3, append(step.args, now)...)
		if !strings.Contains(stdout, step.said) || !strings.Contains(c.read(), step.file) {
			t.Errorf("%s: said %q, and the file is\n%s", step.args, stdout, c.read())
		}
		for _, want := range []string{"the bookings are changed, but recording the change failed: ", record + ": no space left on device [disk:space]", "hint: look at: df -h"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: %s\nlacks %q", step.args, stderr, want)
			}
		}
		if log, err := os.ReadFile(record); err != nil || strings.Contains(string(log), "gpu01:0") {
			t.Errorf("%s: the record: %v\n%s", step.args, err, log)
		}
	}
}
