package hostinfo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/snapshot"
)

// proc lays out a /proc of these files.
func proc(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const mounts = `22 27 0:21 / /proc rw - proc proc rw
27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
28 27 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw
29 27 259:2 /srv/data /mnt/bind rw - ext4 /dev/nvme0n1p2 rw
30 27 0:50 / /home rw - nfs4 filer:/home rw
31 27 9:0 / /scratch\040space rw - xfs /dev/md0 rw
32 27 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
33 27 7:2 / /snap/x rw - ext4 /dev/loop2 rw
34 27 0:60 / /var/lib/docker/overlay2/abc/merged rw - overlay overlay rw
35 27 0:61 / /data rw - btrfs /dev/sdb1 rw,subvol=/a
36 27 0:62 / /data/sub rw - btrfs /dev/sdb1 rw,subvol=/b
37 27 0:70 / /mnt/fuse rw - fuse.sshfs u@h:/ rw
a broken line
`

func TestRead(t *testing.T) {
	root := proc(t, map[string]string{
		"sys/kernel/random/boot_id": "0123abcd-0000-4000-8000-00000000beef\n",
		"sys/kernel/osrelease":      "6.1.0-25-amd64\n",
		"uptime":                    "86400.52 1000.00\n",
		"loadavg":                   "12.5 10.25 8.00 3/900 12345\n",
		"meminfo":                   "MemTotal:       131072000 kB\nMemFree:         1000000 kB\nMemAvailable:   98304000 kB\n",
		"stat":                      "cpu  1 2\ncpu0 1\ncpu1 1\nintr 5\n",
		"self/mountinfo":            mounts,
	})
	etc := proc(t, map[string]string{"os-release": "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"})
	var measured []string
	info := Read(Roots{Proc: root, Etc: etc,
		Usage:      func(m string) (int64, int64, error) { measured = append(measured, m); return 1000, 400, nil },
		Interfaces: func() ([]snapshot.Interface, error) { return nil, nil },
	})
	uptime, cores, total, used := int64(86400), 2, int64(128000), int64(32000)
	one, five, fifteen := 12.5, 10.25, 8.0
	want := Info{BootID: "0123abcd-0000-4000-8000-00000000beef", Node: snapshot.Node{
		UptimeSeconds: &uptime, Cores: &cores, Load1: &one, Load5: &five, Load15: &fifteen, MemoryTotal: &total,
		MemoryUsed: &used,
		Kernel:     "6.1.0-25-amd64", OS: "Debian GNU/Linux 12 (bookworm)",
		Disks: []snapshot.Disk{{Mount: "/", Total: 1000, Used: 400}, {Mount: "/data", Total: 1000, Used: 400},
			{Mount: "/scratch space", Total: 1000, Used: 400}},
	}}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Error(diff)
	}
	for _, m := range measured {
		if m == "/home" || m == "/mnt/fuse" {
			t.Errorf("%s is on another machine, and was measured", m)
		}
	}
}

