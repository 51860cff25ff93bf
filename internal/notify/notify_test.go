package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/events"
	"gpuboard/internal/testenv/need"
)

var start = time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)

func event(n int) events.Event {
	return events.Event{ID: fmt.Sprintf("host-down/gpu%02d/20261120T0600%02dZ", n, n%60), Kind: events.HostDown,
		Host: fmt.Sprintf("gpu%02d", n), At: start, Summary: fmt.Sprintf("gpu%02d is down", n)}
}

func several(from, to int) []events.Event {
	var list []events.Event
	for n := from; n < to; n++ {
		list = append(list, event(n))
	}
	return list
}

// receiver is a webhook's other side: what it got, in order, and how it answers.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []message
	answer func(w http.ResponseWriter, r *http.Request) bool // true: it took the message
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var m message
		body, _ := io.ReadAll(req.Body)
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("body %s: %v", body, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.answer == nil || r.answer(w, req) {
			r.got = append(r.got, m)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ids() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.got {
		if m.Kind == "test" || m.Kind == "daily-summary" {
			ids = append(ids, m.ID)
		}
		for _, e := range m.Events {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (r *receiver) set(answer func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func says(code int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(code)
		io.WriteString(w, body)
		return code < 300
	}
}

func hook(name, url string) Hook { return Hook{Name: name, Kind: Webhook, Format: JSON, URL: url} }

func carrier(t *testing.T, dir string, hooks ...Hook) *Notifier {
	t.Helper()
	c, err := New(
		Options{Outbox: filepath.Join(dir, "outbox.json"), Hooks: hooks, Title: "GPU board",
			SiteURL: "https://lab.example/gpu/"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(t *testing.T, c *Notifier, now time.Time, list ...events.Event) {
	t.Helper()
	if err := c.Accept(list, func(of string) string { return of + ": 3 of 8 GPUs are free" }, now); err != nil {
		t.Fatal(err)
	}
}

func idsOf(list []events.Event) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

func wantIDs(t *testing.T, r *receiver, want ...string) {
	t.Helper()
	if got := r.ids(); !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}

func TestDeliveredOnceInOrderAcrossRestarts(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	now := start
	for i := range 12 {
		c := carrier(t, dir, hook("a", r.URL)) // a new process each time
		// The one before died before it could remember, and finds its events again.
		accept(t, c, now, several(max(0, i-1), i+1)...)
		if trouble := c.Deliver(t.Context(), now); len(trouble) != 0 {
			t.Fatal(trouble)
		}
		now = now.Add(20 * time.Second)
	}
	wantIDs(t, r, idsOf(several(0, 12))...)
	if len(r.got) != 12 {
		t.Errorf("%d messages for 12 events that came one by one", len(r.got))
	}
}

func TestFailureKeepsOrderAndBacksOff(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	tried := 0
	r.set(func(w http.ResponseWriter, _ *http.Request) bool {
		tried++
		w.WriteHeader(http.StatusInternalServerError)
		return false
	})
	c := carrier(t, dir, hook("a", r.URL))
	now := start
	accept(t, c, now, event(1))
	var last []State
	for range 60 { // 20 minutes of generations
		last = c.Deliver(t.Context(), now)
		now = now.Add(20 * time.Second)
	}
	if tried < 4 || tried > 7 {
		t.Errorf("%d attempts in 20 minutes, want a handful", tried)
	}
	if len(last) != 1 || last[0].Tries != tried || last[0].Waiting != 1 || last[0].Refused ||
		!strings.Contains(last[0].Err.Error(), "500") {
		t.Errorf("trouble %+v", last)
	}
	accept(t, c, now, event(2))
	r.set(nil)
	now = now.Add(maxPause)
	if trouble := carrier(t, dir, hook("a", r.URL)).Deliver(t.Context(), now); len(trouble) != 0 {
		t.Errorf("trouble %+v", trouble)
	}
	wantIDs(t, r, event(1).ID, event(2).ID)
	if left := c.Failures(); len(left) != 0 {
		t.Errorf("still in trouble: %+v", left)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answer  func(http.ResponseWriter, *http.Request) bool
		refused bool
		pause   time.Duration
		says    string
	}{
		{"revoked", says(403, "invalid_token\n"), true, firstPause, "answered 403, invalid_token"},
		{"gone, with a page that repeats the request", says(404, "<html>/services/SECRET"), true, firstPause,
			"answered 404"},
		{"slow down", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(429)
			return false
		}, false, 10 * time.Minute, "answered 429"},
		{"a pause without end", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "99999999999")
			w.WriteHeader(503)
			return false
		}, false, maxPause, "answered 503"},
		{"a redirect to elsewhere", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "http://localhost:1/SECRET")
			w.WriteHeader(307)
			return false
		}, true, firstPause, "answered 307"},
		{"a redirect that makes it a GET", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "/SECRET")
			w.WriteHeader(302)
			return false
		}, true, firstPause, "answered 302"},
		{"hangs up", func(w http.ResponseWriter, _ *http.Request) bool {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return false
		}, false, firstPause, "posting to http://127.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newReceiver(t)
			r.set(tc.answer)
			c := carrier(t, t.TempDir(), hook("a", r.URL+"/services/SECRET?token=SECRET"))
			accept(t, c, start, event(1))
			got := c.Deliver(t.Context(), start)
			if len(got) != 1 {
				t.Fatalf("trouble %+v", got)
			}
			g := got[0]
			if g.Refused != tc.refused || g.Next.Sub(start) != tc.pause || !strings.Contains(g.Err.Error(), tc.says) {
				t.Errorf("%+v; want refused %v, next in %v, %q", g, tc.refused, tc.pause, tc.says)
			}
			raw, err := os.ReadFile(c.opt.Outbox)
			if err != nil || strings.Contains(g.Err.Error()+string(raw), "SECRET") {
				t.Errorf("the secret of the URL is in the error or in the outbox: %v, %s", g.Err, raw)
			}
		})
	}
}

