package booking_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

func TestParsePlace(t *testing.T) {
	for arg, want := range map[string]string{
		"gpu01":         "gpu01 *",
		"GPU01":         "gpu01 *",
		"gpu01:0":       "gpu01 0",
		"gpu01:0,3,3":   "gpu01 0 3",
		"gpu01:1-3,0":   "gpu01 1 2 3 0",
		"gpu01:*":       "gpu01 *",
		"a.example:2":   "a.example 2",
		"gpu01: 0 , 1 ": "gpu01 0 1",
		"gpu01:GPU-3F1C7A52-90ab-4cde-8123-456789abcdef": "gpu01 GPU-3f1c7a52-90ab-4cde-8123-456789abcdef",
		"gpu01:GPU-12345678":                             "", // a part of one
		"gpu01:":                                         "",
		"gpu01:0,":                                       "",
		"gpu01:3-1":                                      "",
		"gpu01:0-99999999999":                            "",
		"gpu01:-1":                                       "",
		"gpu01:x":                                        "",
		":0":                                             "",
		"":                                               "",
		"a/b:0":                                          "",
		"gpu01:0:1":                                      "",
	} {
		host, targets, err := booking.ParsePlace(arg)
		got := host
		for _, target := range targets {
			got += " " + target.String()
		}
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", arg, got, err, want)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"gpu01", "gpu01:0,1", "gpu01:0-3", "gpu01:GPU-1", "a:b:c", "x:0-0-0", "gpu01:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		host, targets, err := booking.ParsePlace(arg)
		if err != nil {
			return
		}
		if again, err := snapshot.ParseHost(host); err != nil || again != host {
			t.Errorf("%q: the host %q is none: %v", arg, host, err)
		}
		if len(targets) == 0 || len(targets) > len(arg)*snapshot.MaxGPUs+1 {
			t.Errorf("%q: %d targets", arg, len(targets))
		}
		seen := map[booking.Target]bool{}
		for _, target := range targets {
			back, hint := booking.ParseTarget(target.String())
			if hint != "" || back != target || seen[target] {
				t.Errorf("%q: the target %q does not read back, or is there twice: %s", arg, target, hint)
			}
			seen[target] = true
		}
	})
}

