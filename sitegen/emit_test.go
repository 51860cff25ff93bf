package sitegen

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
	"gpuboard/templates"
)

// Files that are handed out one by one are those of a call that returns them, in
// the same order each time, and an error ends it.
func TestEmit(t *testing.T) {
	in := boardtest.Big(30)
	want := map[string][]byte{}
	renderers := []func(render.Input) ([]render.File, error){
		func(in render.Input) ([]render.File, error) { return page.Files(in, templates.Files()) }, data.Files, text.Files,
	}
	for _, files := range renderers {
		list, err := files(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			want[f.Path] = f.Bytes()
		}
	}
	run := func(emit func(render.File) error) error {
		in.Emit = emit
		for _, files := range renderers {
			if list, err := files(in); err != nil || len(list) > 0 {
				if len(list) > 0 {
					t.Errorf("%d files are returned, too", len(list))
				}
				return err
			}
		}
		return nil
	}
	var orders [3][]string
	for round := range orders {
		got := map[string][]byte{}
		if err := run(func(f render.File) error {
			orders[round] = append(orders[round], f.Path)
			got[f.Path] = f.Bytes()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(orders[round]) != len(want) || !slices.Equal(orders[round], orders[0]) {
			t.Errorf("round %d: %d files, want %d in the order of the first", round, len(orders[round]), len(want))
		}
		for path, content := range got {
			if !bytes.Equal(content, want[path]) {
				t.Errorf("round %d: %s is another", round, path)
			}
		}
	}
	full := errors.New("the disk is full")
	for _, at := range []int{0, len(orders[0]) / 3, len(orders[0]) - 1} {
		n := 0
		err := run(func(render.File) error {
			if n++; n > at {
				return full
			}
			return nil
		})
		if !errors.Is(err, full) || n != at+1 {
			t.Errorf("after an error at file %d: %v, after %d files", at, err, n)
		}
	}
}
