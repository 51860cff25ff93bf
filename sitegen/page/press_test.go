package page

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// pagesBy renders pages and returns the templates, too. With a press given, all
// of its templates are left to html/template.
func pagesBy(t *testing.T, in render.Input, tmpl fs.FS, pressed *press) ([]render.File, *press) {
	t.Helper()
	var set *press
	files, err := renderPages(in, tmpl, func(tmpl fs.FS, w *words) (*press, error) {
		var err error
		if set, err = parsePages(tmpl, w); err == nil && pressed != nil {
			for key := range pressed.sheets {
				set.sheets[key] = &sheet{}
			}
		}
		return set, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, set
}

// TestPressIsHTMLTemplate holds every page of every fleet, hostile text among
// them, against what html/template makes of the same templates.
func TestPressIsHTMLTemplate(t *testing.T) {
	inputs := fleets()
	inputs["past"] = boardtest.Remembered(boardtest.Lab())
	inputs["dense past"] = boardtest.Remembered(boardtest.Big(usualHosts + 1))
	for i, x := range []string{`<script>alert(1)</script>`, `" onload="x`, "javascript:alert(1)", "a+b&c'd\x00e\xff%zz%41", "é#?/:@ "} {
		inputs[fmt.Sprint("hostile ", i)] = poison(boardtest.Lab(), x)
		inputs[fmt.Sprint("hostile past ", i)] = boardtest.HostilePast(x)
	}
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			pressed, set := pagesBy(t, in, templates.Files(), nil)
			for key, s := range set.sheets {
				if s.run == nil {
					t.Errorf("%s is left to html/template", key.name)
				}
			}
			plain, _ := pagesBy(t, in, templates.Files(), set)
			for i := range plain {
				if !bytes.Equal(pressed[i].Bytes(), plain[i].Bytes()) {
					t.Errorf("%s differs: %s", plain[i].Path, firstDifference(string(pressed[i].Bytes()), string(plain[i].Bytes())))
				}
			}
		})
	}
}

