package text

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

func listText(t testing.TB, b *board.Board, opt Options) string {
	t.Helper()
	var buf bytes.Buffer
	if err := List(&buf, b, opt); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// oneNode is a board of one host of the test fleet, as a node makes it of itself.
func oneNode(t testing.TB, name string) *board.Board {
	t.Helper()
	b := *boardtest.Lab().Board
	for i := range b.Hosts {
		if b.Hosts[i].Name == name {
			b.Hosts = b.Hosts[i : i+1]
			return &b
		}
	}
	t.Fatalf("there is no host %s", name)
	return nil
}

func TestListGoldens(t *testing.T) {
	for name, c := range map[string]struct {
		host string
		opt  Options
	}{
		"atlas-80.txt":   {"atlas", Options{ASCII: true}},
		"atlas-80.ansi":  {"atlas", Options{Color: true}},
		"atlas-200.txt":  {"atlas", Options{Width: 200}},
		"atlas-200.ansi": {"atlas", Options{Width: 200, Color: true}},
		"ceres-100.txt":  {"ceres", Options{Width: 100}},
		"boreas-80.txt":  {"boreas", Options{}},
		"dione-200.txt":  {"dione", Options{Width: 200}},
		"europa-80.txt":  {"europa", Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.opt.Zone = boardtest.Lab().Site.Zone
			got := listText(t, oneNode(t, c.host), c.opt)
			golden(t, filepath.Join("testdata", "list", name), got)
		})
	}
}

// Whatever a node says about itself, no line is wider than asked and nothing in
// it is obeyed by a terminal; colours change no word.
func TestListKeepsItsWidth(t *testing.T) {
	for _, evil := range []string{boardtest.Evil, strings.Repeat("日本語", 40), strings.Repeat("🚀", 30),
		"e\u0301" + strings.Repeat("\u0301", 50), ""} {
		b := boardtest.Hostile(boardtest.Lab(), evil).Board
		for _, width := range []int{60, 80, 120, 200, 1000} {
			for bits := range 4 {
				opt := Options{Width: width, Color: bits&1 > 0, ASCII: bits&2 > 0}
				s := listText(t, b, opt)
				textCheck(t, s, opt)
				for line := range strings.Lines(s) {
					if strings.HasSuffix(line, " \n") {
						t.Fatalf("a blank at the end of %q", line)
					}
				}
				if plain := listText(t, b, Options{Width: width, ASCII: opt.ASCII}); opt.Color &&
					textColors.ReplaceAllString(s, "") != plain {
					t.Fatalf("the coloured list says something else:\n%s\n%s", s, plain)
				}
			}
		}
		for i := range b.Hosts {
			for j := range b.Hosts[i].GPUs {
				if why := Why(b, &b.Hosts[i].GPUs[j], Options{}); strings.ContainsFunc(why,
					func(r rune) bool { return r == '\n' || boardtest.Obeyed(r) }) {
					t.Fatalf("%q", why)
				}
			}
		}
	}
}

func TestMarks(t *testing.T) {
	want := map[board.State]string{
		board.Free: "[ ]", board.Booked: "[~]", board.InUse: "[~]", board.Busy: "[~]", board.Contested: "[~]",
		board.Drained: "[~]",
		board.Stuck:   "[!]", board.Lost: "[!]", board.Unknown: "[!]",
	}
	for _, s := range board.States() {
		if listMark(s) != want[s] {
			t.Errorf("%s is marked %s, want %s", s, listMark(s), want[s])
		}
	}
}

