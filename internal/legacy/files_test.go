package legacy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestAFileThatWasExchangedIsNotRead exchanges a file between the look at it and
// its opening.
func TestAFileThatWasExchangedIsNotRead(t *testing.T) {
	path := t.TempDir()
	for name, content := range map[string]string{"a.csv": "looked at", "b.csv": "another"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.root.Close()
	before, err := d.root.Lstat("a.csv")
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := d.readUnchanged("a.csv", before); err != nil || string(data) != "looked at" {
		t.Fatalf("before the exchange: %q, %v", data, err)
	}
	if err := os.Rename(filepath.Join(path, "b.csv"), filepath.Join(path, "a.csv")); err != nil {
		t.Fatal(err)
	}
	if data, _, err := d.readUnchanged("a.csv", before); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the exchange: %q, %v", data, err)
	}
}
