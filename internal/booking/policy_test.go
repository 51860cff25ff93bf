package booking_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// A policyCase is one change by ada on Friday, and what the policy says about it.
type policyCase struct {
	name   string
	change func(*booking.Policy, []byte) (booking.Change, error)
	force  bool
	reason booking.Reason // "" if the change is allowed
	over   string         // the IDs of the bookings that are overridden
}

func TestPolicy(t *testing.T) {
	now := at(t, friday)
	file := []byte(`{"a": {
		"0": {"name": "bob", "date": "2026-11-30", "id": "bob0"},
		"1": {"name": "ada", "date": "2026-11-30", "id": "ada1"},
		"2": {"kind": "maintenance", "name": "ops", "date": "2026-11-30", "id": "ops2"},
		"3": {"name": "kai", "by": "ada", "date": "2026-11-30", "id": "kai3"},
		"4": [{"name": "ada", "date": "2026-11-22", "id": "ada4"},
			{"name": "bob", "from": "2026-11-23", "date": "2026-11-30", "id": "bob4"}]},
		"b": {"*": {"name": "ada", "date": "2026-11-30", "id": "adab"}}}`)
	type edit func(*booking.Policy, []byte) (booking.Change, error)
	book := func(host string, kind booking.Kind, targets ...booking.Target) edit {
		return func(p *booking.Policy, data []byte) (booking.Change, error) {
			from, until, _, err := p.Times("", "1d")
			if err != nil {
				return booking.Change{}, err
			}
			var wanted []booking.Booking
			for _, target := range targets {
				wanted = append(wanted,
					booking.Booking{Host: host, Target: target, From: from, Until: until, Kind: kind})
			}
			return p.Book(data, wanted...)
		}
	}
	extend := func(which, until string) func(*booking.Policy, []byte) (booking.Change, error) {
		return func(p *booking.Policy, data []byte) (booking.Change, error) {
			c, _, err := p.Extend(data, which, until)
			return c, err
		}
	}
	release := func(which ...string) func(*booking.Policy, []byte) (booking.Change, error) {
		return func(p *booking.Policy, data []byte) (booking.Change, error) { return p.Release(data, which...) }
	}
	gpu := func(i int) booking.Target { return booking.Target{Index: i} }
	all := booking.Target{All: true, Index: -1}
	for _, tc := range []policyCase{
		{name: "a free GPU", change: book("a", booking.Reserved, gpu(7))},
		{name: "somebody else's", change: book("a", booking.Reserved, gpu(0)), reason: booking.Taken},
		{name: "somebody else's, with force", change: book("a", booking.Reserved, gpu(0)), force: true, over: "bob0"},
		{name: "one of two is taken", change: book("a", booking.Reserved, gpu(7), gpu(0)), reason: booking.Taken},
		{name: "the same once more", change: book("a", booking.Reserved, gpu(1)), reason: booking.Already},
		{name: "by the UUID of the same GPU", change: book("a", booking.Reserved,
			booking.Target{UUID: "GPU-00000001-0000-4000-8000-000000000000", Index: -1}), reason: booking.Already},
		{name: "a GPU of one's own host", change: book("b", booking.Reserved, gpu(0))},
		{name: "under maintenance", change: book("a", booking.Reserved, gpu(2)), reason: booking.Taken},
		{name: "maintenance over bookings", change: book("a", booking.Maintenance, all), over: "bob0 ops2 kai3"},
		{name: "more GPUs than allowed", change: book("c", booking.Reserved, gpu(0), gpu(1), gpu(2)),
			reason: booking.OverLimit},
		{name: "an extension", change: extend("ada1", "1d")},
		{name: "an extension of what one made for somebody", change: extend("a:3", "1d")},
		{name: "an extension into somebody's booking", change: extend("ada4", "2d"), reason: booking.Taken},
		{name: "the same, with force", change: extend("ada4", "2d"), force: true, over: "bob4"},
		{name: "a shorter one", change: extend("ada4", "2026-11-21")},
		{name: "an extension of somebody else's", change: extend("bob0", "1d"), reason: booking.NotYours},
		{name: "an end that is over", change: extend("ada1", "2026-11-01"), reason: booking.BadEnd},
		{name: "a release", change: release("a:1", "adab")},
		{name: "a release of somebody else's", change: release("a:0"), reason: booking.NotYours},
		{name: "the same, with force", change: release("a:0"), force: true},
		{name: "a release of nothing", change: release("a:9"), reason: booking.NoBooking},
		{name: "a release of what is no place", change: release("a:x"), reason: booking.BadPlace},
	} {
		p := &booking.Policy{Login: "ada", Person: "ada", Force: tc.force, Now: now, Zone: paris(t),
			FileZone: inParis(t),
			Limits:   booking.Limits{MaxGPUs: 5},
			Fleet: booking.Fleet{Hosts: map[string]booking.KnownHost{"a": {GPUs: 8,
				UUIDs: map[string]int{"GPU-00000001-0000-4000-8000-000000000000": 1}}}}}
		c, err := tc.change(p, file)
		var r *booking.Refusal
		if tc.reason != "" {
			if !errors.As(err, &r) || r.Reason != tc.reason || c.After != nil && string(c.After) != string(file) {
				t.Errorf("%s: %v, want %s", tc.name, err, tc.reason)
			}
			continue
		}
		var over []string
		for _, b := range c.Over {
			over = append(over, b.ID)
		}
		if err != nil || len(c.Done) == 0 || string(c.After) == string(file) || strings.Join(over, " ") != tc.over {
			t.Errorf("%s: %v, over %v, want %q", tc.name, err, over, tc.over)
		}
	}
}

