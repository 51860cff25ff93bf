package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/demo"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/internal/testenv/costtest"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

// statusText is a board as a terminal shows it.
func statusText(t testing.TB, b *board.Board, opt text.Options) string {
	t.Helper()
	var buf bytes.Buffer
	if err := text.Status(&buf, b, opt); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// published is board.json of an input.
func published(t testing.TB, in render.Input, path string) []byte {
	t.Helper()
	files, err := boardtest.Files(in, Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Path == path {
			return f.Content
		}
	}
	t.Fatalf("there is no %s", path)
	return nil
}

// What a reader shows of a board is what the site showed.
func TestABoardReadBackLooksTheSame(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Interval = 20 * time.Second
	in.Board.InventoryAsOf, in.Board.BookingsStaleSince = boardtest.At(0, -1, 0), boardtest.At(0, 0, -7)
	in.Site.Lab = "a lab"
	in.Board.Count()
	doc := published(t, in, "api/v1/board.json")
	p, err := ReadPublished(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	for _, opt := range []text.Options{
		{}, {Detail: true}, {Width: 200, Color: true}, {Free: true}, {User: "sam"}, {Model: "a100", Width: 160},
		{Hosts: []string{"europa"}, Detail: true},
	} {
		if want, got := statusText(t, in.Board, opt), statusText(t, p.Board, opt); got != want {
			t.Errorf("%+v: want\n%s\ngot\n%s", opt, want, got)
		}
	}
	if got := p.JSON(); !bytes.Equal(got, doc) {
		t.Errorf("written again it differs:\n%s", readDifference(doc, got))
	}
	if p.Title == "" || p.Lab != "a lab" || p.Generation != render.Generation(in.Board) ||
		len(p.Board.FreeNow) != len(in.Board.FreeNow) {
		t.Errorf("%q of %q, generation %s, %d free", p.Title, p.Lab, p.Generation, len(p.Board.FreeNow))
	}
}

func TestAHostReadBackIsTheSame(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Count()
	for i := range in.Board.Hosts {
		h := &in.Board.Hosts[i]
		doc := published(t, in, "api/v1/hosts/"+h.Name+".json")
		got, bookings, err := ReadHost(bytes.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		b := *in.Board
		b.GeneratedAt = got.SnapshotAt
		again, _, err := ReadHost(bytes.NewReader(HostJSON(&b, got)))
		if err != nil || len(again.GPUs) != len(h.GPUs) || again.State != h.State ||
			again.Totals.FreeOf() != h.Totals.FreeOf() {
			t.Errorf("%s: %d GPUs, %s, %s free, %v", h.Name, len(again.GPUs), again.State, again.Totals.FreeOf(), err)
		}
		if errs := schemaErrors(t, published(t, in, "api/v1/schema/host.json"), HostJSON(in.Board, h)); len(errs) > 0 {
			t.Errorf("%s: %v", h.Name, errs)
		}
		n := 0
		for _, bk := range in.Board.Bookings {
			if bk.Host == h.Name {
				n++
			}
		}
		if len(bookings) != n {
			t.Errorf("%s: %d bookings, want %d", h.Name, len(bookings), n)
		}
	}
}

// TestAGPUThatCountsElsewhere: files and those who read them name the host, and count the GPU there alone.
func TestAGPUThatCountsElsewhere(t *testing.T) {
	in := boardtest.Lab()
	in.Board.Count()
	before := in.Board.Totals.GPUs.All
	g := &in.Board.Hosts[0].GPUs[0]
	g.State, g.Reason, g.CountedAt = board.Unknown, board.ReasonElsewhere, "boreas"
	in.Board.Count()
	p, err := ReadPublished(bytes.NewReader(published(t, in, "api/v1/board.json")))
	if err != nil {
		t.Fatal(err)
	}
	p.Board.Count()
	masked := in.Board.Mask(board.Privacy{Users: board.UsersNone})
	for name, b := range map[string]*board.Board{"made": in.Board, "read": p.Board, "masked": masked} {
		row := &b.Hosts[0].GPUs[0]
		if row.CountedAt != "boreas" || b.Totals.GPUs.All != before-1 {
			t.Errorf("%s: counted at %q, %d GPUs of %d", name, row.CountedAt, b.Totals.GPUs.All, before)
		}
		if got, want := text.Why(b, row,
			text.Options{}), "unknown: same card as on boreas, and counted there"; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, problem := range schemaErrors(t, published(t, in, "api/v1/schema/board.json"),
		published(t, in, "api/v1/board.json")) {
		if strings.Contains(problem, "counted_at") {
			t.Error(problem)
		}
	}
}

// Counting anew gives what the merge counted.
func TestCountAgreesWithTheMerge(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	fleet := demo.New(1, now)
	in := board.Input{Now: now, Interval: demo.Interval, Reports: map[string]board.Report{},
		Calendar: booking.Parse("comments.json", fleet.Files(now)["comments.json"], booking.Zone{Location: time.UTC},
			booking.Options{Now: now})}
	for _, h := range fleet.Hosts() {
		in.Hosts = append(in.Hosts, inventory.Host{Name: h.Name, ExpectedGPUs: h.GPUs})
		in.Reports[h.Name] = board.Report{Snapshot: fleet.Snapshot(h.Name, now)}
	}
	want, _ := board.Merge(in)
	got, _ := board.Merge(in)
	got.Totals, got.FreeNow, got.NextFree = board.Totals{}, nil, nil
	for i := range got.Models {
		got.Models[i].Free = -1
	}
	for i := range got.Hosts {
		got.Hosts[i].Totals = board.Totals{}
	}
	got.Count()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(board.Host{})); diff != "" ||
		want.Totals.GPUs.Free() == 0 ||
		want.NextFree == nil {
		t.Errorf("%d are free; %s", want.Totals.GPUs.Free(), diff)
	}
}

func readDifference(a, b []byte) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	show := func(s []byte) string { return string(s[max(0, i-80):min(len(s), i+80)]) }
	return fmt.Sprintf("%s\n%s", show(a), show(b))
}

func TestWhatIsNoBoardIsRefused(t *testing.T) {
	good := published(t, boardtest.Lab(), "api/v1/board.json")
	replace := func(old, new string) string {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("%s is not in the board", old)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	for _, c := range []struct {
		name, doc string
		want      error
	}{
		{"nothing", "", ErrNotBoard},
		{"a page", "<!doctype html><html></html>", ErrNotBoard},
		{"an array", "[]", ErrNotBoard},
		{"another object", `{"a":1}`, ErrNotBoard},
		{"cut", string(good[:len(good)/2]), ErrNotBoard},
		{"something behind it", string(good) + "{}", ErrNotBoard},
		{"a newer schema", replace(`"schema_version":1`, `"schema_version":2`), ErrSchema},
		{"a newer schema that does not fit", `{"schema_version":3,"generated_at":{"unix":1}}`, ErrSchema},
		{"no schema", replace(`"schema_version":1,`, ``), ErrNotBoard},
		{"no moment", replace(`"generated_at":`, `"generated":`), ErrNotBoard},
		{"a moment that is none", replace(`"generated_at":"2026`, `"generated_at":"yesterday`), ErrNotBoard},
		{"text for a number", replace(`"memory_used_mib":`, `"memory_used_mib":"x","m":`), ErrNotBoard},
		{"hosts said twice", replace(`"hosts":[`, `"hosts":[],"hosts":[`), ErrNotBoard},
		{"too many hosts",
			`{"schema_version":1,"generated_at":"2026-11-20T09:42:10Z","hosts":[{}` +
				strings.Repeat(",{}", MaxBoardHosts) +
				`]}`, ErrNotBoard},
		{"too large", `{"schema_version":1,"title":"` + strings.Repeat("x", MaxBoardBytes) + `"}`, ErrNotBoard},
	} {
		if b, err := ReadPublished(strings.NewReader(c.doc)); b != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	errPipe := errors.New("broken pipe")
	if _, err := ReadPublished(iotest.ErrReader(errPipe)); !errors.Is(err, errPipe) {
		t.Errorf("the reader's own error became %v", err)
	}
	if _, _, err := ReadHost(strings.NewReader(`{"schema_version":1,"name":"../x"}`)); !errors.Is(err, ErrNotBoard) {
		t.Errorf("a bad name of a host: %v", err)
	}
	if b, err := ReadPublished(strings.NewReader(replace(`"hosts":[`, `"future":{"a":[1]},"hosts":[`))); err != nil ||
		len(b.Board.Hosts) == 0 {
		t.Errorf("a field that nobody knows: %v", err)
	}
}

// A site that lies costs itself the reading, and the terminal nothing.
func TestAHostileBoardIsHarmless(t *testing.T) {
	in := boardtest.Hostile(boardtest.Lab(), boardtest.Evil)
	p, err := ReadPublished(bytes.NewReader(published(t, in, "api/v1/board.json")))
	if err != nil {
		t.Fatal(err)
	}
	boardtest.CheckText(t, statusText(t, p.Board, text.Options{Detail: true, Color: true}), 80, true, false)
	for _, r := range string(p.JSON()) {
		if boardtest.Obeyed(r) {
			t.Fatalf("%U in the JSON", r)
		}
	}
	doc := `{"schema_version":1,"generation":"</script>","generated_at":"2026-11-20T09:42:10Z","next_generation_expected_at":"2999-01-01T00:00:00Z","hosts":[
{"name":"gpu01","state":"splendid","gpus":[{"index":0,"state":"gratis","memory_total_mib":-4,"utilization_gpu_percent":900,"since":"9999-01-01T00:00:00Z",
 "health":"` +
		"\u202e" + `","processes":[{"pid":-1},{"pid":7,"user":"\u001b[31m","share":7},{"pid":8,"share":0.5}]},{"index":0,"state":"free"},{"index":-1,"state":"free"},{"index":1,"state":"free","processes":[{"pid":9}]}]},
{"name":"gpu01","state":"up"},{"name":"../../etc","state":"up","gpus":[{"index":0,"state":"free"}]}]}`
	p, err = ReadPublished(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Board.Hosts) != 1 || p.Board.Interval != 0 || p.Generation != "" {
		t.Fatalf("%d hosts, interval %s, generation %q", len(p.Board.Hosts), p.Board.Interval, p.Generation)
	}
	h := p.Board.Hosts[0]
	if h.State != board.Stale || len(h.GPUs) != 2 || p.Board.Totals.GPUs.Free() != 1 {
		t.Fatalf("%+v", h)
	}
	g := h.GPUs[0]
	if g.State != board.Unknown || g.MemoryTotal != nil || g.UtilizationGPU != nil || !g.Since.IsZero() {
		t.Errorf("%+v", g)
	}
	if len(g.Processes) != 2 || g.Processes[0].User != `\x1b[31m` || g.Processes[0].Share != nil ||
		*g.Processes[1].Share != 0.5 || h.GPUs[1].Processes[0].PID != 9 {
		t.Errorf("%+v", g.Processes)
	}
}

// Properties: whatever is read can be shown and written, and reads back the same.
func FuzzReadBoard(f *testing.F) {
	doc := published(f, boardtest.Lab(), "api/v1/board.json")
	f.Add(doc)
	f.Add(
		[]byte(
			`{"schema_version":1,"generated_at":"2026-11-20T09:42:10Z","hosts":[{"name":"a","gpus":[{"index":3,"state":"free"}]}]}`,
		),
	)
	const head, host = `{"schema_version":1,"generated_at":"2026-11-20T09:42:10Z","hosts":`, `[{"name":"a","title":"a"}]`
	for _, list := range slices.Concat(costtest.Lists(head, "}"), costtest.Lists(head+host+`,"problems":`, "}")) {
		f.Add(list)
	}
	for _, name := range []string{"gpus", "problems", "tags"} {
		for _, list := range costtest.Lists(head+`[{"name":"a","`+name+`":`, "}]}") {
			f.Add(list)
		}
	}
	for _, name := range []string{"mig_devices", "processes", "other_bookings"} {
		for _, list := range costtest.Lists(head+`[{"name":"a","gpus":[{"index":0,"`+name+`":`, "}]}]}") {
			f.Add(list)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var p *Published
		var err error
		costtest.Check(t, len(doc), 128, func() { p, err = ReadPublished(bytes.NewReader(doc)) })
		if err != nil {
			if p != nil || !errors.Is(err, ErrNotBoard) && !errors.Is(err, ErrSchema) {
				t.Fatalf("%v, %v", p, err)
			}
			return
		}
		boardtest.CheckText(t, statusText(t, p.Board, text.Options{Color: true}), 80, true, false)
		once := p.JSON()
		if !json.Valid(once) {
			t.Fatalf("no JSON: %s", once)
		}
		again, err := ReadPublished(bytes.NewReader(once))
		if err != nil {
			t.Fatalf("what was written does not read: %v\n%s", err, once)
		}
		if twice := again.JSON(); !bytes.Equal(once, twice) {
			t.Fatalf("it changes every time:\n%s", readDifference(once, twice))
		}
		var buf bytes.Buffer
		if err := text.List(&buf, p.Board, text.Options{Color: true}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, &buf)
	})
}

func BenchmarkReadBoard(b *testing.B) {
	now := time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)
	fleet := demo.NewLarge(1, now, 1000)
	in := board.Input{Now: now, Interval: demo.Interval, Reports: map[string]board.Report{}}
	for _, h := range fleet.Hosts() {
		in.Hosts = append(in.Hosts, inventory.Host{Name: h.Name, ExpectedGPUs: h.GPUs})
		in.Reports[h.Name] = board.Report{Snapshot: fleet.Snapshot(h.Name, now)}
	}
	merged, _ := board.Merge(in)
	doc := published(b, render.Input{Board: merged}, "api/v1/board.json")
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadPublished(bytes.NewReader(doc)); err != nil {
			b.Fatal(err)
		}
	}
}

// The steps of a GPU without history are all null: many values in few bytes.
func TestHostWithoutHistoryIsRead(t *testing.T) {
	h := board.Host{Name: "gpu01", State: board.Up}
	for i := range snapshot.MaxGPUs {
		g := board.GPU{State: board.Free, Utilization: make([]*float64, 96)}
		g.Index = i
		h.GPUs = append(h.GPUs, g)
	}
	doc := HostJSON(&board.Board{Hosts: []board.Host{h}}, &h)
	read, _, err := ReadHost(bytes.NewReader(doc))
	if err != nil || len(read.GPUs) != snapshot.MaxGPUs {
		t.Fatalf("%v, from %d bytes", err, len(doc))
	}
}
