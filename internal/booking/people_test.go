package booking_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
)

func TestAliases(t *testing.T) {
	aliases, found := booking.ParseAliases([]byte("\xef\xbb\xbf# login, other, who\r\nalovelace,ada.l+,Ada\r\n\r\n" +
		"ghopper,Grace # of compilers\r\nlonely\r\nghopper,Gracie\r\nzo\u00eb,Zo\u00eb\r\n"))
	for in, want := range map[string]string{"ALovelace": "Ada", "ada.l": "Ada", "ada.l+": "Ada", " ada ": "Ada",
		"ghopper": "Gracie", "alan": "alan", "ZOË": "Zoë"} {
		if got := aliases.Canonical(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	if len(found) != 2 || found[0].Line != 5 || found[1].Line != 6 ||
		!strings.Contains(found[1].Message, `was "Grace" in line 4`) {
		t.Errorf("problems:\n%s", problems(found))
	}
	if got := (booking.Aliases)(nil).Canonical("x"); got != "x" {
		t.Errorf("no aliases made %q", got)
	}
	latin, _ := booking.ParseAliases([]byte("zo\xeb,Zo\xeb"))
	if got := latin.Canonical("zoë"); got != "Zoë" {
		t.Errorf("Latin-1: %q", got)
	}
}

func TestAliasesInAnEncodingThatIsNotRead(t *testing.T) {
	aliases, found := booking.ParseAliases([]byte("\xff\xfea\x00,\x00b\x00"))
	if len(aliases) != 0 || len(found) != 1 || !strings.Contains(found[0].Message, "UTF-16") {
		t.Errorf("%v, problems:\n%s", aliases, problems(found))
	}
}

func TestAliasesInBookings(t *testing.T) {
	aliases, _ := booking.ParseAliases([]byte("alovelace,Ada"))
	c := booking.Parse("c", []byte(`{"a": [[{"name": "ALovelace", "date": "2026-12-01"}, {"name": "ada"}]]}`),
		inParis(t),
		booking.Options{Aliases: aliases})
	if len(c.Bookings) != 2 || c.Bookings[0].Name != "Ada" || c.Bookings[0].Written != "ALovelace" ||
		c.Bookings[1].Name != "Ada" {
		t.Errorf("%+v", c.Bookings)
	}
	if len(c.Problems) != 0 {
		t.Errorf("one person under two names overlaps with herself:\n%s", problems(c.Problems))
	}
}

// A person is meant by every one of their names, in any case.
func TestMine(t *testing.T) {
	aliases, _ := booking.ParseAliases([]byte("alovelace,Ada"))
	for _, who := range []string{"ada", "ALovelace"} {
		mine := aliases.Mine(who)
		if !mine("alovelace") || !mine("ADA") || mine("bob") {
			t.Errorf("%s: alovelace %v, ADA %v, bob %v", who, mine("alovelace"), mine("ADA"), mine("bob"))
		}
	}
}

func TestConflicts(t *testing.T) {
	c := parsed(t, `{"a": {
		"0": [{"name": "x", "date": "2026-12-01 10:00", "id": "x0"}, {"name": "me", "from": "2026-12-02", "id": "me0"}],
		"GPU-000000aa-0000-4000-8000-000000000000":
			{"name": "y", "from": "2026-12-01 10:00", "date": "2026-12-05", "id": "ya"},
		"*": {"kind": "maintenance", "from": "2027-01-01", "date": "2027-01-01", "id": "m"}},
		"b": [{"name": "z"}]}`)
	if c.Broken || len(c.Bookings) != 5 {
		t.Fatalf("problems:\n%s", problems(c.Problems))
	}
	fleet := booking.Fleet{Hosts: map[string]booking.KnownHost{
		"a": {UUIDs: map[string]int{"GPU-000000aa-0000-4000-8000-000000000000": 1}}},
		Cards: map[string]int{"a/x0": 5}} // its GPU was number 0 when it was booked
	for _, tc := range []struct {
		name   string
		wanted booking.Booking
		want   string
	}{
		{"touching ends", booking.Booking{Host: "a", Target: booking.Target{Index: 5}, Name: "new",
			From: at(t, "2026-12-01 10:00"), Until: at(t, "2026-12-02")}, ""},
		{"the number that its card had", booking.Booking{Host: "a", Target: booking.Target{Index: 0}, Name: "new",
			From: at(t, "2026-12-01 09:59:59"), Until: at(t, "2026-12-02")}, ""},
		{"a second inside", booking.Booking{Host: "a", Target: booking.Target{Index: 5}, Name: "new",
			From: at(t, "2026-12-01 09:59:59"), Until: at(t, "2026-12-02")}, "x0"},
		{"one's own",
			booking.Booking{Host: "a", Target: booking.Target{Index: 0}, Name: "ME", From: at(t, "2026-12-03"),
				Until: at(t, "2026-12-09")}, ""},
		{"UUID and index", booking.Booking{Host: "a", Target: booking.Target{Index: 1}, Name: "new",
			Until: at(t, "2026-12-02")}, "ya"},
		{"UUID with a wrong letter", booking.Booking{Host: "a",
			Target: booking.Target{UUID: "GPU-000000ab-0000-4000-8000-000000000000", Index: -1}, Name: "new",
			Until: at(t, "2026-12-02")}, "ya"},
		{"another GPU",
			booking.Booking{Host: "a", Target: booking.Target{Index: 2}, Name: "new", Until: at(t, "2026-12-02")}, ""},
		{"whole host, for ever", booking.Booking{Host: "a", Target: booking.Target{All: true}, Name: "new"},
			"x0 ya me0 m"},
		{"maintenance, even one's own time", booking.Booking{Host: "a", Target: booking.Target{Index: 7}, Name: "me",
			From: at(t, "2027-01-01 12:00"), Until: at(t, "2027-02-01")}, "m"},
		{"itself", booking.Booking{ID: "x0", Host: "a", Target: booking.Target{Index: 0}, Name: "new",
			Until: at(t, "2026-12-01")}, ""},
	} {
		var ids []string
		for _, b := range booking.Others(booking.Conflicts(c, tc.wanted, fleet), tc.wanted) {
			ids = append(ids, b.ID)
		}
		if got := strings.Join(ids, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestSlicesDoNotConflict: two slices of one GPU are two things, and the GPU is
// both of them.
func TestSlicesDoNotConflict(t *testing.T) {
	c := parsed(t,
		`{"a": {"MIG-00000001-0000-4000-8000-000000000000": {"name": "x", "id": "slice"}, `+
			`"GPU-000000aa-0000-4000-8000-000000000000": {"name": "y", "id": "gpu"}, "2": {"name": "z", "id": "other"}}}`)
	fleet := booking.Fleet{Hosts: map[string]booking.KnownHost{"a": {UUIDs: map[string]int{
		"GPU-000000aa-0000-4000-8000-000000000000": 1,
		"MIG-00000001-0000-4000-8000-000000000000": 1, "MIG-00000002-0000-4000-8000-000000000000": 1,
	}}}}
	for _, tc := range []struct {
		wanted booking.Target
		want   string
	}{
		{booking.Target{UUID: "MIG-00000001-0000-4000-8000-000000000000", Index: -1},
			"slice gpu"}, {booking.Target{UUID: "MIG-00000002-0000-4000-8000-000000000000", Index: -1}, "gpu"},
		{booking.Target{Index: 1}, "slice gpu"},
		{booking.Target{UUID: "GPU-000000aa-0000-4000-8000-000000000000", Index: -1},
			"slice gpu"}, {booking.Target{Index: 2}, "other"},
	} {
		var ids []string
		for _, b := range booking.Conflicts(c, booking.Booking{Host: "a", Target: tc.wanted, Name: "new"}, fleet) {
			ids = append(ids, b.ID)
		}
		slices.Sort(ids)
		slices.Reverse(ids)
		if got := strings.Join(ids, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.wanted, got, tc.want)
		}
	}
}

func TestLimits(t *testing.T) {
	now := at(t, friday)
	c := parsed(t,
		`{"a": {"0": {"name": "me", "date": "2026-11-22"}, "1": {"name": "me", "from": "2026-11-25"}, "2": {"name": "me", `+
			`"date": "2026-11-19"}, "3": {"name": "you"}, "9": {"kind": "maintenance", "name": "me"}}}`)
	l := booking.Limits{MaxGPUs: 2, MaxDuration: 48 * time.Hour, MaxAhead: 30 * 24 * time.Hour}
	b := func(host string, index int, from, until string) booking.Booking {
		b := booking.Booking{Host: host, Target: booking.Target{Index: index, All: index < 0}, Name: "Me",
			From: at(t, from)}
		if until != "" {
			b.Until = at(t, until)
		}
		return b
	}
	eight := booking.Fleet{Hosts: map[string]booking.KnownHost{"a": {GPUs: 8}, "b": {GPUs: 8}}}
	for _, tc := range []struct {
		name   string
		wanted []booking.Booking
		want   string
	}{
		{"fine", []booking.Booking{b("a", 4, friday, "2026-11-22 10:30")}, ""},
		{"one too many", []booking.Booking{b("a", 4, friday, "2026-11-21"), b("a", 5, friday, "2026-11-21")}, "3 GPUs"},
		{"when the first is over", []booking.Booking{b("a", 4, "2026-11-23", "2026-11-24"),
			b("a", 5, "2026-11-23", "2026-11-24")}, ""},
		{"whole host", []booking.Booking{b("b", -1, "2026-11-23", "2026-11-24")}, "8 GPUs"},
		{"too long", []booking.Booking{b("a", 4, friday, "2026-11-22 10:31")}, "2 d"},
		{"open end", []booking.Booking{b("a", 4, friday, "")}, "without an end"},
		{"too far ahead", []booking.Booking{b("a", 4, "2026-12-25", "2026-12-26")}, "ahead"},
		{"maintenance", []booking.Booking{{Host: "a", Target: booking.Target{All: true}, Name: "me",
			Kind: booking.Maintenance}}, ""},
	} {
		err := l.Check(c, tc.wanted, now, eight)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if err := (booking.Limits{}).Check(c, []booking.Booking{b("a", -1, friday, "")}, now, eight); err != nil {
		t.Errorf("no limits: %v", err)
	}
}

func TestCheck(t *testing.T) {
	c := parsed(t, `{"gpu01": [{}, {"name": "x"}, {"name": "y", "date": "2018-01-01"}], "gpu02.example.org": `+
		`[{"name": "x"}],
		"gpu04": [{"name": "x"}], "gpu03": {"GPU-000000aa-0000-4000-8000-000000000000": {"name": "x"}, `+
		`"GPU-000000bb-0000-4000-8000-000000000000": {"name": "x"}, `+
		`"GPU-000000ab-0000-4000-8000-000000000000": {"name": "y"}, "*": {"name": "x"}}, "gpu05": {"63": {"name": "x"}}}`)
	found := booking.Check(c, booking.Fleet{Hosts: map[string]booking.KnownHost{"gpu01": {GPUs: 1}, "gpu02": {GPUs: 8},
		"gpu03": {UUIDs: map[string]int{"GPU-000000aa-0000-4000-8000-000000000000": 0}}, "gpu05": {}}}, at(t, friday))
	got := problems(found)
	want := []string{
		`1:16 booking:unknown-gpu "x" books GPU 1 of "gpu01", which has 1, counted from 0`,
		`1:91 booking:unknown-host "x" books the host "gpu02.example.org", which does not exist: did you mean "gpu02"?`,
		`2:142 booking:unknown-gpu "x" books GPU-000000bb-0000-4000-8000-000000000000, which is not in "gpu03": it may ` +
			`have been moved or replaced`,
		`2:201 booking:unknown-gpu "y" books GPU-000000ab-0000-4000-8000-000000000000, which is not in "gpu03": write ` +
			`GPU-000000aa-0000-4000-8000-000000000000; until it is corrected, the GPU ` +
			`GPU-000000aa-0000-4000-8000-000000000000 of gpu03 counts as booked by "?"`,
		`2:13 booking:unknown-host "x" books the host "gpu04", which does not exist: did you mean "gpu01"?`,
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %q among\n%s", w, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != len(want) {
		t.Errorf("%d problems:\n%s", n, got)
	}
	for _, p := range found {
		if known := p.Host == "gpu01"; (p.GPU != nil) != known || known && *p.GPU != 1 {
			t.Errorf("the problem is with GPU %v: %s", p.GPU, p.Message)
		}
	}
}

// A host is proposed for a name with two wrong letters, and none for a name with three.
func TestSimilarHost(t *testing.T) {
	known := booking.Fleet{Hosts: map[string]booking.KnownHost{"node-a.example": {}, "node-b.example": {}}}
	for name, want := range map[string]string{"node-b": "node-b.example", "nude-bb.example": "node-b.example",
		"nude-xx.example": ""} {
		if got := known.Near(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestCheckIsBounded(t *testing.T) {
	cal := &booking.Calendar{Bookings: slices.Repeat([]booking.Booking{{Host: "gpu02", Name: "x"}},
		booking.MaxProblems+1)}
	if got := booking.Check(cal, booking.Fleet{}, at(t, friday)); len(got) != booking.MaxProblems {
		t.Errorf("%d problems", len(got))
	}
	if _, got := booking.ParseAliases([]byte(strings.Repeat("lonely\n",
		booking.MaxProblems+1))); len(got) != booking.MaxProblems {
		t.Errorf("%d problems of aliases", len(got))
	}
}

func TestAliasesAreBounded(t *testing.T) {
	const most = 50_000
	var file strings.Builder
	for i := range most/2 + 2 {
		fmt.Fprintf(&file, "other%d,name%d\n", i, i)
	}
	aliases, problems := booking.ParseAliases([]byte(file.String()))
	if len(aliases) != most || len(problems) != 1 || problems[0].Line != most/2+1 {
		t.Errorf("%d names, problems %+v", len(aliases), problems)
	}
}

func TestTeams(t *testing.T) {
	file := []byte("\xef\xbb\xbf# people\r\nmsmith,Mira\r\n@vision: msmith, tomas # since May\r\n@nobody:\r\n" +
		"\"@robots\", eva, MIRA\r\n@vision: tomas, kai\r\n@: x\r\n  @two words: kai\r\n")
	teams, found := booking.ParseTeams(file)
	want := map[string][]string{"vision": {"Mira", "tomas", "kai"}, "robots": {"eva", "Mira"}, "two words": {"kai"}}
	if !reflect.DeepEqual(teams, want) {
		t.Errorf("teams are %q", teams)
	}
	if len(found) != 2 || found[0].Line != 4 || found[1].Line != 7 || found[0].Code != "booking:team" {
		t.Errorf("problems:\n%s", problems(found))
	}
	aliases, found := booking.ParseAliases(file)
	if len(found) != 0 || len(aliases) != 2 {
		t.Errorf("teams are taken for aliases: %q\n%s", aliases, problems(found))
	}
	if teams, _ := booking.ParseTeams([]byte(strings.Repeat("x", booking.MaxAliasBytes+1))); len(teams) != 0 {
		t.Errorf("a file that is too long has teams %q", teams)
	}
}

func TestTeamsAreBounded(t *testing.T) {
	var b strings.Builder
	const most = 1000
	for i := range most + 5 {
		b.WriteString("@t" + strings.Repeat("x", i/100) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + ": a\n")
	}
	if teams, found := booking.ParseTeams([]byte(b.String())); len(teams) > most || len(teams) < most/2 &&
		len(found) == 0 {
		t.Errorf("%d teams, problems:\n%s", len(teams), problems(found))
	}
}

func FuzzTeams(f *testing.F) {
	f.Add([]byte("@a: b, c\nb,Bea"))
	f.Fuzz(func(t *testing.T, data []byte) {
		teams, _ := booking.ParseTeams(data)
		for name, members := range teams {
			if name == "" || len(name) > booking.MaxNameBytes || len(members) == 0 {
				t.Errorf("team %q has %q", name, members)
			}
		}
	})
}

func TestContacts(t *testing.T) {
	aliases, _ := booking.ParseAliases([]byte("alovelace,ada\n"))
	got, problems := booking.ParseContacts([]byte(strings.Join([]string{
		"# who is told, and where",
		`login, mail, chat`,
		`alovelace, ada@lab.example, @ada.l   # on leave`,
		`"Kai"; ; U012AB3CD`,
		`mia, mia@lab.example`,
		``,
		`eva, Eva <eva@lab.example>, eva`,
		`jun, , everyone`,
		`lou, , <!channel>`,
		`, nobody@lab.example, nobody`,
		`ada, other@lab.example, other`,
		`sam, sam@lab.example, sam, more`,
	}, "\n")), aliases)
	want := booking.Contacts{"ada": {"ada@lab.example", "ada.l"}, "kai": {"", "U012AB3CD"},
		"mia": {"mia@lab.example", ""}}
	if len(got) != len(want) {
		t.Errorf("contacts %v", got)
	}
	for who, c := range want {
		if got.Of(who) != c || got.Of(strings.ToUpper(who)) != c {
			t.Errorf("%s is reached at %+v, want %+v", who, got.Of(who), c)
		}
	}
	lines := map[int]bool{}
	for _, p := range problems {
		lines[p.Line] = true
		if p.Code != "people:csv" || p.File != "people.csv" {
			t.Errorf("problem %+v", p)
		}
	}
	for line := 7; line <= 12; line++ {
		if !lines[line] {
			t.Errorf("nothing is said of line %d", line)
		}
	}
	if len(problems) != 6 {
		t.Errorf("problems %+v", problems)
	}
}

func TestContactsThatAreNotRead(t *testing.T) {
	for name, text := range map[string]string{
		"no columns": "ada,ada@lab.example\n", "another column": "login,name,email\nada,Ada,ada@lab.example\n",
		"too large": strings.Repeat("#", booking.MaxAliasBytes+1), "another encoding": "\xff\xfea\x00",
	} {
		if got, problems := booking.ParseContacts([]byte(text), nil); len(got) != 0 || len(problems) != 1 ||
			problems[0].Line != 1 {
			t.Errorf("%s: %v, %+v", name, got, problems)
		}
	}
}
