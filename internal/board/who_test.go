package board_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// unknownOwners returns a process as that of each kind of unknown user.
func unknownOwners(p snapshot.Process) []snapshot.Process {
	var list []snapshot.Process
	for _, of := range []snapshot.Process{
		{}, {User: "root"}, {User: "root", UID: new(int64(0))},
		{User: "root", UID: new(int64(0)), Container: "a1b2c3d4"},
		{User: "100999"}, {User: "100999", UID: new(int64(100999))},
		{User: "100999", UID: new(int64(100999)), Container: "a1b2c3d4"},
		{User: "munge", UID: new(int64(998))}, {User: "ci", UID: new(int64(1500))}, {UID: new(int64(1500))},
	} {
		p.User, p.UID, p.Container = of.User, of.UID, of.Container
		list = append(list, p)
	}
	return list
}

// Whoever owns a process, no GPU becomes contested when that is not known.
func TestNoUnknownUserContests(t *testing.T) {
	kinds := []snapshot.Process{
		proc("ada", snapshot.Compute, 3000), proc("kai", snapshot.Compute, 3000),
		proc("kai", snapshot.ComputeGraphics, 3000),
		proc("gdm", snapshot.Graphics, 300), gone(3000),
	}
	contested := 0
	for _, booked := range [][]booking.Booking{nil, {by("ada", "")}, {by("ada", ""), by("eva", "")}, {by("root", "")}} {
		for _, first := range kinds {
			for _, second := range kinds {
				state := func(procs ...snapshot.Process) board.State {
					gpu := a100()
					gpu.MemoryUsed, gpu.UtilizationGPU = new(int64(6000)), nil
					_, row := scene{
						gpu: gpu, procs: procs, booked: booked,
						setting: board.Settings{ServiceAccounts: []string{"ci"}},
					}.row(t)
					return row.State
				}
				before := state(first, second)
				if before == board.Contested {
					contested++
				}
				for _, unknown := range unknownOwners(first) {
					if after := state(unknown, second); after == board.Contested && before != board.Contested {
						t.Errorf("%v: %s and %s are %s, and with %+v contested", booked, first.User, second.User,
							before, unknown)
					}
					for _, too := range unknownOwners(second) {
						if after := state(unknown, too); after == board.Contested {
							t.Errorf("%v: contested by %+v and %+v", booked, unknown, too)
						}
					}
				}
			}
		}
	}
	if contested == 0 {
		t.Error("no scene is contested, so this shows nothing")
	}
}

// Somebody unknown is no reason to offer a GPU, and in nobody's sums.
func TestUnknownUsers(t *testing.T) {
	for _, unknown := range unknownOwners(proc("", snapshot.Compute, 3000)) {
		s := scene{gpu: a100(), procs: []snapshot.Process{unknown},
			setting: board.Settings{ServiceAccounts: []string{"ci"}}}
		b, _ := s.merge()
		g := &b.Hosts[0].GPUs[0]
		if g.State != board.Busy || len(g.Users()) > 0 || len(g.Unknown()) != 1 || len(b.Users) > 0 {
			t.Errorf("%+v: %s, users %v, unknown %v, people %v", unknown, g.State, g.Users(), g.Unknown(), b.Users)
		}
		s.booked = []booking.Booking{by("ada", "")}
		if _, row := s.row(t); row.State != board.InUse {
			t.Errorf("%+v: %s where ada has booked, want in-use", unknown, row.State)
		}
	}
}

func TestWhoIsOnAGPU(t *testing.T) {
	root := proc("root", snapshot.Compute, 700)
	root.Container = "a1b2c3d4"
	server := proc("root", snapshot.Compute, 30)
	server.Program = "nvidia-cuda-mps-server"
	zombie := proc("kai", snapshot.Compute, 5000)
	zombie.Alive = new(false)
	person := func(login string) string {
		return strings.TrimSuffix(strings.Replace(login, "elonglon+", "elonglonger", 1), "2")
	}
	full := a100()
	full.MemoryUsed = new(int64(9000))

	for _, tt := range []struct {
		name                            string
		procs                           []snapshot.Process
		state                           board.State
		users, unknown, left, computing string
	}{
		{"people",
			[]snapshot.Process{proc("kai", snapshot.Compute, 1), proc("ada", snapshot.ComputeGraphics, 2),
				proc("ada2", snapshot.Compute, 3)}, board.Busy, "ada kai", "", "", "ada2 ada kai"},
		{"nobody", []snapshot.Process{proc("gdm", snapshot.Graphics, 100), server}, board.Free, "", "", "", ""},
		{"somebody unknown", []snapshot.Process{proc("ada", snapshot.Compute, 1), root, root}, board.Busy, "ada",
			"unknown (root in container a1b2c3d4)", "", "root root ada"},
		{"somebody whose name is cut", []snapshot.Process{proc("averyver+", snapshot.Compute, 1)}, board.Busy, "",
			"unknown (averyver+)", "", "averyver+"},
		{"somebody whose cut name the aliases know", []snapshot.Process{proc("elonglon+", snapshot.Compute, 1)},
			board.Busy,
			"elonglonger", "", "", "elonglon+"},
		{"somebody who is gone", []snapshot.Process{zombie, gone(400), proc("gdm", snapshot.Graphics, 100)},
			board.Stuck, "",
			"", "kai unknown", ""},
		{"one alive beside one who is gone", []snapshot.Process{zombie, proc("ada", snapshot.Compute, 1)}, board.Busy,
			"ada",
			"", "", "ada"},
	} {
		gpu := a100()
		if tt.state == board.Stuck {
			gpu = full
		}
		_, g := scene{gpu: gpu, procs: tt.procs, person: person}.row(t)
		var computing []string
		for _, p := range g.Computing() {
			computing = append(computing, p.User)
		}
		words := func(list []snapshot.Owner) string { return strings.Trim(fmt.Sprint(list), "[]") }
		got := [...]string{string(g.State), strings.Join(g.Users(), " "), words(g.Unknown()), words(g.Left()),
			strings.Join(computing, " ")}
		if want := [...]string{string(tt.state), tt.users, tt.unknown, tt.left, tt.computing}; got != want {
			t.Errorf("%s: %q, want %q", tt.name, got, want)
		}
	}
}

