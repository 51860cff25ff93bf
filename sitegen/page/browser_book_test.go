package page

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/browser"
	"gpuboard/sitegen/render"
	"gpuboard/templates"
)

// TestPanelReadsTimesAsTheCommandDoes holds the script against the command: the same
// text is the same moment, or is refused by both.
func TestPanelReadsTimesAsTheCommandDoes(t *testing.T) {
	tab := browser.Start(t, 800, 600)
	script, err := fs.ReadFile(templates.Files(), "script/moment.js")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{
		"2d6h", "2d 6h", "+1d", "1w", "45m", "45min", "2 weeks 3 days", "90m", "1h30m", "6h2d", "0h", "2x", "", "d", "99999d",
		"sun 20:00", "sunday 20:00", "Sun", "sat 09:00", "sat", "friday", "fri 9:05", "fri 24:00", "fri noon", "fri midnight", "mon 02:30",
		"today", "today 23:00", "today 01:00", "tomorrow", "tomorrow 9:00", "tomorrow noon", "18:00", "9:00", "10:41", "10:42", "noon", "midnight", "now", "24:00", "24:01", "18h30", "fri 18h", "30 November 2026 18h30", "Nov 30, 2026", "31 november 2026", "2026-12-01 18h", "2026-12-01 24:00", "7:5",
		"2026-11-29", "2026-11-29 18:00", "2026-11-29T18:00", "2026-11-29 18:00:30Z", "2026-11-29 18:00 +01:00", "2026-11-29 18:00-0330", "2026-11-31", "2026-13-01", "2026-1-2 3:04",
		"29.11.2026", "29.11.2026 18:00", "31.11.2026", "29/11/2026", "2026/11/29", "2020-01-01", "yesterday", "someday 9:00", "never mind", "2027-03-28 02:30", "2027-10-31 02:30", "2027-03-28",
	}
	for _, zone := range []string{"Europe/Paris", "America/St_Johns", "UTC", "Asia/Kolkata"} {
		if _, err := chromedp.Call(tab.Ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone}); err != nil {
			t.Fatal(err)
		}
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, now := range []time.Time{time.Date(2026, 11, 22, 10, 42, 0, 0, loc), time.Date(2026, 11, 27, 23, 59, 0, 0, loc), time.Date(2027, 3, 27, 12, 0, 0, 0, loc)} {
			for _, begin := range []string{"", "sat 09:00", "2027-03-27 09:00"} {
				p := booking.Policy{Now: now, Zone: loc}
				want := map[string]string{}
				for _, text := range texts {
					from, until, _, err := p.Times(begin, text)
					switch {
					case err != nil:
						want[text] = "no"
					default:
						want[text] = from.UTC().Format(time.RFC3339) + " " + until.UTC().Format(time.RFC3339)
					}
					if start, _, _, err := p.Times(text, "1m"); text != "" {
						want["from "+text] = "no"
						if err == nil {
							want["from "+text] = start.UTC().Format(time.RFC3339)
						}
					}
				}
				asked, _ := json.Marshal(texts)
				got := browser.Eval[map[string]string](tab, fmt.Sprintf(`(() => { %s
					const now = new Date(%d), iso = t => t.toISOString().replace(".000Z", "Z"), out = {};
					for (const text of %s) {
						const from = readFrom(%q, now), until = from && readUntil(text, from, now), start = readFrom(text, now);
						out[text] = until ? iso(from) + " " + iso(until) : "no";
						if (text) { out["from " + text] = start ? iso(start) : "no"; }
					}
					return out;
				})()`, script, now.UnixMilli(), asked, begin))
				for text, w := range want {
					if got[text] != w {
						t.Errorf("%s, %s, from %q: %q is %s for the panel, and %s for the command", zone, now.Format("Mon 2 Jan 15:04"), begin, text, got[text], w)
					}
				}
			}
		}
	}
}

