package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/serve"
)

// fleetJSON is a board on which some are free, some are booked, and some are used.
const fleetJSON = `{"schema_version": 1, "generated_at": "2026-11-20T09:59:40Z", "next_generation_expected_at": "2026-11-20T10:00:00Z", "models": [{"name": "H100", "full_name": "NVIDIA H100"}], "hosts": [
	{"name": "atlas", "title": "", "gpus": [
		{"index": 0, "uuid": null, "name": "NVIDIA H100", "memory_total_mib": 81559, "state": "free"},
		{"index": 1, "uuid": null, "name": "NVIDIA H100", "memory_total_mib": 81559, "state": "free"},
		{"index": 2, "uuid": null, "name": "NVIDIA H100", "memory_total_mib": 81559, "state": "busy", "processes": [
			{"gpu": 2, "pid": 7, "type": "C", "user": "kai", "person": "kai", "program": "train.py", "started_at": "2026-11-19T08:30:00Z", "used_memory_mib": 40960, "alive": true}]}]},
	{"name": "ceres", "title": "", "gpus": [
		{"index": 0, "uuid": null, "name": "NVIDIA A10", "memory_total_mib": 23028, "state": "free"},
		{"index": 1, "uuid": null, "name": "NVIDIA A10", "memory_total_mib": 23028, "state": "unknown"}]}]}`

func newFleet(t *testing.T, settings ...setting) *counter {
	t.Helper()
	c := newCounter(t, settings...)
	c.write(filepath.Join(filepath.Dir(filepath.Dir(c.comments)), "site", "api", "v1", "board.json"), fleetJSON)
	return c
}

// field returns what a hidden field of a page holds.
func field(t *testing.T, page, name string) string {
	t.Helper()
	m := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("there is no field %s:\n%s", name, page)
	}
	return m[1]
}