func TestReasonInTheList(t *testing.T) {
	b := &board.Board{GeneratedAt: boardtest.Now}
	dead, alive := false, true
	ann := board.Process{
		Process: snapshot.Process{PID: 7, User: "ann", Program: "train.py", Type: snapshot.Compute, Alive: &alive},
		Person:  "ann", Computes: true,
	}
	gone := board.Process{Process: snapshot.Process{
		PID: 9305, Type: snapshot.Compute, Alive: &dead,
		Children: []snapshot.Child{{PID: 9400, User: "bob"}, {PID: 9401, User: "root"}},
	}}
	eva := boardtest.Booked("gpu01", []int{0}, "eva", boardtest.At(0, -1, 0), boardtest.At(0, 2, 0), "sweep")
	for _, c := range []struct {
		name string
		gpu  board.GPU
		want string
	}{
		{"free", board.GPU{State: board.Free}, ""},
		{"free for a while", board.GPU{State: board.Free, Next: eva, FreeUntil: boardtest.At(0, 2, 0)},
			"free until 11:42, then booked by eva"},
		{"busy", board.GPU{State: board.Busy, Processes: []board.Process{ann, ann}, Since: boardtest.At(-2, -1, 0)},
			"busy: ann (train.py), for 2 days"},
		{"busy, by whom nobody knows", board.GPU{State: board.Busy, Reason: board.ReasonUtilization},
			"busy: unknown: busy, user unknown"},
		{"its memory is in use, by whom nobody knows",
			board.GPU{State: board.InUse, Reason: board.ReasonMemory, Booking: eva},
			"in-use: unknown: memory in use, user unknown; booked by eva until 11:42 (sweep)"},
		{"a process without a user",
			board.GPU{State: board.Busy, Processes: []board.Process{{
				Process: snapshot.Process{PID: 7, Program: "train.py"}, Computes: true,
			}}}, "busy: unknown (train.py)"},
		{"an error", board.GPU{State: board.Lost, Reason: board.ReasonError}, "lost: the driver reports an error"},
		{"row remapping failed", board.GPU{State: board.Lost, Reason: board.ReasonRemap},
			"lost: faulty memory: row remapping failed"},
		{"errors", board.GPU{State: board.Lost, Reason: board.ReasonECC},
			"lost: uncorrectable memory errors; reset the GPU to repair"},
		{"booked", board.GPU{State: board.Booked, Booking: eva}, "booked by eva until 11:42 (sweep)"},
		{"booked for ever",
			board.GPU{State: board.Booked,
				Booking: boardtest.Booked("gpu01", nil, "eva", time.Time{}, time.Time{}, "")},
			"booked by eva with no end"},
		{"contested", board.GPU{State: board.Contested, Processes: []board.Process{ann}, Booking: eva},
			"contested: ann (train.py); booked by eva until 11:42 (sweep)"},
		{"stuck", board.GPU{State: board.Stuck, Processes: []board.Process{gone}},
			"stuck: its memory belongs to pid 9305 (unknown), which has ended; stop what it left running: 9400 (bob), 9401 " +
				"(unknown (root))"},
		{"stuck without a process", board.GPU{State: board.Stuck}, "stuck: memory in use, but no process is listed"},
		{"lost", board.GPU{State: board.Lost, GPU: snapshot.GPU{HealthReason: "GPU is lost"}},
			`lost: the driver says: "GPU is lost"`},
		{"missing", board.GPU{State: board.Lost, Reason: board.ReasonMissing}, "lost: the driver does not list it"},
		{"unknown", board.GPU{State: board.Unknown, Reason: "new-reason"}, "unknown: new-reason"},
		{"drained", board.GPU{State: board.Drained, Booking: eva}, "maintenance; booked by eva until 11:42 (sweep)"},
		{"drained host", board.GPU{State: board.Drained}, "maintenance: host out of service"},
	} {
		if got := Why(b, &c.gpu, Options{}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "just now", -time.Hour: "just now", 999 * time.Millisecond: "just now", time.Second: "1 second ago",
		59 * time.Second: "59 seconds ago",
		time.Minute:      "1 minute ago", 119 * time.Minute: "1 hour ago", 47 * time.Hour: "1 day ago",
		48 * time.Hour:       "2 days ago",
		364 * 24 * time.Hour: "364 days ago", 800 * 24 * time.Hour: "2 years ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	if long, short := inUnits(90*time.Minute, false), inUnits(50*time.Hour, true); long != "1 hour" || short != "2 d" ||
		inUnits(0, true) != "" {
		t.Errorf("%q, %q, %q", long, short, inUnits(0, true))
	}
}

// A process that stands there twice, as on two instances of one GPU, and a
// person with two processes are one each.
func TestListNamesEachOnce(t *testing.T) {
	b := oneNode(t, "gaia")
	g := &b.Hosts[0].GPUs[0]
	g.Processes = append(g.Processes, g.Processes[0], g.Processes[0])
	g.Processes[len(g.Processes)-1].PID++
	if s := listText(t, b, Options{Width: 200}); !strings.Contains(s, "  991,992  ") ||
		strings.Contains(s, "lea,lea") ||
		strings.Contains(s, "render,render") {
		t.Error(s)
	}
}

func TestListReturnsTheWritersError(t *testing.T) {
	if err := List(brokenPipe{}, boardtest.Lab().Board, Options{}); !errors.Is(err, errPipe) {
		t.Errorf("got %v", err)
	}
}

// TestSitesOfOtherClusters: a line each above the hosts, or alone; one that is late says nothing of what is free.
func TestSitesOfOtherClusters(t *testing.T) {
	status := func(in render.Input, opt Options) string {
		var b strings.Builder
		if err := Status(&b, in.Board, opt); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	front := boardtest.WithSites(render.Input{Board: &board.Board{GeneratedAt: boardtest.Now}})
	for _, in := range []render.Input{boardtest.WithSites(boardtest.Lab()), front} {
		got := status(in, Options{ASCII: true})
		for _, want := range []string{"\ncluster ", "\nnorth ", " 10 of 62 + 2 MIG ", "4 x A100 40 GB", " 09:42\n",
			"\nsouth ", " ? of 31 ", " 09:30, late\n", "\nfolder ", " never\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
	if got := status(front, Options{}); !strings.HasPrefix(got, "10 of 93 GPUs and 2 of 9 MIG slices free: 4 x H100") ||
		strings.Contains(got, "host ") {
		t.Errorf("without hosts:\n%s", got)
	}
	if got := status(boardtest.WithSites(boardtest.Lab()), Options{Hosts: []string{"atlas"}}); strings.Contains(got,
		"north") {
		t.Errorf("of one host:\n%s", got)
	}
}