func TestTargetCovers(t *testing.T) {
	for _, tt := range []struct {
		target booking.Target
		index  int
		uuid   string
		want   bool
	}{
		{booking.Target{All: true, Index: -1}, 3, "GPU-00000001-0000-4000-8000-000000000000", true},
		{booking.Target{UUID: "GPU-00000001-0000-4000-8000-000000000000", Index: -1}, 3,
			"GPU-00000001-0000-4000-8000-000000000000", true},
		{booking.Target{UUID: "GPU-00000001-0000-4000-8000-000000000000", Index: 3}, 3, "GPU-2", false},
		{booking.Target{Index: 3}, 3, "GPU-00000001-0000-4000-8000-000000000000", true},
		{booking.Target{Index: 3}, 2, "", false},
	} {
		if got := tt.target.Covers(tt.index, tt.uuid); got != tt.want {
			t.Errorf("%v covers %d %s: %v", tt.target, tt.index, tt.uuid, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	b := func(host string, index int) booking.Booking {
		return booking.Booking{Host: host, Target: booking.Target{Index: index}}
	}
	whole := booking.Booking{Host: "c", Target: booking.Target{All: true, Index: -1}}
	for want, list := range map[string][]booking.Booking{
		"":                 nil,
		"a:0":              {b("a", 0)},
		"a:0,1":            {b("a", 0), b("a", 1)},
		"a:0 and b:0":      {b("a", 0), b("b", 0)},
		"a:0,2, b:1 and c": {b("a", 0), b("a", 2), b("b", 1), whole},
		"c and c:1":        {whole, b("c", 1)},
	} {
		if got := booking.Places(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTargetsInOrder(t *testing.T) {
	const first, second = "GPU-000000aa-0000-4000-8000-000000000000", "GPU-000000ab-0000-4000-8000-000000000000"
	c := parsed(t, `{"a": {"`+second+`": {"name": "x"}, "10": {"name": "x"}, "`+first+`": {"name": "x"},
		"2": {"name": "x"}, "*": {"name": "x"}}}`)
	var got []string
	for _, b := range c.Bookings {
		got = append(got, b.Target.String())
	}
	if want := []string{"*", "2", "10", first, second}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fleetOf is a fleet of hosts with eight GPUs each.
func fleetOf(names ...string) booking.Fleet {
	f := booking.Fleet{Hosts: map[string]booking.KnownHost{}}
	for _, name := range names {
		f.Hosts[name] = booking.KnownHost{GPUs: 8}
	}
	return f
}

// heldBy is what the bookings of a calendar hold, and for whom.
func heldBy(cal *booking.Calendar) string {
	var words []string
	for _, b := range cal.Bookings {
		words = append(words, b.Place()+" "+b.Name)
	}
	return strings.Join(words, ", ")
}

// What the key of a host can mean alone counts as that. What can mean several holds each for "?".
func TestHostKeysThatMeanSomethingElse(t *testing.T) {
	fleet := fleetOf("gpu01", "gpu02", "gpu03", "gpu1", "gpu2", "atlas", "node.example.org")
	const entry, list = `{ "name": "eve", "date": "2026-12-01" }`, `[ { "name": "eve", "date": "2026-12-01" } ]`
	const dictionary = `{ "3": { "name": "eve", "date": "2026-12-01" } }`
	for _, tt := range []struct{ key, value, holds, says string }{
		// The spellings that book prints and takes.
		{"gpu01:0", entry, "gpu01:0 eve", `is read as gpu01:0: write { "gpu01": { "0": … } }`},
		{"gpu01:0", list, "gpu01:0 eve", "is read as gpu01:0"},
		{"gpu01:0,1", entry, "gpu01:0 eve, gpu01:1 eve", `write { "gpu01": { "0,1": … } }`},
		{"gpu01:0-2", entry, "gpu01:0 eve, gpu01:1 eve, gpu01:2 eve", `{ "0,1,2": … }`},
		{"gpu01:*", list, "gpu01 eve", "is read as gpu01:*: write"},
		{"gpu01:GPU-00000000-0000-4000-8000-0000000000AA", entry,
			"gpu01:GPU-00000000-0000-4000-8000-0000000000aa eve", "is read as"},
		{"gpu01:0,1 and gpu02", entry, "gpu01 ?, gpu02 ?", "may mean"},
		{"gpu01:0, gpu02:1", entry, "gpu01 ?, gpu02 ?", "may mean gpu01, gpu02: write each host as a key of its own"},

		// What looks like a name.
		{"gpu\u200b01", entry, "gpu01 eve", "is read as gpu01"},
		{"\ufeffgpu01", dictionary, "gpu01:3 eve", "is read as gpu01"},
		{"gpu01.", list, "gpu01:0 eve", "is read as gpu01"},
		{"gpu01:", list, "gpu01:0 eve", "is read as gpu01"},
		{"ｇｐｕ０１：０", entry, "gpu01:0 eve", "is read as gpu01:0"},
		{"GPU01", list, "gpu01:0 eve", ""},
		{" gpu01 ", list, "gpu01:0 eve", ""},

		// Other signs between host and GPU.
		{"gpu01/0", entry, "gpu01:0 eve", "is read as gpu01:0"},
		{"gpu01#0", entry, "gpu01:0 eve", "is read as gpu01:0"},
		{"gpu01 0", entry, "gpu01:0 eve", "is read as gpu01:0"},
		{"GPU01 : 0", entry, "gpu01:0 eve", "is read as gpu01:0"},
		{"gpu 1", entry, "gpu1 ?", "may mean"},
		{"atlas 0", entry, "atlas ?", "may mean"},
		{"gpu_01", entry, "gpu01 ?", "may mean"},
		{"gpu01:gpu0", entry, "gpu01 ?", "may mean"},
		{"gpu01:8080", entry, "gpu01 ?", "may mean"},
		{"gpu01:-1", entry, "gpu01 ?", "may mean"},
		{"gpu01[0]", entry, "gpu01 ?", "may mean"},
		{"gpu01 (broken)", list, "gpu01:0 ?", "may mean"},
		{"eve@gpu01", list, "gpu01:0 ?", "may mean"},
		{"gpu01:0", dictionary, "gpu01 ?", "may mean"},
		{"gpu01:0", "7", "gpu01:0 ?", "is read as gpu01:0"},

		// Several hosts.
		{"gpu01,gpu02", entry, "gpu01 ?, gpu02 ?", "may mean gpu01, gpu02: write each host as a key of its own"},
		{"gpu01, gpu02", dictionary, "gpu01:3 ?, gpu02:3 ?", "may mean"},
		{"gpu01 gpu02", list, "gpu01:0 ?, gpu02:0 ?", "may mean"},
		{"gpu01;gpu02", list, "gpu01:0 ?, gpu02:0 ?", "may mean"},
		{"gpu[1-2]", list, "gpu1 ?, gpu2 ?", "may mean gpu1-2, gpu: write"},
		{"gpu[01-03]", list, "gpu01 ?, gpu02 ?, gpu03 ?", "may mean"},
		{"gpu{1..2}", list, "gpu1 ?, gpu2 ?", "may mean"},
		{"gpu[1,2]", entry, "gpu1 ?, gpu2 ?", "may mean"},
		{"gpu[01-02,3]", list, "gpu01 ?, gpu02 ?, gpu03 ?", "may mean"},
		{"gpu[01-02].example.org", entry, "gpu01 ?, gpu02 ?", "may mean"},
		{"gpu0[1,3]", entry, "gpu01 ?, gpu02 ?, gpu03 ?", "may mean"},
		{"gpu01..gpu03", entry, "gpu01 ?, gpu02 ?, gpu03 ?", "may mean"},
		{"gpu01 – 03", entry, "gpu01 ?, gpu02 ?, gpu03 ?", "may mean"},
		{"gpu01-gpu03", entry, "gpu01 ?, gpu02 ?, gpu03 ?", "may mean gpu01, gpu02, gpu03"},
		{"gpu01-03", entry, "gpu01 ?, gpu02 ?, gpu03 ?", "may mean"},
		{"gpu01-0", entry, "gpu01 ?", "may mean gpu01"},

		// With a domain, and without.
		{"gpu01.example.org", list, "gpu01:0 eve", `the host "gpu01.example.org" is read as gpu01: write "gpu01"`},
		{"gpu01.example.org:0", entry, "gpu01:0 eve", "is read as"},
		{"gpu01.0", entry, "gpu01 ?", "may mean gpu01"},
		{"node", list, "node.example.org:0 eve", `write "node.example.org"`},
		{"node:0", entry, "node.example.org:0 eve", "is read as node:0"},

		// Nothing that anybody could mean.
		{"", entry, "", "do not count"},
		{"*", entry, "", "do not count"},
		{"???", entry, "", "do not count"},
	} {
		file := "{ // ours\n  \"" + tt.key + "\": " + tt.value + " }"
		cal := booking.Parse("comments.json", []byte(file), booking.Zone{Location: time.UTC},
			booking.Options{Now: noon}).On(fleet)
		if got := heldBy(cal); got != tt.holds {
			t.Errorf("%s: %s holds %q, want %q", tt.key, tt.value, got, tt.holds)
		}
		said := ""
		for _, p := range cal.Problems {
			said += p.Where() + " " + p.Code + " " + p.Message + "\n"
		}
		if tt.says == "" && said != "" || !strings.Contains(said, tt.says) || tt.says != "" &&
			!strings.Contains(said, "comments.json:2:") {
			t.Errorf("%s: %s says %q, want %q", tt.key, tt.value, said, tt.says)
		}
		if found := booking.Check(cal, fleet, noon); len(found) > 0 {
			t.Errorf("%s: of the host there is also said %q", tt.key, found[0].Message)
		}
	}
}

// The key of a GPU holds what it may mean: the whole host where the number may be another one.
func TestGPUKeysThatMeanSomethingElse(t *testing.T) {
	for key, want := range map[string]string{
		"0": "gpu01:0 eve", "0,1": "gpu01:0 eve, gpu01:1 eve", "0-1": "gpu01:0 eve, gpu01:1 eve", "*": "gpu01 eve",
		"-1": "gpu01 ?", "- 1": "gpu01 ?", "−1": "gpu01 ?", "gpu -1": "gpu01 ?", "gpu--1": "gpu01 ?", "+1": "gpu01 ?",
		"1.0": "gpu01 ?", "": "gpu01 ?", "all": "gpu01 ?", "0x1": "gpu01 ?",
		"3-0": "gpu01 ?", "0-": "gpu01 ?", "64": "gpu01 ?", "0;1": "gpu01 ?", "1e0": "gpu01 ?",
		"GPU 0, GPU 1": "gpu01 ?",
		"٣":            "gpu01 ?",
		"01":           "gpu01:1 ?", "GPU 0": "gpu01:0 ?", "gpu-1": "gpu01:1 ?", "#1": "gpu01:1 ?", ":1": "gpu01:1 ?",
		"１":       "gpu01:1 ?",
		"1\u200b": "gpu01:1 ?", " 1 ": "gpu01:1 ?", "0\u00a0": "gpu01:0 ?",
		"GPU‑00000000‑0000‑4000‑8000‑0000000000aa": "gpu01:GPU-00000000-0000-4000-8000-0000000000aa ?",
	} {
		file := "{ \"gpu01\": { \"" + key + "\": { \"name\": \"eve\", \"date\": \"2026-12-01\" } } }"
		cal := booking.Parse("comments.json", []byte(file), booking.Zone{Location: time.UTC},
			booking.Options{Now: noon}).On(fleetOf("gpu01"))
		if got := heldBy(cal); got != want || (len(cal.Problems) == 0) != strings.Contains(want, "eve") {
			t.Errorf("%q holds %q, want %q: %+v", key, got, want, cal.Problems)
		}
	}
}

// Hosts that one name may mean are held; hosts of another domain, and a host that there is, are others.
func TestDomains(t *testing.T) {
	for _, tt := range []struct {
		key   string
		fleet []string
		want  string
	}{
		{"gpu01.example.org", []string{"gpu01", "gpu01.example.com"}, "gpu01:0 eve"},
		{"gpu01", []string{"gpu01.a.example", "gpu01.b.example"}, "gpu01.a.example:0 ?, gpu01.b.example:0 ?"},
		{"gpu01", []string{"gpu01", "gpu01.b.example"}, "gpu01:0 eve"},
		{"gpu01.a.example", []string{"gpu01.b.example"}, "gpu01.a.example:0 eve"},
		{"gpu01-02", []string{"gpu01-02", "gpu01", "gpu02"}, "gpu01-02:0 eve"},
		{"gpu01-02", []string{"gpu01.a.example", "gpu02.a.example"}, "gpu01.a.example ?, gpu02.a.example ?"},
		{"gpu[01-02]", []string{"gpu01.a.example", "gpu02"}, "gpu01.a.example ?, gpu02 ?"},
		{"gpu09", []string{"gpu01"}, "gpu09:0 eve"},
		{"gpu01.example.org", nil, "gpu01.example.org:0 eve"},
	} {
		cal := booking.Parse("comments.json", []byte(`{ "`+tt.key+`": [ { "name": "eve", "date": "2026-12-01" } ] }`),
			booking.Zone{Location: time.UTC}, booking.Options{})
		if got := heldBy(cal.On(fleetOf(tt.fleet...))); got != tt.want {
			t.Errorf("%s among %q holds %q, want %q", tt.key, tt.fleet, got, tt.want)
		}
	}
}

// Whoever is named below an odd key can extend and release what counts, and nobody else can; a key that may mean
// several hosts has to be corrected first. What is booked beside it stands below a key of its own.
func TestBookingsBelowOddKeysAreReleased(t *testing.T) {
	for _, tt := range []struct{ key, value, which, left string }{
		{"gpu01:0", `{ "name": "eve", "date": "2026-12-01" }`, "gpu01:0", ""},
		{"gpu01:0", `[ { "name": "eve", "date": "2026-12-01" }, { "name": "kai", "from": "2026-12-24" } ]`,
			"gpu01:0", "gpu01:0 kai"},
		{"gpu01:0,1", `{ "name": "eve", "date": "2026-12-01" }`, "gpu01:0", "gpu01:1 eve"},
		{"gpu01,gpu02", `{ "name": "eve", "date": "2026-12-01" }`, "gpu01", "gpu01 ?, gpu02 ?"},
		{"gpu01-gpu02", `{ "name": "eve", "date": "2026-12-01" }`, "gpu01", "gpu01 ?, gpu02 ?"},
		{"gpu[01-02]", `{ "name": "eve", "date": "2026-12-01" }`, "gpu02", "gpu01 ?, gpu02 ?"},
		{"gpu01.example.org", `[ { "name": "eve", "date": "2026-12-01" } ]`, "gpu01:0", ""},
		{"gpu01", `[ { "name": "eve", "date": "2026-12-01" } ]`, "gpu01.example.org:0", ""},
	} {
		file := []byte("{ // ours\n  \"" + tt.key + "\": " + tt.value + "\n}\n")
		p := booking.Policy{Login: "bob", Person: "bob", Now: noon, Zone: time.UTC,
			FileZone: booking.Zone{Location: time.UTC}, Fleet: fleetOf("gpu01", "gpu02")}
		if _, err := p.Release(file, tt.which); err == nil {
			t.Errorf("%s: bob releases what is eve's", tt.key)
		}
		beside, err := p.Book(file, booking.Booking{Host: "gpu02", Target: booking.Target{Index: 7},
			From: noon.AddDate(1, 0, 0), Until: noon.AddDate(1, 1, 0)})
		if err != nil || !strings.Contains(string(beside.After), `"gpu02": {`) {
			t.Errorf("%s: booked beside it: %v\n%s", tt.key, err, beside.After)
		}

		p.Login, p.Person = "eve", "eve"
		if c, _, err := p.Extend(file, tt.which, "1d"); (err == nil) != (len(c.Done) == 1 &&
			c.Done[0].Until.Day() == 3) ||
			(err != nil) != strings.Contains(tt.left, "?") {
			t.Errorf("%s: extended: %+v, %v", tt.key, c.Done, err)
		}
		c, err := p.Release(file, tt.which)
		cal := p.Read(c.After)
		cal.Bookings = slices.DeleteFunc(cal.Bookings, func(b booking.Booking) bool { return b.OverAt(noon) })
		if (err != nil) != strings.Contains(tt.left, "?") || heldBy(cal) != tt.left ||
			!strings.HasPrefix(string(c.After), "{ // ours\n") {
			t.Errorf("%s: released: %v, %q is left of\n%s", tt.key, err, heldBy(cal), c.After)
		}
	}
}

// A GPU that a person reads from a key is not free for others, however the key is spelt or damaged.
func TestNoOddKeyFreesAGPU(t *testing.T) {
	fleet := fleetOf("gpu01", "gpu02", "gpu10", "atlas3")
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"gpu01", "gpu02", "gpu10", "atlas3"}).Draw(t, "host")
		gpu := rapid.IntRange(0, 7).Draw(t, "gpu")
		blank := rapid.SampledFrom([]string{"", "", " ", "\u200b", "\u00a0", "\t", "\ufeff", "\u2060"})
		link := blank.Draw(t, "before") +
			rapid.SampledFrom([]string{":", "/", "#", " ", "：", ":gpu", " GPU ", ":#", "[",
				": [", "::", "@", "|", "="}).Draw(t, "link") + blank.Draw(t, "behind")
		key := host + rapid.SampledFrom([]string{"", ".", ".example.org"}).Draw(t, "domain") + link + strconv.Itoa(gpu)
		if strings.Contains(link, "[") {
			key += "]"
		}
		other := rapid.SampledFrom([]string{"", ",1", "-7", ", gpu02", " and atlas3:1", " (broken)", ".", ":", "\u200b",
			";gpu10"}).Draw(t, "other")
		key = rapid.SampledFrom([]string{"", " ", "the ", "\u200b", "gpu02,", "#", "_"}).Draw(t, "head") + key + other
		key = rapid.SampledFrom([]func(string) string{strings.ToUpper, strings.TrimSpace,
			func(s string) string { return s }}).Draw(t, "case")(key)
		value := rapid.SampledFrom([]string{`{ "name": "eve" }`, `[ { "name": "eve" } ]`, `{ "NAME": "eve" }`,
			`"eve"`}).Draw(t, "value")
		file := `{ "` + strings.ReplaceAll(key, "\t", `\t`) + `": ` + value + `, "gpu02": [] }`

		p := booking.Policy{Login: "bob", Person: "bob", Now: noon, Zone: time.UTC,
			FileZone: booking.Zone{Location: time.UTC}, Fleet: fleet}
		if strings.Contains(value, "[") && !booked(p.Read([]byte(file)), host, gpu) &&
			booked(p.Read([]byte(file)), host, 0) {
			return // a list below a host begins with GPU 0, whatever else its key says
		}
		_, err := p.Book([]byte(file), booking.Booking{Host: host, Target: booking.Target{Index: gpu},
			Until: noon.Add(time.Hour)})
		if r, ok := errors.AsType[*booking.Refusal](err); !ok || r.Reason != booking.Taken {
			t.Fatalf("%s:%d beside %s: %v\n%+v", host, gpu, file, err, p.Read([]byte(file)))
		}
	})
}

func booked(cal *booking.Calendar, host string, gpu int) bool {
	for _, b := range cal.Bookings {
		if b.Host == host && b.Target.Covers(gpu, "") {
			return true
		}
	}
	return false
}