func TestEachSourceFailsByItself(t *testing.T) {
	good := map[string]string{
		"sys/kernel/random/boot_id": "0123abcd-0000-4000-8000-00000000beef", "sys/kernel/osrelease": "6.1",
		"uptime":  "5 5",
		"loadavg": "1 2 3", "meminfo": "MemTotal: 4096 kB\nMemAvailable: 1024 kB\n", "stat": "cpu0 1\n",
		"self/mountinfo": "",
	}
	etc := proc(t, map[string]string{"os-release": "NAME=x\n"})
	parts := map[string]string{
		"sys/kernel/random/boot_id": "boot id", "sys/kernel/osrelease": "kernel", "uptime": "uptime",
		"loadavg": "load", "meminfo": "memory", "stat": "cores", "self/mountinfo": "disks",
	}
	for name, part := range parts {
		for _, bad := range []string{"missing", "\x00garbage\n", ""} {
			files := map[string]string{}
			for k, v := range good {
				files[k] = v
			}
			files[name] = bad
			if bad == "missing" {
				delete(files, name)
			} else if name == "self/mountinfo" || name == "sys/kernel/osrelease" && bad != "" {
				continue // nothing mounted is no fault, and any text is a version
			}
			info := Read(
				Roots{Proc: proc(t, files), Etc: etc,
					Interfaces: func() ([]snapshot.Interface, error) { return nil, nil }})
			if len(info.Problems) != 1 || info.Problems[0].Code != "host:partial" ||
				!strings.Contains(info.Problems[0].Message, "the node's "+part+" cannot be read") {
				t.Errorf("%s is %q: %v", name, bad, info.Problems)
			}
		}
	}
	info := Read(
		Roots{Proc: proc(t, good), Etc: t.TempDir(),
			Interfaces: func() ([]snapshot.Interface, error) { return nil, errors.New("no sockets") }})
	if len(info.Problems) != 2 || info.Node.Load1 == nil {
		t.Errorf("%v", info.Problems)
	}
}

func TestNumbersThatCannotBe(t *testing.T) {
	for _, text := range []string{"-1 2 3", "NaN 1 1", "1e999 1 1", "1 2", "x 1 2"} {
		if _, _, _, ok := parseLoad([]byte(text)); ok {
			t.Errorf("load %q is believed", text)
		}
	}
	if _, used, ok := parseMemory([]byte("MemTotal: 10 kB\nMemAvailable: 99 kB\n")); !ok || used != nil {
		t.Error("more is available than there is, and that is believed")
	}
	if _, used, _ := parseMemory(
		[]byte("MemTotal: 4096 kB\nMemFree: 1024 kB\nBuffers: 1024 kB\nCached: 1024 kB\n")); used == nil || *used != 1 {
		t.Error("an old kernel's memory is not read")
	}
	if id, ok := parseBootID([]byte("../../etc/passwd-aaaaaaaa")); ok {
		t.Errorf("boot id %q", id)
	}
}

func TestDisksAreBoundedAndFailingOnesSaid(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "1 1 8:%d / /d%02d rw - ext4 /dev/x%d rw\n", i, i, i)
	}
	r := &reader{roots: Roots{Usage: func(m string) (int64, int64, error) {
		if m == "/d00" {
			return 0, 0, errors.New("stale")
		}
		return 1, 0, nil
	}}}
	r.disks(localMounts(Mounts(b.String())))
	if len(r.info.Node.Disks) != snapshot.MaxDisks || len(r.info.Problems) != 2 {
		t.Errorf("%d disks, %v", len(r.info.Node.Disks), r.info.Problems)
	}
}

func TestThisMachine(t *testing.T) {
	info := Read(Roots{Proc: "/proc", Etc: "/etc"})
	n := info.Node
	if info.BootID == "" || n.UptimeSeconds == nil || n.Cores == nil || n.Load1 == nil || n.MemoryTotal == nil ||
		n.MemoryUsed == nil || n.Kernel == "" {
		t.Errorf("%+v %v", info, info.Problems)
	}
	for _, i := range n.Interfaces {
		if i.Name == "lo" || len(i.Addrs) == 0 {
			t.Errorf("%+v", i)
		}
	}
	for _, d := range n.Disks {
		if d.Used < 0 || d.Used > d.Total {
			t.Errorf("%+v", d)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte(mounts))
	f.Add([]byte("MemTotal: 10 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range localMounts(Mounts(string(b))) {
			if !local(m.Kind) {
				t.Fatalf("%+v", m)
			}
		}
		if total, used, ok := parseMemory(b); ok && used != nil && (*used < 0 || *used > *total) {
			t.Fatalf("%d of %d", *used, *total)
		}
		if s := parseOSRelease(b); len(s) > snapshot.MaxNameBytes {
			t.Fatal(s)
		}
		if v, ok := parseUptime(b); ok && *v < 0 {
			t.Fatal(*v)
		}
		parseCores(b)
	})
}
