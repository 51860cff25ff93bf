package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

// apiData renders the files of an input by path, and fails on duplicates.
func apiData(t testing.TB, in render.Input) map[string][]byte {
	t.Helper()
	files, err := boardtest.Files(in, Files)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string][]byte{}
	for i, f := range files {
		if _, twice := byPath[f.Path]; twice {
			t.Errorf("%s is written twice", f.Path)
		}
		if i > 0 && files[i-1].Path >= f.Path {
			t.Errorf("%s comes after %s", f.Path, files[i-1].Path)
		}
		if f.Path != path.Clean(f.Path) || strings.HasPrefix(f.Path, "/") || strings.HasPrefix(f.Path, "..") {
			t.Errorf("%q is not a path within the site", f.Path)
		}
		byPath[f.Path] = f.Content
	}
	return byPath
}

// schemaOf is which schema a file must satisfy.
func schemaOf(p string) string {
	switch {
	case strings.HasPrefix(p, "api/v1/hosts/"):
		return "host"
	case strings.HasPrefix(p, "api/v1/") && !strings.HasPrefix(p, "api/v1/schema/"):
		return strings.TrimSuffix(path.Base(p), ".json")
	case p == "health.json":
		return "health"
	}
	return ""
}

func TestDataMatchesItsSchemas(t *testing.T) {
	empty := render.Input{Board: &board.Board{GeneratedAt: boardtest.Now}}
	for name, in := range map[string]render.Input{
		"fleet":   boardtest.Lab(),
		"hostile": boardtest.Hostile(boardtest.Lab(), boardtest.Evil),
		"empty":   empty,
	} {
		files := apiData(t, in)
		checked := 0
		for p, content := range files {
			if !strings.HasSuffix(p, ".json") {
				continue
			}
			if !json.Valid(content) || !utf8.Valid(content) {
				t.Errorf("%s: %s is not JSON", name, p)
				continue
			}
			schema := schemaOf(p)
			if schema == "" {
				continue
			}
			checked++
			for _, err := range schemaErrors(t, files["api/v1/schema/"+schema+".json"], content) {
				t.Errorf("%s: %s: %s", name, p, err)
			}
		}
		if want := 7 + len(in.Board.Hosts); checked != want {
			t.Errorf("%s: %d files have a schema, want %d", name, checked, want)
		}
	}
}

// TestSchemasAreNotVacuous breaks a board in ways that its schema must notice.
func TestSchemasAreNotVacuous(t *testing.T) {
	files := apiData(t, boardtest.Lab())
	good := files["api/v1/board.json"]
	for _, c := range []struct{ old, new string }{
		{`"state":"stuck"`, `"state":"sleeping"`},
		{`"state":"up"`, `"state":"asleep"`},
		{`"schema_version":1`, `"schema_version":2`},
		{`"pid":`, `"pidd":`},
		{`"temperature_celsius":null`, `"temperature_celsius":"hot"`},
		{`"generated_at":"2026`, `"generated_at":"yesterday 2026`},
		{`"idle_for_seconds":`, `"idle":`},
	} {
		bad := bytes.Replace(good, []byte(c.old), []byte(c.new), 1)
		if bytes.Equal(bad, good) {
			t.Errorf("%s is not in board.json", c.old)
			continue
		}
		if len(schemaErrors(t, files["api/v1/schema/board.json"], bad)) == 0 {
			t.Errorf("the schema does not notice %s for %s", c.new, c.old)
		}
	}
}

