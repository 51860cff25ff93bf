package render

import (
	"bytes"
	"slices"
	"testing"

	"gpuboard/snapshot"
)

// TestHelpIsKept: what one process kept of the help serves the next, and makes
// the very same site; nothing that is damaged, or of another program, title or
// template, is ever shown.
func TestHelpIsKept(t *testing.T) {
	in := withHelp(testFleet())
	in.Board.Problems = []snapshot.Problem{{Code: "discovery:empty", Message: "x"}} // which leads into the help
	fresh := pages(t, in)
	run := func(in Input, k *Kept) []File {
		t.Helper()
		in.Kept = k
		return pages(t, in)
	}
	first := &Kept{Program: "one"}
	run(in, first)
	if !first.Made {
		t.Fatal("nothing was kept")
	}
	same := func(a, b File) bool { return a.Path == b.Path && bytes.Equal(a.Bytes(), b.Bytes()) }
	again := &Kept{Program: "one", Data: first.Data}
	if got := run(in, again); again.Made || !slices.EqualFunc(got, fresh, same) {
		t.Errorf("made anew: %t; or the site is another one", again.Made)
	}

	other := in
	other.Site.Title = "Other"
	for name, c := range map[string]struct {
		in Input
		Kept
	}{
		"nothing":         {in, Kept{Program: "one"}},
		"another program": {in, Kept{Program: "two", Data: first.Data}},
		"another title":   {other, Kept{Program: "one", Data: first.Data}},
		"a part":          {in, Kept{Program: "one", Data: first.Data[:len(first.Data)/2]}},
		"a few bytes":     {in, Kept{Program: "one", Data: first.Data[:7]}},
	} {
		if run(c.in, &c.Kept); !c.Made {
			t.Errorf("%s: it was used", name)
		}
	}
	if k := (&Kept{Program: "one", Data: first.Data}); !bytes.Contains(fileAt(run(other, k), "help/bookings/index.html"), []byte("Other")) {
		t.Error("the help keeps the old title of the site")
	}
	style := [32]byte{1}
	small := &Kept{Program: "one"}
	if err := small.keep(style, &help{files: []File{newFile("help/x/index.html", []byte("<p>words"))}, codes: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if small.open(style) == nil || small.open([32]byte{2}) != nil {
		t.Error("what was kept is of no use, or of use to every template")
	}
	for at := range small.Data {
		bad := &Kept{Program: "one", Data: bytes.Clone(small.Data)}
		bad.Data[at] ^= 1
		if bad.open(style) != nil {
			t.Errorf("a flipped bit at %d goes unnoticed", at)
		}
	}
}
