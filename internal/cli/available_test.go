package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// An amount of memory is what the box of a card says.
func TestMebibytes(t *testing.T) {
	for s, want := range map[string]int64{
		"40G": 38146, "80GB": 76293, "40Gi": 40960, "40GiB": 40960, " 24 g ": 22888, "500M": 476, "500MiB": 500, "0.5Gi": 512, "0G": 0,
	} {
		if got, err := mebibytes(s); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "40", "G", "-1G", "x40G", "1e300G", "NaNG", "InfG", "40T"} {
		if got, err := mebibytes(s); err == nil {
			t.Errorf("%q was read as %d", s, got)
		}
	}
	for name, mib := range map[string]int64{"80G": 81559, "40G": 40536, "24G": 23028, "48G": 46068, "16G": 15360} { // as H100, A100, A10, L40S and T4 report it
		w := wanted{}
		w.memory, _ = mebibytes(name)
		if g := (board.GPU{GPU: snapshot.GPU{MemoryTotal: &mib}}); !w.fits(&board.Host{}, &g) {
			t.Errorf("a card of %s with %d MiB is none", name, mib)
		}
	}
	if w := (wanted{memory: 1}); w.fits(&board.Host{}, &board.GPU{}) {
		t.Error("memory that nobody knows is enough")
	}
}

// A shell sees what is printed, and nothing in it may be more than a name.
func TestDevicesAreSafeInAShell(t *testing.T) {
	gpu := func(uuid string) *board.GPU { return &board.GPU{GPU: snapshot.GPU{Index: 3, UUID: uuid}} }
	for _, c := range []struct {
		gpu  *board.GPU
		want string
	}{
		{gpu("GPU-0a1b-2c"), "GPU-0a1b-2c"}, {gpu(""), "3"}, {gpu("GPU-$(reboot)"), "3"}, {gpu("GPU-1 X=2"), "3"}, {gpu("a,b"), "3"}, {gpu("GPU-é"), "3"},
		{gpu("MIG-GPU-1/7/0"), "MIG-GPU-1/7/0"}, {gpu("`x`"), "3"},
	} {
		if got := deviceID(c.gpu); got != c.want {
			t.Errorf("%q: %q, want %q", c.gpu.UUID, got, c.want)
		}
	}
}