func TestBoardJSONSaysWhatTheBoardSays(t *testing.T) {
	in := boardtest.Lab()
	var doc struct {
		Generation string
		Totals     struct {
			GPUs, Free int
			ByState    map[string]int `json:"by_state"`
		}
		Hosts []struct {
			Name, State string
			SnapshotAt  *time.Time `json:"snapshot_at"`
			GPUs        []struct {
				Index       int
				State       string
				Memory      *int64     `json:"memory_used_mib"`
				Utilization *int       `json:"utilization_gpu_percent"`
				Power       *float64   `json:"power_draw_watts"`
				FreeFrom    *time.Time `json:"free_from"`
				IdleFor     *int64     `json:"idle_for_seconds"`
				Processes   []struct {
					PID     int
					Person  *string
					Alive   *bool
					Started *time.Time `json:"started_at"`
				}
				Booking *struct {
					Name        string
					From, Until *time.Time
				}
			}
		}
	}
	files := apiData(t, in)
	if err := json.Unmarshal(files["api/v1/board.json"], &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Generation != render.Generation(in.Board) || doc.Generation == "" {
		t.Errorf("generation %q, want %q", doc.Generation, render.Generation(in.Board))
	}
	if doc.Totals.Free != in.Board.Totals.GPUs.Free() || doc.Totals.ByState["stuck"] != 1 {
		t.Errorf("totals %+v", doc.Totals)
	}
	for i, h := range in.Board.Hosts {
		got := doc.Hosts[i]
		if got.Name != h.Name || got.State != string(h.State) || (got.SnapshotAt == nil) != h.SnapshotAt.IsZero() {
			t.Errorf("host %d is %s %s %v, want %s %s", i, got.Name, got.State, got.SnapshotAt, h.Name, h.State)
		}
		for j, g := range h.GPUs {
			row := got.GPUs[j]
			if row.State != string(g.State) || (row.Memory == nil) != (g.MemoryUsed == nil) ||
				(row.Utilization == nil) != (g.UtilizationGPU == nil) {
				t.Errorf("%s %d: %+v, want state %s", h.Name, j, row, g.State)
			}
			if len(row.Processes) != len(g.Processes) {
				t.Errorf("%s %d: %d processes, want %d", h.Name, j, len(row.Processes), len(g.Processes))
			}
			if (row.Booking == nil) != (g.Booking == nil) ||
				row.Booking != nil &&
					((row.Booking.Until == nil) != g.Booking.Until.IsZero() || row.Booking.Name != g.Booking.Name) {
				t.Errorf("%s %d: booking %+v, want %+v", h.Name, j, row.Booking, g.Booking)
			}
		}
	}
	idle := doc.Hosts[0].GPUs[7]
	if idle.IdleFor == nil || *idle.IdleFor != 19*3600-12 {
		t.Errorf("atlas 7 idles for %v s; 19 h now is 19 h less 12 s at its snapshot", idle.IdleFor)
	}
}

// A page and the JSON beside it are of one generation when their ids are equal,
// so the id must change with whatever they show.
func TestGenerationChangesWithTheBoard(t *testing.T) {
	base := render.Generation(boardtest.Lab().Board)
	if render.Generation(boardtest.Lab().Board) != base {
		t.Error("equal boards have different generations")
	}
	for name, change := range map[string]func(*board.Board){
		"moment":   func(b *board.Board) { b.GeneratedAt = b.GeneratedAt.Add(time.Second) },
		"snapshot": func(b *board.Board) { b.Hosts[0].SnapshotAt = b.Hosts[0].SnapshotAt.Add(time.Millisecond) },
		"state":    func(b *board.Board) { b.Hosts[0].GPUs[4].State = board.Busy },
		"host":     func(b *board.Board) { b.Hosts = b.Hosts[1:] },
		"booking":  func(b *board.Board) { b.Bookings[0].Until = b.Bookings[0].Until.Add(time.Hour) },
	} {
		in := boardtest.Lab()
		change(in.Board)
		if render.Generation(in.Board) == base {
			t.Errorf("a change of %s keeps the generation", name)
		}
	}
}

// Only what is said about the moment of generation may change when nothing
// else does: a host without news must not be written again.
func TestHostFilesDoNotDependOnTheGeneration(t *testing.T) {
	first := boardtest.Lab()
	second := boardtest.Lab()
	const later = 40 * time.Second
	second.Board.GeneratedAt = second.Board.GeneratedAt.Add(later)
	a, b := apiData(t, first), apiData(t, second)
	whole := regexp.MustCompile(
		`^(api/v1/(board|free|hosts|users|bookings|summary)\.json|health\.json|(status|detail)\.(txt|ansi)|metrics\.txt)$`,
	)
	for p := range a {
		if whole.MatchString(p) {
			if bytes.Equal(a[p], b[p]) {
				t.Errorf("%s does not say when it was generated", p)
			}
			continue
		}
		if !bytes.Equal(a[p], b[p]) {
			t.Errorf("%s changes with the moment of generation", p)
		}
	}
}

func TestDataIsDeterministic(t *testing.T) {
	want, err := boardtest.Files(boardtest.Lab(), Files)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		got, err := boardtest.Files(boardtest.Lab(), Files)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got[i].Path != want[i].Path || !bytes.Equal(got[i].Content, want[i].Content) {
				t.Fatalf("%s differs between two runs", want[i].Path)
			}
		}
	}
}

