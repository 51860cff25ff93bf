package spool

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/testenv/need"
)

// Readers beside a delivery see one generation or the next, and never go back.
func TestReadersBesideADelivery(t *testing.T) {
	need.Time(t, "it reads some thousand times")
	data := t.TempDir()
	drop := filepath.Join(data, "drop", "gpu01")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	deliver := func(seq uint64) {
		t.Helper()
		if _, err := atomicfile.Write(filepath.Join(drop, LatestName),
			bundleOf(t, "gpu01", seq, noon.Add(time.Duration(seq)*time.Second)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	deliver(1)
	d := drops(t, data)
	stop := make(chan struct{})
	failed := make(chan error, 4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var last uint64
			for {
				select {
				case <-stop:
					return
				default:
				}
				b, _, err := d.Latest("gpu01")
				if err == nil && b.Snapshot.Seq < last {
					err = errors.New("an older generation came back")
				}
				if err != nil {
					failed <- err
					return
				}
				last = b.Snapshot.Seq
				d.Hosts()
				d.Hours("gpu01")
			}
		})
	}
	for seq := uint64(2); seq < 100; seq++ {
		deliver(seq)
	}
	close(stop)
	wg.Wait()
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
	if b, _, err := d.Latest("gpu01"); err != nil || b.Snapshot.Seq != 99 {
		t.Errorf("at last: %v, %v", b, err)
	}
}
