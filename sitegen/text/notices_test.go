package text

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/boardtest"
)

// noticesFor are the notices of somebody in the lab, a line each.
func noticesFor(b *board.Board, name string, within time.Duration) string {
	is := func(other string) bool { return other == name }
	own := slices.DeleteFunc(slices.Clone(b.Bookings), func(b board.Booking) bool { return !is(b.Name) })
	var lines []string
	for _, n := range Notices(b, is, own, boardtest.Now, within, boardtest.Lab().Site.Zone) {
		lines = append(lines, strings.TrimSpace(n.Kind+" "+n.Place+": "+n.Text+" "+n.Booking))
	}
	return strings.Join(lines, "\n")
}

func TestNotices(t *testing.T) {
	for name, want := range map[string]string{
		"eva": "gpu-contested atlas:3: used by jun (eval.py), and booked by you until Sun 12:00 atlas-[3]-eva",
		"jun": "gpu-taken atlas:3: used by you, and booked by eva until Sun 12:00\n" +
			"booking-noshow europa:3: booked by you until Sat 10:42, and not in use europa-[3]-jun",
		"ada": "booking-ending ceres:3: your booking ends 18:00, in 7 h 18 min ceres-[3]-ada\n" +
			"booking-ending europa:3: your booking ends 17:00, in 6 h 18 min europa-[3]-ada\n" +
			"booking-noshow europa:3: booked by you until 17:00, and not in use europa-[3]-ada",
		"sam":   "gpu-idle atlas:7: idle for 19 h, and used by you",
		"tomas": "gpu-problem fornax:0: unknown: no recent data from this host",
		"kai":   "gpu-problem europa:1: stuck: its memory belongs to pid 48112 (kai), which has ended; stop what it left running: 48130 (kai), 48131 (kai)",
		"noor":  "",
		"ops":   "booking-ending boreas: your booking ends 19:00, in 8 h 18 min boreas-[]-ops",
		"":      "",
	} {
		if got := noticesFor(boardtest.Lab().Board, name, 12*time.Hour); got != want {
			t.Errorf("%s is told\n%s\nwant\n%s", name, got, want)
		}
	}
}

// What there is to say of several GPUs of a host is said once; of a booking of a whole host no GPU is given back.
func TestNoticesOfAHostAreOne(t *testing.T) {
	b := boardtest.Lab().Board
	dione := slices.IndexFunc(b.Hosts, func(h board.Host) bool { return h.Name == "dione" })
	for i := range b.Hosts[dione].GPUs {
		g := &b.Hosts[dione].GPUs[i]
		g.State, g.IdleSince, g.Processes = board.InUse, boardtest.At(0, -3, 0), nil
		g.Booking = boardtest.Booked("dione", nil, "mira", boardtest.At(-2, 0, 0), time.Time{}, "")
	}
	if got, want := noticesFor(b, "mira",
		time.Hour), "gpu-idle dione:0,1,2,3,4,5,6,7: idle for 3 h, and booked by you"; got != want {
		t.Errorf("mira is told\n%s\nwant\n%s", got, want)
	}
}

// A booking that begins is told until it has begun, and one for somebody else by its name.
func TestNoticesOfBookings(t *testing.T) {
	is := func(name string) bool { return name == "eva" }
	begins := *boardtest.Booked("atlas", []int{4, 5}, "eva", boardtest.At(0, 2, 0), boardtest.At(4, 0, 0), "")
	ends := *boardtest.Booked("atlas", nil, "ada", boardtest.At(-1, 0, 0), boardtest.At(0, 0, 30), "")
	open := *boardtest.Booked("atlas", nil, "eva", boardtest.At(-1, 0, 0), time.Time{}, "")
	for _, c := range []struct {
		now    time.Time
		within time.Duration
		want   string
	}{
		{boardtest.At(0, 0, 0), time.Hour, "your booking for ada ends 11:12, in 30 min"},
		{boardtest.At(0, 0, 0), 2 * time.Hour,
			"your booking begins 12:42, in 2 h; your booking for ada ends 11:12, in 30 min"},
		{boardtest.At(0, 2, 0), 2 * time.Hour, ""},
		{boardtest.At(0, 0, 30), time.Hour, ""},
	} {
		var got []string
		for _, n := range Notices(&board.Board{GeneratedAt: c.now}, is, []board.Booking{begins, ends, open}, c.now,
			c.within, boardtest.Lab().Site.Zone) {
			got = append(got, n.Text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("at %s, within %s: %q, want %q", c.now, c.within, got, c.want)
		}
	}
}

// An error of the driver is told to whoever had the GPU then, for a day.
func TestNoticesOfDriverErrors(t *testing.T) {
	for _, c := range []struct {
		hours int
		told  bool
	}{{-1, true}, {-23, true}, {-25, false}} {
		b := boardtest.Lab().Board
		b.Hosts[0].GPUs[0].XID = &snapshot.XID{Code: 79, At: snapshot.TimeOf(boardtest.At(0, c.hours, 0))}
		got := noticesFor(b, "mira", time.Hour)
		if told := strings.Contains(got, "gpu-problem atlas:0: the driver reported XID 79, "); told != c.told {
			t.Errorf("%d hours ago: %q", -c.hours, got)
		}
		if got := noticesFor(b, "eva", time.Hour); strings.Contains(got, "XID") {
			t.Errorf("eva is told of what is mira's: %s", got)
		}
	}
}
