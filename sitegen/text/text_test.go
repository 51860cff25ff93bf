package text

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

var textUpdate = flag.Bool("update-text", false, "write the golden texts anew")

func textStatus(t testing.TB, b *board.Board, opt Options) string {
	t.Helper()
	var buf bytes.Buffer
	if err := Status(&buf, b, opt); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestStatusGoldens(t *testing.T) {
	for name, opt := range map[string]Options{
		"status-80.txt":       {ASCII: true},
		"status-200.txt":      {Width: 200},
		"status-80.ansi":      {Color: true},
		"detail-80.txt":       {Detail: true},
		"detail-80-ascii.txt": {Detail: true, ASCII: true},
		"detail-200.ansi":     {Detail: true, Color: true, Width: 200},
		"free.txt":            {Free: true},
		"user.txt":            {User: "mira"},
		"model.txt":           {Model: "rtx"},
		"hosts.txt":           {Hosts: []string{"europa", "fornax"}, Detail: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := boardtest.Lab()
			opt.Zone = in.Site.Zone
			got := textStatus(t, in.Board, opt)
			golden(t, filepath.Join("testdata", "text", name), got)
		})
	}
}

// golden compares a text with the file that holds it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *textUpdate {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -update-text writes it anew\n%s", file, got)
	}
}

var textColors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// textCheck holds for every board, whatever it says.
func textCheck(t testing.TB, s string, opt Options) {
	t.Helper()
	boardtest.CheckText(t, s, cmp.Or(opt.Width, 80), opt.Color, opt.ASCII)
}

func TestStatusKeepsItsWidth(t *testing.T) {
	evils := []string{boardtest.Evil, strings.Repeat("日本語", 40), "e\u0301" + strings.Repeat("\u0301", 50),
		strings.Repeat("🚀", 30), "Père Noël", ""}
	for _, evil := range evils {
		in := boardtest.Hostile(boardtest.Lab(), evil)
		in.Board.Hosts[0].Name = "a" + strings.Repeat("long-", 40)
		for _, width := range []int{60, 79, 80, 139, 140, 200} {
			for bits := range 8 {
				opt := Options{Width: width, Color: bits&1 > 0, ASCII: bits&2 > 0, Detail: bits&4 > 0}
				textCheck(t, textStatus(t, in.Board, opt), opt)
			}
		}
	}
}

// What a pipe gets is whole, in columns that fit.
func TestAPipeGetsTheWholeText(t *testing.T) {
	b := boardtest.Lab().Board
	host, model := "a"+strings.Repeat("long-", 20)+"z", "NVIDIA "+strings.Repeat("RTX ", 20)+"end"
	b.Hosts[0].Name = host
	for i := range b.Hosts[0].GPUs {
		g := &b.Hosts[0].GPUs[i]
		g.Name, g.ShortName = model, model
		for j := range g.Processes {
			g.Processes[j].Program = strings.Repeat("program", 12) + ".py"
		}
	}
	for _, detail := range []bool{false, true} {
		cut := textStatus(t, b, Options{Detail: detail})
		whole := textStatus(t, b, Options{Detail: detail, Whole: true})
		if !strings.Contains(cut, "…") || strings.Contains(whole, "…") {
			t.Errorf("cut: %v, whole: %v; detail %v", strings.Contains(cut, "…"), !strings.Contains(whole, "…"), detail)
		}
		for _, want := range []string{host, model} {
			if !strings.Contains(whole, want) {
				t.Errorf("%s is not in it; detail %v\n%s", want, detail, whole)
			}
		}
		if detail && !strings.Contains(whole, strings.Repeat("program", 12)+".py") {
			t.Errorf("no whole program\n%s", whole)
		}
	}
}

func TestColorChangesNoWord(t *testing.T) {
	for _, detail := range []bool{false, true} {
		plain := textStatus(t, boardtest.Lab().Board, Options{Detail: detail})
		colored := textStatus(t, boardtest.Lab().Board, Options{Detail: detail, Color: true})
		if textColors.ReplaceAllString(colored, "") != plain {
			t.Error("the coloured text says something else than the plain one")
		}
		if colored == plain {
			t.Error("there are no colours")
		}
	}
}

func TestStatusFirstLineIsTheHeadline(t *testing.T) {
	first, _, _ := strings.Cut(textStatus(t, boardtest.Lab().Board, Options{ASCII: true}), "\n")
	if want := "5 of 31 GPUs and 1 of 3 MIG slices free: 2 x H100 80 GB, 2 x A100 40 GB, 1 x RT~"; first != want {
		t.Errorf("headline %q, want %q", first, want)
	}
}

