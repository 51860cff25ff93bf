package sitegen_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/events"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/text"
)

// A whoCase is one GPU, on a host of its own, and who is on it.
type whoCase struct {
	name    string
	p       snapshot.Process
	hidden  bool  // the driver does not tell its processes
	used    int64 // MiB
	state   board.State
	person  string // who uses it
	likely  string // who likely uses it
	unknown string // who uses it without being known
	left    string // who left its memory
}

func (c whoCase) host() string { return strings.ReplaceAll(c.name, " ", "-") }

// user is who uses the GPU, in words.
func (c whoCase) user() string {
	if c.likely != "" {
		return c.likely + "?"
	}
	return c.person + c.unknown
}

// shown is the same, or who left the memory of the GPU.
func (c whoCase) shown() string { return c.user() + c.left }

func whoCases() []whoCase {
	const full = 20000
	uid := func(n int64) *int64 { return &n }
	root := snapshot.Process{User: "root", UID: uid(0), Type: snapshot.Compute, Program: "python3"}
	with := func(p snapshot.Process, change func(*snapshot.Process)) snapshot.Process { change(&p); return p }
	of := func(user string, n int64) snapshot.Process {
		return with(root, func(p *snapshot.Process) { p.User, p.UID = user, uid(n) })
	}
	in := func(p snapshot.Process) snapshot.Process {
		return with(p, func(p *snapshot.Process) { p.Container = "a1b2c3d4" })
	}
	gone := func(p snapshot.Process) snapshot.Process {
		return with(p, func(p *snapshot.Process) {
			p.Alive = new(false)
			p.Children = []snapshot.Child{{PID: 71, User: "root"}, {PID: 72, User: "100998"}, {PID: 73, User: "lea"}}
		})
	}
	return []whoCase{
		{name: "compute", p: of("ada", 1001), used: full, state: board.Busy, person: "ada"},
		{
			name: "both", p: with(of("bea", 1002), func(p *snapshot.Process) { p.Type = snapshot.ComputeGraphics }), used: full,
			state: board.Busy, person: "bea",
		},
		{
			name: "a type of tomorrow", p: with(of("cem", 1003), func(p *snapshot.Process) { p.Type = "M" }), used: full,
			state: board.Busy, person: "cem",
		},
		{name: "digits", p: of("20210015", 5012), used: full, state: board.Busy, person: "20210015"},
		{name: "a person in a container", p: in(of("dora", 1004)), used: full, state: board.Busy, likely: "dora"},
		{
			name: "rootless", p: with(in(of("rhea", 1011)), func(p *snapshot.Process) { p.OwnUserNamespace = true }), used: full,
			state: board.Busy, person: "rhea",
		},
		{name: "a question mark", p: of("?", 1012), used: full, state: board.Busy, unknown: "unknown (uid 1012)"},
		{
			name: "no login", p: of("ada curl evil;sh", 1013), used: full, state: board.Busy,
			unknown: "unknown (ada curl evil;sh)",
		},
		{name: "a uid without a name", p: of("", 1014), used: full, state: board.Busy, unknown: "unknown (uid 1014)"},
		{name: "digits of a system account", p: of("2021", 998), used: full, state: board.Busy, unknown: "unknown (2021)"},
		{
			name: "graphics",
			p:    with(of("gdm", 120), func(p *snapshot.Process) { p.Type, p.Program = snapshot.Graphics, "Xorg" }), used: 300,
			state: board.Free,
		},
		{
			name: "graphics of a person",
			p:    with(of("eva", 1005), func(p *snapshot.Process) { p.Type, p.Program = snapshot.Graphics, "Xorg" }), used: 300,
			state: board.Free,
		},
		{
			name: "mps", p: with(root, func(p *snapshot.Process) { p.Program = "nvidia-cuda-mps-server" }), used: 30,
			state: board.Free,
		},
		{name: "dcgm", p: with(root, func(p *snapshot.Process) { p.Program = "nv-hostengine" }), used: 30, state: board.Free},
		{
			name: "dcgm of a person", p: with(of("fay", 1006), func(p *snapshot.Process) { p.Program = "nv-hostengine" }),
			used: 30, state: board.Busy, person: "fay",
		},
		{
			name: "dead", p: gone(snapshot.Process{Type: snapshot.Compute, Program: "python3"}), used: full, state: board.Stuck,
			left: "unknown",
		},
		{name: "zombie", p: gone(of("kai", 1007)), used: full, state: board.Stuck, left: "kai"},
		{name: "zombie of root", p: gone(root), used: full, state: board.Stuck, left: "unknown (root)"},
		{name: "zombie in a container", p: gone(in(of("lou", 1015))), used: full, state: board.Stuck, left: "lou?"},
		{name: "root", p: root, used: full, state: board.Busy, unknown: "unknown (root)"},
		{
			name: "root in a container", p: in(root), used: full, state: board.Busy,
			unknown: "unknown (root in container a1b2c3d4)",
		},
		{
			name: "a mapped uid", p: in(of("100999", 100999)), used: full, state: board.Busy,
			unknown: "unknown (uid 100999 in container a1b2c3d4)",
		},
		{
			name: "root by a session", used: full, state: board.Busy, person: "sam",
			p: with(root, func(p *snapshot.Process) { p.Claims = []snapshot.Claim{{User: "sam", Source: snapshot.BySession}} }),
		},
		{
			name: "a container with a name", used: full, state: board.Busy, unknown: "unknown (root in container vllm_1)",
			p: with(in(root), func(p *snapshot.Process) { p.ContainerName = "vllm_1" }),
		},
		{
			name: "a pod", used: full, state: board.Busy, unknown: "unknown (root in pod lab/train-0)",
			p: with(in(root), func(p *snapshot.Process) { p.Pod = "lab/train-0" }),
		},
		{
			name: "a Slurm job", used: full, state: board.Busy, unknown: "unknown (root in Slurm job 42)",
			p: with(root, func(p *snapshot.Process) { p.Job = "42" }),
		},
		{name: "a bare uid", p: of("100999", 100999), used: full, state: board.Busy, unknown: "unknown (uid 100999)"},
		{name: "a service account", p: of("ci", 1500), used: full, state: board.Busy, unknown: "unknown (ci)"},
		{name: "a system account", p: of("munge", 998), used: full, state: board.Busy, unknown: "unknown (munge)"},
		{
			name: "an older drop", p: snapshot.Process{User: "root", Type: snapshot.Compute, Program: "python3"}, used: full,
			state: board.Busy, unknown: "unknown (root)",
		},
		{
			name: "nothing known", p: snapshot.Process{Type: snapshot.Compute}, used: full, state: board.Busy,
			unknown: "unknown",
		},
		{
			name: "a name that ps has cut", p: of("averyver+", 1010), used: full, state: board.Busy,
			unknown: "unknown (averyver+)",
		},
		{name: "processes not told", hidden: true, used: full, state: board.Busy, unknown: "unknown"},
	}
}

