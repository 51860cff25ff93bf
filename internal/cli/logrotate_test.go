package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// TestLogIsRotated: a loop goes on writing to its log after logrotate was there.
func TestLogIsRotated(t *testing.T) {
	program := need.Program(t, "logrotate")
	t.Parallel()
	capture, err := filepath.Abs("../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile("../../deploy/logrotate/gpuboard")
	if err != nil {
		t.Fatal(err)
	}
	b := &beginner{t: t, dir: t.TempDir()}
	b.env = append(os.Environ(), "HOME="+b.dir, "GPUBOARD_SPOOL="+b.dir+"/spool", "GPUBOARD_TO=file://"+b.dir+"/data", "GPUBOARD_EVERY=2s", "GPUBOARD_FAKE_SMI="+capture)
	log := b.dir + "/spool/run.log"
	until := func(what string) []byte {
		t.Helper()
		deadline := time.Now().Add(need.Patience)
		for {
			text, _ := os.ReadFile(log)
			if bytes.Contains(text, []byte(what)) {
				return text
			}
			if time.Now().After(deadline) {
				t.Fatalf("the log has no %q:\n%s", what, text)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Cleanup(func() { b.types("gpuboard check kill") })
	if out, code := b.types("gpuboard check gpu01"); code != 3 { // it cannot push
		t.Fatal(out)
	}
	until("publishing: ") // there is no data directory

	own := strings.Replace(string(shipped), "/var/lib/gpuboard/spool/run.log", log, 1)
	if own = strings.Replace(own, "\tsu gpuboard gpuboard\n", "", 1); own == string(shipped) {
		t.Fatal("the file is not what this test knows")
	}
	if err := os.WriteFile(b.dir+"/conf", []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "--force", "--state", b.dir+"/state", b.dir+"/conf").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if old, err := os.ReadFile(log + ".1.gz"); err != nil || len(old) < 20 {
		t.Errorf("set aside: %d bytes, %v", len(old), err)
	}
	if err := os.Mkdir(b.dir+"/data", 0o755); err != nil {
		t.Fatal(err)
	}
	if text := until("well again"); !bytes.HasPrefix(text, []byte("gpuboard: ")) || bytes.Contains(text, []byte("opening the data")) {
		t.Errorf("after that it begins with %q", text[:min(len(text), 80)])
	}
	out, _ := b.types("gpuboard doctor node --host gpu01 --json")
	var report struct {
		Findings []struct{ State, Code, Message string }
	}
	if err := json.Unmarshal([]byte(out[max(0, strings.IndexByte(out, '{')):]), &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := map[string]bool{}
	for _, f := range report.Findings {
		said[f.Code] = true
		if area, _, _ := strings.Cut(f.Code, ":"); f.State == "bad" && area != "smi" { // how fast the node is read is not the matter
			t.Errorf("what was set aside disturbs: %s: %s", f.Code, f.Message)
		}
	}
	if !said["spool:ok"] || !said["loop:ok"] {
		t.Errorf("the doctor does not know of the spool and the loop:\n%s", out)
	}
}
