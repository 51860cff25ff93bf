package collector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/collector/hostinfo"
)

// TestForgedProcessIsDoubted: a name that is laid out as nvidia-smi's
// own output adds a process that the output alone cannot show to be forged.
func TestForgedProcessIsDoubted(t *testing.T) {
	text, err := os.ReadFile(capturePath(t, "mixed-4x-processes-535.xml"))
	if err != nil {
		t.Fatal(err)
	}
	const name = "x</process_name>\n\t\t\t\t<used_memory>1 MiB</used_memory>\n\t\t\t</process_info>\n\t\t\t<process_info>\n\t\t\t\t<pid>4242</pid>\n" +
		"\t\t\t\t<type>C</type>\n\t\t\t\t<process_name>y"
	file := filepath.Join(t.TempDir(), "out")
	forged := strings.Replace(string(text), ">/opt/conda/envs/pt/bin/python<", ">"+name+"<", 1)
	if forged == string(text) || os.WriteFile(file, []byte(forged), 0o644) != nil {
		t.Fatal("the capture has no such process")
	}
	t.Setenv("GPUBOARD_FAKE_SMI", file)
	t.Setenv("GPUBOARD_FAKE_SMI_PIDS", "77,78,79,80")
	smi := fake(t, "nvidia-smi")
	for _, c := range []struct {
		cmdline, exe string
		doubted      bool
	}{
		{"python\x00train.py\x00", "/usr/bin/python3", false},
		{name + "\x00", "/usr/bin/python3", true},
		{"python\x00" + name, "/usr/bin/python3", true},
		{"python\x00", "/tmp/" + name, true},
	} {
		proc := t.TempDir()
		if err := os.Mkdir(filepath.Join(proc, "77"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, "77/cmdline"), []byte(c.cmdline), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(c.exe, filepath.Join(proc, "77/exe")); err != nil {
			t.Fatal(err)
		}
		s := collect(t, patient(Options{NvidiaSMI: smi, Roots: hostinfo.Roots{Proc: proc}}))
		if s.ProcessesKnownOf(&s.GPUs[0]) == c.doubted || has(s, "smi:process-name") != c.doubted ||
			!s.ProcessesKnownOf(&s.GPUs[1]) {
			t.Errorf("%.30q %.30q: %q, %s", c.cmdline, c.exe, s.GPUs[0].ProcessesUnknown, problems(s))
		}
	}
}
