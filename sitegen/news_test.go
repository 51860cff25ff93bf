package sitegen_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/history"
	"gpuboard/internal/notify"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen"
)

// crier records what it is told.
type crier struct {
	refuse   error
	accepted []events.Event
	summary  string
	trouble  []snapshot.Problem
}

func (c *crier) Accept(fresh []events.Event, text func(of string) string, _ time.Time) error {
	if c.refuse != nil {
		return c.refuse
	}
	c.accepted = append(c.accepted, fresh...)
	c.summary = text("daily")
	return nil
}

func (c *crier) Close() []snapshot.Problem { return nil }

func (c *crier) Troubles() []snapshot.Problem                          { return nil }
func (c *crier) Deliver(context.Context, time.Time) []snapshot.Problem { return c.trouble }

type atom struct {
	ID      string `xml:"id"`
	Updated string `xml:"updated"`
	Entries []struct {
		ID       string `xml:"id"`
		Title    string `xml:"title"`
		Category struct {
			Term string `xml:"term,attr"`
		} `xml:"category"`
	} `xml:"entry"`
}

func (l *lab) feed() atom {
	l.t.Helper()
	raw, err := os.ReadFile(l.path("site/feed.atom"))
	if err != nil {
		l.t.Fatal(err)
	}
	var a atom
	if err := xml.Unmarshal(raw, &a); err != nil {
		l.t.Fatalf("%v: %s", err, raw)
	}
	return a
}

// once makes one generation in a process of its own, so to say.
func (l *lab) once(o sitegen.Options, now time.Time) sitegen.Report {
	l.t.Helper()
	return l.generate(now, func(to *sitegen.Options) { *to = o })
}

func (l *lab) copy(from, to string) {
	l.t.Helper()
	raw, err := os.ReadFile(l.path(from))
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(to, string(raw))
}

func kindsOf(list []events.Event) map[string]int {
	n := map[string]int{}
	for _, e := range list {
		n[string(e.Kind)]++
	}
	return n
}

func TestNewsReachFeedAndAnnouncer(t *testing.T) {
	l := newLab(t)
	c := &crier{}
	o := l.options()
	o.Announcer = c

	// The first board is no news to anybody, and the feed is there.
	l.once(o, start)
	if len(c.accepted) != 0 || len(l.feed().Entries) != 0 {
		t.Fatalf("the first board made news: %+v", c.accepted)
	}
	if !strings.Contains(c.summary, " free on ") || !strings.Contains(c.summary, "\nFree now: ") ||
		!strings.Contains(c.summary, "\nGPUs in use by: ") {
		t.Errorf("summary %q", c.summary)
	}

	// All but one fall silent.
	later := start.Add(10 * time.Minute)
	l.push(later, l.hosts[0])
	l.copy("state/events.json", "before.json")
	l.once(o, later)
	first := slices.Clone(c.accepted)
	if n := kindsOf(first); n["host-stale"] == 0 {
		t.Fatalf("events %v", n)
	}
	feed := l.feed()
	if len(feed.Entries) != len(first) {
		t.Errorf("%d entries for %d events", len(feed.Entries), len(first))
	}

	// Killed before it could remember: the next run finds the same under the same ids.
	l.copy("before.json", "state/events.json")
	l.once(o, later.Add(20*time.Second))
	again := c.accepted[len(first):]
	for _, e := range first {
		if !slices.ContainsFunc(again, func(a events.Event) bool { return a.ID == e.ID }) {
			t.Errorf("%s is not found again", e.ID)
		}
	}
	same := l.feed()
	for i, e := range same.Entries {
		if e.ID != feed.Entries[i].ID || e.Category.Term == "" || e.Title == "" {
			t.Errorf("entry %d is %+v, was %+v", i, e, feed.Entries[i])
		}
	}
	n := len(c.accepted)
	l.once(o, later.Add(40*time.Second))
	if len(c.accepted) != n {
		t.Errorf("told again: %+v", c.accepted[n:])
	}
	if quiet := l.feed(); len(quiet.Entries) != len(first) || quiet.Updated != same.Updated {
		t.Errorf("a generation without news left %d entries of %d", len(quiet.Entries), len(first))
	}
}

// What could not be accepted is handed in again, and not forgotten.
func TestUnacceptedNewsAreNotForgotten(t *testing.T) {
	l := newLab(t)
	c := &crier{}
	o := l.options()
	o.Announcer = c
	l.once(o, start)
	later := start.Add(10 * time.Minute)
	c.refuse = errors.New("no space left on device")
	r := l.once(o, later)
	if !slices.ContainsFunc(r.Board.Problems, func(p snapshot.Problem) bool {
		return p.Code == "notify:unwritable" && strings.Contains(p.Message, "no space")
	}) {
		t.Errorf("problems %+v", r.Board.Problems)
	}
	c.refuse = nil
	l.once(o, later.Add(20*time.Second))
	if kindsOf(c.accepted)["host-stale"] == 0 {
		t.Errorf("events %+v", c.accepted)
	}
}

