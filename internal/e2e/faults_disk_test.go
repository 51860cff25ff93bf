package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gpuboard/internal/testenv/faulttest"
	"gpuboard/internal/testenv/need"
)

// TestNoInodesAndReadOnly: on a disk without a free inode, and on one that is
// mounted read-only, each command says so and exits with 75, what was there
// stays, and the next run mends all of it.
func TestNoInodesAndReadOnly(t *testing.T) {
	t.Parallel()
	need.Root(t)
	faulttest.Require(t)
	program := builtProgram(t)
	for name, stage := range map[string]func(dir string) faulttest.Scene{
		"generate": func(dir string) faulttest.Scene { return generation(t, dir) },
		"collect":  func(dir string) faulttest.Scene { return collecting(t, program, dir) },
		"publish": func(dir string) faulttest.Scene {
			return publishing(t, program, dir, filepath.Join(dir, "data/drop/gpu01"),
				[]string{"--to", "file://" + filepath.Join(dir, "data")})
		},
		"book": func(dir string) faulttest.Scene {
			return makingABooking(t, program, dir, below(dir, true), "--data", filepath.Join(dir, "data"))
		},
	} {
		for _, readOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, read-only %v", name, readOnly), func(t *testing.T) {
				disk := t.TempDir()
				if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m,nr_inodes=2000"); err != nil {
					need.Skip(t, fmt.Sprintf("mounting a small disk: %v", err))
				}
				t.Cleanup(func() {
					if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
						t.Error(err)
					}
				})
				live, ballast := filepath.Join(disk, "live"), filepath.Join(disk, "ballast")
				if err := errors.Join(os.Mkdir(live, 0o755), os.Mkdir(ballast, 0o755)); err != nil {
					t.Fatal(err)
				}
				s := stage(live)
				remount := func(flags uintptr) {
					if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
						t.Fatal(err)
					}
				}
				fault := faulttest.Fault{Name: "no inodes", Errno: syscall.ENOSPC}
				if readOnly {
					fault = faulttest.Fault{Name: "read-only", Errno: syscall.EROFS}
					remount(syscall.MS_RDONLY)
				} else if err := fill(ballast); !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				r := s.Run(t, faulttest.Fault{}, 0)
				r.Fault, r.Hit = fault, &faulttest.Call{Name: "disk", On: "/"}
				if r.Exit != 75 {
					t.Errorf("%s: exit %d, want 75: %s", r, r.Exit, r.Said)
				}
				if readOnly {
					remount(0)
				} else if err := os.RemoveAll(ballast); err != nil {
					t.Fatal(err)
				}
				s.Check(t, r)
			})
		}
	}
}

// fill makes empty files until there is no inode left, and returns why it stopped.
func fill(dir string) error {
	for i := range 10_000 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}