func TestOpenTo(t *testing.T) {
	eva := mine("Eva", booking.Aliases{"eva": "Eva Lind", "elind": "Eva Lind"})
	by := func(name string) *board.Booking { return &board.Booking{Name: name} }
	for _, c := range []struct {
		name string
		gpu  board.GPU
		want bool
	}{
		{"free", board.GPU{State: board.Free}, true},
		{"one's own", board.GPU{State: board.Booked, Booking: by("eva lind")}, true},
		{"one's own by another login", board.GPU{State: board.Booked, Booking: by("elind")}, true},
		{"somebody else's", board.GPU{State: board.Booked, Booking: by("bob")}, false},
		{"one's own twice", board.GPU{State: board.Booked, Booking: by("eva"), Others: []board.Booking{*by("Eva Lind")}}, true},
		{"also somebody else's", board.GPU{State: board.Booked, Booking: by("eva"), Others: []board.Booking{*by("bob")}}, false},
		{"booked by nobody", board.GPU{State: board.Booked}, false},
	} {
		if got := openTo(&c.gpu, eva); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, s := range board.States() {
		if open := openTo(&board.GPU{State: s, Booking: by("eva")}, eva); open != (s == board.Free || s == board.Booked) {
			t.Errorf("%s with a booking of one's own: %v", s, open)
		}
	}
}

// --max-used gives what the older tool gave, whoever computes; but nothing that
// is of no use, that nobody knows about, or that somebody else has booked.
func TestMaxUsedAsksForMemory(t *testing.T) {
	eva := mine("eva", nil)
	by := func(name string) *board.Booking { return &board.Booking{Name: name} }
	for _, c := range []struct {
		name        string
		gpu         board.GPU
		used, total int64 // MiB; negative where they are not known
		want        bool
	}{
		{"free", board.GPU{State: board.Free}, 20, 100, true},
		{"free, and more is used", board.GPU{State: board.Free}, 21, 100, false},
		{"a process on 7 %", board.GPU{State: board.Busy}, 7, 100, true},
		{"by somebody unknown", board.GPU{State: board.Busy, Reason: board.ReasonMemory}, 7, 100, true},
		{"stuck on 7 %", board.GPU{State: board.Stuck}, 7, 100, false},
		{"lost", board.GPU{State: board.Lost}, 7, 100, false},
		{"unknown", board.GPU{State: board.Unknown}, 7, 100, false},
		{"drained", board.GPU{State: board.Drained, Booking: by("eva")}, 7, 100, false},
		{"one's own", board.GPU{State: board.InUse, Booking: by("eva")}, 7, 100, true},
		{"somebody else's", board.GPU{State: board.InUse, Booking: by("bob")}, 7, 100, false},
		{"somebody else's, and idle", board.GPU{State: board.Booked, Booking: by("bob")}, 7, 100, false},
		{"one's own, and another's", board.GPU{State: board.InUse, Booking: by("eva"), Others: []board.Booking{*by("bob")}}, 7, 100, false},
		{"contested", board.GPU{State: board.Contested, Booking: by("eva")}, 7, 100, false},
		{"memory that nobody knows", board.GPU{State: board.Busy}, -1, 100, false},
		{"a total that nobody knows", board.GPU{State: board.Busy}, 7, -1, false},
		{"more than there is", board.GPU{State: board.Busy}, 101, 100, false},
		{"slices", board.GPU{State: board.Busy, GPU: snapshot.GPU{MIGDevices: []snapshot.MIGDevice{{}}}}, 7, 100, false},
		{"the node's memory", board.GPU{State: board.Busy, GPU: snapshot.GPU{MemoryShared: true}}, 7, 100, false},
		{"the node's memory, and free", board.GPU{State: board.Free, GPU: snapshot.GPU{MemoryShared: true}}, 70, 100, true},
	} {
		if c.used >= 0 {
			c.gpu.MemoryUsed = &c.used
		}
		if c.total >= 0 {
			c.gpu.MemoryTotal = &c.total
		}
		w := wanted{share: new(20.0)}
		if got := w.open(&c.gpu, eva); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestWhatStdoutIs(t *testing.T) {
	for _, c := range []struct {
		env             string
		colors, unicode bool
		width           int
	}{
		{"", false, true, 80},
		{"CLICOLOR_FORCE=1", true, true, 80},
		{"CLICOLOR_FORCE=0", false, true, 80},
		{"CLICOLOR_FORCE=1 NO_COLOR=1", false, true, 80},
		{"CLICOLOR_FORCE=1 TERM=dumb", true, true, 80},
		{"COLUMNS=132 LANG=C", false, false, 132},
		{"COLUMNS=-1 LANG=de_DE.UTF-8", false, true, 80},
		{"COLUMNS=999999 LC_ALL=C LANG=de_DE.UTF-8", false, false, 1000},
		{"LC_CTYPE=en_US.utf8 LANG=C", false, true, 80},
	} {
		a := &app{stdout: &strings.Builder{}, getenv: func(name string) string {
			for pair := range strings.FieldsSeq(c.env) {
				if k, v, _ := strings.Cut(pair, "="); k == name {
					return v
				}
			}
			return ""
		}}
		if a.colors() != c.colors || a.unicode() != c.unicode || a.width(80) != c.width {
			t.Errorf("%s: colours %v, unicode %v, %d columns", c.env, a.colors(), a.unicode(), a.width(80))
		}
	}
}

// The bookings of a node come from its site, and what is wrong with that is said.
func TestANodeAsksItsSiteForBookings(t *testing.T) {
	files := testSite{comments: `{"gpu01": {"*": {"name": "eva", "date": "2026-11-21 10:00"}, "1": {"name": "ops", "date": "2026-11-22 10:00", "kind": "maintenance"}}, "gpu02": {"GPU-gpu02-0": {"name": "bob", "date": "2026-11-21 10:00"}}}`}.files(t)
	site := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
		}
		_, _ = w.Write(content)
	})
	broken := serveSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	for _, c := range []struct {
		site, host string
		age        time.Duration
		want       string
		problem    string
	}{
		{site, "gpu01", 0, "* eva booking, 1 ops maintenance", ""},
		{site, "gpu02", 15 * time.Minute, "GPU-gpu02-0 bob booking", ""},
		{site, "gpu02", 16 * time.Minute, "GPU-gpu02-0 bob booking", "site:stale"},
		{site, "gpu03", 0, "", "site:unknown-host"},
		{broken, "gpu01", 0, "", "site:unreachable"},
		{"gpu.example.org", "gpu01", 0, "", "site:unreachable"},
		{"", "gpu01", 0, "", ""},
	} {
		a := &app{now: func() time.Time { return siteNow.Add(c.age) }, getenv: func(string) string { return "" }}
		cfg := settingsOf(t, map[string]string{"site_timeout": "2s", "site_url": c.site, "site": t.TempDir()})
		cal, _, problems := a.bookingsHere(t.Context(), cfg, c.host, "", booking.Options{}, time.UTC)
		var got []string
		if cal != nil {
			for _, b := range cal.Bookings {
				got = append(got, fmt.Sprintf("%s %s %s", b.Target, b.Name, b.Kind))
			}
		}
		if strings.Join(got, ", ") != c.want || (len(problems) > 0) != (c.problem != "") || len(problems) > 0 && problems[0].Code != c.problem {
			t.Errorf("%s of %s: %v, %v", c.host, c.site, got, problems)
		}
	}
}
