package page

import (
	"strings"
	"testing"
	"testing/fstest"

	"gpuboard/internal/testenv/boardtest"
)

// own is the directory of a site's own look.
func own(files ...string) fstest.MapFS {
	dir := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		dir[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return dir
}

// TestOwnLook: words, style, pictures and HTML of a site's own are on its pages.
func TestOwnLook(t *testing.T) {
	files, err := siteFiles(boardtest.Lab(), own(
		wordsFile("en"), `{"free": "frei"}`,
		"site.css", ".top{color:teal}",
		"favicon.svg", "<svg/>",
		"head.html", `<meta name="theme-color" content="#123456">`,
		"banner.html", "<p>Bring cake</p>",
		"footer.html", "<p>Imprint</p>",
		"README", "nothing of ours",
	))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"index.html", "bookings/index.html", "hosts/atlas/index.html"} {
		page := string(boardtest.FileOf(t, files, path).Content)
		head, body, _ := strings.Cut(page, "<body>")
		content, footer, _ := strings.Cut(body, `<footer class="foot">`)
		if !strings.Contains(head, `<meta name="theme-color" content="#123456">`) ||
			!strings.Contains(content, "<p>Bring cake</p>") || !strings.Contains(footer, "<p>Imprint</p>") {
			t.Errorf("%s lacks HTML of the site's own", path)
		}
		if !strings.Contains(page, "</svg>frei</span>") {
			t.Errorf("%s lacks a word of the site's own", path)
		}
	}
	if got := string(boardtest.FileOf(t, files, "favicon.svg").Content); got != "<svg/>" {
		t.Errorf("the icon is %s", got)
	}
	style := ""
	for _, f := range files {
		if strings.HasSuffix(f.Path, ".css") {
			style = string(f.Content)
		}
	}
	if !strings.HasPrefix(style, ":root {") || !strings.HasSuffix(style, ".top{color:teal}") {
		t.Error("the site's own style does not come after the built-in one")
	}
}

// TestOwnLookIsRefused: what would have no effect, or cannot be read, is an error
// that names the file and what to use instead.
func TestOwnLookIsRefused(t *testing.T) {
	for _, c := range []struct {
		files fstest.MapFS
		want  []string
	}{
		{own("index.html", "<h1>"), []string{"index.html", "head.html, banner.html or footer.html", "site.css"}},
		{own("base.html", ""), []string{"base.html", "banner.html"}},
		{own("host.templ", ""), []string{"host.templ"}},
		{own("style/map.css", "a{}"), []string{"style", "site.css"}},
		{own("words.json", "{}"), []string{"words.json", "words/en.json"}},
		{own("script/page.js", ""), []string{"script", "cannot be replaced"}},
		{own(wordsFile("en"), "{"), []string{"words/en.json"}},
		{own(wordsFile("en"), `{"date.near": "{when}"}`), []string{"words/en.json", "date.near"}},
		{own("site.css", strings.Repeat(" ", maxOwn+1)), []string{"site.css", "1048576"}},
		{own("banner.html/x", ""), []string{"banner.html"}},
	} {
		err := Files(boardtest.Lab(), c.files)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, and should name %s", err, want)
			}
		}
	}
}
