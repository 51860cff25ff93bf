package page_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// A slice without a UUID cannot be booked, and is a row like the others.
func TestSliceWithoutUUIDIsShown(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Hosts[2].GPUs[2].Slices[0].UUID = ""
	if page := string(
		boardtest.FileOf(t, pages(t, in), "hosts/ceres/index.html").Content,
	); strings.Count(page, "3g.20gb") == 0 {
		t.Error("the slice is not on its host's page")
	}
}

func TestUserPath(t *testing.T) {
	for name, want := range map[string]string{
		"mira": "mira", "j.doe-2_x": "j.doe-2_x", "": "~e3b0c44298fc",
	} {
		if got := render.UserPath(name); got != want {
			t.Errorf("UserPath(%q) = %q, want %q", name, got, want)
		}
	}
	seen := map[string]string{}
	for _, name := range []string{"Mira", "mira", "MIRA", "..", ".", "a/b", "a\\b", "a b", "a.ics", "x.html", "é", "日本",
		"~mira", strings.Repeat("x", 65), "mira~0123", "con.", "-x", "a\x00b", "../../etc/passwd"} {
		p := render.UserPath(name)
		if !regexp.MustCompile(`^[a-z0-9._~-]{1,80}$`).MatchString(p) || strings.HasPrefix(p, ".") ||
			strings.HasSuffix(p, ".ics") || strings.HasSuffix(p, ".html") {
			t.Errorf("UserPath(%q) = %q is no safe name for a directory", name, p)
		}
		if before, ok := seen[p]; ok {
			t.Errorf("%q and %q share %q", before, name, p)
		}
		seen[p] = name
	}
}

// TestOneProcessIsSaidOnce: what the row of a GPU says of its one process is not
// listed below it again, and all else is; a host's own page lists all.
func TestOneProcessIsSaidOnce(t *testing.T) {
	in := render.Input{Board: &board.Board{GeneratedAt: boardtest.Now, Hosts: []board.Host{{
		Name: "atlas", State: board.Up, SnapshotAt: boardtest.Now,
	}}}}
	want := []string{
		"", "40.0 GiB, 50 %", "40.0 GiB, 50 % · container c1", "40.0 GiB, 50 % · eva (tom)", "40.0 GiB, 50 % · MIG 3",
	}
	for i := range want {
		g := board.GPU{State: board.Busy}
		g.Index, g.MemoryUsed, g.MemoryTotal = i, new(int64(40960)), new(int64(81920))
		boardtest.Process(&g, 700+i, "eva", "train.py", 40960, boardtest.Now.Add(-time.Hour))
		p := &g.Processes[0]
		p.Share = new(0.5)
		switch i {
		case 1:
			g.MemoryUsed = new(int64(43000))
		case 2:
			p.Container = "c1"
		case 3:
			p.User = "tom"
		case 4:
			p.GPUInstanceID = new(3)
		}
		in.Board.Hosts[0].GPUs = append(in.Board.Hosts[0].GPUs, g)
	}
	files := pages(t, in)
	front, own := parse(t, files[len(files)-1]), parse(t, boardtest.FileOf(t, files, "hosts/atlas/index.html"))
	listed := func(doc *html.Node, i int) string {
		for _, n := range elements(byID(doc, "atlas-"+strconv.Itoa(i))) {
			if n.Data == "ul" && hasClass(n, "processes") {
				return textOf(n)
			}
		}
		return ""
	}
	for i, w := range want {
		if row := textOf(byID(front, "atlas-"+strconv.Itoa(i))); listed(front, i) != w ||
			strings.Count(row, "70"+strconv.Itoa(i)) != 1 || strings.Count(row, "train.py") != 1 {
			t.Errorf("GPU %d: below %q is %q, want %q", i, row, listed(front, i), w)
		}
		if got := listed(own, i); !strings.HasPrefix(got, "70"+strconv.Itoa(i)+" 40.0 GiB, 50 % · eva") ||
			!strings.Contains(got, "train.py · since Fri 08:42") {
			t.Errorf("GPU %d: the host's page lists %q", i, got)
		}
	}
}

// markdownLimit is from how many bytes on a notice is cut.
const markdownLimit = 64 << 10

