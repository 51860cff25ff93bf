package cli

import (
	"errors"
	"testing"
	"time"

	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

func TestSSHAddress(t *testing.T) {
	for _, tt := range []struct {
		in, host string
		port     int
		ok       bool
	}{
		{"", "", 0, true},
		{"gpu01.lab.example", "gpu01.lab.example", 0, true},
		{"gpu01.lab.example:2222", "gpu01.lab.example", 2222, true},
		{"192.0.2.7:22", "192.0.2.7", 22, true},
		{"2001:db8::7", "2001:db8::7", 0, true},
		{"[2001:db8::7]:2222", "2001:db8::7", 2222, true},
		{"gpu01:0", "", 0, false},
		{"gpu01:ssh", "", 0, false},
		{"-oProxyCommand=x", "", 0, false},
		{"eva@gpu01", "", 0, false},
		{"gpu01; rm", "", 0, false},
	} {
		host, port, err := sshAddress(tt.in)
		if host != tt.host || port != tt.port || (err == nil) != tt.ok {
			t.Errorf("sshAddress(%q) = %q, %d, %v", tt.in, host, port, err)
		}
	}
}

func gpus(names ...string) *snapshot.Snapshot {
	used, total := int64(3), int64(81920)
	s := &snapshot.Snapshot{Host: "gpu01", CollectedAt: snapshot.TimeOf(time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)), IntervalSeconds: 20, DriverVersion: "550.90",
		GPUsComplete: true, Processes: []snapshot.Process{}}
	for i, name := range names {
		s.GPUs = append(s.GPUs, snapshot.GPU{Index: i, Name: name, MemoryUsed: &used, MemoryTotal: &total, Health: snapshot.HealthOK})
	}
	return s
}

// How many GPUs there should be is what somebody configured, never what the driver
// lists at the moment.
func TestTheNumberOfGPUsIsNotLearnt(t *testing.T) {
	for _, configured := range []int{0, 8} {
		reg := inventory.Registration{GPUs: configured}
		for _, tt := range []struct {
			snap   *snapshot.Snapshot
			models int
		}{
			{&snapshot.Snapshot{}, 0}, // nvidia-smi fails
			{gpus("A100", "A100", "H100"), 2},
			{&snapshot.Snapshot{}, 2},
			{gpus("A100"), 1},
		} {
			learn(&reg, tt.snap)
			if reg.GPUs != configured || len(reg.Models) != tt.models {
				t.Errorf("%d configured, after %d GPUs: %d of the models %v", configured, len(tt.snap.GPUs), reg.GPUs, reg.Models)
			}
		}
		if reg.Driver != "550.90" {
			t.Errorf("the driver is %q", reg.Driver)
		}
	}
}

func TestJudge(t *testing.T) {
	h := &herald{pushes: true}
	busy := gpus("A100", "A100")
	much := int64(40000)
	busy.GPUs[1].MemoryUsed = &much
	one := 1
	faulty := gpus("A100")
	faulty.Errors = []snapshot.Problem{{Code: "gpu:lost", GPU: &one, Message: "it is lost"}, {Code: "ps:timeout", Message: "ps took too long"}}
	for _, tt := range []struct {
		name string
		news news
		want report
	}{
		{"all free", news{snap: gpus("A100", "A100")}, report{true, "2 GPUs, 2 free"}},
		{"one in use", news{snap: busy}, report{true, "2 GPUs, 1 free"}},
		{"no GPUs", news{snap: gpus()}, report{true, "0 GPUs, 0 free"}},
		{"not read", news{snap: faulty}, report{false, "GPU 1: it is lost (+1 more)"}},
		{"not pushed", news{snap: faulty, push: errors.New("no route")}, report{false, "collected, and not delivered: no route"}},
		{"not spooled", news{snap: busy, collect: errors.New("disk full")}, report{false, "collecting: disk full"}},
		{"nothing", news{}, report{false, "nothing was collected"}},
	} {
		if got := h.judge(tt.news); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	h.pushes = false
	if got := h.judge(news{snap: busy}); got.output != "2 GPUs, 1 free (collected; no drop is set)" {
		t.Errorf("without a drop: %+v", got)
	}
}

// Only the newest news counts, and telling it never waits.
func TestHearNeverWaits(t *testing.T) {
	h := &herald{news: make(chan news, 1)}
	for i := range 5 {
		h.hear(news{snap: &snapshot.Snapshot{Seq: uint64(i)}})
	}
	if n := <-h.news; n.snap.Seq != 4 {
		t.Errorf("heard of snapshot %d, want the last", n.snap.Seq)
	}
}
