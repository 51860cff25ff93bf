package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuboard/internal/config"
	"gpuboard/internal/node"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/watch"
)

// nobody looks at a machine with this /proc.
func nobody(proc string, euid int) *examination {
	n := node.Node{Getenv: func(string) string { return "" }}
	return &examination{Options: Options{Node: n}, proc: proc, euid: euid}
}

// TestHiddenProcesses looks at a /proc in which process 1 can be read, and at one in which it cannot.
func TestHiddenProcesses(t *testing.T) {
	for entry, want := range map[string]string{"1/status": "proc:ok", "2/status": "proc:hidepid"} {
		proc := t.TempDir()
		for _, name := range []string{"self", filepath.Dir(entry)} {
			if err := os.Mkdir(filepath.Join(proc, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(proc, entry), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		d := nobody(proc, 1000)
		d.hiddenProcesses()
		if got := d.findings[0].Code; got != want {
			t.Errorf("where %s can be read: found %+v", entry, d.findings)
		}
	}
}

func TestHiddenProcessesUnknown(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	d := nobody(none, 1000)
	d.hiddenProcesses()
	d.room("nothing", none)
	d.Config = &config.Config{Path: none}
	d.configFile()
	for i, want := range []string{"proc:unknown", "disk:unknown", "config:unreadable"} {
		if d.findings[i].Code != want {
			t.Errorf("finding %d is %+v, want %s", i, d.findings[i], want)
		}
	}
	if f := d.findings[2]; f.State != Bad || f.Fix == "" {
		t.Errorf("a configuration that went away: %+v", f)
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	for value, want := range map[string]string{
		"https://ada:secret@gpu.example.org/": "https://ada:xxxxx@gpu.example.org/", "https://gpu.example.org/": "https://gpu.example.org/", "20s": "20s", "%zz": "%zz",
	} {
		if got := shown(value); got != want {
			t.Errorf("%s is shown as %s, want %s", value, got, want)
		}
	}
}

// TestLargeSiteOnADisk: the same files are worth a note on a disk, and none in memory.
func TestLargeSiteOnADisk(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if watch.InMemory(dir) {
		need.Skip(t, "temporary files lie in memory here")
	}
	memory := filepath.Join(dir, "memory")
	if err := os.Mkdir(memory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", memory, "tmpfs", 0, "size=16m"); err != nil {
		need.Skip(t, "no file system can be mounted here: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(memory, syscall.MNT_DETACH) })
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	look := func(site string) []Finding {
		d := nobody("/proc", 1000)
		d.siteMedium(site)
		return d.findings
	}
	for _, site := range []string{disk, memory} {
		for i := range 2000 {
			if err := os.WriteFile(filepath.Join(site, fmt.Sprint(i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if found := look(site); len(found) > 0 {
			t.Errorf("2,000 files in %s: %+v", site, found)
		}
		if err := os.WriteFile(filepath.Join(site, "one more"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found := look(disk); len(found) != 1 || found[0].Code != "site:on-disk" || found[0].State != Note || !strings.Contains(found[0].Fix, "/run/gpuboard/site 0755") {
		t.Errorf("on a disk: %+v", found)
	}
	if found := look(memory); len(found) > 0 {
		t.Errorf("in memory: %+v", found)
	}
}
