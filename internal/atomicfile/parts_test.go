package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Parts are what they are together: how they are cut makes no difference to
// what is written or found again.
func TestPartsAreOneContent(t *testing.T) {
	whole := []byte(strings.Repeat("0123456789abcdef", 20_000))
	many := parts{nil, whole[:3], whole[3:3], whole[3:70_000], whole[70_000:300_000], whole[300_000:]}
	one := parts{whole}
	if a, b := one.size(), many.size(); a != len(whole) || b != len(whole) {
		t.Errorf("in one it has %d bytes, in parts %d, want %d", a, b, len(whole))
	}
	var crumbs parts // more than the kernel takes at once
	for at := 0; at < len(whole); at += 100 {
		crumbs = append(crumbs, whole[at:at+100])
	}
	for _, c := range []parts{one, many, crumbs, {nil, nil}} {
		f, err := os.Create(filepath.Join(t.TempDir(), "file"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.writeTo(f), f.Close()); err != nil {
			t.Errorf("writing %d parts: %v", len(c), err)
		}
		if out, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(out, bytes.Join(c, nil)) {
			t.Errorf("%d parts: written it is another (%v)", len(c), err)
		}
	}
	for _, c := range []parts{one, many} {
		for name, file := range map[string][]byte{
			"the same": whole, "shorter": whole[:len(whole)-1], "empty": nil,
			"longer": append(bytes.Clone(whole), 'x'), "changed": append(append(bytes.Clone(whole[:200_000]), 'x'), whole[200_001:]...),
		} {
			got, err := c.isRead(bytes.NewReader(file))
			if want := name == "the same"; err != nil || got != want {
				t.Errorf("%d parts against a file that is %s: %t, %v", len(c), name, got, err)
			}
		}
	}
}

func TestBatchOfParts(t *testing.T) {
	dir := t.TempDir()
	write := func(list ...[]byte) (written int) {
		t.Helper()
		b, err := NewBatch(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.AddParts("page", list, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		return b.Written
	}
	head, a, b := []byte("head "), []byte("first "), []byte("second")
	for i, step := range []struct {
		list [][]byte
		want int
	}{
		{[][]byte{head, a, b}, 1}, {[][]byte{head, a, b}, 0}, {[][]byte{[]byte("head first second")}, 0},
		{[][]byte{head, b, a}, 1}, {[][]byte{head, b}, 1}, {[][]byte{head, nil, b}, 0},
	} {
		if got := write(step.list...); got != step.want {
			t.Errorf("step %d wrote %d files, want %d", i, got, step.want)
		}
		content := bytes.Join(step.list, nil)
		if got, err := os.ReadFile(filepath.Join(dir, "page")); err != nil || !bytes.Equal(got, content) {
			t.Errorf("step %d left %q (%v)", i, got, err)
		}
	}
}