// Whatever a node or a person writes, no file holds a byte that a terminal
// obeys, apart from the colours that are ours.
func TestHostileTextReachesNoFile(t *testing.T) {
	color := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for p, content := range apiData(t, boardtest.Hostile(boardtest.Lab(), boardtest.Evil)) {
		if !utf8.Valid(content) {
			t.Errorf("%s is not UTF-8", p)
		}
		s := string(content)
		if strings.HasSuffix(p, ".ansi") {
			s = color.ReplaceAllString(s, "")
		}
		if strings.HasSuffix(p, ".ics") {
			s = strings.ReplaceAll(s, "\r\n", "\n")
		}
		for _, r := range s {
			if boardtest.Obeyed(r) {
				t.Errorf("%s holds %U", p, r)
				break
			}
		}
		if strings.HasSuffix(p, ".svg") && strings.Contains(s, "<b>") ||
			strings.HasSuffix(p, ".json") && strings.Contains(s, "</script>") {
			t.Errorf("%s holds markup of a stranger", p)
		}
	}
}

func TestHealthTellsEveryProblemOnce(t *testing.T) {
	in := boardtest.Lab() // a host's problems are listed with the host and with the board
	var doc struct {
		Status   string
		Count    int            `json:"problem_count"`
		ByCode   map[string]int `json:"by_code"`
		Problems []struct {
			Code, Message string
			Where, Host   *string
		}
	}
	if err := json.Unmarshal(apiData(t, in)["health.json"], &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Status != "degraded" || doc.Count != 4 || len(doc.Problems) != 4 || doc.ByCode["smi:unheard"] != 1 {
		t.Errorf("health %+v", doc)
	}
	i := slices.IndexFunc(doc.Problems, func(p struct {
		Code, Message string
		Where, Host   *string
	}) bool {
		return p.Code == "booking:syntax"
	})
	if i < 0 || doc.Problems[i].Where == nil || *doc.Problems[i].Where != "comments.json:41:7" {
		t.Errorf("the broken line is not named: %+v", doc.Problems)
	}

	in.Board.Problems = nil
	for i := range in.Board.Hosts {
		in.Board.Hosts[i].Problems = nil
	}
	if err := json.Unmarshal(apiData(t, in)["health.json"], &doc); err != nil || doc.Status != "ok" {
		t.Errorf("a board without problems is %s (%v)", doc.Status, err)
	}
}

func BenchmarkData(b *testing.B) {
	for _, hosts := range []int{10, 100, 1000} {
		in := boardtest.Big(hosts)
		b.Run(fmt.Sprint(hosts, "hosts"), func(b *testing.B) {
			b.ReportAllocs()
			var size int64
			for b.Loop() {
				files, err := boardtest.Files(in, Files)
				if err != nil {
					b.Fatal(err)
				}
				size = 0
				for _, f := range files {
					size += int64(len(f.Content))
				}
			}
			b.SetBytes(size)
		})
	}
}

// Every string comes back as the safe text that it stands for.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", boardtest.Evil, "\u2028", "\xed\xa0\x80", "<!--"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := encode(safe(s))
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil {
			t.Fatalf("%q becomes %s: %v", s, quoted, err)
		}
		if want := snapshot.Text(s, render.MaxText); back != want {
			t.Fatalf("%q comes back as %q, want %q", s, back, want)
		}
		if bytes.ContainsAny(quoted, "<>&\n") {
			t.Fatalf("%s is not safe within a page", quoted)
		}
	})
}

// The file of a host says who held each GPU in the steps of its utilization, and not where people are not named.
func TestHoldersOfAHost(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Hosts = in.Board.Hosts[:1]
	h := &in.Board.Hosts[0]
	h.GPUs = h.GPUs[:2]
	h.GPUs[0].Holders, h.GPUs[1].Holders = []string{"eva", "eva", "", `a"b`}, nil
	first, second := h.GPUs[0].Index, h.GPUs[1].Index
	file := "api/v1/hosts/" + h.Name + ".json"
	for steps, files := range map[string]map[string][]byte{
		`"eva","eva",null,"a\"b"`: apiData(t, in),
		"": apiData(t,
			render.Input{Board: in.Board.Mask(board.Privacy{Users: board.UsersNone}), Site: in.Site}),
	} {
		want := fmt.Sprintf(`"holders_24h":[{"gpu":%d,"steps":[%s]},{"gpu":%d,"steps":[]}]}`, first, steps, second)
		if !bytes.HasSuffix(files[file], []byte(want+"\n")) {
			t.Errorf("%s does not end with %s", file, want)
		}
	}
}
