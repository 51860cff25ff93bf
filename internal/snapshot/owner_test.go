package snapshot

import (
	"slices"
	"testing"
)

func TestWhoseAProcessIs(t *testing.T) {
	uid := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		name    string
		p       Process
		person  string // of a person, with "?" where that is only likely
		unknown string // as an unknown user
	}{
		{"an ordinary account", Process{User: "ada", UID: uid(1001)}, "ada", "unknown (ada)"},
		{"one of a drop without uids", Process{User: "ada"}, "ada", "unknown (ada)"},
		{"the first ordinary account, in a container", Process{User: "ada", UID: uid(1000), Container: "a1b2c3d4"},
			"ada?", "unknown (ada in container a1b2c3d4)"},
		{"one in a container, in a user namespace of its own",
			Process{User: "ada", UID: uid(1000), Container: "a1b2c3d4", OwnUserNamespace: true}, "ada",
			"unknown (ada in container a1b2c3d4)"},
		{"root in a user namespace of its own",
			Process{User: "root", UID: uid(0), Container: "a1b2c3d4", OwnUserNamespace: true}, "",
			"unknown (root in container a1b2c3d4)"},
		{"a question mark", Process{User: "?"}, "", "unknown"},
		{"a question mark with a uid", Process{User: "?", UID: uid(1001)}, "", "unknown (uid 1001)"},
		{"a name that ends in one", Process{User: "ada?", UID: uid(1001)}, "", "unknown (ada?)"},
		{"a command line", Process{User: "ada curl evil|sh", UID: uid(1001)}, "", "unknown (ada curl evil|sh)"},
		{"an option", Process{User: "-rf", UID: uid(1001)}, "", "unknown (-rf)"},
		{"quotes", Process{User: `ada"'`, UID: uid(1001)}, "", `unknown (ada"')`},
		{"an account of a domain", Process{User: `LAB\ada`, UID: uid(10001)}, `LAB\ada`, `unknown (LAB\ada)`},
		{"an account at a domain", Process{User: "ada.l@lab.example", UID: uid(10001)}, "ada.l@lab.example",
			"unknown (ada.l@lab.example)"},
		{"an account of Samba", Process{User: "LAB+ada", UID: uid(10001)}, "LAB+ada", "unknown (LAB+ada)"},
		{"a machine's account", Process{User: "gpu01$", UID: uid(10001)}, "gpu01$", "unknown (gpu01$)"},
		{"hyphen and underscore", Process{User: "_ada-l_2", UID: uid(1001)}, "_ada-l_2", "unknown (_ada-l_2)"},
		{"letters beyond ASCII", Process{User: "jürgen田", UID: uid(1001)}, "jürgen田", "unknown (jürgen田)"},
		{"a name that ps has cut", Process{User: "averyver+", UID: uid(1001)}, "averyver+", "unknown (averyver+)"},
		{"root", Process{User: "root", UID: uid(0)}, "", "unknown (root)"},
		{"root without a uid", Process{User: "root"}, "", "unknown (root)"},
		{"root under another name", Process{User: "toor", UID: uid(0)}, "", "unknown (toor)"},
		{"root in a container", Process{User: "root", UID: uid(0), Container: "a1b2c3d4"}, "",
			"unknown (root in container a1b2c3d4)"},
		{"a uid that a container maps", Process{User: "100999", UID: uid(100999), Container: "a1b2c3d4"}, "",
			"unknown (uid 100999 in container a1b2c3d4)"},
		{"a uid without a name", Process{User: "100999", UID: uid(100999)}, "", "unknown (uid 100999)"},
		{"a uid alone", Process{UID: uid(100999)}, "", "unknown (uid 100999)"},
		{"digits of a drop without uids", Process{User: "100999"}, "", "unknown (uid 100999)"},
		{"a login name of digits", Process{User: "20210015", UID: uid(5012)}, "20210015", "unknown (20210015)"},
		{"a system account", Process{User: "munge", UID: uid(998)}, "", "unknown (munge)"},
		{"a display manager's, without a uid", Process{User: "Debian-gdm"}, "", "unknown (Debian-gdm)"},
		{"a unit's own account", Process{User: "systemd-network"}, "", "unknown (systemd-network)"},
		{"nobody", Process{User: "nogroup", UID: uid(65534)}, "", "unknown (nogroup)"},
		{"somebody of whom nothing is known", Process{}, "", "unknown"},
		{"somebody in a container", Process{Container: "a1b2c3d4"}, "", "unknown (in container a1b2c3d4)"},
	} {
		whose := tt.p.Owner()
		if got := whose.Name(); got != tt.person {
			t.Errorf("%s: person %q, want %q", tt.name, got, tt.person)
		}
		if got := OwnerNamed(whose.Name()); got.Person != whose.Person || got.Likely != whose.Likely {
			t.Errorf("%s: %+v in a sample is %+v", tt.name, whose, got)
		}
		if got := tt.p.Unknown().String(); got != tt.unknown {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.unknown)
		}
	}
	for user, want := range map[string]Owner{"ada": {Person: "ada"}, "root": {Account: "root"},
		"100999": {Account: "uid 100999"}} {
		if got := (&Child{User: user}).Owner(); got != want {
			t.Errorf("a child of %s is %+v, want %+v", user, got, want)
		}
	}
}

// The node's samples name the same people as the board does.
func TestSampleHasPeopleAlone(t *testing.T) {
	size := ptr(int64(100))
	s := &Snapshot{GPUs: []GPU{{}}, Processes: []Process{
		{User: "ada", UID: ptr(int64(1001)), Type: Compute, UsedMemory: size},
		{User: "kai", UID: ptr(int64(1002)), Type: Compute, UsedMemory: size, Alive: ptr(false)},
		{User: "root", UID: ptr(int64(0)), Type: Compute, UsedMemory: size, Container: "a1b2c3d4"},
		{User: "eva", UID: ptr(int64(1003)), Type: Compute, UsedMemory: size, Container: "a1b2c3d4"},
		{User: "lea", UID: ptr(int64(1004)), Type: Compute, UsedMemory: size, Container: "a1b2c3d4",
			OwnUserNamespace: true},
		{User: "x|sh", UID: ptr(int64(1005)), Type: Compute, UsedMemory: size},
		{User: "100999", UID: ptr(int64(100999)), Type: Compute, UsedMemory: size},
		{User: "root", UID: ptr(int64(0)), Type: Compute, UsedMemory: size, Program: "nvidia-cuda-mps-server"},
		{User: "gdm", UID: ptr(int64(120)), Type: Graphics, UsedMemory: size},
	}}
	users := s.Sample().GPUs[0].Users
	if want := []UserMemory{{"", 400}, {"ada", 100}, {"eva?", 100}, {"lea", 100}}; !slices.Equal(users, want) {
		t.Errorf("users %v, want %v", users, want)
	}
}