// whoBoard merges one host for each case.
func whoBoard(cases []whoCase, now time.Time, booked ...booking.Booking) (*board.Board, map[string]*snapshot.Snapshot) {
	in := board.Input{
		Calendar: &booking.Calendar{Bookings: booked}, Now: now, Interval: 20 * time.Second,
		Reports: map[string]board.Report{}, Settings: board.Settings{ServiceAccounts: []string{"ci"}},
	}
	snaps := map[string]*snapshot.Snapshot{}
	for i, c := range cases {
		p := c.p
		p.PID, p.UsedMemory = 4000+i, new(c.used)
		if p.Alive == nil {
			p.Alive = new(true)
		}
		if p.StartedAt == nil && *p.Alive {
			p.StartedAt = &snapshot.Time{Time: now.Add(-time.Hour)}
		}
		snap := &snapshot.Snapshot{
			Host: c.host(), CollectedAt: snapshot.Time{Time: now}, IntervalSeconds: 20, GPUsComplete: true,
			Processes: []snapshot.Process{p},
			GPUs: []snapshot.GPU{{
				UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA A100", Health: snapshot.HealthOK, MemoryTotal: new(int64(40960)),
				MemoryUsed: new(c.used), Readings: snapshot.Readings{UtilizationGPU: new(0)},
			}},
		}
		if c.hidden {
			snap.Processes, snap.GPUs[0].ProcessesUnknown = []snapshot.Process{}, "N/A"
		}
		snaps[c.host()] = snap
		in.Hosts = append(in.Hosts, inventory.Host{Name: c.host()})
		in.Reports[c.host()] = board.Report{Snapshot: snap}
	}
	b, _ := board.Merge(in)
	return b, snaps
}

