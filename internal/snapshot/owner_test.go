package snapshot

import "testing"

func TestWhoseAProcessIs(t *testing.T) {
	uid := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		name  string
		p     Process
		login string
		owner string // as an unknown user
	}{
		{"an ordinary account", Process{User: "ada", UID: uid(1001)}, "ada", "unknown (ada)"},
		{"one of a drop without uids", Process{User: "ada"}, "ada", "unknown (ada)"},
		{"the first ordinary account, in a container", Process{User: "ada", UID: uid(1000), Container: "a1b2c3d4"}, "ada", "unknown (ada in container a1b2c3d4)"},
		{"root", Process{User: "root", UID: uid(0)}, "", "unknown (root)"},
		{"root without a uid", Process{User: "root"}, "", "unknown (root)"},
		{"root under another name", Process{User: "toor", UID: uid(0)}, "", "unknown (toor)"},
		{"root in a container", Process{User: "root", UID: uid(0), Container: "a1b2c3d4"}, "", "unknown (root in container a1b2c3d4)"},
		{"a uid that a container maps", Process{User: "100999", UID: uid(100999), Container: "a1b2c3d4"}, "", "unknown (uid 100999 in container a1b2c3d4)"},
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
		if got := tt.p.Login(); got != tt.login {
			t.Errorf("%s: login %q, want %q", tt.name, got, tt.login)
		}
		if got := tt.p.Unknown().String(); got != tt.owner {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.owner)
		}
	}
	for user, want := range map[string]Owner{"ada": {Person: "ada"}, "root": {Account: "root"}, "100999": {Account: "uid 100999"}} {
		if got := (&Child{User: user}).Owner(); got != want {
			t.Errorf("a child of %s is %+v, want %+v", user, got, want)
		}
	}
}

func TestWhatComputes(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    Process
		want bool
	}{
		{"compute", Process{Type: Compute, Alive: ptr(true)}, true},
		{"compute and graphics", Process{Type: ComputeGraphics, Alive: ptr(true)}, true},
		{"a type of tomorrow", Process{Type: "M+C", Alive: ptr(true)}, true},
		{"one that may be alive", Process{Type: Compute}, true},
		{"graphics", Process{Type: Graphics, Alive: ptr(true)}, false},
		{"a dead process", Process{Type: Compute, Alive: ptr(false)}, false},
		{"the server of MPS", Process{Type: Compute, Alive: ptr(true), Program: "nvidia-cuda-mps-server"}, false},
		{"DCGM", Process{Type: Compute, Alive: ptr(true), Program: "nv-hostengine"}, false},
	} {
		if got := tt.p.Computes(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
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
		{User: "100999", UID: ptr(int64(100999)), Type: Compute, UsedMemory: size},
		{User: "root", UID: ptr(int64(0)), Type: Compute, UsedMemory: size, Program: "nvidia-cuda-mps-server"},
		{User: "gdm", UID: ptr(int64(120)), Type: Graphics, UsedMemory: size},
	}}
	users := s.Sample().GPUs[0].Users
	if len(users) != 2 || users[0] != (UserMemory{"", 300}) || users[1] != (UserMemory{"ada", 100}) {
		t.Errorf("users %v, want 300 MiB of unknown users and 100 of ada", users)
	}
}