func TestNobodyBooks(t *testing.T) {
	p := booking.Policy{Login: "ada", Person: booking.Unreadable, Now: at(t, friday), Zone: paris(t),
		FileZone: inParis(t)}
	if _, err := p.Book(nil, gpu("a", 0, "", time.Time{})); !errors.Is(err, booking.ErrInvalid) ||
		!strings.Contains(err.Error(), `"?" is no name`) {
		t.Errorf("error %v", err)
	}
}

func TestPolicyNames(t *testing.T) {
	p := &booking.Policy{Login: "ada", Person: "bob", Written: "bob.unix", Now: at(t, friday), Zone: time.UTC}
	wanted := booking.Booking{Host: "a", Target: booking.Target{Index: 0}, Until: at(t, friday).Add(time.Hour),
		Kind: booking.Reserved}
	given := []booking.Booking{wanted}
	c, err := p.Book(nil, given...)
	if given[0] != wanted {
		t.Errorf("what was wanted became %+v", given[0])
	}
	if err != nil || len(c.Done) != 1 || c.Done[0].Name != "bob.unix" || c.Done[0].By != "ada" || c.Done[0].Forced {
		t.Errorf("%+v, %v", c.Done, err)
	}
	p.Person, p.Written = "ada", ""
	wanted.Target.Index = 1
	if c, err = p.Book(c.After, wanted); err != nil || c.Done[0].Name != "ada" || c.Done[0].By != "" {
		t.Errorf("%+v, %v", c.Done, err)
	}
}

// policyOf is ada's policy for a file on Friday at 10:30:40.
func policyOf(t *testing.T) *booking.Policy {
	return &booking.Policy{Login: "ada", Person: "ada", Now: at(t, friday).Add(40 * time.Second), Zone: paris(t),
		FileZone: inParis(t)}
}

func TestPolicyMarksWhatIsForced(t *testing.T) {
	file := []byte(`{"a": [{"name": "bob", "date": "2026-11-30"}]}`)
	p := policyOf(t)
	p.Force = true
	for gpu, forced := range []bool{true, false} {
		c, err := p.Book(file, booking.Booking{Host: "a", Target: booking.Target{Index: gpu}, From: p.Now,
			Until: at(t, "2026-11-21")})
		if err != nil || c.Done[0].Forced != forced || (c.Done[0].By == "ada") != forced {
			t.Errorf("GPU %d: %+v, %v", gpu, c.Done, err)
		}
	}
}

