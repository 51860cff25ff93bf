package notify

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/events"
)

func TestTheOutboxIsBounded(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	r.set(says(500, ""))
	c := carrier(t, dir, hook("a", r.URL))
	now := start
	for i := range 30 {
		accept(t, c, now, several(i*100, i*100+100)...)
		c.Deliver(t.Context(), now)
		now = now.Add(time.Hour)
	}
	info, err := os.Stat(c.opt.Outbox)
	if err != nil || info.Size() > 1<<20 {
		t.Fatalf("%d bytes, %v", info.Size(), err)
	}
	r.set(nil)
	now = now.Add(time.Hour)
	c.Deliver(t.Context(), now)
	if got := r.ids(); len(got) == 0 || got[0] != event(2500).ID {
		t.Errorf("%d delivered, the first %v", len(got), got[:1])
	}
	if r.got[0].Dropped != 2500 || !strings.Contains(r.got[0].Text, "2500 earlier ones are left out") {
		t.Errorf("it does not say what is missing: %+v", r.got[0])
	}

	// Old news is no news.
	r.set(says(500, ""))
	now = now.Add(time.Hour)
	accept(t, c, now, event(9000))
	n := len(r.got)
	r.set(nil)
	now = now.Add(MaxAge + time.Minute)
	accept(t, c, now, event(9001))
	c.Deliver(t.Context(), now)
	if last := r.got[len(r.got)-1]; len(r.got) != n+1 || last.Host != "gpu9001" || last.Dropped == 0 {
		t.Errorf("after %v: %+v", MaxAge, r.got[n:])
	}
}

func TestATornOutboxIsForgottenAndSaid(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	c := carrier(t, dir, hook("a", r.URL))
	for _, torn := range []string{"{", `{"schema":99}`, `{"schema":1,"hooks":{"a":null}}`} {
		if err := os.WriteFile(c.opt.Outbox, []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		got := c.Failures()
		if forgotten := len(got) == 1 &&
			errors.Is(got[0].Err, errForgotten); forgotten == strings.Contains(torn, "null") {
			t.Errorf("%s: %+v", torn, got)
		}
		accept(t, c, start, event(len(torn)))
		if trouble := c.Deliver(t.Context(), start); len(trouble) != 0 {
			t.Errorf("%s: %+v", torn, trouble)
		}
	}
	if len(r.got) != 3 {
		t.Errorf("%d messages", len(r.got))
	}
}

// A disk that takes nothing must not make the same message come again and again.
func TestAFullDiskSendsNothing(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	c := carrier(t, dir, hook("a", r.URL))
	accept(t, c, start, event(1))
	// A symlink reads well and is never replaced: it stands for the full disk.
	if err := os.Rename(c.opt.Outbox, c.opt.Outbox+".real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(c.opt.Outbox+".real", c.opt.Outbox); err != nil {
		t.Fatal(err)
	}
	if err := c.Accept([]events.Event{event(2)}, nil, start); err == nil {
		t.Error("an event was accepted that could not be written")
	}
	got := c.Deliver(t.Context(), start)
	if len(got) != 1 || !strings.Contains(got[0].Err.Error(), "nothing is sent") || len(r.ids()) != 0 {
		t.Errorf("trouble %+v, delivered %v", got, r.ids())
	}
}

func TestRemovedHookLosesItsQueue(t *testing.T) {
	dir := t.TempDir()
	c := carrier(t, dir, hook("old", "http://127.0.0.1:1/"), hook("new", "http://127.0.0.1:1/"))
	accept(t, c, start, event(1))
	c = carrier(t, dir, hook("new", "http://127.0.0.1:1/"))
	accept(t, c, start, event(2))
	raw, err := os.ReadFile(c.opt.Outbox)
	if err != nil || strings.Contains(string(raw), `"old"`) || !strings.Contains(string(raw), `"new"`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestNothingNewWritesNothing(t *testing.T) {
	dir := t.TempDir()
	c := carrier(t, dir, hook("a", "http://127.0.0.1:1/"))
	accept(t, c, start)
	path := filepath.Join(dir, "outbox.json")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	accept(t, c, start.Add(time.Minute))
	c.Deliver(t.Context(), start.Add(time.Minute))
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || before.Mode().Perm() != 0o600 {
		t.Errorf("the outbox was written anew (%v, %v)", after.Mode(), err)
	}
}