// Whatever somebody asks, the answer to who is on a GPU is one.
func TestEveryFaceNamesTheSame(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)
	cases := whoCases()
	b, snaps := whoBoard(cases, now)
	files := whoFiles(t, b)
	var sheet bytes.Buffer
	if err := data.WriteCSV(&sheet, b); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&sheet).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	_, seen := events.Diff(events.Memory{}, b)
	front, search := whoLines(t, files["index.html"])
	hidden := b.Mask(board.Privacy{Programs: board.ProgramsHidden})
	maskedFiles := whoFiles(t, hidden)

	people := map[string]bool{}
	for _, c := range cases {
		h := hostNamed(b, c.host())
		g := &h.GPUs[0]
		if g.State != c.state {
			t.Errorf("%s: %s, want %s", c.name, g.State, c.state)
		}
		face := func(name, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s says %q, want %q", c.name, name, got, want)
			}
		}
		if c.person != "" {
			people[c.person] = true
		}

		for name, from := range map[string]map[string]string{"the API": files, "the API without programs": maskedFiles} {
			var doc struct {
				GPUs []struct {
					Users   []string `json:"users"`
					Likely  []string `json:"likely_users"`
					Unknown []string `json:"unknown_users"`
					Left    []string `json:"left"`
				} `json:"gpus"`
			}
			if err := json.Unmarshal([]byte(from["api/v1/hosts/"+c.host()+".json"]), &doc); err != nil {
				t.Fatal(err)
			}
			face(name, fmt.Sprint(doc.GPUs[0].Users, doc.GPUs[0].Likely, doc.GPUs[0].Unknown, doc.GPUs[0].Left),
				fmt.Sprintf("[%s] [%s] [%s] [%s]", c.person, c.likely, c.unknown, c.left))
		}
		back, _, err := data.ReadHost(strings.NewReader(files["api/v1/hosts/"+c.host()+".json"]))
		if err != nil {
			t.Fatal(err)
		}
		read := &back.GPUs[0]
		face("the API read back", fmt.Sprint(read.Users(), read.Likely(), read.Unknown(), read.Left()),
			fmt.Sprintf("[%s] [%s] [%s] [%s]", c.person, c.likely, c.unknown, c.left))

		column := func(name string) string {
			row := slices.IndexFunc(lines, func(l []string) bool { return l[0] == c.host() })
			return lines[row][slices.Index(lines[0], name)]
		}
		face("CSV's users", column("users"), strings.TrimSuffix(c.user(), c.unknown))
		face("CSV's unknown users", column("unknown_users"), c.unknown)
		face("CSV's left", column("left"), c.left)
		if program := column("programs"); (program != "") != (c.user() != "" && c.p.Program != "") {
			t.Errorf("%s: CSV has the program %q", c.name, program)
		}

		left := c.left
		if left != "" {
			left = "left by " + left
		}
		content := files["hosts/"+c.host()+"/index.html"]
		if onPage := whoOnPage(t, content); !c.hidden {
			face("the host's page", onPage, c.user())
		} else if onPage != "" || !strings.Contains(content, "user unknown") {
			t.Errorf("%s: the host's page says %q, and not that the user is unknown", c.name, onPage)
		}
		face("the host's page, of a stuck GPU", regexp.MustCompile(`left by [^<]*`).FindString(content), left)
		now := regexp.MustCompile(`(?s)<a href="../hosts/` + c.host() +
			`/[^>]*>[^<]*</a></th>\s*<td>(.*?)</td>`).FindStringSubmatch(files["history/index.html"])
		if (now != nil) != (c.left != "") || now != nil && whoNamed(now[1]) != c.left {
			t.Errorf("%s: the page of the past has %q, want %q", c.name, now, c.left)
		}
		face("a line of the front page", front[c.host()], c.user()+left)
		face("the search", strings.TrimSuffix(search[c.host()], " "+c.p.Program), c.shown())
		metric := ""
		if m := regexp.MustCompile(`gpuboard_gpu_left\{host="` + c.host() +
			`",gpu="0",user="(.*)"\} 1`).FindStringSubmatch(files["metrics.txt"]); m != nil {
			metric = m[1]
		}
		face("the metrics", metric, c.left)
		stale := *b
		stale.Hosts = []board.Host{*h}
		stale.Hosts[0].GPUs = slices.Clone(h.GPUs)
		stale.Expire()
		face("what was last seen", strings.Join(stale.Hosts[0].GPUs[0].Last.Users, " "),
			c.person+regexp.MustCompile(`^(unknown.*|.*\?)$`).ReplaceAllString(c.left, ""))

		pid := fmt.Sprint(4000 + slices.IndexFunc(cases, func(of whoCase) bool { return of.name == c.name }))
		if who := c.shown(); who != "" && !c.hidden {
			detail := &bytes.Buffer{}
			if err := text.Status(detail, b, text.Options{Width: 300, Detail: true, Hosts: []string{c.host()}}); err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(pid + " " + regexp.QuoteMeta(who) + "( \\(gone\\))?  ").Match(detail.Bytes()) {
				t.Errorf("%s: the process in detail is not that of %s:\n%s", c.name, who, detail)
			}
			face("vesta's shape",
				regexp.MustCompile(`"user":"([^"]*)"`).FindStringSubmatch(files["states/"+c.host()+"/index.json"])[1], who)
			for _, child := range []string{"unknown (root)", "unknown (uid 100998)", "lea"} {
				for name, said := range map[string]string{"detail": detail.String(), "the host's page": content} {
					if c.left != "" && !strings.Contains(said, child) {
						t.Errorf("%s: %s does not name the child of %s", c.name, name, child)
					}
				}
			}
		}

		status, list := &bytes.Buffer{}, &bytes.Buffer{}
		alone := *b
		alone.Hosts = []board.Host{*h}
		if err := text.Status(status, &alone, text.Options{Width: 300}); err != nil {
			t.Fatal(err)
		}
		cells := strings.Split(strings.Split(status.String(), "\n")[5], "|")
		face("status", strings.TrimSpace(cells[7]), c.user()+left)
		if err := text.List(list, &alone, text.Options{Width: 300}); err != nil {
			t.Fatal(err)
		}
		if has := slices.Contains(regexp.MustCompile(` {2,}|\n`).Split(list.String(), -1),
			c.user()); c.user() != "" && !has ||
			strings.Contains(list.String(), pid) != (c.shown() != "" && !c.hidden) {
			t.Errorf("%s: list says\n%s", c.name, list)
		}
		face("list, of a stuck GPU",
			regexp.MustCompile(`belongs to pid \d+ \((.*)\), which`).ReplaceAllString(
				regexp.MustCompile(`belongs to pid .*, which`).FindString(list.String()),
				"$1",
			), c.left)
		for _, name := range []string{c.person, c.p.User} {
			if name == "" {
				continue
			}
			want := name == c.person || name == c.likely || name == strings.TrimSuffix(c.left, "?")
			for from, of := range map[string]*board.Host{"the board": h, "the API": back} {
				if _, shown := text.Shown(of, text.Options{User: name}); shown != want {
					t.Errorf("%s: status --user %s shows it from %s: %t", c.name, name, from, shown)
				}
			}
		}

		var agent struct {
			GPUs []struct{ Users, PIDs string }
		}
		if err := json.Unmarshal([]byte(files["compat/gpu_status/"+c.host()+".json"]), &agent); err != nil {
			t.Fatal(err)
		}
		short := c.shown()
		if strings.HasPrefix(short, "unknown") {
			short = "?" // for each process
		}
		if c.hidden {
			short = ""
		}
		face("nvgpu's shape", agent.GPUs[0].Users, short)
		var monitor struct {
			Nodes []struct {
				Hostname string
				GPUs     []struct {
					Users []struct{ Username string }
				}
			}
		}
		if err := json.Unmarshal([]byte(files["compat/get-status.json"]), &monitor); err != nil {
			t.Fatal(err)
		}
		name := ""
		for _, m := range monitor.Nodes {
			if m.Hostname == c.host() && len(m.GPUs[0].Users) > 0 {
				name = m.GPUs[0].Users[0].Username
			}
		}
		if !c.hidden { // its users are those of processes
			face("gpu-cluster-monitor's shape", name, c.shown())
		}

		who := ""
		for _, j := range b.Jobs(booking.Booking{Host: c.host(), Target: booking.Target{All: true, Index: -1}},
			func(string) bool { return false }) {
			who += j.Who.String()
		}
		face("book", who, c.user())
		remembered := ""
		for key, memory := range seen.GPUs {
			if strings.HasPrefix(key, c.host()+"/") {
				remembered = strings.Join(memory.Users, " ")
			}
		}
		face("an event", remembered, c.person)

		sample := map[string]bool{}
		for _, u := range snaps[c.host()].Sample().GPUs[0].Users {
			sample[u.User] = true
		}
		delete(sample, "")
		for _, nobodys := range []string{"ci", "averyver+"} { // the web host leaves them out of all sums
			delete(sample, nobodys)
		}
		face("a sample of history", strings.Join(slices.Collect(maps.Keys(sample)), " "),
			strings.TrimSuffix(c.user(), c.unknown))
	}

	want := slices.Sorted(maps.Keys(people))
	for name, got := range map[string][]string{
		"the board":         whoMatches(files["api/v1/users.json"], `"name":"([^"]*)"`),
		"the metrics":       whoMatches(files["metrics.txt"], `gpuboard_user_gpus_used\{user="([^"]*)"`),
		"the list of pages": whoMatches(files["users/index.html"], `href="[^"]*users/[^"/]+/index\.html"[^>]*>([^<]*)</a>`),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("people of %s: %q, want %q", name, got, want)
		}
	}
	calendars := 0
	for path := range files {
		if strings.HasPrefix(path, "users/") && strings.HasSuffix(path, ".ics") {
			calendars++
		}
	}
	if calendars != len(want) {
		t.Errorf("%d calendars of people, want %d", calendars, len(want))
	}
}

