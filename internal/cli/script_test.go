package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	ical "github.com/emersion/go-ical"
	"github.com/rogpeppe/go-internal/testscript"

	"gpuboard/internal/cli"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/fakeps"
	"gpuboard/internal/testenv/fakesmi"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/proctest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gpuboard":   func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"nvidia-smi": fakesmi.Main,
		"fake-ps":    fakeps.Main, // not called ps, so that other scripts have the real one
	})
}

// TestScripts runs the program as a person would: one script per command, what
// goes wrong first.
func TestScripts(t *testing.T) {
	captures, err := filepath.Abs("../../collector/nvidiasmi/testdata")
	if err != nil {
		t.Fatal(err)
	}
	older, err := filepath.Abs("testdata/older")
	if err != nil {
		t.Fatal(err)
	}
	node, err := filepath.Abs("testdata/node")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CAPTURES", captures)
			env.Setenv("NODE", node)
			env.Setenv("OLDER", older)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Setenv("HOME", env.WorkDir)
			// A script that fails half-way leaves the loops that it has started.
			env.Defer(func() { proctest.KillAll("HOME="+env.WorkDir, time.Now().Add(need.Patience)) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"clock": setClockOff},
	})
}

// setClockOff is the command "clock FILE DURATION" of a script: it rewrites a node's latest
// snapshot as if the node's clock were ahead by that much, or behind.
func setClockOff(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: clock FILE DURATION")
	}
	off, err := time.ParseDuration(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	b, err := snapshot.DecodeBundle(bytes.NewReader(data))
	ts.Check(err)
	b.Snapshot.CollectedAt = snapshot.TimeOf(b.Snapshot.CollectedAt.Add(off))
	for i := range b.Samples {
		b.Samples[i].At = b.Samples[i].At.Add(off)
	}
	data, err = snapshot.EncodeBundle(b)
	ts.Check(err)
	ts.Check(os.WriteFile(path, data, 0o600))
}

// TestNotifyPage: what the page about hooks tells people to write is understood,
// and it names every event and every key.
func TestNotifyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/notify.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "chat.url"), []byte("https://chat.example.org/hooks/SECRET\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "gpuboard.yml")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(example, "/etc/gpuboard/", dir+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := cli.Main([]string{"notify", "--config", config, "--state", dir}, nil, &stdout, &stderr)
	want := "chat (https://chat.example.org/…): 0 waiting\nadmins (admins@lab.example.org): 0 waiting\nmembers (people): 0 waiting\nlights (/usr/local/bin/lights): 0 waiting\n"
	if code != 0 || stdout.String() != want || stderr.Len() > 0 {
		t.Errorf("exit %d\n%s%s\nwant\n%s", code, stdout.String(), stderr.String(), want)
	}
}

// A calendarEntry is one booking as comments.json has it, and what its event has
// to say.
type calendarEntry struct {
	host, gpu, name, comment, from, until string
	starts, ends                          string // in UTC; "" for an end that is open
}