// A booking begins with the minute, and to the second after one that ended in it.
func TestPolicyBeginsNow(t *testing.T) {
	file := []byte(`{"a": [{"name": "bob", "date": "2026-11-20 10:30:20"}]}`)
	p := policyOf(t)
	for gpu, want := range []string{"2026-11-20 10:30:40", "2026-11-20 10:30"} {
		from, until, _, err := p.Times("2026-11-20 10:30", "1d")
		if err != nil {
			t.Fatalf("the present minute: %v", err)
		}
		c, err := p.Book(file, booking.Booking{Host: "a", Target: booking.Target{Index: gpu}, From: from, Until: until})
		if err != nil || !c.Done[0].From.Equal(at(t, want)) {
			t.Errorf("GPU %d: %+v, %v, want %s", gpu, c.Done, err, want)
		}
	}
	later := at(t, "2026-11-23 10:00:30")
	if c, err := p.Book(file, booking.Booking{Host: "a", Target: booking.Target{Index: 0}, From: later,
		Until: later.Add(time.Hour)}); err != nil || !c.Done[0].From.Equal(later) {
		t.Errorf("one that begins later: %+v, %v", c.Done, err)
	}
	for from, assumed := range map[string]int{"": 0, "2026-11-20 10:30": 0, "09:00": 1} {
		if _, _, notes, err := p.Times(from, "1d"); err != nil || len(notes) != assumed {
			t.Errorf("from %q: assumed %q, %v", from, notes, err)
		}
	}
	if _, _, _, err := p.Times("2026-11-20 10:29", "1d"); err == nil {
		t.Error("a beginning in the past is accepted")
	}
}

func TestPolicyForOwnBookings(t *testing.T) {
	file := []byte(`{"a": {
		"0": [{"name": "ada", "date": "2026-11-30", "id": "ada0", "forced": true},
			{"name": "bob", "date": "2026-11-25", "id": "bob0"}],
		"1": {"name": "ada", "id": "ada1"}, "2": {"name": "ada", "date": "2026-11-30", "id": "ada2"}}}`)
	p := policyOf(t)
	if c, _, err := p.Extend(file, "ada0", "1d"); err != nil || len(c.Over) > 0 ||
		!c.Done[0].Until.Equal(at(t, "2026-12-02")) {
		t.Errorf("extending where another booking overlaps with the time before: %+v, %v", c, err)
	}
	var r *booking.Refusal
	if _, _, err := p.Extend(file, "ada1", "1d"); !errors.As(err, &r) || r.Reason != booking.BadEnd {
		t.Errorf("extending an open end by a day: %v", err)
	}
	if c, _, err := p.Extend(file, "ada0", fmt.Sprintf("%d-06-01",
		booking.MaxYear)); !errors.Is(err, booking.ErrInvalid) || string(c.After) != string(file) {
		t.Errorf("extending to a year that is too late: %+v, %v", c, err)
	}
	if _, _, err := p.Extend(file, "a", "1d"); !errors.As(err, &r) || r.Reason != booking.NoBooking {
		t.Errorf("extending a host that is not booked as a whole: %v", err)
	}
	if c, err := p.Release(file, "a"); err != nil || len(c.Done) != 3 {
		t.Errorf("releasing everything on a host: %+v, %v", c.Done, err)
	}
	if c, err := p.Release(file, "ada2", "a:2"); err != nil || len(c.Done) != 1 || len(c.Freed) != 1 {
		t.Errorf("releasing one booking by two names: %+v, %v", c, err)
	}
	if c, err := p.Release(file, "ada2", "a"); err != nil || len(c.Done) != 3 {
		t.Errorf("releasing one booking, and everything on its host: %+v, %v", c.Done, err)
	}
	c, err := p.Book(file, booking.Booking{Host: "a", Target: booking.Target{Index: 2}, From: p.Now,
		Until: at(t, "2026-11-21"), Kind: booking.Maintenance})
	if err != nil || c.Done[0].Kind != booking.Maintenance {
		t.Errorf("maintenance of a GPU that one has booked: %+v, %v", c.Done, err)
	}
}