func TestMarkdownIsSanitized(t *testing.T) {
	for source, want := range map[string]string{
		"**hi** <b>raw</b>":                "<p><strong>hi</strong> raw</p>\n",
		"<script>alert(1)</script>":        "",
		"# Top":                            "<h3>Top</h3>\n",
		"![x](https://evil.example/p.png)": "<p></p>\n",
		"[x](javascript:alert(1))":         `<p><a href="#" rel="nofollow noopener">x</a></p>` + "\n",
		"[x](JaVaScRiPt:alert(1))":         `<p><a href="#" rel="nofollow noopener">x</a></p>` + "\n",
		"[x](//evil.example)":              `<p><a href="#" rel="nofollow noopener">x</a></p>` + "\n",
		"[x](java&Tab;script:alert(1))":    `<p><a href="#" rel="nofollow noopener">x</a></p>` + "\n",
		"[x](/\\evil.example)":             `<p><a href="#" rel="nofollow noopener">x</a></p>` + "\n",
		"[x](bookings/index.html)":         `<p><a href="bookings/index.html" rel="nofollow noopener">x</a></p>` + "\n",
		"[x](https://example.org/?a=1&b=2:3)": `<p><a href="https://example.org/?a=1&amp;b=2:3" rel="nofollow noopener">x</a></p>` +
			"\n",
		"a\xffb": "<p>a\uFFFDb</p>\n",
		"":       "",
	} {
		if shown := page.Markdown(source); shown != want {
			t.Errorf("Markdown(%q) = %q; want %q", source, shown, want)
		}
	}
	if n := len(page.Markdown(strings.Repeat("a line\n", markdownLimit))); n > 2*markdownLimit {
		t.Errorf("a notice without end makes %d bytes", n)
	}
}

// TestExcessiveMarkdown: a text that would take long to render, or become large, is shown as it is written. Long
// texts of the usual kind are rendered.
func TestExcessiveMarkdown(t *testing.T) {
	repeat := func(s string, n int) string { return strings.Repeat(s, n/len(s)) }
	const all = markdownLimit
	deep, ticks := "", ""
	for i := range 180 {
		deep += strings.Repeat("  ", i) + "- a\n"
		ticks += strings.Repeat("`", i) + "a"
	}
	for _, source := range []string{
		repeat(">", all), repeat("> ", all), repeat("- ", all), repeat("1. ", all), repeat("> - ", all),
		repeat("+ - * ", all), deep, strings.Repeat(">", 500) + "\n" + repeat("a\n", all-502),
		repeat("[a](", all), repeat("[", all), repeat("![", all), repeat("[]", all),
		strings.Repeat("[", all/2) + strings.Repeat("]", all/2), repeat("[a]: b \"c\n", all),
		repeat("*a_", all), repeat("*_", all), repeat("a**b", all), repeat("~~a", all), repeat("`a``", all),
		repeat("a\n", all), repeat("a|b\n", all),
		"[a]: " + strings.Repeat("x", all/2) + "\n\n" + strings.Repeat("[a]", all/8),
		"[a]:\n" + strings.Repeat("x", all/2) + "\n\n" + strings.Repeat("[a]", all/8),
		"|" + strings.Repeat("a|", 2000) + "\n|" + strings.Repeat("-|", 2000) + "\n" + strings.Repeat("|\n", 4000),
	} {
		if !page.Excessive(source) {
			t.Errorf("%.20q… is rendered", source)
		}
		if out := page.Markdown(source); !strings.HasPrefix(out, "<pre><code>") || len(out) > 6*len(source)+100 {
			t.Errorf("%.20q… becomes %.40q…, of %d bytes", source, out, len(out))
		}
	}
	for _, source := range []string{
		repeat("A **word** and a [link](https://example.org/), see `this`.\n\n", all),
		repeat("- one **thing**\n- another\n\n", all), repeat("- item\n", 20_000),
		"| a | b | c |\n|---|---|---|\n" + repeat("| 1 | 2 | 3 |\n", 10_000),
		repeat("[a]: https://example.org/a\n", 2000) + "\n" + repeat("See [a].\n\n", 20_000),
		repeat("    - - - a\n", 10_000), "```\n" + repeat("x[1] = y[2] * z\n", 10_000) + "```\n",
		repeat("- - - - -\n", 4000),
		repeat("a line\r\n\r\n", all), repeat("word ", all),
		repeat("> ", 2*30) + "a\n" + deep[:500],
	} {
		if page.Excessive(source) || strings.HasPrefix(page.Markdown(source), "<pre><code>"+source[:5]) {
			t.Errorf("%.40q… is not rendered", source)
		}
	}
	if got, want := page.Markdown(strings.Repeat(">", 40)+"<b>&\u202e\n"), "<pre><code>"+strings.Repeat("&gt;", 40)+
		"&lt;b&gt;&amp;\\u202e\n</code></pre>"; got != want {
		t.Errorf("a text that is excessive becomes %q; want %q", got, want)
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"# a\n<img src=x onerror=y>", "[a](javascript:b)", "<a:b>", "`x`", "| a |\n|--|\n| b |",
		"![a](b)", "[a]: //x\n[a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := page.Markdown(s)
		doc, err := html.Parse(strings.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range elements(doc) {
			if slices.Contains([]string{"img", "script", "iframe", "h1", "h2", "style", "form"}, n.Data) {
				t.Errorf("%q becomes %q", s, out)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "href" && leadsAway(a.Val) {
					t.Errorf("%q becomes %q", s, out)
				}
			}
		}
	})
}

var scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)

// leadsAway reads a link as a browser does, which ignores white space in it.
func leadsAway(href string) bool {
	h := strings.ToLower(
		strings.NewReplacer("\t", "", "\n", "", "\r", "", "\\", "/").Replace(strings.TrimLeft(href, "\x00\x01\x1f ")),
	)
	for _, fine := range []string{"http://", "https://", "mailto:"} {
		if strings.HasPrefix(h, fine) {
			return false
		}
	}
	return strings.HasPrefix(h, "//") || scheme.MatchString(h)
}

func TestModelName(t *testing.T) {
	for short, want := range map[string]string{
		"H100 80GB HBM3": "H100 80 GB", "A100-SXM4-80GB": "A100 80 GB", "A100-PCIE-40GB": "A100 80 GB",
		"H100 80GB HBM3 1g.10gb": "H100 1g.10gb", "A100-SXM4-40GB 1c.2g.10gb": "A100 1c.2g.10gb",
		"A100-SXM4-80GB MIG": "A100 MIG 80 GB",
		"RTX 3090":           "RTX 3090 80 GB", "": "80 GB", "H100 NVL": "H100 80 GB", "RTX A6000": "RTX A6000 80 GB",
	} {
		in := boardtest.Big(1)
		in.Board.Hosts[0].Models = []board.Model{{Name: short, Total: 8, MemoryTotal: new(int64(81559))}}
		got := ""
		for _, n := range within(docAt(t, in, "hosts/gpu000/index.html"), "span", "models") {
			got += textOf(n)
		}
		if got != "8 × "+want {
			t.Errorf("8 of %q are called %q, want %q", short, got, want)
		}
	}
}

// A row names its model where the whole GPUs of a host differ; slices always differ from them.
func TestRowsNameTheModelOnMixedHosts(t *testing.T) {
	gpu := func(name string, slices ...board.GPU) board.GPU {
		return board.GPU{ShortName: name, GPU: snapshot.GPU{MemoryTotal: new(int64(81559))}, Slices: slices}
	}
	part := gpu("A100-SXM4-80GB 1g.10gb")
	part.Slice = &board.Slice{}
	lost := gpu("A100-SXM4-80GB")
	lost.MemoryTotal = nil
	for _, tc := range []struct {
		gpus []board.GPU
		want bool
	}{
		{nil, false},
		{[]board.GPU{gpu("A100-SXM4-80GB"), gpu("A100-SXM4-80GB", part, part)}, false},
		{[]board.GPU{gpu("A100-SXM4-80GB"), lost}, false},
		{[]board.GPU{gpu("A100-SXM4-80GB"), gpu("A100-SXM4-80GB"), gpu("H100 NVL")}, true},
	} {
		in := boardtest.Big(1)
		in.Board.Hosts[0].GPUs, in.Board.Bookings = tc.gpus, nil
		in.Board.Count()
		named := false
		for _, row := range within(docAt(t, in, "hosts/gpu000/index.html"), "tr", "row") {
			named = named || !hasClass(row, "slice") && within(row, "span", "kind") != nil
		}
		if named != tc.want {
			t.Errorf("%d GPUs: the rows name their models: %v, want %v", len(tc.gpus), named, tc.want)
		}
	}
}

func TestZoneName(t *testing.T) {
	paris := need.Zone(t, "Europe/Paris")
	for zone, want := range map[*time.Location]string{
		time.UTC:   "UTC",
		paris:      "Europe/Paris",
		time.Local: boardtest.At(0, 0, 0).In(time.Local).Format("MST"),
	} {
		if got := page.ZoneName(zone, boardtest.At(0, 0, 0)); got != want {
			t.Errorf("%s is called %q, want %q", zone, got, want)
		}
	}
}

// factsOf is what the page of a host lists of a GPU, by the name of the fact.
func factsOf(t *testing.T, g snapshot.GPU) map[string]string {
	t.Helper()
	in := boardtest.Big(1)
	in.Board.Hosts[0].GPUs, in.Board.Bookings = []board.GPU{{GPU: g, State: board.Free}}, nil
	in.Board.Count()
	list := map[string]string{}
	for _, each := range within(docAt(t, in, "hosts/gpu000/index.html"), "details", "each") {
		names, values := within(each, "dt", ""), within(each, "dd", "")
		for i := range names {
			list[textOf(names[i])] = textOf(values[i])
		}
	}
	return list
}