// hostileEntries hold what calendars choke on: separators, lines that look like
// those of a calendar, characters of several bytes where a line is folded, no
// end, and the days on which clocks change in Paris.
var hostileEntries = []calendarEntry{
	{"gpu01", "0", "ada", `a; b, c \ d: "e" \n \, \;`, "2026-11-20 09:00", "2026-11-22 18:00", "2026-11-20T08:00",
		"2026-11-22T17:00"},
	{"gpu01", "1", "ada", "one\r\nEND:VEVENT\r\nEND:VCALENDAR\nBEGIN:VALARM", "2026-11-20 09:00", "2026-11-22 18:00",
		"2026-11-20T08:00", "2026-11-22T17:00"},
	{"gpu01", "2", "Zoë; DROP,TABLE", strings.Repeat("日本語のコメント、", 15), "2026-11-20 09:00", "2026-11-22 18:00",
		"2026-11-20T08:00", "2026-11-22T17:00"},
	{"gpu01", "3", "eve\r\nATTENDEE:mailto:x", "\u202eevil\u0007\x1b[31m" + strings.Repeat("😀", 60), "2026-11-20 09:00",
		"2026-11-22 18:00", "2026-11-20T08:00", "2026-11-22T17:00"},
	{"gpu02", "*", "admins", strings.Repeat("x", 500), "2026-11-21 08:00", "2026-11-21 18:00", "2026-11-21T07:00",
		"2026-11-21T17:00"},
	{"gpu02", "0", "ada", "nobody knows until when", "2026-11-23 10:00", "", "2026-11-23T00:00", ""},
	// 2027-03-28: 02:00 to 03:00 are skipped. 2027-10-31: they come twice, and an
	// end is the later, a beginning the earlier.
	{"gpu02", "1", "lea", "over the spring", "2027-03-27 22:00", "2027-03-28 04:00", "2027-03-27T21:00",
		"2027-03-28T02:00"},
	{"gpu02", "2", "lea", "within the hour that comes twice", "2027-10-31 02:15", "2027-10-31 02:45",
		"2027-10-31T00:15", "2027-10-31T01:45"},
	{"gpu02", "3", "lea", "a day that is an hour longer", "2027-10-31", "2027-10-31", "2027-10-30T22:00",
		"2027-10-31T23:00"},
}