// An ID that a command printed names the booking until it is over, also one that was written by hand.
func TestIDsStay(t *testing.T) {
	p := policyOf(t)
	booked, err := p.Book(nil, booking.Booking{Host: "a", Target: booking.Target{Index: 1},
		Until: at(t, "2026-11-25 10:00")})
	if err != nil {
		t.Fatal(err)
	}
	byHand := []byte(
		`{"a": {"1": {"name": "ada", "date": "2026-11-25 10:00"}, "2": {"name": "ada", "date": "2026-11-25 ` +
			`10:00"}}}`)
	for what, file := range map[string][]byte{"booked": booked.After, "by hand": byHand} {
		id := p.Read(file).Bookings[0].ID
		for range 2 {
			extended, _, err := p.Extend(file, id, "1d")
			if err != nil || extended.Done[0].ID != id || !strings.Contains(string(extended.After), `"id": "`+id+`"`) {
				t.Fatalf("%s: extending %s: %+v, %v", what, id, extended.Done, err)
			}
			file = extended.After
		}
		released, err := p.Release(file, id)
		if err != nil || released.Done[0].ID != id || released.Freed[0].ID != id {
			t.Fatalf("%s: releasing %s: %+v, %v", what, id, released, err)
		}
		if _, err := p.Release(released.After, id); !errors.Is(err, booking.ErrOver) {
			t.Errorf("%s: releasing %s twice: %v", what, id, err)
		}
		again, err := p.Book(released.After, booking.Booking{Host: "a", Target: booking.Target{Index: 1},
			Until: at(t, "2026-11-25 10:00")})
		if err != nil || again.Done[0].ID == id {
			t.Errorf("%s: the same booking once more: %+v, %v", what, again.Done, err)
		}
	}
}

func TestAnIDOfTwoBookings(t *testing.T) {
	file := []byte("{\"a\": [{\"name\": \"ada\", \"id\": \"i\"},\n{\"name\": \"ada\", \"id\": \"i\"}]}")
	p := policyOf(t)
	cal := p.Read(file)
	if len(cal.Bookings) != 2 || len(cal.Problems) != 1 || cal.Problems[0].Code != "booking:id" {
		t.Fatalf("%+v, problems %s", cal.Bookings, problems(cal.Problems))
	}
	var r *booking.Refusal
	first, second := cal.Bookings[0].ID, cal.Bookings[1].ID
	_, err := p.Release(file, "i")
	if !errors.As(err, &r) || r.Reason != booking.Ambiguous ||
		!strings.Contains(err.Error(), "a:0 for ada (line 1) is "+first) ||
		!strings.Contains(err.Error(), "a:1 for ada (line 2) is "+second) {
		t.Errorf("releasing the id of both: %v", err)
	}
	for gpu, id := range map[int]string{0: first, 1: second} {
		c, err := p.Release(file, id)
		if err != nil || c.Done[0].Target.Index != gpu {
			t.Fatalf("releasing %s: %+v, %v", id, c.Done, err)
		}
		file = c.After
	}
}

// The commands change one GPU of an entry that is for several.
func TestEntriesForSeveralGPUs(t *testing.T) {
	for name, tc := range map[string]struct {
		file, which string
		left        string
	}{
		"one of two": {`{"a": {"0,1": {"name": "ada", "date": "2026-11-25 10:00"}}}`, "a:1",
			"a/0 ada 2026-11-25 10:00"},
		"one of a range": {`{"a": {"0-2": [{"name": "ada"}, {"name": "ada", "from": "2026-12-01", "id": "i"}]}}`,
			"a:1", "a/0 ada; a/0 ada; a/1 ada; a/2 ada; a/2 ada"},
		"all":                        {`{"a": {"0,1": {"name": "ada", "id": "i"}}}`, "i", ""},
		"all by their places":        {`{"a": {"0,1": {"name": "ada", "id": "i"}}}`, "a:0,1", ""},
		"the host":                   {`{"a": {"name": "ada"}}`, "a", ""},
		"what cannot be read":        {`{"a": [{"name": "bob"}, "ada"]}`, "a:1", "a/0 bob"},
		"a host that cannot be read": {`{"a": "ada"}`, "a", ""},
		"a time that cannot be meant": {`{"a": [{"name": "ada", "from": "2026-12-02", "date": "2026-12-01"}]}`, "a:0",
			""},
	} {
		p := policyOf(t)
		p.Force = strings.Contains(name, "read")
		c, err := p.Release([]byte(tc.file), tc.which)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var left []string
		for _, b := range p.Read(c.After).Bookings {
			if b.OverAt(p.Now) {
				continue
			}
			s := b.Host + "/" + b.Target.String() + " " + b.Name
			if !b.Until.IsZero() {
				s += b.Until.In(paris(t)).Format(" 2006-01-02 15:04")
			}
			left = append(left, s)
		}
		if got := strings.Join(left, "; "); got != tc.left {
			t.Errorf("%s: left %q, want %q\n%s", name, got, tc.left, c.After)
		}
	}
	p := policyOf(t)
	if _, _, err := p.Extend([]byte(`{"a": [{"name": "ada", "from": "2026-12-02", "date": "2026-12-01"}]}`), "a:0",
		"2026-12-24"); !errors.Is(err, booking.ErrInvalid) || !strings.Contains(err.Error(), "line 1, column 8") {
		t.Errorf("extending what cannot be read: %v", err)
	}
	for file, want := range map[string]string{
		`{"a": {"name": "bob", "date": "2026-11-19 10:00"}}`:          "a/* bob",
		`{"a": {"0,1": {"name": "bob", "date": "2026-11-19 10:00"}}}`: "a/0 bob; a/1 bob",
	} {
		c, err := p.Book([]byte(file), booking.Booking{Host: "a", Target: booking.Target{Index: 1},
			Until: at(t, "2026-11-25 10:00")})
		if err != nil || !strings.Contains(string(c.After), `"name": "bob", "date": "2026-11-19 10:00"`) ||
			p.Read(c.After).Problems != nil {
			t.Errorf("booking beside %s, which is over: %v\n%s", want, err, c.After)
		}
	}
}