func TestGenerationWithNowNotifiesNobody(t *testing.T) {
	l := newLab(t)
	c := &crier{trouble: []snapshot.Problem{{Code: "notify:failing"}}}
	o := l.options()
	o.Announcer = c
	var err error
	if o.History, err = history.Open(t.Context(), l.path("history.db"), start, history.Options{}); err != nil {
		t.Fatal(err)
	}
	defer o.History.Close()
	l.once(o, start)
	remembered := []string{"state/events.json", "state/fleet.json"}
	for _, name := range remembered {
		l.copy(name, "before/"+name)
	}
	o.Pretend = true
	r := l.once(o, start.Add(30*24*time.Hour))
	for _, name := range remembered {
		before, _ := os.ReadFile(l.path("before/" + name))
		after, err := os.ReadFile(l.path(name))
		if err != nil || string(before) != string(after) {
			t.Errorf("%s changed, %v:\n%s\n%s", name, err, before, after)
		}
	}
	if len(c.accepted) != 0 || len(l.feed().Entries) != 0 {
		t.Errorf("%d events", len(c.accepted))
	}
	if slices.ContainsFunc(r.Board.Problems, func(p snapshot.Problem) bool { return p.Code == "notify:failing" }) {
		t.Error("something was delivered")
	}
}

func TestATornNewsFileIsSaid(t *testing.T) {
	l := newLab(t)
	o := l.options()
	l.once(o, start)
	l.write("state/events.json", `{"memory":`)
	r := l.once(o, start.Add(10*time.Minute))
	if !slices.ContainsFunc(r.Board.Problems,
		func(p snapshot.Problem) bool { return p.Code == "state:forgotten" && p.File == "events.json" }) {
		t.Errorf("problems %+v", r.Board.Problems)
	}
	if n := len(l.feed().Entries); n != 0 {
		t.Errorf("%d events after everything was forgotten", n)
	}
}

// Hooks are told no name that the site does not show.
func TestNewsKeepPeoplesNames(t *testing.T) {
	l := newLab(t)
	c := &crier{}
	o := l.options()
	o.Announcer = c
	o.Privacy = board.Privacy{Users: board.UsersNone}
	l.write("data/comments.json", "{}")
	l.once(o, start)
	l.write("data/comments.json", `{"`+l.hosts[0]+`": [{"name": "zacharias", "date": "2026-11-21 12:00"}]}`)
	r := l.once(o, start.Add(20*time.Second))
	if !slices.ContainsFunc(r.Board.Bookings, func(b board.Booking) bool { return b.Name == "zacharias" }) ||
		kindsOf(c.accepted)["booking-start"] != 1 {
		t.Fatalf("events %+v", c.accepted)
	}
	for _, e := range c.accepted {
		if strings.Contains(e.Summary+strings.Join(e.Users, ","), "zacharias") {
			t.Errorf("event %+v", e)
		}
	}
	for _, u := range r.Board.Users {
		if u.Used > 0 && strings.Contains(c.summary, " "+u.Name+" ") {
			t.Errorf("the summary names %s: %q", u.Name, c.summary)
		}
	}
}

// carrier joins the two rooms as the command line does.
type carrier struct{ *notify.Notifier }

func (c carrier) Close() []snapshot.Problem { return nil }

func (c carrier) Troubles() []snapshot.Problem { return nil }
func (c carrier) Deliver(ctx context.Context, now time.Time) (list []snapshot.Problem) {
	for _, t := range c.Notifier.Deliver(ctx, now) {
		list = append(list, snapshot.Problem{Code: "notify:failing", Message: t.Err.Error(), File: t.Hook})
	}
	return list
}

// TestNewsReachHooksOnce has the two rooms work together: a host falls silent, and two
// hooks of three hear of it, once, over generations and restarts.
func TestNewsReachHooksOnce(t *testing.T) {
	l := newLab(t)
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m struct{ Text string }
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Error(err)
		}
		got = append(got, m.Text)
	}))
	defer srv.Close()
	run := func(now time.Time) sitegen.Report {
		c, err := notify.New(notify.Options{Outbox: l.path("state/outbox.json"), Hooks: []notify.Hook{
			{Name: "dead", Kind: notify.Webhook, URL: "http://127.0.0.1:1/x"},
			{Name: "slack", Kind: notify.Webhook, URL: srv.URL, Events: []string{"host-*"}},
			{Name: "file", Kind: notify.Command, Command: []string{"tee", "-a", l.path("told")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		o := l.options()
		o.Announcer = carrier{c}
		return l.once(o, now)
	}
	run(start)
	for i := range 3 {
		now := start.Add(10*time.Minute + time.Duration(i)*20*time.Second)
		l.push(now, l.hosts[1:]...)
		r := run(now)
		if !slices.ContainsFunc(r.Board.Problems, func(p snapshot.Problem) bool { return p.File == "dead" }) {
			t.Errorf("the dead hook is not said: %+v", r.Board.Problems)
		}
	}
	if len(got) != 1 || !strings.Contains(got[0], l.hosts[0]+" is stale") {
		t.Errorf("slack heard %q", got)
	}
	raw, err := os.ReadFile(l.path("told"))
	if err != nil || strings.Count(string(raw), "\n") != 1 {
		t.Errorf("the command was told %q, %v", raw, err)
	}
}
