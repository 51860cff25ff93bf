package history_test

import (
	"context"
	"os"
	"testing"
	"time"

	"gpuboard/internal/history"
)

// A path may be relative, and hold what means something in a URI.
func TestOpenTakesAnyPath(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"history.db", "state/history.db", "a b/50%?x=1#y/history.db"} {
		if dir := path[:len(path)-len("history.db")]; dir != "" {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s, err := history.Open(context.Background(), path, time.Now(), history.Options{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is somewhere else: %v", path, err)
		}
	}
}