// A yes to jobs is a yes to these jobs: the same ones may use more memory, and nobody else may run.
func TestPolicyOverRunning(t *testing.T) {
	start := at(t, "2026-11-20")
	bob := booking.Job{Place: "a:0", Who: snapshot.Owner{Person: "bob"}, Program: "python3", Since: start, Memory: 1000}
	grown, later, other, unknown := bob, bob, bob, booking.Job{Place: "a:1", Unknown: true}
	grown.Program, grown.Memory = "train.py", 70000
	later.Since = start.Add(time.Hour)
	other.Place = "a:1"
	nobody := bob
	nobody.Who = snapshot.Owner{Account: "root"}
	eve := bob
	eve.Who = snapshot.Owner{Person: "eve"}
	silent, next := booking.Job{Place: "a:0", PID: 7}, booking.Job{Place: "a:0", PID: 8}
	// The same process, as nodes measure its start, and another one of the same number.
	second, drifted, restarted := bob, bob, bob
	second.PID = 4711
	drifted.Since, restarted.Since = start.Add(-2*time.Second), start.Add(3*time.Second)
	root := booking.Job{Place: "a:0", Who: snapshot.Owner{Account: "root"}, PID: 1, Since: start}
	otherRoot := root
	otherRoot.PID, otherRoot.Since = 2, start.Add(time.Hour)
	const listed = 1000
	var crowd []booking.Job
	for i := range 3 * listed {
		crowd = append(crowd, booking.Job{Place: "a:0", Who: root.Who, PID: i + 1, Since: start})
	}

	for _, tc := range []struct {
		name          string
		shown, now    []booking.Job // with the yes, and when it is booked
		force, refuse bool
	}{
		{name: "idle"},
		{name: "idle by now", shown: []booking.Job{bob}},
		{name: "in use", now: []booking.Job{bob}, refuse: true},
		{name: "in use, with force", now: []booking.Job{bob}, force: true},
		{name: "as shown", shown: []booking.Job{bob, unknown}, now: []booking.Job{unknown, bob}},
		{name: "with more memory", shown: []booking.Job{bob}, now: []booking.Job{grown}},
		{name: "a later job", shown: []booking.Job{bob}, now: []booking.Job{later}, refuse: true},
		{name: "another GPU", shown: []booking.Job{bob}, now: []booking.Job{other}, refuse: true},
		{name: "somebody else", shown: []booking.Job{bob}, now: []booking.Job{eve}, refuse: true},
		{name: "somebody unknown", shown: []booking.Job{bob}, now: []booking.Job{nobody}, refuse: true},
		{name: "a process without a start", shown: []booking.Job{silent}, now: []booking.Job{silent}},
		{name: "another process without a start", shown: []booking.Job{silent}, now: []booking.Job{next}, refuse: true},
		{name: "one more", shown: []booking.Job{bob}, now: []booking.Job{bob, unknown}, refuse: true},
		{name: "one less", shown: []booking.Job{bob, eve}, now: []booking.Job{eve}},
		{name: "a second job of the same person", shown: []booking.Job{bob}, now: []booking.Job{bob, second},
			refuse: true},
		{name: "a second job in the place of the first", shown: []booking.Job{bob}, now: []booking.Job{second},
			refuse: true},
		{name: "a second job of the same person, shown", shown: []booking.Job{bob, second},
			now: []booking.Job{second, bob}},
		{name: "a start measured anew", shown: []booking.Job{bob}, now: []booking.Job{drifted}},
		{name: "the number of a process that has ended", shown: []booking.Job{bob}, now: []booking.Job{restarted},
			refuse: true},
		{name: "another unknown user", shown: []booking.Job{root}, now: []booking.Job{root, otherRoot}, refuse: true},
		{name: "two processes of which nothing is known", shown: []booking.Job{{Place: "a:0"}},
			now: []booking.Job{{Place: "a:0"}, {Place: "a:0"}}, refuse: true},
		{name: "many", shown: crowd[:listed], now: crowd[:listed]},
		{name: "more than are listed", shown: crowd, now: crowd, refuse: true},
	} {
		p := policyOf(t)
		p.OverRunning, p.Force = booking.Consent(tc.shown), tc.force
		p.Running = func(booking.Booking) []booking.Job { return tc.now }
		c, err := p.Book(nil, booking.Booking{Host: "a", From: p.Now, Until: at(t, "2026-11-21")})
		var r *booking.Refusal
		if tc.refuse {
			want := booking.Running
			if tc.shown != nil {
				want = booking.RunningChanged
			}
			if !errors.As(err, &r) || r.Reason != want || len(r.Jobs) != len(tc.now) {
				t.Errorf("%s: %v", tc.name, err)
			}
		} else if err != nil || len(c.Done) != 1 || len(c.Running) != len(tc.now) {
			t.Errorf("%s: %+v, %v", tc.name, c, err)
		}
	}
	if n := len(booking.Consent(crowd)); n > 11<<10 {
		t.Errorf("a form would have to hold %d bytes", n)
	}
	for _, damaged := range []string{"yes", booking.Consent([]booking.Job{bob})[1:],
		booking.Consent([]booking.Job{bob}) + "AA", "now"} {
		p := policyOf(t)
		p.OverRunning, p.Running = damaged, func(booking.Booking) []booking.Job { return []booking.Job{bob} }
		if _, err := p.Book(nil, booking.Booking{Host: "a", From: p.Now, Until: at(t, "2026-11-21")}); err == nil {
			t.Errorf("%q is a yes", damaged)
		}
	}
	if list := booking.ByUser([]booking.Job{second, unknown, drifted, root, otherRoot}); len(list) != 3 ||
		list[0].Memory != 2000 || !list[0].Since.Equal(drifted.Since) || list[1] != unknown {
		t.Errorf("for people to read: %+v", list)
	}
}

