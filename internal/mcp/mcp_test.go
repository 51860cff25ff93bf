package mcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gpuboard/internal/cli"
	"gpuboard/internal/testenv/jsonschema"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/sitegen/data"
)

// A lab is a site and its bookings: ann uses gpu01:0, eva has booked gpu01:1, and ada asks.
type lab struct {
	dir     string
	session *sdk.ClientSession
}

// started is gpuboard mcp in a lab, with a client of the library.
func started(t *testing.T, args ...string) *lab {
	t.Helper()
	dir := t.TempDir()
	now := time.Now().UTC()
	comments := `{"gpu01": {"1": {"name": "eva", "date": "` + now.Add(3*time.Hour).Format("2006-01-02 15:04") + `"}}}`
	// It is late 50 s after that, and the machine may be slow.
	sitetest.Site{At: now.Add(50 * time.Second), Busy: []string{"gpu01:0"}, Comments: comments}.Write(t,
		filepath.Join(dir, "site"))
	if err := os.MkdirAll(filepath.Join(dir, "data", "drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "comments.json"), []byte(comments), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"CONFIG": "", "TIMEZONE": "UTC", "BOOKING_NAME": "ada", "SITE": dir + "/site", "DATA": dir + "/data",
		"STATE": dir + "/state",
	} {
		t.Setenv("GPUBOARD_"+name, value)
	}
	in, write := io.Pipe()
	read, out := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(append([]string{"mcp"}, args...), in, out, &stderr)
		out.Close()
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: read, Writer: write}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	t.Cleanup(func() {
		_ = session.Close()
		if code := <-ended; code != 0 || stderr.Len() > 0 {
			t.Errorf("it ends with %d\n%s", code, stderr.String())
		}
	})
	return &lab{dir, session}
}

// call calls a tool, and returns its words and its document, or the words of the error.
func (l *lab) call(t *testing.T, tool string, args map[string]any) (words string, doc []byte, failed bool) {
	t.Helper()
	result, err := l.session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error(), nil, true
	}
	for _, c := range result.Content[:1] {
		words += c.(*sdk.TextContent).Text
	}
	if doc, err = json.Marshal(result.StructuredContent); err != nil {
		t.Fatal(err)
	}
	return words, doc, result.IsError
}

