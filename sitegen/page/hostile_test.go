package page_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// What people and programs try to get past an escaper.
var payloads = []string{
	`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`,
	`<img src=x onerror=alert(1)>`, `"><svg onload=alert(1)>`, `<svg><script>alert(1)</script></svg>`,
	`javascript:alert(1)`, `JaVaScRiPt:alert(1)`, "java\tscript:alert(1)", `data:text/html,<script>alert(1)</script>`,
	`vbscript:msgbox(1)`, `" onmouseover="alert(1)`, `' onmouseover='alert(1)`, "` onmouseover=alert(1)",
	`" style="background:url(//x)`, `</title><script>alert(1)</script>`, `</textarea><script>alert(1)</script>`,
	`</style><script>alert(1)</script>`, `--><script>alert(1)</script>`, `<!--`,
	`<![CDATA[<script>alert(1)</script>]]>`,
	`<?xml version="1.0"?>`, `<iframe src="javascript:alert(1)">`, `<object data="x">`, `<embed src="x">`,
	`<base href="//x/">`, `<meta http-equiv="refresh" content="0;url=//x">`, `<link rel=stylesheet href=//x>`,
	`<form action=//x><input name=a>`, `<details open ontoggle=alert(1)>`, `<a href="javascript:alert(1)">x</a>`,
	`<body onload=alert(1)>`, `<math><mtext></table><mglyph><style><img src=x onerror=alert(1)>`,
	`<table><td background="javascript:alert(1)">`, `<template><script>alert(1)</script></template>`,
	`<slot></slot>`, `<slot name="x">`, `</slot>`,
	`&lt;script&gt;`, `&#60;script&#62;`, `&#x3c;script&#x3e;`, `%3Cscript%3E`, `\x3cscript\x3e`, `\u003cscript\u003e`,
	`{{.}}`, `{{template "end" .}}`, `{%x%}`, `${alert(1)}`, `#{1+1}`,
	"\x00<script>alert(1)</script>", "\u202e<script>", "\u2028<script>alert(1)</script>", "a\nb\rc", "\x1b[31mred",
	"\xff\xfe<b>",
	`../../../etc/passwd`, `..\..\x`, `//evil.example/x`, `https://evil.example`, `?x=1#y`, `%2e%2e/`, `x" id="atlas`,
	strings.Repeat("<b>", 200), strings.Repeat("A", 5000), `🦊</b>`, `'`, `"`, `<`, `>`, `&`, "`", `\`, `|`,
}

// poison puts a text into every field that somebody else may choose. What
// becomes part of a path (host names) has been through snapshot.ParseHost.
func poison(in render.Input, x string) render.Input {
	in.Notice, in.Site.Lab, in.Site.Title, in.Site.Version = "", x, x, x
	in.HostNotes = nil
	in.Site.CommentsPath, in.Site.BookCommand = x, x
	b := in.Board
	for i := range b.Problems {
		p := &b.Problems[i]
		p.Code, p.Message, p.File = x, x, x
	}
	person := map[string]string{}
	name := func(old string) string { // different people stay different
		if old == "" {
			return ""
		}
		if person[old] == "" {
			person[old] = boardtest.Apart(x, fmt.Sprint(len(person)))
		}
		return person[old]
	}
	booking := func(bk *board.Booking) {
		if bk != nil {
			bk.ID, bk.Name, bk.Comment, bk.By = x, name(bk.Name), x, x
		}
	}
	for i := range b.Sites {
		if s := b.Sites[i].Summary; s != nil {
			s.Title, s.Own.Models = x, []board.Model{{Name: x, Total: 2, Free: 1}}
		}
	}
	for i := range b.Users {
		b.Users[i].Name = name(b.Users[i].Name)
	}
	for i := range b.Hosts {
		h := &b.Hosts[i]
		h.Title, h.Group, h.Owner, h.Note, h.Address, h.Datacenter = x, boardtest.Apart(x, h.Group), x, x, x, x
		h.Check, h.Driver, h.CUDA = x, x, x
		h.Tags = []string{x}
		h.Node.Kernel, h.Node.OS = x, x
		h.Node.Disks = []snapshot.Disk{{Mount: x, Total: 2, Used: 1}}
		h.Node.DiskUsers = []snapshot.DiskUser{{Path: x, User: x, Used: 1}}
		h.Node.Interfaces = []snapshot.Interface{{Name: x, Addrs: []string{x}}}
		for j := range h.Problems {
			h.Problems[j].Code, h.Problems[j].Message, h.Problems[j].Host = x, x, x
		}
		for j := range h.Models {
			h.Models[j].Name, h.Models[j].FullName = x, x
		}
		for j := range h.GPUs {
			g := &h.GPUs[j]
			g.Name, g.ShortName, g.UUID, g.PCIBusID, g.PState, g.HealthReason = x, x, x, x, x, x
			g.ThrottleReasons = []string{x}
			if g.Reason != "" {
				g.Reason = x
			}
			for k := range g.Processes {
				p := &g.Processes[k]
				p.Person, p.User, p.Program, p.Container, p.Type = name(p.Person), x, x, x, snapshot.ProcessType(x)
				for c := range p.Children {
					p.Children[c].User, p.Children[c].Program = x, x
				}
			}
			for k := range g.Slices {
				s := &g.Slices[k]
				s.Slice.Profile, s.UUID, s.Name, s.ShortName, s.Reason = x, x, x, x, x
			}
			booking(g.Booking)
			booking(g.Next)
			for k := range g.Others {
				booking(&g.Others[k])
			}
			if g.Last != nil {
				for k := range g.Last.Users {
					g.Last.Users[k] = x
				}
			}
		}
	}
	for i := range b.Models {
		b.Models[i].Name, b.Models[i].FullName = fmt.Sprint(x, i), x
	}
	for i := range b.Bookings {
		booking(&b.Bookings[i])
	}
	return in
}

// shape is a page without its words: elements and the names of attributes. What
// stands in a comment on a booking is Markdown, and has its own test.
func shape(doc *html.Node) string {
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			b.WriteString("<" + n.Data)
			for _, a := range n.Attr {
				b.WriteString(" " + a.Key)
			}
			b.WriteString(">")
			if isRemark(n) {
				b.WriteString("/")
				return
			}
		}
		if n.Type == html.CommentNode {
			b.WriteString("<!-- -->")
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
		if n.Type == html.ElementNode {
			b.WriteString("/")
		}
	}
	walk(doc)
	return b.String()
}

func isRemark(n *html.Node) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "class" && a.Val == "comment" })
}

// inRemark reports whether a node stands in a comment on a booking.
func inRemark(n *html.Node) bool {
	for p := range n.Ancestors() {
		if p.Type == html.ElementNode && isRemark(p) {
			return true
		}
	}
	return false
}

// withFolder adds boards of other clusters without the addresses of their pages.
func withFolder(in render.Input) render.Input {
	in = boardtest.WithSites(in)
	for i := range in.Board.Sites {
		in.Board.Sites[i].URL = ""
	}
	return in
}

func TestHostileText(t *testing.T) {
	benign := map[string]string{}
	for _, f := range htmlFiles(pages(t, poison(withFolder(boardtest.Lab()), "benign"))) {
		benign[kindOf(f.Path)] += shape(parse(t, f))
	}
	for _, x := range payloads {
		if x == "" {
			continue
		}
		got := map[string]string{}
		for _, f := range htmlFiles(pages(t, poison(withFolder(boardtest.Lab()), x))) {
			doc := parse(t, f)
			if !strings.HasPrefix(f.Path, "users/") { // their order follows their names
				got[kindOf(f.Path)] += shape(doc)
			}
			for _, n := range elements(doc) {
				if inRemark(n) {
					if err := tameNode(n); err != nil {
						t.Errorf("%s: %q: %v", f.Path, x, err)
					}
					continue
				}
				for _, a := range n.Attr {
					v := strings.ToLower(strings.TrimSpace(a.Val))
					if f.Path == "404.html" { // it is sent at any depth
						v = strings.TrimPrefix(v, "/")
					}
					if strings.HasPrefix(a.Key, "on") ||
						(a.Key == "href" || a.Key == "src") && (strings.Contains(v, ":") || strings.HasPrefix(v, "/")) {
						t.Errorf("%s: %q becomes <%s %s=%q>", f.Path, x, n.Data, a.Key, a.Val)
					}
				}
				if n.Data == "script" && n.FirstChild != nil && !isData(n) {
					t.Errorf("%s: %q becomes a script", f.Path, x)
				}
			}
			if strings.ContainsAny(string(f.Content), "\x00\x1b\u202e\u2028") {
				t.Errorf("%s: %q leaves invisible characters", f.Path, x)
			}
		}
		for kind, want := range benign {
			if kind != "users" && got[kind] != want {
				t.Errorf("%s: %q changes the structure of the page: %s", kind, x, firstDifference(want, got[kind]))
			}
		}
	}
}

// isData reports whether a script element is JSON that no browser runs.
func isData(n *html.Node) bool {
	return slices.ContainsFunc(n.Attr,
		func(a html.Attribute) bool { return a.Key == "type" && a.Val == "application/json" }) &&
		n.FirstChild != nil && json.Valid([]byte(n.FirstChild.Data))
}

func kindOf(path string) string {
	kind, _, _ := strings.Cut(path, "/")
	return kind
}

func firstDifference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return fmt.Sprintf("%q becomes %q", a[max(0, i-60):min(len(a), i+60)], b[max(0, i-60):min(len(b), i+60)])
}

// A foreign address never becomes a line that people copy into a shell.
func TestAddressInShellLine(t *testing.T) {
	for address, want := range map[string]string{
		"gpu01.example.org": "ssh gpu01.example.org", "fd00::1": "ssh fd00::1", "me@h": "ssh me@h",
		"x; rm -rf ~": "ssh a", "$(id)": "ssh a", "`id`": "ssh a", "-oProxyCommand=id": "ssh a", "a b": "ssh a",
		"a\nb": "ssh a",
	} {
		in := fleets()["bare"]
		in.Board.Hosts[0].Address = address
		for _, f := range pages(t, in) {
			if f.Path == "hosts/a/index.html" &&
				!strings.Contains(string(f.Content), `<code class="copy">`+want+`</code>`) {
				t.Errorf("the address %q is not shown as %q", address, want)
			}
		}
	}
}

var forbidden = regexp.MustCompile(
	`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|` +
		`new Function|setTimeout\(\s*["']|\.on[a-z]+\s*=[^=]|createContextualFragment|srcdoc`,
)

// The script never makes markup of text.
func TestScriptMakesNoMarkupOfText(t *testing.T) {
	names, err := fs.Glob(templates.Files(), "script/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(templates.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range forbidden.FindAllString(string(b), -1) {
			t.Errorf("%s uses %s", name, found)
		}
	}
}

// unsafe is what a component must not have: attributes and elements in which text
// would be a program or a style, attributes whose names come from elsewhere, and
// what templ does not escape or does not check.
var unsafe = regexp.MustCompile(
	`(?i)\s(on[a-z]+|style|srcdoc)\??=|<style|<script[^>]*>[^<]|\{ [^}]*\.\.\. \}|` +
		`\}\??=\{|templ\.(Raw|SafeURL|URL|JS|Attributes|FromGoHTML|SafeCSS|SafeScript)|(?m:^(script|css) )`,
)

// named are attributes from a function of the components, which are called what stands there: nothing that leads
// somewhere, looks like something or does anything.
var named = regexp.MustCompile(
	`\{ (?:(?:classIf|invalid|picture)\(|attribute(?:If)?\("(?:class|title|lang|data-[a-z]+|aria-[a-z]+)", )[^{}]*\)\.\.\. \}`,
)

// TestComponentsLeaveEscapingToTempl: components leave the escaping to templ.
func TestComponentsLeaveEscapingToTempl(t *testing.T) {
	names, err := filepath.Glob("../../templates/*.templ")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// JSONScript writes data that no browser runs, with <, > and & as escapes.
		text := strings.NewReplacer("{ children... }", "", "@templ.JSONScript(", "").Replace(string(b))
		text = named.ReplaceAllString(text, "")
		for _, found := range unsafe.FindAllString(text, -1) {
			t.Errorf("%s uses %q", name, found)
		}
	}
	for _, bad := range []string{`<p style={ x }>`, `<a onclick="x">`, `<script>{ x }</script>`, `<p { attrs... }>`,
		`<p { name }={ x }>`, `@templ.Raw(x)`, `href={ templ.SafeURL(x) }`,
		`<p { attribute(name, x)... }>`, `<a { attribute("href", x)... }>`,
		`<p { attribute("style", x)... }>`, `<p { attributeIf("onclick", true, x)... }>`,
		`<p { attribute("class", x)... } { attrs... }>`} {
		if !unsafe.MatchString(named.ReplaceAllString(bad, "")) {
			t.Errorf("%s is let through", bad)
		}
	}
}