// BenchmarkBook is one booking in a file that has 20,000.
func BenchmarkBook(b *testing.B) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	text := `{"gpu01": {`
	for i := range 1000 {
		text += fmt.Sprintf("%q: [", fmt.Sprintf("MIG-%032d", i))
		for j := range 20 {
			text += fmt.Sprintf("{\"name\": \"name%05d\", \"from\": \"2026-12-%02d 10:00\", \"date\": \"2026-12-%02d "+
				"20:00\"},\n", i, j+1, j+1)
		}
		text += "],\n"
	}
	data := []byte(text + "}}")
	b.Run("policy", func(b *testing.B) {
		for b.Loop() {
			p := booking.Policy{Login: "eva", Person: "eva", Now: now, Zone: time.UTC,
				FileZone: booking.Zone{Location: time.UTC}}
			if _, err := p.Book(data, booking.Booking{Host: "gpu09", Target: booking.Target{Index: 0}, From: now,
				Until: now.Add(time.Hour)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("file", func(b *testing.B) {
		for b.Loop() {
			file := newFile(b)
			if err := os.WriteFile(file, data, 0o644); err != nil {
				b.Fatal(err)
			}
			f := booking.Open(file, booking.Zone{})
			p := booking.Policy{Login: "eva", Person: "eva", Now: now, Zone: time.UTC,
				FileZone: booking.Zone{Location: time.UTC}}
			if err := f.Update(b.Context(), testBy, func(data []byte) ([]byte, error) {
				c, err := p.Book(data, booking.Booking{Host: "gpu09", Target: booking.Target{Index: 0}, From: now,
					Until: now.Add(time.Hour)})
				return c.After, err
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