// TestBookSeveral asks for so many of a kind, is shown which, and books them with one
// confirmation: exactly what was shown.
func TestBookSeveral(t *testing.T) {
	c := newFleet(t)
	ask := func(fields ...string) (int, string) {
		q := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			q.Set(fields[i], fields[i+1])
		}
		w := c.open("eva", "/book/?"+q.Encode())
		return w.Code, w.Body.String()
	}
	code, page := ask("gpus", "2", "model", "H100", "from", "18:00", "until", "2d6h", "comment", `a "b"`)
	if code != 200 || !strings.Contains(page, "atlas 0, 1</h2>") || !strings.Contains(page, "Book these 2 GPUs") ||
		len(c.bookings()) != 0 {
		t.Fatalf("%d\n%s", code, page)
	}
	// A link may name a model in short.
	if _, page := ask("gpus", "2", "model", "h10", "until", "1d"); !strings.Contains(page,
		`<option value="h10" selected>h10</option>`) {
		t.Errorf("the form does not show the model that was asked for:\n%s", page)
	}
	action := regexp.MustCompile(`<form method="post" action="(\?at=[^"]*)"`).FindStringSubmatch(page)
	if action == nil {
		t.Fatal(page)
	}
	c.later(time.Minute)
	w := c.post("eva", "/book/"+strings.ReplaceAll(action[1], "&amp;", "&"), "action", "book", "from",
		field(t, page, "from"), "until", field(t, page, "until"), "comment", field(t, page, "comment"))
	all := c.bookings()
	if w.Code != 303 || len(all) != 2 {
		t.Fatalf("%d\n%s", w.Code, c.file())
	}
	for i, b := range all {
		if b.Host != "atlas" || b.Target.Index != i || b.From.Format("2 15:04") != "20 18:00" ||
			b.Until.Format("2 15:04") != "23 00:00" || b.Name != "eva" {
			t.Errorf("saved %+v", b)
		}
	}
	// What was booked is said, with a way back, and is not free any more.
	done := c.open("eva", "/book/"+w.Header().Get("Location")).Body.String()
	if !strings.Contains(done, "<strong>Saved.</strong> It appears on the board within 20 s.") ||
		!strings.Contains(done, `href="../index.html?booked=atlas%3A0%2Catlas%3A1&amp;saved=1#atlas"`) ||
		strings.Count(done, "<b>atlas ") != 2 {
		t.Errorf("after saving:\n%s", done)
	}
	if other := c.open("mira", "/book/"+w.Header().Get("Location")).Body.String(); strings.Contains(other, "Saved.") {
		t.Errorf("somebody else is offered to undo it:\n%s", other)
	}
	// There are no two until they end; then there are.
	code, page = ask("gpus", "2", "model", "H100", "from", "2026-11-21", "until", "6h")
	next := regexp.MustCompile(`<a href="(\?[^"]*from=[^"]*)"`).FindStringSubmatch(page)
	if code != 200 ||
		!strings.Contains(page, "GPUs that can be booked for this time: 1. Wanted: 2. Of this kind in all: 3.") ||
		next == nil {
		t.Fatalf("%d\n%s", code, page)
	}
	if _, page = ask("gpus", "2"); !strings.Contains(page, `aria-invalid="true"`) {
		t.Errorf("without an end:\n%s", page)
	}
	then := c.open("eva", "/book/"+strings.ReplaceAll(next[1], "&amp;", "&")).Body.String()
	if !strings.Contains(then, "Book these 2 GPUs") || !strings.Contains(then, "Mon 00:00") {
		t.Errorf("the next time at which there are two:\n%s", then)
	}
	// Undone with one click, and gone, as none has begun.
	r := withBody(c.form("eva", "/book/", "action", "release"), "action=release&id="+all[0].ID+"&id="+all[1].ID)
	if w := c.do(r); w.Code != 303 || len(c.bookings()) != 0 ||
		!strings.Contains(w.Header().Get("Location"), "released=") {
		t.Errorf("undo: %d %q\n%s", w.Code, w.Header().Get("Location"), c.file())
	}
	for _, tt := range []struct{ field, value, say string }{
		{"gpus", "many", "Enter how many GPUs, "}, {"gpus", "0", "Enter how many GPUs, "},
		{"gpus", "257", "Enter how many GPUs, "}, {"memory", "lots", "amount of memory cannot be read"},
		{"until", "2026/11/22", "with slashes"},
	} {
		if code, page := ask("gpus", "1", "until", "1d", tt.field, tt.value); code != 422 ||
			!strings.Contains(page, tt.say) || !strings.Contains(page, `value="`+tt.value+`"`) {
			t.Errorf("%s %s: %d\n%s", tt.field, tt.value, code, page)
		}
	}
	if code, page := ask("gpus", "256", "until", "1d"); code != 200 || strings.Contains(page, "Enter how many GPUs, ") {
		t.Errorf("as many as may be asked for: %d\n%s", code, page)
	}
	if _, page := ask("gpus", "1", "memory", "40", "until", "1d"); !strings.Contains(page,
		"<h2 id=\"_offer\">atlas 0</h2>") {
		t.Errorf("with 40 GB:\n%s", page)
	}
	if _, page := ask("gpus", "3", "one-host", "1", "until", "1d"); !strings.Contains(page,
		"GPUs that can be booked for this time: 3. Wanted: 3.") || strings.Contains(page, "Book these") {
		t.Errorf("three on one host, of which one is used:\n%s", page)
	}
}

// withBody is a form with other fields, in their order.
func withBody(r *http.Request, body string) *http.Request {
	other := httptest.NewRequest(r.Method, r.URL.Path, strings.NewReader(body))
	other.Header = r.Header
	return other
}

// TestNotFreeMeanwhile: what has been booked since the board was made does not read free.
func TestNotFreeMeanwhile(t *testing.T) {
	c := newFleet(t)
	if page := c.open("mira", "/book/").Body.String(); strings.Count(page, "chip free") != 3 {
		t.Fatal(page)
	}
	if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d"); w.Code != 303 {
		t.Fatal(w.Code)
	}
	if page := c.open("mira", "/book/").Body.String(); strings.Count(page, "chip free") != 2 ||
		strings.Count(page, "chip booked") != 1 {
		t.Errorf("in the list:\n%s", page)
	}
	if page := c.open("mira", "/book/?at=atlas:0").Body.String(); strings.Contains(page, "chip free") {
		t.Errorf("on its page:\n%s", page)
	}
	if page := c.open("mira", "/book/?gpus=1&model=H100&until=1d").Body.String(); !strings.Contains(page,
		`<h2 id="_offer">atlas 1</h2>`) {
		t.Errorf("it is offered:\n%s", page)
	}
}