func (l *lab) tools(t *testing.T) []string {
	t.Helper()
	list, err := l.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// Each answer has the schema of the file of the site, and says the same in words.
func TestAnswersHaveTheSchemasOfTheSite(t *testing.T) {
	l := started(t)
	if got := strings.Join(l.tools(t), " "); got != "find_free my_bookings when_free who_uses" {
		t.Errorf("without --allow-booking there are the tools %s", got)
	}
	type args = map[string]any
	for _, c := range []struct {
		tool   string
		args   args
		schema string
		words  string // regexps
		doc    string
	}{
		{"find_free", nil, "free.json", `^1 GPU can be used now: gpu02:0$`,
			`"free":1,.*"free_now":\[\{[^]]*"host":"gpu02"`},
		{"find_free", args{"count": 2}, "free.json", `^1 GPU can be used now, and you want 2; when_free`,
			`"free_now":\[\{[^]]*"host":"gpu02"`},
		{"find_free", args{"model": "a100"}, "free.json", `^0 GPUs can be used now, and you want 1`,
			`"free":0,.*"gpus":2,`},
		{"find_free", args{"memory": "30G", "hosts": []string{"gpu02"}}, "free.json", `^0 GPUs`, `"gpus":0,`},
		{"find_free", args{"for": "8h"}, "free.json", `^1 GPU can`, ``},
		{"who_uses", args{"place": "gpu01:0"}, "host.json", `^gpu01 is up\ngpu01:0: busy: ann \(.*\), for 2 days$`,
			`"person":"ann"`},
		{"who_uses", args{"place": "gpu01"}, "host.json", `\ngpu01:1: booked by eva until`, `"index":0.*"index":1`},
		{"when_free", nil, "free.json", `^1 GPU can be booked now: gpu02:0$`, `"free_now":\[\{[^]]*"host":"gpu02"`},
		{"when_free", args{"hosts": []string{"gpu01"}, "for": "2h"}, "free.json",
			`^1 GPU can be booked from .* UTC on: gpu01:1$`, `"next_free":\{.*"held_by":"eva","host":"gpu01"`},
		{"when_free", args{"count": 2, "model": "a100"}, "free.json",
			`^0 GPUs can be booked now, and when 2 can is not known: whoever uses`, ``},
		{"when_free", args{"count": 3, "model": "a100"}, "free.json", `never be 3: the board has 2`, ``},
		{"my_bookings", nil, "bookings.json", `^0 bookings$`, `"bookings":\[\]`},
	} {
		words, doc, failed := l.call(t, c.tool, c.args)
		if failed || !regexp.MustCompile("(?m)"+c.words).MatchString(words) || !regexp.MustCompile(c.doc).Match(doc) {
			t.Errorf("%s %v (error: %t): %s\n%s", c.tool, c.args, failed, words, doc)
			continue
		}
		schema, err := data.Schema(c.schema)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range jsonschema.Check(schema, doc) {
			t.Errorf("%s %v: %s", c.tool, c.args, wrong)
		}
	}
}

// Mistakes are answers in words, with what helps, and nothing that an agent says is a flag.
func TestMistakesAreAnswers(t *testing.T) {
	l := started(t, "--allow-booking")
	before, err := os.ReadFile(l.dir + "/data/comments.json")
	if err != nil {
		t.Fatal(err)
	}
	type args = map[string]any
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"find_free", args{"count": -1}, `count: -1 is not from 1 to 1000`},
		{"find_free", args{"count": 1 << 30}, `is not from 1 to 1000`},
		{"find_free", args{"count": "two"}, `count`},
		{"find_free", args{"memory": "much"}, `memory: "much" is no amount of memory.*\nhint: for instance 40G`},
		{"find_free", args{"for": "8h", "until": "18:00"}, `give one of them`},
		{"find_free", args{"until": "next friday"}, `can mean two days`},
		{"find_free", args{"hosts": []string{"../../etc"}}, `hosts: `},
		{"find_free", args{"colour": "red"}, `colour`},
		{"who_uses", nil, `place`},
		{"who_uses", args{"place": "gpu1:0"},
			`^there is no such place: the host "gpu1", which does not exist: did you mean "gpu01"`},
		{"who_uses", args{"place": "gpu01:7"},
			`^there is no such place: GPU 7 of "gpu01", which has 2, counted from 0\nhint: find_free lists`},
		{"who_uses", args{"place": "gpu01:GPU-\x00\x1b[31m"}, `place: `},
		{"who_uses", args{"place": strings.Repeat("gpu01:0,", 4000)}, `place: `},
		{"when_free", args{"for": "yesterday"}, `for instance for: 8h`},
		{"book", args{"places": []string{"gpu01:1"}, "for": "1h"},
			`^gpu01:1 is booked by eva: until .*\nhint: book another one`},
		{"book", args{"places": []string{"gpu01:0"}, "for": "1h"}, `^gpu01:0 is in use by ann`},
		{"book", args{"places": []string{"--force", "gpu01:1"}, "for": "1h"}, `--force`},
		{"book", args{"places": []string{"gpu01:1"}, "for": "1h --force"}, `--for: `},
		{"book", args{"places": []string{"gpu02:0"}, "for": "1h", "name": "bob"}, `name`},
		{"book", args{"places": []string{"gpu02:0"}, "for": "1h", "force": true}, `force`},
		{"book", nil, `what is to be booked`},
		{"book", args{"count": 5, "for": "1h"}, `^1 GPU can be booked; you want 5`},
		{"release", args{"which": []string{"gpu01:1"}}, `^gpu01:1 is booked by eva, not by ada`},
		{"release", args{"which": []string{}}, `release needs WHICH`},
		{"extend", args{"which": "gpu01:1", "for": "1h"}, `^gpu01:1 is booked by eva, not by ada`},
		{"extend", args{"which": "gpu02:0", "for": "1h"}, `nobody has booked gpu02:0`},
		{"delete_everything", nil, `delete_everything`},
	} {
		words, _, failed := l.call(t, c.tool, c.args)
		if !failed || !regexp.MustCompile(c.want).MatchString(words) || strings.ContainsAny(words, "\x00\x1b") ||
			strings.Contains(words, "gpuboard: ") {
			t.Errorf("%s %.100v (error: %t): %.300s, want %s", c.tool, c.args, failed, words, c.want)
		}
	}
	if after, err := os.ReadFile(l.dir + "/data/comments.json"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the bookings were changed: %v\n%s", err, after)
	}
}

