package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"gpuboard/internal/need"
)

// generation writes one file with a batch that keeps spares.
func generation(t testing.TB, dir, spares string, content []byte) {
	t.Helper()
	b, err := NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SpareIn(spares); err != nil {
		t.Fatal(err)
	}
	if err := b.Add("sub/page", content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

func page(n int) []byte { return bytes.Repeat([]byte{'a' + byte(n%26)}, 50_000+n) }

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func TestSparesTakeTurns(t *testing.T) {
	dir, spares := t.TempDir(), filepath.Join(t.TempDir(), "spares")
	path := filepath.Join(dir, "sub", "page")
	var inodes []uint64
	for n := range 6 {
		content := page(n)
		if n == 4 {
			content = []byte("short") // nothing of what was there before may stay behind
		}
		generation(t, dir, spares, content)
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("generation %d: %d bytes, want %d (%v)", n, len(got), len(content), err)
		}
		if info, _ := os.Stat(path); info.Mode().Perm() != 0o644 {
			t.Errorf("generation %d: mode %v", n, info.Mode())
		}
		inodes = append(inodes, inode(t, path))
	}
	if inodes[1] == inodes[2] || inodes[1] != inodes[3] || inodes[2] != inodes[4] {
		t.Errorf("inodes %v: two files should take turns", inodes)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "sub", ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestSlowReaderOfASpare is what spares could break: somebody who began to read
// a page three generations ago goes on reading that page.
func TestSlowReaderOfASpare(t *testing.T) {
	dir, spares := t.TempDir(), filepath.Join(t.TempDir(), "spares")
	for n := range 3 {
		generation(t, dir, spares, page(n))
	}
	slow, err := os.Open(filepath.Join(dir, "sub", "page"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	first := make([]byte, 10)
	if _, err := io.ReadFull(slow, first); err != nil {
		t.Fatal(err)
	}
	for n := 3; n < 9; n++ {
		generation(t, dir, spares, page(n))
	}
	rest, err := io.ReadAll(slow)
	if err != nil {
		t.Fatal(err)
	}
	if got := append(first, rest...); !bytes.Equal(got, page(2)) {
		t.Errorf("the slow reader got %d bytes of %q and %q, want the page that it opened", len(got), got[:1], got[len(got)-1:])
	}
	if got, err := os.ReadFile(filepath.Join(dir, "sub", "page")); err != nil || !bytes.Equal(got, page(8)) {
		t.Error("the page of now is not there")
	}
}

func TestMappedReaderOfASpare(t *testing.T) {
	dir, spares := t.TempDir(), filepath.Join(t.TempDir(), "spares")
	for n := range 3 {
		generation(t, dir, spares, page(n))
	}
	f, err := os.Open(filepath.Join(dir, "sub", "page"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, len(page(2)), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(m)
	f.Close() // the mapping alone remains
	for n := 3; n < 9; n++ {
		generation(t, dir, spares, page(n))
	}
	if !bytes.Equal(m, page(2)) {
		t.Error("what is mapped has changed")
	}
}

func TestSpareWithASecondName(t *testing.T) {
	dir, spares, backup := t.TempDir(), filepath.Join(t.TempDir(), "spares"), filepath.Join(t.TempDir(), "page")
	for n := range 3 {
		generation(t, dir, spares, page(n))
	}
	if err := os.Link(filepath.Join(dir, "sub", "page"), backup); err != nil {
		t.Fatal(err)
	}
	for n := 3; n < 9; n++ {
		generation(t, dir, spares, page(n))
	}
	if got, err := os.ReadFile(backup); err != nil || !bytes.Equal(got, page(2)) {
		t.Errorf("a backup made of hard links has changed (%v)", err)
	}
}

func TestPlantedSpareIsNotFollowed(t *testing.T) {
	dir, spares, victim := t.TempDir(), filepath.Join(t.TempDir(), "spares"), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	generation(t, dir, spares, page(0))
	if err := os.Symlink(victim, filepath.Join(spares, spareName("sub/page"))); err != nil {
		t.Fatal(err)
	}
	generation(t, dir, spares, page(1))
	if got, _ := os.ReadFile(victim); string(got) != "mine" {
		t.Errorf("the victim of a symlink says %q", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "sub", "page")); err != nil || !bytes.Equal(got, page(1)) {
		t.Errorf("the page was not replaced (%v)", err)
	}
}

func TestSparesAreNeverSeenHalfWritten(t *testing.T) {
	dir, spares := t.TempDir(), filepath.Join(t.TempDir(), "spares")
	generation(t, dir, spares, page(0))
	var stop atomic.Bool
	var reads, torn atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				got, err := os.ReadFile(filepath.Join(dir, "sub", "page"))
				reads.Add(1)
				if err != nil || len(got) < 50_000 || !bytes.Equal(got, bytes.Repeat(got[:1], len(got))) || len(got) != 50_000+int(got[0]-'a')%26 {
					torn.Add(1)
				}
			}
		})
	}
	for n := 1; reads.Load() < 3000 && n < 20_000; n++ {
		generation(t, dir, spares, page(n%26))
	}
	stop.Store(true)
	wg.Wait()
	if torn.Load() > 0 || reads.Load() < 3000 {
		t.Errorf("%d of %d reads were torn", torn.Load(), reads.Load())
	}
}

func TestSparesOnAnotherFileSystem(t *testing.T) {
	elsewhere := "/dev/shm"
	var here, there syscall.Stat_t
	dir := t.TempDir()
	if err := errors.Join(syscall.Stat(dir, &here), syscall.Stat(elsewhere, &there)); err != nil || here.Dev == there.Dev {
		need.Skip(t, "there is no second file system at hand")
	}
	spares, err := os.MkdirTemp(elsewhere, "gpuboard-spares-")
	if err != nil {
		need.Skip(t, "the second file system cannot be written")
	}
	defer os.RemoveAll(spares)
	for n := range 3 {
		generation(t, dir, spares, page(n))
	}
	if got, err := os.ReadFile(filepath.Join(dir, "sub", "page")); err != nil || !bytes.Equal(got, page(2)) {
		t.Errorf("the page was not replaced (%v)", err)
	}
	if left, _ := os.ReadDir(spares); len(left) > 0 {
		t.Errorf("%d spares where none can work", len(left))
	}
}

func TestRemovedFileTakesItsSpareAlong(t *testing.T) {
	dir, spares := t.TempDir(), filepath.Join(t.TempDir(), "spares")
	for n := range 3 {
		generation(t, dir, spares, page(n))
	}
	b, err := NewBatch(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.SpareIn(spares), b.Remove("sub/page"), b.Commit()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(spares); len(left) > 0 {
		t.Errorf("the spare stays: %v", left)
	}
}

// BenchmarkBatch replaces 1,000 files again and again, as a generation does.
func BenchmarkBatch(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("spares=%v", with), func(b *testing.B) {
			dir, spares := b.TempDir(), filepath.Join(b.TempDir(), "spares")
			n := 0
			for b.Loop() {
				n++
				batch, err := NewBatch(dir)
				if err == nil && with {
					err = batch.SpareIn(spares)
				}
				for i := 0; err == nil && i < 1000; i++ {
					err = batch.Add(fmt.Sprintf("h%03d/f%d", i/4, i%4), page(n)[:6000], 0o644)
				}
				if err == nil {
					err = batch.Commit()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