// fleet is a board of three hosts, with bookings of the next days.
func fleet(now time.Time) render.Input {
	at := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	b := &board.Board{GeneratedAt: now, Interval: time.Minute}
	for i, states := range [][]board.State{{board.Free, board.Free, board.Busy, board.Unknown}, {board.Free, board.Booked, board.InUse, board.Lost}, {board.Free, board.Free}} {
		h := board.Host{Name: string(rune('a'+i)) + "1", State: board.Up, SnapshotAt: now}
		for j, s := range states {
			memory := int64(81559)
			g := board.GPU{GPU: snapshot.GPU{Index: j, Name: "NVIDIA H100", MemoryTotal: &memory}, ShortName: "H100", State: s}
			if i == 2 {
				g.ShortName, g.Name, memory = "A10", "NVIDIA A10", 23028
			}
			h.GPUs = append(h.GPUs, g)
		}
		b.Hosts = append(b.Hosts, h)
	}
	for i, bk := range []struct {
		host             string
		gpu, from, until int
	}{{"a1", 1, 5, 6}, {"b1", 1, -1, 20}, {"b1", 2, -1, 8}, {"b1", 2, 9, 10}} {
		b.Bookings = append(b.Bookings, board.Booking{ID: fmt.Sprint(i), Host: bk.host, GPUs: []int{bk.gpu}, Name: "mira", From: at(bk.from), Until: at(bk.until), Active: bk.from < 0})
	}
	b.Models = []board.Model{{Name: "A10"}, {Name: "H100"}}
	return render.Input{Board: b, Site: render.Site{Zone: time.UTC, BookCommand: "gpuboard"}}
}

// diskSite writes a site to a directory, as a browser reads it from there.
func diskSite(t *testing.T, in render.Input) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range pages(t, in) {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir + "/"
}

// TestSeveralFromDisk: where no server answers, the page shows which GPUs would be
// taken, or when there are as many, and composes one command for all of them. What it
// takes is what the command would.
func TestSeveralFromDisk(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Minute)
	in := fleet(now)
	parted := board.GPU{GPU: snapshot.GPU{Index: 4, Name: "NVIDIA H100"}, ShortName: "H100", State: board.Busy}
	for i := range 3 {
		memory := int64(9856)
		parted.Slices = append(parted.Slices, board.GPU{
			GPU:       snapshot.GPU{Index: 4, UUID: fmt.Sprint("MIG-", i), Name: "NVIDIA H100 MIG 1g.10gb", MemoryTotal: &memory},
			ShortName: "H100 1g.10gb", State: board.Free, Slice: &board.Slice{Index: i, Profile: "1g.10gb"},
		})
	}
	in.Board.Hosts[0].GPUs = append(in.Board.Hosts[0].GPUs, parted)
	in.Board.Models = append(in.Board.Models, board.Model{Name: "H100 1g.10gb"})
	tab := browser.Start(t, 1000, 900)
	if _, err := chromedp.Call(tab.Ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}); err != nil {
		t.Fatal(err)
	}
	site := diskSite(t, in)
	var standing []booking.Booking
	for _, b := range in.Board.Bookings {
		standing = append(standing, booking.Booking{ID: b.ID, Host: b.Host, Target: booking.Target{Index: b.GPUs[0]}, Name: b.Name, From: b.From, Until: b.Until, Kind: booking.Reserved})
	}
	open := func(q url.Values) (says, command string) {
		tab.Open(site + "book/index.html?" + q.Encode())
		if browser.Eval[bool](tab, `document.getElementById("_command").closest("p").hidden`) {
			return tab.Text("#_says"), ""
		}
		return tab.Text("#_says"), browser.Eval[string](tab, `document.getElementById("_command").textContent`)
	}
	for _, tt := range []struct {
		gpus   int
		until  string
		one    bool
		model  string
		memory string
	}{
		{1, "2h", false, "", ""}, {2, "2h", false, "H100", ""}, {3, "2h", false, "H100", ""}, {2, "6h", true, "H100", ""}, {2, "6h", false, "H100", "40G"},
		{4, "1h", false, "H100", ""}, {4, "2h", false, "H100", "80G"}, {5, "1h", false, "H100", ""}, {6, "1h", false, "H100", ""}, {30, "1h", false, "", ""}, {2, "1h", false, "", "20Gi"}, {2, "1h", false, "A10", "40G"},
		{3, "1h", false, "H100 1g.10gb", ""}, {4, "1h", false, "H100 1g.10gb", ""}, // the others take no slice
	} {
		w := board.Wish{GPUs: tt.gpus, OneHost: tt.one, From: now}
		w.Model = tt.model
		w.Until, _, _ = booking.ParseUntil(tt.until, now, now, time.UTC)
		w.Memory, _ = board.ParseMemory(tt.memory)
		o := w.Offer(in.Board, &booking.Calendar{Bookings: standing}, now)
		var places []booking.Booking
		for _, u := range o.Units {
			target, _ := u.GPU.Target()
			places = append(places, booking.Booking{Host: u.Host.Name, Target: target})
		}
		q := url.Values{"gpus": {fmt.Sprint(tt.gpus)}, "until": {tt.until}, "memory": {tt.memory}, "name": {"eva"}, "comment": {`a "b"`}}
		if tt.one {
			q.Set("one-host", "1")
		}
		q.Set("model", tt.model)
		says, command := open(q)
		switch {
		case o.Units != nil:
			want := "gpuboard book " + strings.ReplaceAll(booking.Places(places), " and ", " ") + " --for " + tt.until + ` --name eva --comment 'a "b"'`
			if command != want || !strings.HasPrefix(says, "Would book ") {
				t.Errorf("%+v: %q %q, want %q", tt, says, command, want)
			}
		case command != "" || !strings.HasPrefix(says, fmt.Sprintf("%d GPUs can be booked for this time; there are %d GPUs of this kind.", o.Open, o.Fit)):
			t.Errorf("%+v: %q %q, want none of %d, %d", tt, says, command, o.Open, o.Fit)
		case strings.Contains(says, "Enough GPUs from ") == o.Next.IsZero():
			t.Errorf("%+v: it says %q, and the next time is %v", tt, says, o.Next)
		}
		if !o.Next.IsZero() {
			tab.Do(chromedp.Click("#_says button"))
			if next := browser.Eval[string](tab, `document.getElementById("_from").value`); next != o.Next.Add(time.Minute-time.Nanosecond).Truncate(time.Minute).Format("2006-01-02 15:04-07:00") || tab.Text("#_says .bad") != "" || !strings.Contains(tab.Text("#_command"), " --from '") {
				t.Errorf("%+v: the next time is %s, want %v: %s", tt, next, o.Next, tab.Text("#_says"))
			}
		}
	}
	// GPUs that are named, as a click elsewhere names them.
	for _, tt := range []struct{ at, from, says, command string }{
		{"a1:0 b1", "", "b1:1: Booked by mira: ", ""},
		{"a1:0", "", "", "gpuboard book a1:0 --for 2d --name eva"},
		{"a1:2", "", "Others are using it now, or may be", "gpuboard book a1:2 --for 2d --name eva"},
		{"a1:0-1", "2099-01-02 09:00", "", "gpuboard book a1:0-1 --from '2099-01-02 09:00+00:00' --for 2d --name eva"},
		{"z9:0", "", "There is no such GPU", ""}, {"a1:9", "", "There is no such GPU", ""},
	} {
		says, command := open(url.Values{"at": {tt.at}, "from": {tt.from}, "name": {"eva"}})
		if !strings.Contains(says, tt.says) || command != tt.command {
			t.Errorf("%+v: %q %q", tt, says, command)
		}
	}
	// All of the command can be seen.
	open(url.Values{"at": {"a1:0"}, "name": {"eva"}, "comment": {strings.Repeat("a long reason ", 12)}})
	if !browser.Eval[bool](tab, `(c => c.scrollWidth <= c.clientWidth + 1 && document.documentElement.scrollWidth <= innerWidth)(document.getElementById("_command").parentNode)`) {
		t.Error("the command has to be scrolled sideways")
	}
	if lines := tab.Console(); len(lines) > 0 {
		t.Errorf("the console says %q", lines)
	}
}

