package snapshot_test

import (
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
)

// process is a living process of an account; of a person if its uid is 1000 or more.
func process(user string, uid int64, kind snapshot.ProcessType, program string, memory int64) snapshot.Process {
	return snapshot.Process{User: user, UID: &uid, Type: kind, Program: program, UsedMemory: &memory, Alive: new(true)}
}

func TestWhoComputes(t *testing.T) {
	const server = "nvidia-cuda-mps-server"
	xorg := process("root", 0, snapshot.Graphics, "Xorg", 60)
	desktop := process("ada", 1000, snapshot.Graphics, "gnome-shell", 700)
	train := process("eva", 1001, snapshot.Compute, "train.py", 9000)
	dead := train
	dead.Alive = new(false)
	perhaps := train
	perhaps.Alive = nil
	untold := process("eva", 1001, snapshot.Graphics, "CarlaUE4", 0)
	untold.UsedMemory = nil
	nobodys := process("", 0, snapshot.Compute, server, 30)
	nobodys.UID = nil
	tests := []struct {
		name        string
		utilization int // -1 where it is not known
		list        []snapshot.Process
		want        string // programs that compute
	}{
		{"no process", 99, nil, ""},
		{"compute", 0, []snapshot.Process{train}, "train.py"},
		{"compute and graphics", 0, []snapshot.Process{process("eva", 1001, snapshot.ComputeGraphics, "blender", 1)},
			"blender"},
		{"a type of tomorrow", 0, []snapshot.Process{process("eva", 1001, "M+C", "a", 1)}, "a"},
		{"a dead process", 99, []snapshot.Process{dead}, ""},
		{"one that may be alive", 0, []snapshot.Process{perhaps}, "train.py"},

		{"a desktop", 29, []snapshot.Process{xorg, desktop}, ""},
		{"a desktop whose load is unknown", -1, []snapshot.Process{xorg, desktop}, ""},
		{"a desktop that is too busy for one", 30, []snapshot.Process{xorg, desktop}, "gnome-shell"},
		{"a display server that is too busy for one", 30, []snapshot.Process{xorg}, "Xorg"},
		{"desktops of two people, one of them too busy", 99,
			[]snapshot.Process{desktop, process("eva", 1001, snapshot.Graphics, "kwin", 700)}, ""},
		{"a desktop beside somebody who computes", 99, []snapshot.Process{xorg, desktop, train}, "train.py"},
		{"a game beside somebody's desktop", 97,
			[]snapshot.Process{process("eva", 1001, snapshot.Graphics, "CarlaUE4", 8900), xorg, desktop}, "CarlaUE4"},
		{"an idle game", 0, []snapshot.Process{process("eva", 1001, snapshot.Graphics, "CarlaUE4", 8900)}, "CarlaUE4"},
		{"a game that does not tell its memory", 97, []snapshot.Process{xorg, untold}, "CarlaUE4"},
		{"at the bound", 0, []snapshot.Process{process("root", 0, snapshot.Graphics, "Xorg", 1536)}, ""},
		{"beyond the bound", 0, []snapshot.Process{process("root", 0, snapshot.Graphics, "Xorg", 1537)}, "Xorg"},
		{"beyond the bound together", 0, []snapshot.Process{process("root", 0, snapshot.Graphics, "Xorg", 800),
			process("root", 0, snapshot.Compute, server, 736), xorg}, "Xorg"},

		{"the server of MPS", 0, []snapshot.Process{process("root", 0, snapshot.Compute, server, 30)}, ""},
		{"that of an account of the system", 0, []snapshot.Process{process("mps", 990, snapshot.Compute, server, 30)},
			""},
		{"that of a person", 0, []snapshot.Process{process("eva", 1001, snapshot.Compute, server, 30)}, server},
		{"that of an account that is not known", 0, []snapshot.Process{nobodys}, server},
		{"clients compute through it, as before Volta", 99,
			[]snapshot.Process{process("root", 0, snapshot.Compute, server, 8900)}, server},
		{"it computes with little memory", 99, []snapshot.Process{process("root", 0, snapshot.Compute, server, 300)},
			server},
		{"DCGM", 29, []snapshot.Process{process("root", 0, snapshot.Compute, "nv-hostengine", 300)}, ""},
		{"DCGM with much memory", 0, []snapshot.Process{process("root", 0, snapshot.Compute, "nv-hostengine", 8900)},
			"nv-hostengine"},
		{"persistence", 0,
			[]snapshot.Process{process("nvidia-persistenced", 110, snapshot.Compute, "nvidia-persistenced", 4)}, ""},
	}
	for _, tt := range tests {
		var utilization *int
		if tt.utilization >= 0 {
			utilization = &tt.utilization
		}
		procs := make([]*snapshot.Process, len(tt.list))
		for i := range tt.list {
			procs[i] = &tt.list[i]
		}
		var programs []string
		for i, computing := range snapshot.Computing(utilization, procs) {
			if computing {
				programs = append(programs, procs[i].Program)
			}
		}
		if got := strings.Join(programs, " "); got != tt.want {
			t.Errorf("%s: %q compute, want %q", tt.name, got, tt.want)
		}
	}
}