// pressFor lays a template over the built-in ones and makes a press of them.
func pressFor(t testing.TB, text string) *press {
	t.Helper()
	w, err := readWords(templates.Files(), render.Site{}.WithDefaults().Zone)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePages(templates.Files(), w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.set.New("own").Parse(text); err != nil {
		t.Fatal(err)
	}
	return p
}

type pressData struct {
	pressInner
	S, URL string
	N      int
	B      bool
	List   []string
	Inner  *pressInner
	None   *pressInner
	HTML   template.HTML
	Any    any
	Float  float64
	Named  pressName
}

type pressInner struct{ Deep string }

type pressName string

// TestPressOfOwnTemplates is what sites may write into theirs: constructs that
// the press knows and such that it leaves alone come out the same.
func TestPressOfOwnTemplates(t *testing.T) {
	data := &pressData{pressInner{"de<p"}, `"x" & <y>`, "javascript:1", 3, true, []string{"a", "<b>", ""}, &pressInner{"i"}, nil, "<i>ok</i>", 7, 1.5, "n'm"}
	for _, c := range []struct {
		text    string
		pressed bool
	}{
		{`{{.S}} {{.N}} {{.Deep}} {{.Inner.Deep}} {{.Named}} {{.HTML}}`, true},
		{`<a href="{{.URL}}" title="{{.S}}">{{.S}}</a><a href="/x?q={{.S}}#{{.S}}">`, true},
		{`{{range $i, $x := .List}}{{$i}}={{$x}}{{$.S}};{{else}}none{{end}}{{range .List}}{{.}},{{end}}`, true},
		{`{{with .None}}some{{else}}none{{end}}{{with $x := .Inner}}{{$x.Deep}}{{end}}{{if and .B (not .None) (or .S .N)}}yes{{else if .N}}n{{end}}`, true},
		{`{{if eq .N 3}}three{{end}}{{if ne .S "q"}}q{{end}}{{if gt (len .List) 2}}many{{end}}{{if le .N 2}}few{{end}}{{(index .List 1)}}`, true},
		{`{{if eq .N 1 2 3}}some{{end}}{{if eq .S "a" "b"}}some{{end}}{{if eq .Named "n'm" .S}}some{{end}}`, true},
		{`{{$a := .S}}{{with .Inner}}{{$a := .Deep}}{{$a}}{{end}}{{$a}}`, true},
		{`{{t "free"}}{{t (print "host." "up")}}{{n .N "gpu"}}`, true},
		{`{{define "again"}}{{.}}{{end}}{{range .List}}{{template "again" .}}{{end}}`, true},
		{`{{define "loop"}}{{if .}}x{{template "loop" ""}}{{end}}{{end}}{{template "loop" .S}}`, true},
		{`<title>{{.S}}</title><textarea>{{.S}}</textarea>`, true},
		{`{{.Any}}`, false}, {`{{.Float}}`, false}, {`{{.B}}`, false}, {`{{.List}}`, false}, {`{{.Inner}}`, false},
		{`{{printf "%s" .S}}`, false}, {`{{.S | html}}`, false}, {`{{$x := .S}}{{$x = "q"}}{{$x}}`, false},
		{`<script>var x = {{.S}};</script>`, false}, {`<p style="color: {{.S}}">`, false}, {`<p {{.S}}>`, false}, {`<p title={{.S}}>`, false}, {`<p title="{{.HTML}}">`, false},
		{`{{range .N}}x{{end}}`, false}, {`{{range .List}}{{if eq . "a"}}{{continue}}{{end}}{{.}}{{end}}`, false},
		{`<b {{template "inattr" .}}>{{define "inattr"}}title="{{.S}}"{{end}}`, false},
	} {
		p := pressFor(t, c.text)
		var got, want bytes.Buffer
		err := p.execute(&got, "own", data)
		wantErr := p.set.ExecuteTemplate(&want, "own", data)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || got.String() != want.String() {
			t.Errorf("%s: got %q (%v), html/template makes %q (%v)", c.text, got.String(), err, want.String(), wantErr)
		}
		for key, s := range p.sheets {
			if key.name == "own" && (s.run != nil) != c.pressed {
				t.Errorf("%s: pressed: %t, want %t", c.text, s.run != nil, c.pressed)
			}
		}
	}
}

// TestPressErrors wants html/template's own words about what goes wrong.
func TestPressErrors(t *testing.T) {
	data := &pressData{}
	for _, text := range []string{`a{{.None.Deep}}`, `{{.Nowhere}}`, `{{index .List 4}}`, `{{t .S}}`, `{{template "absent" .}}`, `<a href="{{if .B}}x{{end}}{{.S}}{{else}}`} {
		p := func() *press {
			defer func() { recover() }()
			w, _ := readWords(templates.Files(), render.Site{}.WithDefaults().Zone)
			p, _ := parsePages(templates.Files(), w)
			if _, err := p.set.New("own").Parse(text); err != nil {
				return nil
			}
			return p
		}()
		if p == nil {
			continue
		}
		var got, want bytes.Buffer
		err := p.execute(&got, "own", data)
		wantErr := p.set.ExecuteTemplate(&want, "own", data)
		if err == nil || wantErr == nil || err.Error() != wantErr.Error() {
			t.Errorf("%s: got %v, html/template says %v", text, err, wantErr)
		}
	}
}

// FuzzPressEscapes holds the escapers against html/template's.
func FuzzPressEscapes(f *testing.F) {
	const text = `{{.S}}<a title="{{.S}}" href="{{.S}}">x</a><a href="#{{.S}}"></a><a href="x/{{.S}}/y"></a><title>{{.S}}</title>`
	for _, s := range []string{"", `<>&"'+`, "\x00\xff\xfe", "javascript:x", "HTTPS://é %4g%4f%", "a/b:c", "mailto:x@y?z", "\u2028 ~`{}|^"} {
		f.Add(s)
	}
	p := pressFor(f, text)
	f.Fuzz(func(t *testing.T, s string) {
		var got, want bytes.Buffer
		data := &pressData{S: s}
		if err := p.execute(&got, "own", data); err != nil {
			t.Fatal(err)
		}
		if err := p.set.ExecuteTemplate(&want, "own", data); err != nil {
			t.Fatal(err)
		}
		for key, s := range p.sheets {
			if s.run == nil {
				t.Fatalf("%s is left to html/template", key.name)
			}
		}
		if got.String() != want.String() {
			t.Errorf("got %q, html/template makes %q", got.String(), want.String())
		}
	})
}

// TestOverlaidTemplatesArePressed: a site's own template is as fast as ours.
func TestOverlaidTemplatesArePressed(t *testing.T) {
	own := fstest.MapFS{}
	for _, name := range slices.Concat(pageTemplates[:], templates.Script(), []string{"words.json", "board.css", "favicon.svg", "favicon-none.svg", "favicon-old.svg", "robots.txt"}) {
		text, err := fs.ReadFile(templates.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		own[name] = &fstest.MapFile{Data: text}
	}
	own["host-card.html"].Data = bytes.Replace(own["host-card.html"].Data, []byte("<section class=\"host"), []byte("<section title=\"{{.Owner}}\" class=\"host"), 1)
	files, set := pagesBy(t, boardtest.Lab(), own, nil)
	if !bytes.Contains(boardtest.FileOf(t, files, "index.html").Bytes(), []byte(`<section title="`)) {
		t.Error("the site's own template is not used")
	}
	for key, s := range set.sheets {
		if key.name == "host-card" && s.run == nil {
			t.Error("the site's own template is left to html/template")
		}
	}
}
