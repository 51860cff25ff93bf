package board_test

import (
	"strings"
	"testing"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// TestWhatCountsAsUse is the rule by which a GPU is free, case by case, to be read by a person. Memory is in
// MiB, utilization in percent; -1 is not known.
func TestWhatCountsAsUse(t *testing.T) {
	of := func(user string, kind snapshot.ProcessType, program string, memory int64) snapshot.Process {
		p := proc(user, kind, memory)
		p.Program = program
		if p.UsedMemory = &memory; memory < 0 {
			p.UsedMemory = nil
		}
		return p
	}
	mps := func(user string, memory int64) snapshot.Process {
		return of(user, snapshot.Compute, "nvidia-cuda-mps-server", memory)
	}
	dcgm := func(memory int64) snapshot.Process { return of("root", snapshot.Compute, "nv-hostengine", memory) }
	shows := func(user, program string, memory int64) snapshot.Process {
		return of(user, snapshot.Graphics, program, memory)
	}
	xorg := shows("root", "Xorg", 60)
	trains := of("eva", snapshot.Compute, "train.py", 9000)
	list := func(procs ...snapshot.Process) []snapshot.Process { return procs }

	const hidden = "hidden" // a list of processes that may lack some
	for _, tt := range []struct {
		model       string
		total, used int64
		utilization int
		list        []snapshot.Process
		known       string
		booked      string
		want        string
	}{
		// Utilization on a GPU whose list of processes is empty.
		{"H200", 143771, 2800, 99, nil, "", "", "busy: unknown"},
		{"H200", 143771, 2800, 99, nil, "", "eva", "in-use: unknown"},
		{"H200", 143771, 2800, 4, nil, "", "", "free"},
		{"H200", 143771, 2800, -1, nil, "", "", "free"},
		{"A100", 81920, 1400, 97, nil, "", "", "busy: unknown"},
		{"A100", 81920, 201, 5, nil, "", "", "busy: unknown"},
		{"A100", 81920, 200, 99, nil, "", "", "free"}, // the driver without persistence mode
		{"A100", 81920, 0, 99, nil, "", "eva", "booked"},
		{"A100", 81920, 9000, 4, nil, "", "", "stuck"},
		{"A100", 81920, 9000, 5, nil, "", "", "busy: unknown"},
		// GPUs that can use the memory of their node.
		{"GH200 480GB", 97871, 4, 5, nil, "", "", "busy: unknown"},
		{"GH200 480GB", 97871, 4, 4, nil, "", "", "free"},
		{"GB200", 189471, 0, 99, nil, "", "", "busy: unknown"},
		// Displays.
		{"GT 1030", 2048, 875, 3, list(xorg, shows("ada", "gnome-shell", 700)), "", "", "free"},
		{"GTX 980", 4096, 1136, 12, list(xorg, shows("ada", "firefox", 1000)), "", "", "free"},
		{"GTX 1070 Ti", 8192, 1021, 19, list(xorg, shows("ada", "gnome-shell", 900)), "", "", "free"},
		{"GTX 1070 Ti", 8192, 1021, 19, list(xorg, shows("ada", "gnome-shell", 900)), "", "eva", "booked"},
		{"GTX 1070 Ti", 8192, 1021, 30, list(xorg, shows("ada", "gnome-shell", 900)), "", "", "busy: ada"},
		{"RTX 4090", 24564, 1500, 30, list(xorg, shows("ada", "gnome-shell", 700), shows("kai", "kwin", 700)), "", "",
			"busy: unknown"},
		{"RTX 4090", 24564, 1500, 30, list(xorg, shows("ada", "gnome-shell", 700), shows("kai", "kwin", 700)), "",
			"ada",
			"in-use: unknown"},
		{"RTX 4090", 24564, 9100, 97, list(xorg, shows("eva", "CarlaUE4", 8900)), "", "", "busy: eva"},
		{"RTX 4090", 24564, 9100, 97, list(xorg, shows("eva", "CarlaUE4", 8900)), "", "ada", "contested: eva"},
		{"RTX 4090", 24564, 9100, 0, list(xorg, shows("eva", "CarlaUE4", 8900)), "", "", "busy: eva"},
		{"RTX 4090", 24564, 9100, 97, list(xorg, shows("eva", "CarlaUE4", -1)), "", "", "busy: eva"},
		{"RTX 4090", 24564, 9100, 0, list(xorg, shows("eva", "CarlaUE4", -1)), "", "", "busy: unknown"},
		{"RTX 4090", 24564, 10100, 99, list(xorg, shows("ada", "gnome-shell", 900), trains), "", "eva", "in-use: eva"},
		{"RTX 4090", 24564, 2600, 3, list(shows("root", "Xorg", 2400)), "", "", "busy: unknown (root)"},
		// 840 MiB are nobody's
		{"RTX 4090", 24564, 1800, 12, list(xorg, shows("ada", "gnome-shell", 900)), "", "", "busy: unknown"},
		// Service programs.
		{"V100", 32768, 330, 0, list(mps("root", 30)), "", "", "free"},
		{"P100", 16384, 9000, 99, list(mps("root", 8900)), "", "", "busy: unknown (root)"},
		{"P100", 16384, 9000, 0, list(mps("root", 8900)), "", "", "busy: unknown (root)"},
		{"P100", 16384, 9000, 99, list(mps("root", 8900)), "", "eva", "in-use: unknown (root)"},
		{"V100", 32768, 330, 60, list(mps("root", 30)), "", "", "busy: unknown (root)"},
		{"V100", 32768, 330, 0, list(mps("eva", 30)), "", "", "busy: eva"},
		{"V100", 32768, 9300, 60, list(mps("root", 30), trains), "", "", "busy: eva"},
		{"A100", 81920, 9000, 0, list(dcgm(8900)), "", "", "busy: unknown (root)"},
		{"A100", 81920, 500, 0, list(dcgm(300)), "", "", "free"},
		{"A100", 81920, 9000, 0, list(of("eva", snapshot.Compute, "nvidia-cuda-mps-server", 8900)), "", "ada",
			"contested: eva"},
		// Processes that are not known, as under Windows' driver model.
		{"RTX 4090", 24564, 1128, 0, nil, hidden, "", "busy: unknown"},
		{"RTX 4090", 24564, 400, 99, nil, hidden, "", "busy: unknown"},
		{"RTX 4090", 24564, 400, 0, nil, hidden, "", "free"},
		{"RTX 4090", 24564, 400, -1, nil, hidden, "", "unknown"},
		{"RTX 4090", 24564, 150, 99, nil, hidden, "", "busy: unknown"},
	} {
		g := snapshot.GPU{
			UUID: "GPU-1", Name: "NVIDIA " + tt.model, Health: snapshot.HealthOK, MemoryTotal: &tt.total,
			MemoryUsed: &tt.used,
		}
		if tt.utilization >= 0 {
			g.UtilizationGPU = &tt.utilization
		}
		if tt.known == hidden {
			g.ProcessesUnknown = "N/A"
		}
		s := scene{gpu: g, procs: tt.list}
		if tt.booked != "" {
			s.booked = []booking.Booking{by(tt.booked, booking.Reserved)}
		}
		_, row := s.row(t)

		got := string(row.State)
		if row.State != board.Unknown && row.State != board.Stuck {
			var who []string
			for _, o := range row.Owners() {
				who = append(who, o.String())
			}
			if len(who) > 0 {
				got += ": " + strings.Join(who, ", ")
			}
		}
		if got != tt.want {
			t.Errorf("%s with %d of %d MiB at %d %%, %d processes %s, booked by %q: %s, want %s",
				tt.model, tt.used, tt.total, tt.utilization, len(tt.list), tt.known, tt.booked, got, tt.want)
		}
	}
}