func TestUntrustedCertificateGetsNothing(t *testing.T) {
	asked := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	c := carrier(t, t.TempDir(), hook("a", s.URL))
	accept(t, c, start, event(1))
	got := c.Deliver(t.Context(), start)
	if len(got) != 1 || !strings.Contains(got[0].Err.Error(), "certificate") || asked {
		t.Errorf("trouble %+v, asked %v", got, asked)
	}
}

// A hook that never answers costs the others nothing, and the generation no
// more than the budget.
func TestFailingHookDelaysNoOther(t *testing.T) {
	hung := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-hung }))
	defer dead.Close()
	defer close(hung)
	r := newReceiver(t)
	c := carrier(t, t.TempDir(), hook("dead", dead.URL), hook("well", r.URL),
		Hook{Name: "slow", Kind: Command, Command: []string{"sleep", "600"}})
	accept(t, c, start, event(1), event(2))
	ctx := budgetUntil(t, func() bool {
		states, _ := c.States()
		return slices.ContainsFunc(states, func(s State) bool { return s.Hook == "well" && s.Waiting == 0 })
	})
	got := c.Deliver(ctx, start)
	if len(got) != 2 || got[0].Hook != "dead" || got[1].Hook != "slow" {
		t.Fatalf("trouble %+v", got)
	}
	for _, g := range got {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !strings.Contains(g.Err.Error(), "in time") {
			t.Errorf("%s: %v", g.Hook, g.Err)
		}
	}
	wantIDs(t, r, event(1).ID, event(2).ID)
}

// A budget is a context whose time is over when over is closed.
type budget struct {
	context.Context
	over chan struct{}
}

func (b budget) Done() <-chan struct{} { return b.over }

func (b budget) Err() error {
	select {
	case <-b.over:
		return context.DeadlineExceeded
	default:
		return b.Context.Err()
	}
}

// budgetUntil returns a budget that is over as soon as something has happened.
func budgetUntil(t *testing.T, happened func() bool) context.Context {
	b := budget{t.Context(), make(chan struct{})}
	go func() {
		defer close(b.over)
		for end := time.Now().Add(need.Patience); !happened() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}()
	return b
}

func TestCancelledDeliveryIsNoFailure(t *testing.T) {
	c := carrier(t, t.TempDir(), Hook{Name: "slow", Kind: Command, Command: []string{"sleep", "600"}})
	accept(t, c, start, event(1))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if got := c.Deliver(ctx, start); len(got) != 0 {
		t.Errorf("trouble %+v", got)
	}
	if states, err := c.States(); err != nil ||
		!slices.ContainsFunc(states, func(s State) bool { return s.Hook == "slow" && s.Waiting == 1 }) {
		t.Errorf("waiting %v, %v", states, err)
	}
}