// ticked returns what the tick of a form says to the jobs that it lists.
func ticked(t *testing.T, page string) string {
	t.Helper()
	_, rest, _ := strings.Cut(page, `name="over"`)
	m := regexp.MustCompile(`^\s*value="([^"]+)"`).FindStringSubmatch(rest)
	if m == nil {
		t.Fatalf("there is nothing to tick:\n%s", page)
	}
	return m[1]
}

// TestAYesIsToWhatWasShown: mira has ended, and eve has begun on the other GPU: nobody has agreed to
// that. The new list is shown without a tick, and a yes to it books.
func TestAYesIsToWhatWasShown(t *testing.T) {
	board := func(gpu int, who, since string, mib int) string {
		busy := fmt.Sprintf(
			`"state": "busy", "processes": [{"gpu": %d, "pid": 7, "type": "C", "user": "%s", "person": "%s", "program": "train.py", "started_at": "%s", "used_memory_mib": %d, "alive": true}]`,
			gpu, who, who, since, mib)
		states := []string{`"state": "free"`, `"state": "free"`}
		states[gpu] = busy
		return `{"schema_version": 1, "generated_at": "2026-11-20T09:59:40Z", "next_generation_expected_at": "2026-11-20T10:00:00Z", "hosts": [{"name": "atlas", "title": "", "gpus": [
			{"index": 0, "uuid": null, "name": "H100", "memory_total_mib": 81559, ` + states[0] + `},
			{"index": 1, "uuid": null, "name": "H100", "memory_total_mib": 81559, ` + states[1] + `}]}]}`
	}
	const at = "/book/?at=atlas:0&at=atlas:1"
	var locked func()
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
		o.Booking.ForOthers = true
		file := o.Booking.File
		o.Booking.File = func() serve.File {
			return &lockedFile{file(), func() {
				if locked != nil {
					locked()
				}
			}}
		}
	})
	show := func(board string) {
		c.write(filepath.Join(filepath.Dir(filepath.Dir(c.comments)), "site", "api", "v1", "board.json"), board)
	}

	show(board(0, "mira", "2026-11-20T08:00:00Z", 1000))
	yes := ticked(t, c.open("eva", at).Body.String())
	for _, now := range []string{
		board(1, "eve", "2026-11-20T09:59:00Z", 70000),
		board(0, "eve", "2026-11-20T08:00:00Z", 1000),
		board(0, "mira", "2026-11-20T09:59:00Z", 1000),
		board(1, "mira", "2026-11-20T08:00:00Z", 1000),
	} {
		show(now)
		w := c.post("eva", at, "action", "book", "until", "1d", "over", yes)
		page := w.Body.String()
		if w.Code != 409 || c.file() != "" || !strings.Contains(page, "who is using it has changed") ||
			strings.Contains(page, "checked") {
			t.Errorf("%s\nbooked over what was not shown: %d\n%s", now, w.Code, page)
		}
		if again := ticked(t, page); again == yes {
			t.Error("the new list has the tick of the old one")
		}
	}

	// It begins while the lock is waited for.
	show(board(0, "mira", "2026-11-20T08:00:00Z", 1000))
	locked = func() { show(board(1, "eve", "2026-11-20T09:59:00Z", 70000)) }
	w := c.post("eva", at, "action", "book", "until", "1d", "over", yes)
	if w.Code != 409 || c.file() != "" || !strings.Contains(w.Body.String(), "eve") {
		t.Errorf("begun under the lock: %d\n%s", w.Code, w.Body)
	}
	locked = nil

	// Memory changes all the time, and is no news.
	yes = ticked(t, w.Body.String())
	show(board(1, "eve", "2026-11-20T09:59:00Z", 71000))
	if w := c.post("eva", at, "action", "book", "until", "1d", "over", yes); w.Code != 303 || len(c.bookings()) != 2 {
		t.Errorf("a yes to what was shown: %d\n%s", w.Code, w.Body)
	}

	// For somebody else: their own jobs are not asked about, as they are not when it is booked.
	show(board(0, "mira", "2026-11-20T08:00:00Z", 1000))
	c.write(c.comments, "{}")
	if page := c.open("eva", at+"&name=mira").Body.String(); strings.Contains(page, `name="over"`) {
		t.Errorf("mira is asked about her own job:\n%s", page)
	}
	if w := c.post("eva", at, "action", "book", "until", "1d", "name", "mira"); w.Code != 303 {
		t.Errorf("over her own job: %d\n%s", w.Code, w.Body)
	}
}

