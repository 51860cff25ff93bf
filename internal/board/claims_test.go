package board_test

import (
	"cmp"
	"slices"
	"testing"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// Who is only likely, by whatever, contests nothing and is in no sum; who is certain, by whatever, is a person.
func TestClaimsDecideWhoIsOnAGPU(t *testing.T) {
	claims := func(c ...snapshot.Claim) []snapshot.Claim { return c }
	people := []board.ContainerPerson{{Pattern: "train-*-mira", Login: "mira"}, {Pattern: "a1b2c3d4", Login: "lea"}}
	for name, tt := range map[string]struct {
		claims   []snapshot.Claim
		box, id  string
		set      board.Settings
		person   string
		likely   string
		conflict int
	}{
		"a session": {claims: claims(snapshot.Claim{User: "mira", Source: "session"}), person: "mira"},
		"a label":   {claims: claims(snapshot.Claim{User: "mira", Source: "label"}), person: "mira"},
		"a home":    {claims: claims(snapshot.Claim{User: "mira", Source: "home"}), likely: "mira"},
		"a home, and trusted uids": {claims: claims(snapshot.Claim{User: "mira", Source: "home"}),
			set: board.Settings{TrustContainerUIDs: true}, likely: "mira"},
		"two of one": {claims: claims(snapshot.Claim{User: "mira", Source: "home"},
			snapshot.Claim{User: "mira", Source: "label"}), person: "mira"},
		"two of two": {claims: claims(snapshot.Claim{User: "mira", Source: "session"},
			snapshot.Claim{User: "kai", Source: "label"}), conflict: 2},
		"likely ones of two": {claims: claims(snapshot.Claim{User: "mira", Source: "home"},
			snapshot.Claim{User: "kai", Source: "folder"}), conflict: 2},
		"a source of tomorrow":     {claims: claims(snapshot.Claim{User: "mira", Source: "stars"})},
		"a service account":        {claims: claims(snapshot.Claim{User: "ci", Source: "label"})},
		"root":                     {claims: claims(snapshot.Claim{User: "root", Source: "label"})},
		"the site, by a pattern":   {box: "train-7b-mira", person: "mira"},
		"a pattern that is longer": {box: "train-mira"},
		"the site, by the id":      {id: "a1b2c3d4", person: "lea"},
		"the site, and a label": {claims: claims(snapshot.Claim{User: "kai", Source: "label"}), box: "train-7b-mira",
			person: "mira"},
		"the site, and a range": {claims: claims(snapshot.Claim{User: "kai", Source: "subuid"}), box: "train-7b-mira",
			person: "kai"},
	} {
		p := proc("root", snapshot.Compute, 3000)
		p.UID, p.Container, p.ContainerName, p.Claims = new(int64(0)), "ffffffffffff", tt.box, tt.claims
		if tt.id != "" {
			p.Container = tt.id
		}
		tt.set.ContainerPeople, tt.set.ServiceAccounts = people, []string{"ci"}
		b, _ := scene{gpu: a100(), procs: []snapshot.Process{p}, booked: []booking.Booking{by("eva", "")},
			setting: tt.set}.merge()
		g := &b.Hosts[0].GPUs[0]
		got := &g.Processes[0]
		if got.Person != tt.person || got.Likely != tt.likely || tt.conflict != 0 && len(got.By) != tt.conflict {
			t.Errorf("%s: %q, likely %q, by %v", name, got.Person, got.Likely, got.By)
		}
		if contested := g.State == board.Contested; contested != (tt.person != "") {
			t.Errorf("%s: it is %s", name, g.State)
		}
		if listed := slices.ContainsFunc(b.Users,
			func(u board.User) bool { return u.Name == cmp.Or(tt.person, tt.likely) && u.Used > 0 }); listed != (tt.person != "") {
			t.Errorf("%s: among the people %+v", name, b.Users)
		}
	}
}
