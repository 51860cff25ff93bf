package notify

import (
	"slices"
	"testing"
	"time"

	"gpuboard/internal/events"
)

func TestQuietHours(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for not, want := range map[string]map[string]bool{
		"20:00-08:00": {"19:59": false, "20:00": true, "23:59": true, "00:00": true, "07:59": true, "08:00": false,
			"12:00": false},
		"8:00-9:30": {"07:59": false, "08:00": true, "09:29": true, "09:30": false, "00:00": false},
		"":          {"00:00": false, "12:00": false},
	} {
		c, err := New(
			Options{Hooks: []Hook{{Name: "chat", Kind: Webhook, Format: JSON, URL: "https://chat.example/", Not: not}},
				Zone: berlin})
		if err != nil {
			t.Fatal(err)
		}
		for clock, quiet := range want {
			at, err := time.ParseInLocation("2006-01-02 15:04", "2026-11-20 "+clock, berlin)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.quiet(&c.opt.Hooks[0], at.UTC()); got != quiet {
				t.Errorf("%q at %s: %v", not, clock, got)
			}
		}
	}
	for _, bad := range []string{"20:00", "20-8", "20:00-20:00", "at night", "-"} {
		if _, err := New(
			Options{Hooks: []Hook{{Name: "chat", Kind: Webhook, URL: "https://chat.example/", Not: bad}}}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// What waits is sent in the morning, in order. What has ended by then is not, unless whoever hears of its end has heard
// of its beginning.
func TestWhatWaitsOverTheNight(t *testing.T) {
	got := newReceiver(t)
	quiet := hook("chat", got.URL)
	quiet.Not, quiet.PerMinute = "20:00-08:00", 60
	c := carrier(t, t.TempDir(), quiet)
	evening := time.Date(2026, 11, 20, 19, 0, 0, 0, time.UTC)
	happens := func(id string, kind events.Kind, host string, users ...string) events.Event {
		return events.Event{ID: id, Kind: kind, Host: host, UUID: "GPU-1", Users: users, At: evening, Summary: id}
	}
	accept(t, c, evening, happens("atlas stale", events.HostStale, "atlas"),
		happens("kai", events.GPUContested, "borea", "kai"))
	c.Deliver(t.Context(), evening)
	for hour := 1; hour < 13; hour++ {
		at := evening.Add(time.Duration(hour) * time.Hour)
		switch hour {
		case 2:
			accept(t, c, at, happens("atlas down", events.HostDown, "atlas"),
				happens("ada", events.GPUContested, "borea", "ada"),
				happens("ceres stale", events.HostStale, "ceres"),
				happens("dione lost", events.GPULost, "dione", "mia"))
		case 5:
			accept(t, c, at, happens("atlas up", events.HostUp, "atlas"),
				happens("over", events.GPUContestedEnd, "borea", "ada", "kai"),
				happens("ceres up", events.HostUp, "ceres"), happens("eos lost", events.GPULost, "eos"))
		}
		c.Deliver(t.Context(), at)
		if n := len(got.ids()); n != 2 {
			t.Fatalf("%d were sent by %s", n, at)
		}
	}
	c.Deliver(t.Context(), evening.Add(13*time.Hour))
	want := []string{"atlas stale", "kai", "dione lost", "atlas up", "over", "eos lost"}
	if !slices.Equal(got.ids(), want) {
		t.Errorf("sent %q\nwant %q", got.ids(), want)
	}
}
