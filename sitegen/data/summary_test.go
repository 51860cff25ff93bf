package data

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

// withSites is a laboratory that reads two other boards, the second of which is late.
func withSites(in render.Input) render.Input {
	in.Board.ID = "0123456789abcdef"
	in.Site.BaseURL, in.Site.BookSSH = "https://eva:secret@gpu.example.org/", "ada@web.example.org"
	for i, name := range []string{"north", "south"} {
		s := readSummary(in)
		s.ID, s.Others = fmt.Sprintf("%016x", i), board.Others{Sums: s.Own, IDs: []string{fmt.Sprintf("%016x", 10+i)},
			Depth: 1}
		in.Board.Sites = append(in.Board.Sites, board.Site{
			Name: name, URL: "https://" + name + ".example.org/", Summary: s, ReadAt: boardtest.Now,
			State: []board.HostState{board.Up, board.Stale}[i],
		})
	}
	return in
}

func readSummary(in render.Input) *board.Summary {
	in.Site = in.Site.WithDefaults()
	s, err := ReadSummary(bytes.NewReader(summaryFile(in)))
	if err != nil {
		panic(err)
	}
	return s
}

// TestSummaryIsReadBack: what a board writes, another reads, masked or not, also of boards that it reads itself.
func TestSummaryIsReadBack(t *testing.T) {
	in := withSites(boardtest.Lab())
	in.Board.Models[1].FullName = "NVIDIA of another name"
	in.Board.Models[0].Next = &board.Next{At: boardtest.At(0, 3, 0), Count: 2, Host: "atlas"}
	s := readSummary(in)
	b := in.Board
	if s.BookSSH != "ada@web.example.org" {
		t.Errorf("booking by ssh on %q", s.BookSSH)
	}
	if s.ID != b.ID || s.Title != "GPU board" || s.URL != "https://gpu.example.org/" ||
		!s.GeneratedAt.Equal(b.GeneratedAt) ||
		!s.LateAt.Equal(b.LateAt()) || !s.Due.Equal(b.Due()) || s.Own.Problems != len(b.Problems) {
		t.Errorf("read back: %+v", s)
	}
	models := []board.Model{}
	for _, m := range b.Models {
		if strings.HasSuffix(m.FullName, m.Name) {
			m.FullName = ""
		}
		if m.Next != nil {
			m.Next = &board.Next{At: m.Next.At, Count: m.Next.Count}
		}
		models = append(models, m)
	}
	if diff := cmp.Diff(models, s.Own.Models); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	for name, c := range map[string][2]board.Count{
		"GPUs": {b.Totals.GPUs, s.Own.Totals.GPUs}, "slices": {b.Totals.Slices, s.Own.Totals.Slices},
	} {
		if c[0].All != c[1].All || c[0].HeldIdle != c[1].HeldIdle {
			t.Errorf("%s: %v, want %v", name, c[1], c[0])
		}
		for _, state := range board.States() {
			if c[0].ByState[state] != c[1].ByState[state] {
				t.Errorf("%s %s: %d, want %d", name, state, c[1].ByState[state], c[0].ByState[state])
			}
		}
	}
	others := b.Others()
	if s.Others.Totals.GPUs.All != others.Totals.GPUs.All || s.Others.Depth != 2 || len(s.Others.IDs) != 4 {
		t.Errorf("of other boards: %+v", s.Others)
	}
	masked := in
	masked.Board = b.Mask(board.Privacy{Users: board.UsersNone, Programs: board.ProgramsHidden})
	if diff := cmp.Diff(s, readSummary(masked)); diff != "" {
		t.Errorf("of a masked site (-want +got):\n%s", diff)
	}
}

// TestSummaryIsSmall: it has some KB whatever the site's size, and is read whatever nodes call their GPUs.
func TestSummaryIsSmall(t *testing.T) {
	if n := len(summaryFile(boardtest.Big(1000))); n > 4<<10 {
		t.Errorf("that of 1,000 hosts has %d bytes", n)
	}
	in := boardtest.Big(1)
	in.Site.Title = strings.Repeat("<", 4096)
	in.Board.Models = nil
	for i := range 100 {
		m := in.Board.Models
		next := &board.Next{At: boardtest.Now, Count: 1, Host: strings.Repeat("a", 253)}
		in.Board.Models = append(m, board.Model{Name: strings.Repeat("<", 125) + fmt.Sprint(i), Total: 1, Next: next})
	}
	theirs := slices.Clone(in.Board.Models)
	for i := range theirs {
		theirs[i].FullName = strings.Repeat(">", snapshot.MaxNameBytes)
	}
	s := &board.Summary{Own: board.Sums{Models: theirs}, Others: board.Others{Depth: 1}}
	for i := range board.MaxBoards {
		s.Others.IDs = append(s.Others.IDs, fmt.Sprintf("%016x", i))
	}
	in.Board.Sites = []board.Site{{Name: "a", Summary: s, State: board.Up}}
	if n := len(summaryFile(in)); n > MaxSummaryBytes {
		t.Errorf("that of a hostile node has %d bytes", n)
	}
	if got := readSummary(in); len(got.Own.Models) != maxModels || len(got.Others.IDs) != board.MaxBoards {
		t.Errorf("read %d models and %d boards", len(got.Own.Models), len(got.Others.IDs))
	}
}

