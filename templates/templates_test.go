package templates

import (
	"io/fs"
	"testing"

	"github.com/spf13/afero"
)

func read(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	b, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestUnder(t *testing.T) {
	own := afero.NewMemMapFs()
	if err := afero.WriteFile(own, "board.css", []byte("a{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := Under(own)
	if got := read(t, files, "board.css"); got != "a{}" {
		t.Errorf("the site's own board.css is not taken: %q", got)
	}
	if got, want := read(t, files, "index.html"), read(t, Files(), "index.html"); got != want || got == "" {
		t.Error("index.html, which the site does not have, is not the program's")
	}
	if _, err := fs.ReadFile(files, "no-such-file"); err == nil {
		t.Error("a file that nobody has can be read")
	}
	if read(t, Under(nil), "board.css") != read(t, Files(), "board.css") {
		t.Error("without a directory of its own, a site should have the program's templates")
	}
}

func TestUnderADirectory(t *testing.T) {
	dir := t.TempDir()
	own := afero.NewBasePathFs(afero.NewOsFs(), dir)
	if err := afero.WriteFile(own, "words.json", []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := Under(own)
	if got := read(t, files, "words.json"); got != "{}" {
		t.Errorf("words.json is %q", got)
	}
	if read(t, files, "base.html") == "" {
		t.Error("base.html is gone")
	}
	if read(t, Under(afero.NewBasePathFs(afero.NewOsFs(), dir+"/missing")), "base.html") == "" {
		t.Error("a directory that is not there hides the program's templates")
	}
}