func TestRateLimit(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	h := hook("a", r.URL)
	h.PerMinute = 3
	now := start
	step := func(list ...events.Event) int {
		t.Helper()
		before := len(r.got)
		c := carrier(t, dir, h) // the limit holds across restarts
		accept(t, c, now, list...)
		if trouble := c.Deliver(t.Context(), now); len(trouble) != 0 {
			t.Fatal(trouble)
		}
		return len(r.got) - before
	}
	for _, s := range []struct {
		after    time.Duration
		list     []events.Event
		messages int
	}{
		{0, several(0, 2), 2},
		{10 * time.Second, several(2, 10), 1}, // one is left in this minute: eight become one
		{20 * time.Second, several(10, 12), 0},
		{30 * time.Second, nil, 0},
		{61 * time.Second, nil, 2}, // two places are free again
		{62 * time.Second, several(12, 90), 0},
		{71 * time.Second, nil, 1}, // fifty of them in one
		{130 * time.Second, nil, 1},
	} {
		now = start.Add(s.after)
		if got := step(s.list...); got != s.messages {
			t.Errorf("after %v: %d messages, want %d", s.after, got, s.messages)
		}
	}
	now = start.Add(time.Hour)
	step()
	wantIDs(t, r, idsOf(several(0, 90))...)
	for _, m := range r.got {
		if len(m.Events) > 1 && (m.Kind != "several" || !strings.Contains(m.Text, m.Events[1].Summary)) ||
			len(m.Events) > maxTogether {
			t.Errorf("message %+v", m)
		}
	}
}

func TestAClockThatJumpedBackDoesNotSilence(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	r.set(says(500, ""))
	c := carrier(t, dir, hook("a", r.URL))
	future := start.Add(1000 * time.Hour)
	accept(t, c, future, event(1))
	c.Deliver(t.Context(), future)
	r.set(nil)
	c.Deliver(t.Context(), start)
	wantIDs(t, r, event(1).ID)
}

func TestFilters(t *testing.T) {
	down := events.Event{ID: "1", Kind: events.HostDown, Host: "gpu01", Summary: "x"}
	ending := events.Event{ID: "2", Kind: events.BookingEnding, Host: "big-7", Users: []string{"Mira"}, Summary: "y"}
	for _, tc := range []struct {
		name         string
		h            Hook
		down, ending bool
	}{
		{"everything", Hook{}, true, true},
		{"nothing", Hook{Events: []string{}}, false, false},
		{"a kind", Hook{Events: []string{"host-*"}}, true, false},
		{"hosts", Hook{Hosts: []string{"gpu0?", "x"}}, true, false},
		{"both", Hook{Events: []string{"booking-*"}, Hosts: []string{"gpu*"}}, false, false},
		{"a person", Hook{Users: []string{"mira"}}, false, true},
	} {
		if d, e := tc.h.wants(down), tc.h.wants(ending); d != tc.down || e != tc.ending {
			t.Errorf("%s: %v and %v, want %v and %v", tc.name, d, e, tc.down, tc.ending)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		h    Hook
		says string
	}{
		{Hook{Name: "a", Kind: Webhook, URL: "ftp://SECRET"}, "not an http"},
		{Hook{Name: "a", Kind: Webhook, URL: "http://h/%zzSECRET"}, "not an http"},
		{Hook{Name: "a", Kind: Mail, From: "x@example.org"}, "nobody"},
		{Hook{Name: "a", Kind: Mail, From: "x@example.org", To: []string{"x\nBcc: y@example.org"}},
			"not a mail address"},
		{Hook{Name: "a", Kind: Command}, "empty"},
		{Hook{Name: "a", Kind: Command, Command: []string{"x"}, Hosts: []string{"[a"}}, "not a pattern"},
		{Hook{Name: "a", Kind: Command, Command: []string{"x"}, Daily: "24:00"}, "no time of day"},
	} {
		_, err := New(Options{Hooks: []Hook{tc.h}})
		if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%+v: %v, want %q", tc.h, err, tc.says)
		}
	}
}

// TestKindsIsComplete reads the constants of package events.
func TestKindsIsComplete(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../events/events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Kind" {
				n++
				word := strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
				if !slices.Contains(Kinds(), events.Kind(word)) {
					t.Errorf("Kinds lacks %s", word)
				}
			}
		}
	}
	if n == 0 || n != len(Kinds()) {
		t.Errorf("%d kinds in events, %d here", n, len(Kinds()))
	}
}