// Accounts that are nobody's have no sums of the past either.
func TestNoPastOfUnknownUsers(t *testing.T) {
	recent := &history.Recent{}
	for _, name := range []string{"", "root", "ci", "runner", "ada"} {
		recent.Users = append(recent.Users, history.User{Name: name, Mean2h: new(1.0)})
	}
	person := func(login string) string { return strings.Replace(login, "runner", "ci", 1) }
	b, _ := scene{
		gpu: a100(), recent: recent, person: person, setting: board.Settings{ServiceAccounts: []string{"ci"}},
	}.merge()
	if len(b.Users) != 1 || b.Users[0].Name != "ada" {
		t.Errorf("people %+v, want ada alone", b.Users)
	}
}

// Who held a GPU goes by the aliases. Accounts that are nobody's, and people who are not certain, held nothing.
func TestHolders(t *testing.T) {
	past := history.GPU{Holders: []string{"ada", "ada", "al", "root", "ci", "mira?", "", "eva"}}
	given := slices.Clone(past.Holders)
	person := func(login string) string { return strings.Replace(login, "al", "ada", 1) }
	_, g := scene{
		gpu: a100(), person: person, setting: board.Settings{ServiceAccounts: []string{"ci"}},
		recent: &history.Recent{GPUs: map[history.Key]history.GPU{{Host: "gpu01", GPU: "GPU-1"}: past}},
	}.row(t)
	if want := []string{"ada", "ada", "ada", "", "", "", "", "eva"}; !slices.Equal(g.Holders, want) {
		t.Errorf("holders %q, want %q", g.Holders, want)
	}
	if !slices.Equal(past.Holders, given) {
		t.Errorf("the merge changed its input to %q", past.Holders)
	}
	if _, g := (scene{gpu: a100()}).row(t); g.Holders != nil {
		t.Errorf("holders %q without history", g.Holders)
	}
}

// A service account may book, and its own process is no reason to ask it. A person whose login name is digits
// is asked about a process of that uid.
func TestJobsOfUnknownUsers(t *testing.T) {
	container := proc("root", snapshot.Compute, 700)
	container.Container = "a1b2c3d4"
	set := board.Settings{ServiceAccounts: []string{"ci"}}
	b, _ := scene{
		gpu: a100(),
		procs: []snapshot.Process{proc("ci", snapshot.Compute, 500), container,
			proc("100999", snapshot.Compute, 400)},
		setting: set,
	}.merge()
	jobs := func(login string) (who []string) {
		at := booking.Booking{Host: "gpu01", Target: booking.Target{All: true, Index: -1}}
		for _, j := range b.Jobs(at, func(name string) bool { return name == login }) {
			who = append(who, j.Who.String())
		}
		return who
	}
	root, ci, bare := "unknown (root in container a1b2c3d4)", "unknown (ci)", "unknown (uid 100999)"
	for login, want := range map[string][]string{
		"ada": {root, ci, bare}, "ci": {root, bare}, "root": {root, ci, bare}, "100999": {root, ci, bare},
	} {
		if got := jobs(login); !slices.Equal(got, want) {
			t.Errorf("%s would book over %q, want %q", login, got, want)
		}
	}
}