// TestFactsOfTheFabric: what is known of it, and whose memory the GPU has.
func TestFactsOfTheFabric(t *testing.T) {
	for want, g := range map[string]snapshot.GPU{
		"": {}, "memory shared with the CPU": {MemoryShared: true},
		"NVLink fabric In Progress": {Fabric: &snapshot.Fabric{State: "In Progress"}},
		"NVLink fabric Completed · Success · clique 0 · c1": {Fabric: &snapshot.Fabric{
			State: "Completed", Status: "Success", CliqueID: new(0), ClusterUUID: "c1",
		}},
	} {
		var got []string
		for name, value := range factsOf(t, g) {
			got = append(got, name+" "+value)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFactsOfAnXID: its number, its moment, and what it means; those that a
// program causes are told as such.
func TestFactsOfAnXID(t *testing.T) {
	english := builtInWords(t, "en")
	for code, want := range map[int]string{
		79: "fallen off the bus", 31: "a program accessed", 13: "the GPU keeps working", 999: "NVIDIA",
	} {
		got := factsOf(t,
			snapshot.GPU{XID: &snapshot.XID{Code: code, At: snapshot.TimeOf(boardtest.At(0, 0, 0))}})[english["fact.xid"]]
		if !strings.HasPrefix(got, strconv.Itoa(code)+" · ") || !strings.Contains(got, want) ||
			!strings.Contains(got, "Nov") {
			t.Errorf("%d is %q", code, got)
		}
	}
	for _, code := range []int{13, 31, 43, 45, 68, 94} {
		if text := render.XIDMeaning(english, code); !strings.Contains(text, "program") ||
			strings.Contains(text, "replace") {
			t.Errorf("%d, which a program causes: %q", code, text)
		}
	}
}

// TestFactsOfTheLink: lanes now and at most, or what is known of the two.
func TestFactsOfTheLink(t *testing.T) {
	for want, g := range map[string]snapshot.GPU{
		"8 / 16": {Readings: snapshot.Readings{PCIeWidth: new(8), PCIeWidthMax: new(16)}},
		"16":     {Readings: snapshot.Readings{PCIeWidthMax: new(16)}},
		"":       {},
	} {
		if got := factsOf(t, g)[builtInWords(t, "en")["fact.link"]]; got != want {
			t.Errorf("%v/%v is %q, want %q", g.PCIeWidth, g.PCIeWidthMax, got, want)
		}
	}
}

// Why nothing is known of a GPU, and what was last known of it, are two statements.
func TestReasonAndLastSeenStayApart(t *testing.T) {
	in := boardtest.Lab()
	g := &in.Board.Hosts[0].GPUs[0]
	g.State, g.Reason, g.Processes, g.Last = board.Unknown, board.ReasonUnasked, nil,
		&board.LastSeen{State: board.Free, At: boardtest.Now}
	files := pages(t, in)
	got := textOf(byID(parse(t, files[len(files)-1]), in.Board.Hosts[0].Name+"-0"))
	if !strings.Contains(got, "the driver could not be queried · last seen ") || !strings.Contains(got, ": free") {
		t.Errorf("the row says %q", got)
	}
}

// TestReadingsHaveWords: each reading that has a line on a host's page has a name there, and its unit a sign.
func TestReadingsHaveWords(t *testing.T) {
	english := builtInWords(t, "en")
	for _, d := range snapshot.Descriptors() {
		if d.Fact == "" {
			continue
		}
		for _, key := range []string{"fact." + d.Fact, "sign." + d.Unit} {
			if english[key] == "" {
				t.Errorf("%s needs the word %s", d.Name, key)
			}
		}
	}
}

// TestGroupSaysWhatIsFree: a group says how many hosts and free GPUs it has, and its model where its name is not that.
func TestGroupSaysWhatIsFree(t *testing.T) {
	in := boardtest.Big(rowHosts + 1)
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		for j := range h.GPUs {
			g := &h.GPUs[j]
			g.State, g.ShortName, g.MemoryTotal = board.Busy, "H100", new(int64(81559))
		}
	}
	in.Board.Hosts[0].GPUs[3].State, in.Board.Hosts[4].GPUs[0].State = board.Free, board.Free
	boardtest.Finish(in.Board)
	for _, want := range []string{"Rack 1 H100 13 hosts 2 free", "H100 13 hosts 2 free"} {
		files := pages(t, in)
		got := textOf(byID(parse(t, files[len(files)-1]), "_group0"))
		if !strings.HasPrefix(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("the group does not say %q: %.80q", want, got)
		}
		for i := range in.Board.Hosts {
			in.Board.Hosts[i].Group = ""
		}
	}
}