// A lockedFile calls begin when the lock is held, before the change is made.
type lockedFile struct {
	serve.File
	begin func()
}

func (f *lockedFile) Update(ctx context.Context, by booking.By, change func([]byte) ([]byte, error)) error {
	return f.File.Update(ctx, by, func(data []byte) ([]byte, error) {
		f.begin()
		return change(data)
	})
}

// TestOverRunning: who uses what is to be booked is named, and a tick is wanted.
func TestOverRunning(t *testing.T) {
	for _, at := range []string{"atlas:2", "atlas", "ceres:1"} {
		c := newFleet(t)
		page := c.open("eva", "/book/?at="+at).Body.String()
		named := `atlas:2: <b class="name">kai</b> train.py since <time datetime="2026-11-19T08:30:00Z">Thu 08:30</time> · 40.0 GiB`
		if at == "ceres:1" {
			named = "ceres:1: not known whether it is in use"
		}
		plain := strings.Join(strings.Fields(page), " ")
		if !strings.Contains(plain, named) || !strings.Contains(page, `name="over"`) ||
			strings.Contains(page, "checked") {
			t.Errorf("%s: beforehand:\n%s", at, plain)
		}
		w := c.post("eva", "/book/?at="+at, "action", "book", "until", "1d", "comment", "typed")
		if w.Code != 409 || c.file() != "" || !strings.Contains(w.Body.String(), "tick the box") ||
			!strings.Contains(w.Body.String(), `value="typed"`) {
			t.Errorf("%s: without a tick: %d\n%s", at, w.Code, w.Body)
		}
		// What nobody was shown is not agreed to.
		if w := c.post("eva", "/book/?at="+at, "action", "book", "until", "1d", "over", "yes"); w.Code != 409 ||
			c.file() != "" {
			t.Errorf("%s: with a tick beside no list: %d\n%s", at, w.Code, w.Body)
		}
		if w := c.post("eva", "/book/?at="+at, "action", "book", "until", "1d", "over",
			ticked(t, page)); w.Code != 303 {
			t.Errorf("%s: with it: %d\n%s", at, w.Code, w.Body)
		}
	}
	// For later nobody knows, and one's own jobs are nobody else's.
	c := newFleet(t)
	if w := c.post("eva", "/book/?at=atlas:2", "action", "book", "from", "tomorrow", "until", "1d"); w.Code != 303 {
		t.Errorf("for tomorrow: %d", w.Code)
	}
	c = newFleet(t, func(_ *serve.Options, a *serve.AuthOptions) {
		data := "kai:" + hashed(t, "kai's") + "\n"
		if err := os.WriteFile(a.Passwords, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if w := c.post("kai", "/book/?at=atlas:2", "action", "book", "until", "1d"); w.Code != 303 {
		t.Errorf("over one's own job: %d\n%s", w.Code, w.Body)
	}
}

// TestAYesIsForEachJob: a second job of a person whose first one was shown is asked about, and what
// people read is one line a person.
func TestAYesIsForEachJob(t *testing.T) {
	for _, begun := range []string{"2026-11-20T09:59:00Z", "2026-11-19T08:30:00Z", "null"} {
		c := newFleet(t)
		over := ticked(t, c.open("eva", "/book/?at=atlas:2").Body.String())
		second := `"alive": true}, {"gpu": 2, "pid": 8, "type": "C", "user": "kai", "person": "kai", "program": "eval.py", "used_memory_mib": 1024, "alive": true`
		if begun != "null" {
			second += `, "started_at": "` + begun + `"`
		}
		c.write(filepath.Join(filepath.Dir(filepath.Dir(c.comments)), "site", "api", "v1", "board.json"),
			strings.Replace(fleetJSON, `"alive": true`, second, 1))
		w := c.post("eva", "/book/?at=atlas:2", "action", "book", "until", "1d", "over", over)
		plain := strings.Join(strings.Fields(w.Body.String()), " ")
		if w.Code != 409 || c.file() != "" || strings.Count(plain, "atlas:2: <b") != 1 ||
			!strings.Contains(plain, "41.0 GiB") {
			t.Fatalf("begun %s: %d\n%s", begun, w.Code, plain)
		}
		if w := c.post("eva", "/book/?at=atlas:2", "action", "book", "until", "1d", "over",
			ticked(t, w.Body.String())); w.Code != 303 {
			t.Errorf("begun %s, shown: %d\n%s", begun, w.Code, w.Body)
		}
	}
}

// TestOddKeysHoldTheirGPU: a key that means a host or its GPU in another spelling holds it in the form, too.
func TestOddKeysHoldTheirGPU(t *testing.T) {
	for _, key := range []string{"atlas:0", "atlas.example.org", "atlas\u200b", "atlas,ceres", "atlas/0"} {
		c := newFleet(t)
		file := `{ "` + key + `": { "name": "kai", "date": "2026-12-01" } }`
		c.write(c.comments, file)
		if page := c.open("eva", "/book/?at=atlas:0").Body.String(); !strings.Contains(page, "2026-12-0") {
			t.Errorf("%q: the booking is not shown:\n%s", key, page)
		}
		if w := c.post("eva", "/book/?at=atlas:0", "action", "book", "until", "1d"); w.Code != 409 || c.file() != file {
			t.Errorf("%q: %d\n%s", key, w.Code, c.file())
		}
	}
}

// TestAnOldBoardIsSaid: what an old board calls free may be in use.
func TestAnOldBoardIsSaid(t *testing.T) {
	c := newFleet(t)
	for _, old := range []bool{false, true} {
		for _, path := range []string{"/book/", "/book/?at=atlas:0", "/book/?gpus=1&until=1d"} {
			if page := c.open("eva", path).Body.String(); strings.Contains(page, "may be in use by now") != old {
				t.Errorf("%s: %v\n%s", path, old, page)
			}
		}
		c.later(2 * time.Hour)
	}
}

// TestCapabilitiesName: who has logged in is told who they are; nobody else is asked.
func TestCapabilitiesName(t *testing.T) {
	c := newCounter(t)
	for user, want := range map[string]string{"": "", "eva": "eva", "login7": "tomas", "mallory": ""} {
		r := httptest.NewRequest(http.MethodGet, "/book/capabilities.json", nil)
		if user != "" {
			password := user + "'s"
			if user == "login7" {
				password = "x"
			}
			r.SetBasicAuth(user, password)
		}
		var able struct {
			Booking bool
			Name    string
		}
		w := c.do(r)
		if err := json.Unmarshal(w.Body.Bytes(), &able); err != nil || w.Code != 200 || !able.Booking ||
			able.Name != want || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %d %s, want %q", user, w.Code, w.Body, want)
		}
	}
}

// TestFieldsFromTheAddress: what was typed elsewhere stands in the form.
func TestFieldsFromTheAddress(t *testing.T) {
	c := newFleet(t, func(o *serve.Options, _ *serve.AuthOptions) { o.Booking.ForOthers = true })
	for _, path := range []string{"/book/?at=atlas:0&", "/book/?"} {
		page := c.open("eva", path+"from=sat+09:00&until=sun+20:00&comment=a+%22b%22&name=mira").Body.String()
		for _, want := range []string{`value="sat 09:00"`, `value="sun 20:00"`, `value="a &#34;b&#34;"`,
			`value="mira"`} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the form lacks %s\n%s", path, want, page)
			}
		}
		if len(c.bookings()) > 0 {
			t.Fatal("looking at the form booked")
		}
	}
}

// TestAsManyPlacesAsMayBe: a form is of 256 GPUs at most.
func TestAsManyPlacesAsMayBe(t *testing.T) {
	var hosts []string
	for i := range 257 {
		hosts = append(hosts,
			fmt.Sprintf(
				`{"name": "gpu%d", "gpus": [{"index": 0, "uuid": "GPU-%08d", "name": "H100", "state": "free"}]}`, i, i))
	}
	all := `{"schema_version": 1, "generated_at": "2026-11-20T09:59:40Z", "next_generation_expected_at": "2026-11-20T10:00:00Z", "hosts": [` + strings.Join(hosts, ",") + `]}`
	c := newCounter(t, func(o *serve.Options, _ *serve.AuthOptions) {
		if err := os.WriteFile(filepath.Join(o.Site, "api", "v1", "board.json"), []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	for n, code := range map[int]int{256: 200, 257: 404} {
		places := url.Values{}
		for i := range n {
			places.Add("at", fmt.Sprintf("gpu%d:0", i))
		}
		if w := c.open("eva", "/book/?"+places.Encode()); w.Code != code {
			t.Errorf("%d GPUs: %d, want %d", n, w.Code, code)
		}
	}
}
