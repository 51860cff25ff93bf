package objectstore_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuboard/internal/objectstore"
	"gpuboard/internal/testenv/s3test"
)

func TestParse(t *testing.T) {
	for target, want := range map[string][2]string{
		"s3://gpus":          {"gpus", ""},
		"s3://gpus/":         {"gpus", ""},
		"s3://gpus/lab":      {"gpus", "lab/"},
		"s3://gpus/lab/two/": {"gpus", "lab/two/"},
	} {
		bucket, prefix, err := objectstore.Parse(target)
		if got := [2]string{bucket, prefix}; err != nil || got != want {
			t.Errorf("%s is %q, %v", target, got, err)
		}
	}
	for _, target := range []string{"", "gpus", "https://gpus/lab", "s3:///lab", "s3://key@gpus/lab", "s3://gpus/lab?x",
		"s3://gpus/a/../b"} {
		if _, _, err := objectstore.Parse(target); err == nil {
			t.Errorf("%q is taken", target)
		}
	}
}

// TestABucket does with a simulated and with a real store what the product does.
func TestABucket(t *testing.T) {
	for name, start := range map[string]func(t *testing.T){
		"simulated": func(t *testing.T) { s3test.Start(t, "gpus") },
		"real":      func(t *testing.T) { s3test.Gateway(t, "gpus") },
	} {
		t.Run(name, func(t *testing.T) {
			start(t)
			useBucket(t)
		})
	}
}

func useBucket(t *testing.T) {
	b, err := objectstore.Open("s3://gpus/lab", os.Getenv)
	check(t, err)
	const name = "gpu01/latest.json.gz"
	put := func(content, match string) (tag string, err error) {
		return b.Put(t.Context(), name, []byte(content), objectstore.Properties{Type: "application/gzip"}, match)
	}
	if _, _, err := b.Get(t.Context(), name, 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is missing: %v", err)
	}
	check(t, b.Remove(t.Context(), name))
	first, err := put("first", objectstore.Missing)
	check(t, err)
	second, err := put("second", first)
	check(t, err)
	// A store carries requests out late, after a newer one.
	for _, late := range []string{first, objectstore.Missing} {
		if _, err = put("late", late); !errors.Is(err, objectstore.ErrChanged) {
			t.Errorf("a late request ends with %v", err)
		}
	}
	data, tag, err := b.Get(t.Context(), name, 6)
	if string(data) != "second" || tag != second || err != nil {
		t.Errorf("the object is %q with the tag %q, %v", data, tag, err)
	}
	if _, _, err := b.Get(t.Context(), name, 5); err == nil {
		t.Error("an object that is too large is read")
	}
	_, err = b.Put(t.Context(), "gpu02/latest.json.gz", []byte("other"), objectstore.Properties{}, "")
	check(t, err)
	list, more, err := b.List(t.Context(), "", 10)
	want := []objectstore.Object{{Name: name, Tag: second, Size: 6}, {Name: "gpu02/latest.json.gz", Size: 5}}
	if d := cmp.Diff(want, list, cmpopts.IgnoreFields(objectstore.Object{}, "Tag")); d != "" || more || err != nil ||
		list[0].Tag != second {
		t.Errorf("%v, %v, tag %q: %s", more, err, list[0].Tag, d)
	}
	if list, more, err := b.List(t.Context(), "", 1); len(list) != 1 || !more || err != nil {
		t.Errorf("of two objects, one: %v, %v, %v", list, more, err)
	}
	check(t, b.Remove(t.Context(), name))
	if list, _, err := b.List(t.Context(), "gpu01/", 10); len(list) > 0 || err != nil {
		t.Errorf("an object that was removed: %v, %v", list, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