// The colours keep the contrasts that the palette promises.
func TestContrast(t *testing.T) {
	css, err := fs.ReadFile(templates.Files(), "style/base.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(
		`--([a-z0-9-]+): light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\)`,
	).FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	for _, c := range []struct {
		ink, ground string
		least       float64
	}{
		{"ink", "bg", 7}, {"ink", "card", 7}, {"dim", "bg", 4.5}, {"dim", "card", 4.5}, {"dim", "soft", 4.5},
		{"free", "bg", 4.5}, {"free", "card", 4.5}, {"on-free", "free", 4.5}, {"busy", "card", 4.5},
		{"held", "card", 4.5},
		{"held", "bg", 4.5},
		{"booked", "card", 4.5}, {"booked", "bg", 4.5}, {"bad", "card", 4.5}, {"bad", "bg", 4.5}, {"old", "card", 4.5},
		{"edge", "card", 3}, {"edge", "bg", 3}, {"share1", "track", 3},
	} {
		for i, scheme := range []string{"light", "dark"} {
			ink, ground := colours[c.ink][i], colours[c.ground][i]
			if ink == "" || ground == "" {
				t.Fatalf("there is no colour %s or %s", c.ink, c.ground)
			}
			if got := contrast(ink, ground); got < c.least {
				t.Errorf("%s: %s (%s) on %s (%s) has a contrast of %.2f, and %.1f is the least",
					scheme, c.ink, ink, c.ground, ground, got, c.least)
			}
		}
	}
}

// contrast is that of WCAG 2.
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(colour string) float64 {
	if len(colour) == 4 {
		colour = string([]byte{'#', colour[1], colour[1], colour[2], colour[2], colour[3], colour[3]})
	}
	var r, g, b int
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &r, &g, &b); err != nil {
		return -1
	}
	linear := func(c int) float64 {
		v := float64(c) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
