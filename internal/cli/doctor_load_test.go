package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuboard/internal/doctor"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
)

func TestDoctorMeasuresDrops(t *testing.T) {
	well := webBed(t)
	if e, _ := well.examine(); !strings.Contains(listed(e, doctor.Well), "drop:ok: 1 drops hold 1 files and 0 MiB") {
		t.Errorf("found\n%s", listed(e, doctor.Well))
	}
	stray := func(b *bed, n int, size int64) {
		for i := range n {
			name := fmt.Sprintf("data/drop/gpu01/x%d", i)
			b.write(name, "")
			b.must(os.Truncate(b.path(name), size))
		}
	}
	b := well.again(t)
	stray(b, 400, 10)
	b.wantNamed("drop:full", "generate -v")
	b = well.again(t)
	stray(b, 80, 1<<20)
	b.wantNamed("drop:full", "chmod 2770")
	b = well.again(t)
	stray(b, 17, snapshot.MaxFileBytes+1)
	b.wantNamed("drop:unswept", "generate -v")
	if n, err := filepath.Glob(b.path("data/drop/gpu01/x*")); err != nil || len(n) != 17 {
		t.Errorf("doctor removed files: %d are left", len(n))
	}
}

// TestDoctorSeesTheLimitOfDrops: whether a node behind sshd could fill the disk.
func TestDoctorSeesTheLimitOfDrops(t *testing.T) {
	need.Root(t)
	web := webBed(t)
	in := web.path("data/drop/gpu01/in")
	web.must(os.Mkdir(in, 0o755))
	web.must(os.Rename(web.path("data/drop/gpu01/latest.json.gz"), filepath.Join(in, "latest.json.gz")))
	e, _ := web.examine()
	notes := listed(e, doctor.Note)
	if !strings.Contains(notes, "drop:unlimited: 1 of 1 nodes could fill") || !strings.Contains(notes, "sh limit-drops.sh "+in) {
		t.Errorf("found\n%s", notes)
	}
	if err := syscall.Mount("none", in, "tmpfs", 0, "size=1m,nr_inodes=100"); err != nil {
		need.Skip(t, "no file system can be mounted here: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(in, syscall.MNT_DETACH) })
	e, _ = web.examine()
	if strings.Contains(listed(e, doctor.Note), "drop:unlimited") || !strings.Contains(listed(e, doctor.Well), "drop:ok: what nodes write cannot fill") {
		t.Errorf("with a file system of its own, found\n%s", listed(e, doctor.Note))
	}
}