// What an agent books, extends and releases is its user's, in the file and in its answers.
func TestAgentBooksForItsUser(t *testing.T) {
	l := started(t, "--allow-booking")
	if got := len(l.tools(t)); got != 7 {
		t.Errorf("%d tools", got)
	}
	do := func(tool string, args map[string]any) (first struct{ ID, Host, GPU, Name, Comment, Until string }) {
		t.Helper()
		words, doc, failed := l.call(t, tool, args)
		var c struct {
			Action   string
			Bookings []struct{ ID, Host, GPU, Name, Comment, Until string }
		}
		if err := json.Unmarshal(doc, &c); failed || err != nil || len(c.Bookings) != 1 {
			t.Fatalf("%s: %s\n%s", tool, words, doc)
		}
		return c.Bookings[0]
	}
	dry := do("book", map[string]any{"count": 1, "for": "2h", "dry_run": true})
	if content, _ := os.ReadFile(l.dir + "/data/comments.json"); bytes.Contains(content, []byte("ada")) ||
		dry.Host != "gpu02" {
		t.Errorf("dry_run: %v\n%s", dry, content)
	}
	b := do("book", map[string]any{"count": 1, "for": "2h", "comment": "--force \"x\"\nrun 7"})
	if b.Host != "gpu02" || b.GPU != "0" || b.Name != "ada" || !strings.HasPrefix(b.Comment, `--force "x"`) {
		t.Errorf("booked: %+v", b)
	}
	words, doc, failed := l.call(t, "my_bookings", nil)
	schema, _ := data.Schema("bookings.json")
	if failed || !bytes.Contains(doc, []byte(b.ID)) || bytes.Contains(doc, []byte("eva")) ||
		len(jsonschema.Check(schema, doc)) > 0 {
		t.Errorf("my_bookings: %s\n%s\n%v", words, doc, jsonschema.Check(schema, doc))
	}
	if longer := do("extend", map[string]any{"which": "gpu02:0", "for": "1d"}); longer.ID != b.ID ||
		longer.Until <= b.Until {
		t.Errorf("extended: %+v, it was %+v", longer, b)
	}
	if gone := do("release", map[string]any{"which": []string{b.ID}}); gone.ID != b.ID {
		t.Errorf("released: %+v", gone)
	}
	content, err := os.ReadFile(l.dir + "/data/comments.json")
	if err != nil || !bytes.Contains(content, []byte(`"eva"`)) || bytes.Contains(content, []byte(`"by"`)) {
		t.Errorf("%v\n%s", err, content)
	}
}

// A message beyond the bound and one that is no JSON end the program with an error, and not its machine.
func TestMessagesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		message, want string
	}{
		"long": {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1<<20) + `"}` + "\n",
			"maximum line length"},
		"no JSON": {"hello\n", "invalid character"},
		"nothing": {"", ""},
	} {
		t.Setenv("GPUBOARD_CONFIG", "")
		var stdout, stderr bytes.Buffer
		code := cli.Main([]string{"mcp"}, strings.NewReader(c.message), &stdout, &stderr)
		if (code != 0) != (c.want != "") || !strings.Contains(stderr.String(), c.want) || stderr.Len() > 500 {
			t.Errorf("%s: exit %d\n%s", name, code, stderr.String())
		}
	}
}

// Many calls at a time have their turns, or are told that they are too many.
func TestCallsAreBounded(t *testing.T) {
	l := started(t)
	var calls sync.WaitGroup
	var mu sync.Mutex
	answers := map[bool]int{}
	for range 60 {
		calls.Go(func() {
			words, _, failed := l.call(t, "find_free", nil)
			if failed && !strings.Contains(words, "more than 16 calls at a time") {
				t.Error(words)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[failed]++
		})
	}
	calls.Wait()
	if answers[false] < 1 || answers[false]+answers[true] != 60 {
		t.Errorf("%v", answers)
	}
}

// Without a board an agent is told what is missing.
func TestNoBoard(t *testing.T) {
	l := started(t, "--from", "http://127.0.0.1:9/")
	if words, _, failed := l.call(t, "find_free", nil); !failed ||
		!strings.HasPrefix(words, "asking http://127.0.0.1:9/api/v1/board.json: ") {
		t.Errorf("%t: %s", failed, words)
	}
}