// A booking may write a login name in other letters. It is one person all the same, unless both are people.
func TestOnePersonHasOneName(t *testing.T) {
	mira, other := proc("mira", snapshot.Compute, 3000), proc("MIRA", snapshot.Compute, 3000)
	b, _ := scene{gpu: a100(), procs: []snapshot.Process{mira}, booked: []booking.Booking{by("MIRA", "")}}.merge()
	g := &b.Hosts[0].GPUs[0]
	if g.State != board.InUse || g.Booking.Name != "mira" || b.Bookings[0].Name != "mira" {
		t.Errorf("%s, booked by %s and %s, want mira", g.State, g.Booking.Name, b.Bookings[0].Name)
	}
	if len(b.Users) != 1 || b.Users[0].Name != "mira" || b.Users[0].Reserved != 1 || b.Users[0].Used != 1 {
		t.Errorf("people %+v, want mira alone", b.Users)
	}

	b, _ = scene{gpu: a100(), procs: []snapshot.Process{mira, other}, booked: []booking.Booking{by("mira", "")}}.merge()
	if name := b.Bookings[0].Name; name != "mira" {
		t.Errorf("booked by %s, because of the process of another account, want mira", name)
	}
}

// Who is unknown does not become a person by a masked name.
func TestMaskedChildren(t *testing.T) {
	dead := gone(3000)
	dead.Children = []snapshot.Child{{PID: 71, User: "root"}, {PID: 72, User: "100999"}, {PID: 73, User: "lea"}}
	b, _ := scene{gpu: a100(), procs: []snapshot.Process{dead}}.merge()
	masked := b.Mask(board.Privacy{Users: board.UsersHash}).Hosts[0].GPUs[0].Processes[0].Children
	if masked[0].User != "" || masked[1].User != "" || !strings.HasPrefix(masked[2].User, "user-") {
		t.Errorf("children of %+v, want nobody, nobody and a person", masked)
	}
}

// Somebody who is only likely to be a person is shown, fits whatever booking there is, and counts for nothing
// else, now and in the past. Where containers run under their users' accounts, that is certain.
func TestLikelyUsers(t *testing.T) {
	mira := proc("mira", snapshot.Compute, 3000)
	mira.Container = "a1b2c3d4"
	recent := &history.Recent{Users: []history.User{{Name: "mira?", Mean2h: new(1.0)}}}

	for _, tt := range []struct {
		name    string
		trusted bool
		booked  string
		service string
		state   board.State
		users   string // as the GPU has them, then those who are likely, then all people of the board
	}{
		{"not booked", false, "", "", board.Busy, "[] [mira] []"},
		{"booked by the same", false, "mira", "", board.InUse, "[] [mira] [mira]"},
		{"booked by another", false, "ada", "", board.InUse, "[] [mira] [ada]"},
		{"a service account", false, "", "mira", board.Busy, "[] [] []"},
		{"trusted", true, "", "", board.Busy, "[mira] [] [mira]"},
		{"trusted, booked by the same", true, "mira", "", board.InUse, "[mira] [] [mira]"},
		{"trusted, booked by another", true, "ada", "", board.Contested, "[mira] [] [mira ada]"},
		{"trusted, a service account", true, "", "mira", board.Busy, "[] [] []"},
	} {
		s := scene{gpu: a100(), procs: []snapshot.Process{mira}, recent: recent,
			setting: board.Settings{TrustContainerUIDs: tt.trusted, ServiceAccounts: []string{tt.service}}}
		if tt.booked != "" {
			s.booked = []booking.Booking{by(tt.booked, "")}
		}
		b, _ := s.merge()
		g := &b.Hosts[0].GPUs[0]

		var people []string
		for _, u := range b.Users {
			people = append(people, u.Name)
			if past := u.Mean2h != nil; u.Name == "mira" && past != tt.trusted {
				t.Errorf("%s: mira has a past: %t", tt.name, past)
			}
		}
		if got := fmt.Sprint(g.Users(), g.Likely(), people); g.State != tt.state || got != tt.users {
			t.Errorf("%s: %s, %s, want %s, %s", tt.name, g.State, got, tt.state, tt.users)
		}
		if !tt.trusted && tt.service == "" {
			if words := fmt.Sprint(g.Owners()); words != "[mira?]" || len(g.Unknown()) > 0 {
				t.Errorf("%s: used by %s, unknown %v", tt.name, words, g.Unknown())
			}
			of := booking.Booking{Host: "gpu01", Target: booking.Target{All: true, Index: -1}}
			if jobs := b.Jobs(of, func(name string) bool { return name == "mira" }); len(jobs) != 1 ||
				jobs[0].Who.String() != "mira?" {
				t.Errorf("%s: mira books over %+v unasked", tt.name, jobs)
			}
		}
	}
}

// What a node of another version, or a hostile one, calls a user in its samples.
func TestPastOfNamesThatAreNone(t *testing.T) {
	in := board.Input{Settings: board.Settings{TrustContainerUIDs: true}}
	for name, want := range map[string]string{
		"ada": "ada", "ada?": "ada", "?": "", "": "", "ada??": "", "ada curl evil|sh": "", "root?": "", "averyver+": "",
	} {
		if got := in.Who(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