// TestFreeSpaceBeginsABooking: a click into the picture of the week leads to the form
// with that GPU and hour; a link does so without a script.
func TestFreeSpaceBeginsABooking(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Hour)
	in := fleet(now)
	tab := browser.Start(t, 1200, 900)
	if _, err := chromedp.Call(tab.Ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}); err != nil {
		t.Fatal(err)
	}
	site := diskSite(t, in)
	tab.Open(site + "bookings/index.html")
	if link := browser.Eval[string](tab, `document.querySelector(".tl:nth-child(3) .lb a.d").getAttribute("href")`); link != "../book/index.html?at=b1%3A1" {
		t.Errorf("the row leads to %q", link)
	}
	box := browser.Eval[[]float64](tab, `(r => [r.left, r.top, r.width, r.height])(document.querySelector(".tl:nth-child(3) .ln").getBoundingClientRect())`)
	tab.Do(chromedp.MouseClickXY(box[0]+box[2]/2+1, box[1]+box[3]/2))
	tab.Do(chromedp.WaitVisible("#_several"))
	want := now.Add(84 * time.Hour).Format("2006-01-02 15:04-07:00")
	got := browser.Eval[[]string](tab, `["at", "from"].map(n => document.querySelector("#_several [name=" + n + "]").value)`)
	if got[0] != "b1:1" || got[1] != want {
		t.Errorf("it begins with %q, want b1:1 and %s", got, want)
	}
}
