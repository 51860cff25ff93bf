package notify

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
)

// days runs a generation every step from one local moment to another, each in
// a process of its own, and returns the local moments at which a summary came.
func days(t *testing.T, zone *time.Location, daily string, from, to time.Time, step time.Duration) (at []string) {
	t.Helper()
	r, dir := newReceiver(t), t.TempDir()
	h := hook("a", r.URL)
	h.Daily, h.Events, h.PerMinute = daily, []string{}, 60
	for now := from; now.Before(to); now = now.Add(step) {
		c, err := New(Options{Outbox: filepath.Join(dir, "outbox.json"), Hooks: []Hook{h}, Zone: zone})
		if err != nil {
			t.Fatal(err)
		}
		before := len(r.got)
		accept(t, c, now)
		if trouble := c.Deliver(t.Context(), now); len(trouble) != 0 {
			t.Fatal(trouble)
		}
		for _, m := range r.got[before:] {
			if m.Kind != "daily-summary" || m.Text != "daily: 3 of 8 GPUs are free" {
				t.Errorf("message %+v", m)
			}
			at = append(at, now.In(zone).Format("01-02 15:04 MST"))
		}
	}
	return at
}

func TestDailyOnceADay(t *testing.T) {
	paris := need.Zone(t, "Europe/Paris")
	day := func(month time.Month, day, hour, min int) time.Time {
		return time.Date(2026, month, day, hour, min, 0, 0, paris)
	}
	const step = 10 * time.Minute
	for _, tc := range []struct {
		name, daily string
		from, to    time.Time
		step        time.Duration
		want        string
	}{
		{"on time", "08:30", day(11, 20, 0, 0), day(11, 22, 0, 0), step, "[11-20 08:30 CET 11-21 08:30 CET]"},
		{"not for a day that began before", "08:30", day(11, 20, 9, 0), day(11, 21, 12, 0), step, "[11-21 08:30 CET]"},
		{"late after an outage", "08:30", day(11, 20, 8, 0), day(11, 21, 23, 0), 7 * time.Hour,
			"[11-20 15:00 CET 11-21 12:00 CET]"},
		{"a time that is skipped", "02:30", day(3, 28, 12, 0), day(3, 30, 12, 0), step,
			"[03-29 03:00 CEST 03-30 02:30 CEST]"},
		{"a time that comes twice", "02:30", day(10, 24, 12, 0), day(10, 26, 12, 0), step,
			"[10-25 02:30 CEST 10-26 02:30 CET]"},
		{"midnight", "00:00", day(11, 20, 12, 0), day(11, 22, 12, 0), step, "[11-21 00:00 CET 11-22 00:00 CET]"},
	} {
		if got := fmt.Sprint(days(t, paris, tc.daily, tc.from, tc.to, tc.step)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestSummaryRespectsTheRateLimit(t *testing.T) {
	r, dir := newReceiver(t), t.TempDir()
	h := hook("a", r.URL)
	h.Daily, h.PerMinute = "08:30", 2
	c := carrier(t, dir, h)
	accept(t, c, start) // 06:00
	r.set(says(500, ""))
	accept(t, c, start, several(0, 3)...)
	c.Deliver(t.Context(), start)
	now := start.Add(3 * time.Hour)
	accept(t, c, now)
	accept(t, c, now, several(3, 5)...)
	r.set(nil)
	c.Deliver(t.Context(), now)
	c.Deliver(t.Context(), now.Add(time.Minute))
	wantIDs(t, r, append(idsOf(several(0, 3)), "daily/2026-11-20", event(3).ID, event(4).ID)...)
}

// A report comes once for each Monday or first of a month, also late, and not for the time before the hook has one.
func TestReportsOnceAPeriod(t *testing.T) {
	paris := need.Zone(t, "Europe/Paris")
	for report, want := range map[string]string{
		"weekly":  "[11-16 08:00 weekly-report 11-23 08:00 weekly-report 12-01 00:00 weekly-report 12-07 08:00 weekly-report]",
		"monthly": "[12-01 08:00 monthly-report]",
	} {
		r, dir := newReceiver(t), t.TempDir()
		h := hook("a", r.URL)
		h.Report, h.Events = report, []string{}
		var got []string
		for now := time.Date(2026, 11, 10, 0, 0, 0, 0, paris); now.Month() < 12 ||
			now.Day() < 12; now = now.Add(time.Hour) {
			if now.Month() == 11 && now.Day() == 30 {
				continue // the web host is off on that Monday
			}
			c, err := New(Options{Outbox: filepath.Join(dir, "outbox.json"), Hooks: []Hook{h}, Zone: paris})
			if err != nil {
				t.Fatal(err)
			}
			before := len(r.got)
			accept(t, c, now)
			if trouble := c.Deliver(t.Context(), now); len(trouble) != 0 {
				t.Fatal(trouble)
			}
			for _, m := range r.got[before:] {
				if m.Text != report+": 3 of 8 GPUs are free" {
					t.Errorf("message %+v", m)
				}
				got = append(got, now.Format("01-02 15:04 ")+string(m.Kind))
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v\nwant %s", report, got, want)
		}
	}
	for _, bad := range []Hook{{Name: "a", Kind: Command, Command: []string{"x"}, Report: "yearly"},
		{Name: "a", Kind: Mail, From: "b@lab.example", To: []string{ToPeople}, Report: "weekly"}} {
		if _, err := New(Options{Hooks: []Hook{bad}}); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
