package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A loop that somebody started beside a demonstration pushes while its files are removed.
func TestRemoveDemoBesideALoop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	drop := filepath.Join(dir, "drop")
	if err := os.MkdirAll(drop, 0o755); err != nil {
		t.Fatal(err)
	}
	var loops sync.WaitGroup
	for i := range 4 {
		loops.Go(func() {
			for n, end := 0, time.Now().Add(200*time.Millisecond); time.Now().Before(end); n++ {
				_ = os.WriteFile(filepath.Join(drop, fmt.Sprint(i, n)), nil, 0o644)
			}
		})
	}
	for pushed, _ := os.ReadDir(drop); len(pushed) == 0; pushed, _ = os.ReadDir(drop) {
	}
	if err := removeDemo(dir); err != nil {
		t.Error(err)
	}
	loops.Wait()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files of the demonstration: %v", err)
	}
}