// TestSummaryOfALiar: numbers that cannot be true are refused, and everything else is made safe.
func TestSummaryOfALiar(t *testing.T) {
	good := string(apiData(t, withSites(boardtest.Lab()))[SummaryPath])
	for _, c := range []struct{ old, new string }{
		{`"gpus":31`, `"gpus":-1`}, {`"gpus":31`, `"gpus":1e400`}, {`"gpus":31`, `"gpus":99999999999`},
		{`"gpus":31`, `"gpus":NaN`}, {`"gpus":31`, `"gpus":3`}, {`"gpus":31`, `"gpus":"31"`},
		{`"by_state":{"free":`, `"by_state":{"free":9`}, {`"by_state":{"free":`, `"by_state":{"free":-`},
		{`"problem_count":`, `"problem_count":-`}, {`"hosts":`, `"hosts":-`}, {`"total":`, `"total":-`},
		{`"mig":false,"total":8,"free":`, `"mig":false,"total":8,"free":9`},
		{`"sites":{"ids":`, `"sites":{"problem_count":-1,"ids":`},
		{`"generated_at":"2026`, `"generated_at":"9026`}, {`"schema_version":1`, `"schema_version":2`},
		{`{"schema_version"`, strings.Repeat(" ", MaxSummaryBytes) + `{"schema_version"`},
		{good, "<html>"}, {good, ""}, {good, "[1]"}, {good, strings.Repeat(`{"a":`, 10000)},
	} {
		doc := strings.Replace(good, c.old, c.new, 1)
		if s, err := ReadSummary(strings.NewReader(doc)); doc == good || err == nil ||
			!errors.Is(err, ErrNotBoard) && !errors.Is(err, ErrSchema) {
			t.Errorf("%.40s for %.40s: %+v, %v", c.new, c.old, s, err)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{`"title":"GPU board"`, `"title":"\u001b[2J\u202e"`, `\x1b[2J\u202e`},
		{`"url":"https:`, `"url":"javascript:`, ""},
		{`"late_at":"2026`, `"late_at":"9026`, ""},
		{`"depth":`, `"depth":-`, ""},
		{`"id":"0`, `"id":"<`, ""},
		{`"booking_ssh":"ada@web`, `"booking_ssh":"-oProxyCommand=x`, ""},
		{`"booking_ssh":"ada@web`, `"booking_ssh":"ada@-w`, ""},
		{`"booking_ssh":"ada@web`, `"booking_ssh":"$(x) web`, ""},
		{`"booking_ssh":"ada@web`, `"booking_ssh":"` + strings.Repeat("a", 1000), ""},
	} {
		s, err := ReadSummary(strings.NewReader(strings.Replace(good, c.old, c.new, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.new, err)
			continue
		}
		switch {
		case strings.HasPrefix(c.new, `"title"`) && s.Title != c.want, strings.HasPrefix(c.new, `"url"`) && s.URL != "",
			s.LateAt.Sub(s.GeneratedAt) > 18*24*time.Hour, strings.HasPrefix(c.new, `"depth"`) && s.Others.Depth != 0,
			strings.HasPrefix(c.new, `"id"`) && s.ID != "", strings.HasPrefix(c.new, `"booking_ssh"`) &&
				s.BookSSH != "":
			t.Errorf("%s: %+v", c.new, s)
		}
	}
}

// TestSitesAreReadBack: with their states and numbers, and each by itself.
func TestSitesAreReadBack(t *testing.T) {
	doc := string(apiData(t, withSites(boardtest.Lab()))[SitesPath])
	read := func(doc string) string {
		sites, err := ReadSites(strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for i := range sites {
			sums := sites[i].Sums()
			list = append(list,
				fmt.Sprintf("%s %s %d/%d", sites[i].Name, sites[i].State, sums.Totals.GPUs.Free(),
					sums.Totals.GPUs.All))
		}
		return strings.Join(list, ", ")
	}
	if got := read(doc); got != "north up 10/62, south stale 0/62" {
		t.Error(got)
	}
	if got := read(strings.Replace(doc, `"gpus":62`, `"gpus":-62`, 1)); got != "north never 0/0, south stale 0/62" {
		t.Error(got)
	}
	if got := read(strings.Replace(doc, `"name":"north"`, `"name":"../x"`, 1)); got != "south stale 0/62" {
		t.Error(got)
	}
}

// TestSitesFile: the boards of others, each with what counts of it and what it last said.
func TestSitesFile(t *testing.T) {
	in := withSites(boardtest.Lab())
	files := apiData(t, in)
	if errs := schemaErrors(t, files["api/v1/schema/sites.json"], files[SitesPath]); len(errs) > 0 {
		t.Errorf("%s: %q", SitesPath, errs)
	}
	for _, want := range []string{
		`"name":"north"`, `"state":"up"`, `"last_free":10,"last_free_slices":2,"totals":{"gpus":62,"free":10`,
		`"name":"south"`, `"state":"stale"`, `"last_free":10,"last_free_slices":2,"totals":{"gpus":62,"free":0`,
		`"unknown":62`,
	} {
		if !bytes.Contains(files[SitesPath], []byte(want)) {
			t.Errorf("%s lacks %s:\n%s", SitesPath, want, files[SitesPath])
		}
	}
}