// Where lea has booked everything, only a person who is known contests it, and every face says so.
func TestEveryFaceNamesTheSameWhereSomebodyHasBooked(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)
	cases := whoCases()
	by := func(name, host string, kind booking.Kind) booking.Booking {
		return booking.Booking{
			ID: name + host, Host: host, Name: name, Kind: kind, Target: booking.Target{All: true, Index: -1},
			From: now.Add(-2 * time.Hour), Until: now.Add(time.Hour),
		}
	}
	booked := []booking.Booking{by("second", "graphics", booking.Reserved), by("admin", "maintained", booking.Maintenance)}
	for _, c := range cases {
		booked = append(booked, by("LEA", c.host(), booking.Reserved))
	}
	free := snapshot.Process{User: "lea", UID: new(int64(1020)), Type: snapshot.Graphics, Program: "Xorg"}
	cases = append(cases, whoCase{name: "maintained", p: free, used: 30, state: board.Drained})
	b, _ := whoBoard(cases, now, booked...)
	files := whoFiles(t, b)
	for _, c := range cases {
		want := c.state
		switch {
		case want == board.Free:
			want = board.Booked
		case c.person != "":
			want = board.Contested
		case want == board.Busy:
			want = board.InUse
		}
		status := &bytes.Buffer{}
		if err := text.Status(status, b, text.Options{Width: 300, Hosts: []string{c.host()}}); err != nil {
			t.Fatal(err)
		}
		agent := files["compat/gpu_status/"+c.host()+".json"]
		for face, says := range map[string]bool{
			"the API": strings.Contains(files["api/v1/hosts/"+c.host()+".json"], `"state":"`+string(want)+`","reason"`),
			"the metrics": strings.Contains(files["metrics.txt"],
				`gpuboard_gpu_state{host="`+c.host()+`",gpu="0",state="`+string(want)+`"} 1`),
			"the host's page": strings.Contains(files["hosts/"+c.host()+"/index.html"], `class="row `+string(want)),
			"status":          strings.Contains(status.String(), "| "+string(want)+" "),
			"nvgpu's shape":   strings.Contains(agent, `"is_available":false`),
		} {
			if !says {
				t.Errorf("%s: %s does not say %s", c.name, face, want)
			}
		}
	}
	for _, u := range b.Users {
		if u.Name == "lea" && u.Reserved != len(cases)-1 || u.Name == "LEA" {
			t.Errorf("%s has booked %d GPUs, want %d of lea", u.Name, u.Reserved, len(cases)-1)
		}
	}
	for name, held := range map[string]int{"lea": len(cases) - 1, "second": 1, "admin": 0} {
		page := files["users/"+name+"/index.html"]
		if rows := strings.Count(page, `<th scope="row" class="gpu-index wide">`); page == "" || rows != held {
			t.Errorf("the page of %s has %d GPUs, want %d", name, rows, held)
		}
	}
}