func TestStatusFilters(t *testing.T) {
	for _, c := range []struct {
		name       string
		opt        Options
		has, lacks []string
	}{
		{"one host", Options{Hosts: []string{"ceres"}}, []string{"|ceres"}, []string{"|atlas", "|fornax"}},
		{"free only", Options{Free: true}, []string{"|atlas", "|gaia", "free"},
			[]string{" busy ", "|fornax", "|dione"}},
		{"a person", Options{User: "sam"}, []string{"|atlas", "sam"}, []string{"|dione", "mira"}},
		{"who booked", Options{User: "ada"}, []string{"|ceres", "|europa"}, []string{"|atlas", "|dione"}},
		{"a model", Options{Model: "a100"}, []string{"|ceres", "|dione"}, []string{"|atlas", "|gaia"}},
		{"nothing", Options{User: "nobody"}, []string{"nothing to show"}, []string{"|atlas"}},
	} {
		_, table, _ := strings.Cut(textStatus(t, boardtest.Lab().Board, c.opt), "+--")
		table, _, _ = strings.Cut(table, "\n! ")
		for _, s := range c.has {
			if !strings.Contains(table, s) {
				t.Errorf("%s: %q is not there:\n%s", c.name, s, table)
			}
		}
		for _, s := range c.lacks {
			if strings.Contains(table, s) {
				t.Errorf("%s: %q is there:\n%s", c.name, s, table)
			}
		}
	}
}

type brokenPipe struct{}

var errPipe = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

// TestStatusSaysWhyAHostIsUnread: without a GPU, and without news because its drop cannot be read.
func TestStatusSaysWhyAHostIsUnread(t *testing.T) {
	hosts := []board.Host{
		{
			Name: "a", State: board.Up,
			Problems: []snapshot.Problem{{Code: "host:load", Message: "no load"}, {
				Code: "smi:driver-not-loaded", Message: "the driver is not loaded",
			}},
		},
		{Name: "b", State: board.Never, Problems: []snapshot.Problem{{Code: "bad:gzip", Message: "the file is cut"}}},
	}
	got := textStatus(t, &board.Board{GeneratedAt: boardtest.Now, Hosts: hosts}, Options{ASCII: true, Width: 100})
	for _, want := range []string{"| no GPUs known: the driver is not loaded", "| never heard of: the file is cut"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestStatusReturnsTheWritersError(t *testing.T) {
	if err := Status(brokenPipe{}, boardtest.Lab().Board, Options{}); !errors.Is(err, errPipe) {
		t.Errorf("got %v", err)
	}
}

func TestTextWidths(t *testing.T) {
	for _, c := range []struct {
		s    string
		want int
	}{
		{"", 0}, {"abc", 3}, {"日本", 4}, {"e\u0301", 1}, {"🚀", 2}, {"ｶﾅ", 2}, {"Ａ", 2}, {"°C", 2}, {"├──", 3},
	} {
		if got := render.TextWidth(c.s); got != c.want {
			t.Errorf("%q is %d wide, want %d", c.s, got, c.want)
		}
	}
	if got := textPad("日本語", 4, "~"); got != "日~ " {
		t.Errorf("cut to %q; a wide character must not be halved", got)
	}
	if got := textSafe("Père ß日…", true); got != "Pere ??..." {
		t.Errorf("in ASCII %q", got)
	}
}

func FuzzStatus(f *testing.F) {
	for _, s := range []string{"", "mira", boardtest.Evil, "日本語", "e\u0301\u0301", "\x1b[2J", "\u202e", "🚀👩‍🚀"} {
		f.Add(s, 80, byte(0))
		f.Add(s, 200, byte(7))
	}
	f.Fuzz(func(t *testing.T, s string, width int, bits byte) {
		if width < 60 || width > 400 {
			return
		}
		in := boardtest.Hostile(boardtest.Lab(), s)
		in.Board.Hosts = in.Board.Hosts[:5]
		opt := Options{Width: width, Color: bits&1 > 0, ASCII: bits&2 > 0, Detail: bits&4 > 0}
		textCheck(t, textStatus(t, in.Board, opt), opt)
	})
}

func TestCells(t *testing.T) {
	for s, want := range map[string]int{"": 0, "ada": 3, "山田": 4, "e\u0301": 1, "é": 1, "👩": 2} {
		if got := render.TextWidth(s); got != want {
			t.Errorf("%q: %d cells, want %d", s, got, want)
		}
	}
	for _, tc := range []struct {
		s    string
		most int
		want string
	}{{"ada", 3, "ada"}, {"adam", 3, "ad…"}, {"山田太郎", 5, "山田…"}, {"山田太郎", 4, "山…"}} {
		if got := textCut(tc.s, tc.most, "…"); got != tc.want || render.TextWidth(got) > tc.most {
			t.Errorf("%q in %d: got %q, want %q", tc.s, tc.most, got, tc.want)
		}
	}
}