// Every calendar of the site, and the one that bookings prints, is read by a
// library that did not write it, and says what comments.json does.
func TestCalendarsAreReadByAnotherLibrary(t *testing.T) {
	dir := t.TempDir()
	data, site := filepath.Join(dir, "data"), filepath.Join(dir, "site")
	for _, d := range []string{data, site} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hosts := map[string]map[string]map[string]string{}
	for _, e := range hostileEntries {
		if hosts[e.host] == nil {
			hosts[e.host] = map[string]map[string]string{}
		}
		entry := map[string]string{"name": e.name, "comment": e.comment, "from": e.from, "kind": "booking"}
		if e.until != "" {
			entry["date"] = e.until
		}
		hosts[e.host][e.gpu] = entry
	}
	comments, err := json.Marshal(hosts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "comments.json"), comments, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUBOARD_CONFIG", "")
	t.Setenv("GPUBOARD_TIMEZONE", "Europe/Paris")
	t.Setenv("GPUBOARD_DATA", data)
	t.Setenv("GPUBOARD_SITE", site)
	run := func(args ...string) []byte {
		t.Helper()
		var out, problems bytes.Buffer
		if code := cli.Main(args, strings.NewReader(""), &out, &problems); code != 0 && code != 3 {
			t.Fatalf("gpuboard %s: exit %d\n%s", strings.Join(args, " "), code, problems.String())
		}
		return out.Bytes()
	}
	const now = "--now=2026-11-20T10:42:00Z"
	run("generate", "--state", filepath.Join(dir, "state"), "--hosts", "gpu01,gpu02", now)

	calendars := map[string][]byte{"printed": run("bookings", "--ics", now)}
	if err := filepath.WalkDir(site, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".ics") {
			rel, _ := filepath.Rel(site, path)
			calendars[filepath.ToSlash(rel)], err = os.ReadFile(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	all := func(calendarEntry) bool { return true }
	want := map[string]func(calendarEntry) bool{"printed": all, "bookings.ics": all}
	for _, e := range hostileEntries {
		want["hosts/"+e.host+".ics"] = func(o calendarEntry) bool { return o.host == e.host }
	}
	users := map[string]func(calendarEntry) bool{} // by what the calendar is called
	for _, e := range hostileEntries {
		users[snapshot.Text(e.name, snapshot.MaxTextBytes)] = func(o calendarEntry) bool { return o.name == e.name }
	}
	for file, content := range calendars {
		cal := readCalendar(t, file, content)
		belongs := want[file]
		if strings.HasPrefix(file, "users/") {
			_, called, _ := strings.Cut(textOf(t, cal.Props, "X-WR-CALNAME"), ": ")
			if belongs = users[called]; belongs == nil {
				t.Errorf("%s is called %q, and nobody is", file, called)
				continue
			}
			delete(users, called)
		}
		if belongs == nil {
			t.Errorf("%s is a calendar of nothing", file)
			continue
		}
		delete(want, file)
		var expected []calendarEntry
		for _, e := range hostileEntries {
			if belongs(e) {
				expected = append(expected, e)
			}
		}
		compareCalendar(t, file, cal, expected)
	}
	if len(want) > 0 || len(users) > 0 {
		t.Errorf("without a calendar: %v, %v", want, users)
	}
}

// readCalendar reads the lines as RFC 5545 has them (3.1: 75 bytes, CR LF, no
// character torn apart), then the calendar. Writing it again makes the library
// check which properties an object must and may have.
func readCalendar(t *testing.T, file string, content []byte) *ical.Calendar {
	t.Helper()
	for line := range bytes.Lines(content) {
		body, whole := bytes.CutSuffix(line, []byte("\r\n"))
		if !whole || len(body) > 75 || !utf8.Valid(body) ||
			bytes.ContainsFunc(body, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) {
			t.Errorf("%s has the line %q", file, line)
		}
	}
	decoder := ical.NewDecoder(bytes.NewReader(content))
	cal, err := decoder.Decode()
	if err != nil {
		t.Fatalf("%s: %v\n%s", file, err, content)
	}
	if _, err := decoder.Decode(); err == nil {
		t.Errorf("%s holds a second calendar", file)
	}
	if len(cal.Children) > 0 {
		var again bytes.Buffer
		if err := ical.NewEncoder(&again).Encode(cal); err != nil {
			t.Errorf("%s is no calendar as RFC 5545 has it: %v", file, err)
		}
	}
	return cal
}

// textOf is one text, not a list of them as an unescaped comma would make it.
func textOf(t *testing.T, props ical.Props, name string) string {
	t.Helper()
	p := props.Get(name)
	if p == nil {
		return ""
	}
	p.Params.Del(ical.ParamValue)
	p.SetValueType(ical.ValueText)
	list, err := p.TextList()
	if err != nil || len(list) != 1 {
		t.Errorf("%s is %q: %v", name, list, err)
		return ""
	}
	return list[0]
}

func compareCalendar(t *testing.T, file string, cal *ical.Calendar, expected []calendarEntry) {
	t.Helper()
	var got, want []string
	seen := map[string]bool{}
	for _, c := range cal.Children {
		if c.Name != ical.CompEvent || len(c.Children) > 0 {
			t.Errorf("%s holds a %s with %d parts", file, c.Name, len(c.Children))
		}
	}
	for _, e := range cal.Events() {
		uid := textOf(t, e.Props, ical.PropUID)
		if uid == "" || seen[uid] {
			t.Errorf("%s: an event is %q", file, uid)
		}
		seen[uid] = true
		for name := range e.Props {
			if !slices.Contains(
				[]string{"UID", "SUMMARY", "DTSTAMP", "DTSTART", "DTEND", "RRULE", "DESCRIPTION", "LOCATION", "STATUS",
					"TRANSP"}, name) {
				t.Errorf("%s: %s has a %s", file, uid, name)
			}
		}
		from, err := e.DateTimeStart(time.UTC)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		ends := ""
		if e.Props.Get(ical.PropDateTimeEnd) != nil {
			until, err := e.DateTimeEnd(time.UTC)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			ends = until.UTC().Format("2006-01-02T15:04")
		} else if days, err := e.RecurrenceSet(time.UTC); err != nil || days == nil ||
			len(days.Between(from, from.AddDate(0, 0, 9), true)) != 10 {
			t.Errorf("%s: %s has no end, and does not go on for ever: %v", file, uid, err)
		}
		got = append(got,
			fmt.Sprintf("%s from %s until %s at %s: %s", textOf(t, e.Props, ical.PropSummary),
				from.UTC().Format("2006-01-02T15:04"), ends,
				textOf(t, e.Props, ical.PropLocation), textOf(t, e.Props, ical.PropDescription)))
	}
	for _, e := range expected {
		what := e.host + " GPU " + e.gpu
		if e.gpu == "*" {
			what = e.host + " (whole host)"
		}
		comment := snapshot.Text(e.comment, snapshot.MaxTextBytes)
		if e.until == "" {
			comment += "\nNo end is given."
		}
		want = append(want,
			fmt.Sprintf("%s: %s from %s until %s at %s: %s", what, snapshot.Text(e.name, snapshot.MaxTextBytes),
				e.starts, e.ends, e.host, comment))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s says\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLogIsRotated: a loop goes on writing to its log after logrotate was there.
func TestLogIsRotated(t *testing.T) {
	program := need.Program(t, "logrotate")
	t.Parallel()
	capture, err := filepath.Abs("../../collector/nvidiasmi/testdata/idle-8x-a100-550.xml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile("../../deploy/logrotate/gpuboard")
	if err != nil {
		t.Fatal(err)
	}
	b := &beginner{t: t, dir: t.TempDir()}
	b.env = append(os.Environ(), "HOME="+b.dir, "GPUBOARD_SPOOL="+b.dir+"/spool", "GPUBOARD_TO=file://"+b.dir+"/data",
		"GPUBOARD_EVERY=2s", "GPUBOARD_FAKE_SMI="+capture)
	log := b.dir + "/spool/run.log"
	until := func(what string) []byte {
		t.Helper()
		deadline := time.Now().Add(need.Patience)
		for {
			text, _ := os.ReadFile(log)
			if bytes.Contains(text, []byte(what)) {
				return text
			}
			if time.Now().After(deadline) {
				t.Fatalf("the log has no %q:\n%s", what, text)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Cleanup(func() { b.types("gpuboard check kill") })
	if out, code := b.types("gpuboard check gpu01"); code != 3 { // it cannot push
		t.Fatal(out)
	}
	until("publishing: ") // there is no data directory

	own := strings.Replace(string(shipped), "/var/lib/gpuboard/spool/run.log", log, 1)
	if own = strings.Replace(own, "\tsu gpuboard gpuboard\n", "", 1); own == string(shipped) {
		t.Fatal("the file is not what this test knows")
	}
	if err := os.WriteFile(b.dir+"/conf", []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "--force", "--state", b.dir+"/state",
		b.dir+"/conf").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if old, err := os.ReadFile(log + ".1.gz"); err != nil || len(old) < 20 {
		t.Errorf("set aside: %d bytes, %v", len(old), err)
	}
	if err := os.Mkdir(b.dir+"/data", 0o755); err != nil {
		t.Fatal(err)
	}
	if text := until("well again"); !bytes.HasPrefix(text, []byte("gpuboard: ")) ||
		bytes.Contains(text, []byte("opening the data")) {
		t.Errorf("after that it begins with %q", text[:min(len(text), 80)])
	}
	out, _ := b.types("gpuboard doctor node --host gpu01 --json")
	var report struct {
		Findings []struct{ State, Code, Message string }
	}
	if err := json.Unmarshal([]byte(out[max(0, strings.IndexByte(out, '{')):]), &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := map[string]bool{}
	for _, f := range report.Findings {
		said[f.Code] = true
		if area, _, _ := strings.Cut(f.Code, ":"); f.State == "bad" && area != "smi" { // how fast the node is read is not the matter
			t.Errorf("what was set aside disturbs: %s: %s", f.Code, f.Message)
		}
	}
	if !said["spool:ok"] || !said["loop:ok"] {
		t.Errorf("the doctor does not know of the spool and the loop:\n%s", out)
	}
}
