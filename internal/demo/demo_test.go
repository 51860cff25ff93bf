package demo

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

var start = time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)

// moments are some from three weeks before the start to two after it.
func moments() []time.Time {
	var list []time.Time
	for i := range 60 {
		list = append(list, start.Add(time.Duration(i-36)*14*time.Hour+time.Duration(i*i)*time.Second))
	}
	return list
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSnapshotsAreValid(t *testing.T) {
	f := New(1, start)
	for _, at := range moments() {
		for _, h := range f.Hosts() {
			s := f.Snapshot(h.Name, at)
			before := encode(t, s)
			if problems := s.Validate(); len(problems) > 0 || encode(t, s) != before {
				t.Fatalf("%s at %v: %v", h.Name, at, problems)
			}
			if !snapshot.ValidBoot(s.BootID) || s.Seq == 0 || s.Host != h.Name || s.GPUsComplete &&
				len(s.GPUs) != h.GPUs || s.GPUsComplete == (s.GPUs == nil) {
				t.Fatalf("%s at %v: boot %q, seq %d, %d GPUs", h.Name, at, s.BootID, s.Seq, len(s.GPUs))
			}
			if _, err := snapshot.ParseHost(h.Name); err != nil {
				t.Error(err)
			}
			bundle, err := snapshot.EncodeBundle(
				&snapshot.Bundle{Host: h.Name, BootID: s.BootID, Snapshot: s, Samples: []snapshot.Sample{s.Sample()}})
			if err != nil {
				t.Fatal(err)
			}
			back, err := snapshot.DecodeBundle(bytes.NewReader(bundle))
			if err != nil || encode(t, back.Snapshot) != before {
				t.Fatalf("%s does not come back whole: %v", h.Name, err)
			}
			plausible(t, s)
		}
	}
}

// plausible checks what a person who knows nvidia-smi would.
func plausible(t *testing.T, s *snapshot.Snapshot) {
	t.Helper()
	held := map[int]int64{}
	pids := map[int]bool{}
	for _, p := range s.Processes {
		held[p.GPU] += *p.UsedMemory
		if pids[p.PID] {
			t.Errorf("%s: pid %d twice", s.Host, p.PID)
		}
		pids[p.PID] = true
		if p.StartedAt != nil && p.StartedAt.After(s.CollectedAt.Time) {
			t.Errorf("%s: pid %d starts at %v, after %v", s.Host, p.PID, p.StartedAt, s.CollectedAt)
		}
		if *p.Alive == (p.User == "") {
			t.Errorf("%s: process %+v", s.Host, p)
		}
	}
	for i, g := range s.GPUs {
		if g.Index != i || !strings.HasPrefix(g.UUID, "GPU-") || len(g.UUID) != 40 && g.Vendor != snapshot.AMD {
			t.Errorf("%s: GPU %d is %d, %s", s.Host, i, g.Index, g.UUID)
		}
		if g.Health == snapshot.HealthLost {
			if g.MemoryUsed != nil || held[i] > 0 {
				t.Errorf("%s %d is lost and has readings", s.Host, i)
			}
			continue
		}
		own := int64(4 + sliceOwn*len(g.MIGDevices))
		if g.Vendor == snapshot.AMD {
			own = 283
		}
		if g.MemoryShared {
			own = *s.Node.MemoryUsed - held[i]
		}
		if *g.MemoryUsed != held[i]+own || own <= 0 || *g.MemoryUsed > *g.MemoryTotal {
			t.Errorf("%s %d: %d MiB of %d used, processes hold %d", s.Host, i, *g.MemoryUsed, *g.MemoryTotal, held[i])
		}
		if g.PowerLimit == nil != g.MemoryShared || g.PowerLimit != nil && *g.PowerDraw > *g.PowerLimit ||
			*g.PowerDraw < 4 || *g.PowerDraw > 750 || *g.Temperature < 25 || *g.Temperature > 90 {
			t.Errorf("%s %d: %v W, %d °C", s.Host, i, *g.PowerDraw, *g.Temperature)
		}
		if g.UtilizationGPU == nil && g.MIGMode != "enabled" {
			t.Errorf("%s %d has no utilization", s.Host, i)
		}
		if held[i] == 0 && g.UtilizationGPU != nil && *g.UtilizationGPU > 0 {
			t.Errorf("%s %d computes without a process", s.Host, i)
		}
	}
}

// The order of the questions must not matter, nor who asks.
func TestSnapshotIsAFunctionOfTheMoment(t *testing.T) {
	a, b := New(7, start), New(7, start)
	list := moments()
	want := map[string]string{}
	for _, at := range list {
		for _, h := range a.Hosts() {
			want[h.Name+at.String()] = encode(t, a.Snapshot(h.Name, at))
		}
	}
	slices.Reverse(list)
	for _, at := range list {
		for _, h := range b.Hosts() {
			if encode(t, b.Snapshot(h.Name, at)) != want[h.Name+at.String()] {
				t.Fatalf("%s at %v differs", h.Name, at)
			}
		}
	}
	other := New(8, start)
	if encode(t, other.Snapshot("atlas", start)) == encode(t, a.Snapshot("atlas", start)) {
		t.Error("another seed makes the same fleet")
	}
	if a.Snapshot("nobody", start) != nil {
		t.Error("a host that is not there has a snapshot")
	}
}

func TestSequenceNamesEachSnapshotOnce(t *testing.T) {
	f := New(1, start)
	type name struct {
		boot string
		seq  uint64
	}
	seen := map[name]time.Time{}
	last := time.Time{}
	for at := start.Add(-time.Hour); at.Before(start.Add(time.Hour)); at = at.Add(7 * time.Second) {
		s := f.Collected("atlas", at)
		n := name{s.BootID, s.Seq}
		if was, ok := seen[n]; ok && !was.Equal(s.CollectedAt.Time) {
			t.Fatalf("seq %d is %v and %v", s.Seq, was, s.CollectedAt)
		}
		seen[n] = s.CollectedAt.Time
		if age := at.Sub(s.CollectedAt.Time); age < 0 || age >= Interval || s.CollectedAt.Before(last) {
			t.Fatalf("at %v it is of %v", at, s.CollectedAt)
		}
		last = s.CollectedAt.Time
	}
	if len(seen) != 361 && len(seen) != 360 {
		t.Errorf("%d snapshots in two hours", len(seen))
	}
}

func TestSilentHost(t *testing.T) {
	f := New(1, start)
	if !f.Silent("fornax", start) || f.Silent("atlas", start) || f.Silent("fornax", start.Add(-4*time.Hour)) ||
		!f.Silent("fornax", start.Add(25*time.Minute)) {
		t.Error("fornax is silent at the wrong time")
	}
	if age := start.Sub(f.Snapshot("fornax", start).CollectedAt.Time); age < 3*time.Hour-time.Minute ||
		age > 3*time.Hour+time.Minute {
		t.Errorf("its last news is %v old", age)
	}
	if age := start.Sub(f.Collected("fornax", start).CollectedAt.Time); age >= Interval {
		t.Errorf("it collected %v ago", age)
	}
	var last time.Time
	for at := start; at.Before(start.Add(6 * time.Hour)); at = at.Add(11 * time.Second) {
		if s := f.Snapshot("fornax", at); s.CollectedAt.Before(last) || s.CollectedAt.After(at) {
			t.Fatalf("at %v its news is of %v, after %v", at, s.CollectedAt, last)
		} else {
			last = s.CollectedAt.Time
		}
	}
}

// What the demonstration promises to show.
func TestSceneShowsWhatTheDemoPromises(t *testing.T) {
	f := New(3, start)
	for _, at := range []time.Time{start, start.Add(time.Hour), start.Add(30 * time.Hour)} {
		users := func(host string, gpu int) string {
			var list []string
			for _, p := range f.Snapshot(host, at).Processes {
				if p.GPU == gpu && p.Type != snapshot.Graphics && !p.Dead() {
					list = append(list, p.User)
				}
			}
			return strings.Join(list, ",")
		}
		for _, c := range []struct {
			host string
			gpu  int
			want string
		}{{"atlas", 0, "mira"}, {"atlas", 3, "jun"}, {"atlas", 4, ""}, {"atlas", 5, ""}, {"atlas", 7, "sam"}, {"boreas",
			0, ""}, {"dione", 0, "tomas"}, {"europa", 3, ""}} {
			if got := users(c.host, c.gpu); got != c.want {
				t.Errorf("%v: %s %d is used by %q, want %q", at, c.host, c.gpu, got, c.want)
			}
		}
		europa := f.Snapshot("europa", at)
		if europa.GPUs[2].Health != snapshot.HealthLost || europa.ProcessesKnownOf(&europa.GPUs[2]) ||
			!europa.ProcessesKnownOf(&europa.GPUs[1]) || !europa.GPUsComplete {
			t.Error("europa 2 is not lost")
		}
		i := slices.IndexFunc(europa.Processes, func(p snapshot.Process) bool { return p.GPU == 1 })
		if p := europa.Processes[i]; *p.Alive || len(p.Children) != 1 {
			t.Errorf("europa 1 is not stuck: %+v", p)
		}
		ceres := f.Snapshot("ceres", at)
		if g := ceres.GPUs[2]; g.MIGMode != "enabled" || len(g.MIGDevices) != 4 || ceres.GPUs[0].MIGMode != "disabled" {
			t.Errorf("ceres 2 is not cut up, or GPU 0 is: %+v", g)
		} else if !bytes.Contains(f.Files(at)["comments.json"], []byte(`"`+g.MIGDevices[1].UUID+`"`)) ||
			*g.MIGDevices[1].MemoryUsed > 100 || *g.MIGDevices[3].MemoryUsed > 100 {
			t.Error("the second instance is not booked, or it or the fourth is in use")
		}
		if !slices.ContainsFunc(ceres.Processes, func(p snapshot.Process) bool {
			return p.GPUInstanceID != nil && *p.GPUInstanceID == 2 && *p.ComputeInstanceID == 0 && p.User == "kai"
		}) {
			t.Error("nobody is on the first instance")
		}
		if !slices.ContainsFunc(f.Snapshot("gaia", at).Processes,
			func(p snapshot.Process) bool { return p.Type == snapshot.Graphics }) {
			t.Error("gaia shows no desktop")
		}
		helios := f.Snapshot("helios", at)
		if g := helios.GPUs[0]; !g.MemoryShared || *g.MemoryTotal != *helios.Node.MemoryTotal ||
			*g.MemoryUsed != *helios.Node.MemoryUsed || g.UtilizationGPU == nil || users("helios", 0) != "ada" {
			t.Errorf("helios does not share its memory: %+v", g)
		}
		if got, _ := f.Utilization("atlas", 7, at); got != 0 {
			t.Errorf("the notebook on atlas 7 works at %d %%", got)
		}
	}
}

// The driver of iris stops after the start: nothing is told of its GPUs then, and
// nothing of that is taken for an answer.
func TestStoppedDriver(t *testing.T) {
	f := New(3, start)
	for after, answered := range map[time.Duration]bool{-48 * time.Hour: true, 0: true, time.Minute: true,
		150 * time.Second: false, 80 * time.Hour: false} {
		s := f.Snapshot("iris", start.Add(after))
		if s.GPUsComplete != answered || (s.GPUs != nil) != answered || len(s.Processes) > 0 != (len(s.GPUs) > 0) ||
			s.DriverVersion != "" != answered {
			t.Errorf("after %v: complete %v, %d GPUs, %d processes", after, s.GPUsComplete, len(s.GPUs),
				len(s.Processes))
		}
		if s.Sample().GPUs != nil != answered {
			t.Errorf("after %v its sample tells of %v", after, s.Sample().GPUs)
		}
		if s.Node.MemoryUsed == nil || s.Node.Load1 == nil {
			t.Errorf("after %v it tells nothing of itself", after)
		}
		if _, known := f.Utilization("iris", 0, start.Add(after)); known != answered {
			t.Errorf("after %v its utilization is known: %v", after, known)
		}
	}
}

// What the driver wrote into the kernel's log is told until the host reboots.
func TestErrorsOfTheDriver(t *testing.T) {
	f := New(3, start)
	for _, c := range []struct {
		host string
		gpu  int
		xid  int
		ecc  bool
	}{{"ceres", 3, 94, true}, {"atlas", 6, 31, false}} {
		s := f.Snapshot(c.host, start)
		g := &s.GPUs[c.gpu]
		if g.XID == nil || g.XID.Code != c.xid || g.XID.At.After(start) || s.GPUs[0].XID != nil {
			t.Errorf("%s %d: XID %+v", c.host, c.gpu, g.XID)
		}
		if ecc := *g.ECC.UncorrectedVolatile > 0; ecc != c.ecc {
			t.Errorf("%s %d: %d uncorrectable errors", c.host, c.gpu, *g.ECC.UncorrectedVolatile)
		}
		m := f.machine(c.host)
		boot, _ := m.boot(start)
		for _, at := range []time.Time{boot.Add(time.Minute), boot.Add(uptime + time.Minute)} {
			if s := f.snapshot(m, at); s.GPUs[c.gpu].XID != nil || c.ecc && *s.GPUs[c.gpu].ECC.UncorrectedVolatile > 0 {
				t.Errorf("%s %d at %v: XID %+v", c.host, c.gpu, at, s.GPUs[c.gpu].XID)
			}
		}
	}
}

func TestUsesOfAGPUDoNotOverlap(t *testing.T) {
	f := New(9, start)
	for _, m := range f.machines {
		for _, d := range m.gpus {
			for _, l := range d.slots {
				jobs := l.between(span{start.Add(-40 * 24 * time.Hour), start.Add(40 * 24 * time.Hour)})
				slices.SortFunc(jobs, func(a, b job) int { return a.from.Compare(b.from) })
				for i := 1; i < len(jobs); i++ {
					if jobs[i-1].overlaps(jobs[i].span) {
						t.Fatalf("%s %d: %+v and %+v", m.Name, d.index, jobs[i-1], jobs[i])
					}
				}
			}
		}
	}
}

func TestCommentsMoveByWholeDays(t *testing.T) {
	f := New(1, start)
	if !bytes.Equal(f.Files(start)["comments.json"], f.Files(start.Add(23 * time.Hour))["comments.json"]) ||
		bytes.Equal(f.Files(start)["comments.json"], f.Files(start.Add(25 * time.Hour))["comments.json"]) {
		t.Error("the bookings move at the wrong time")
	}
	if s := string(f.Files(start)["comments.json"]); !strings.Contains(s,
		`"date": "2026-11-22 15:00Z", "comment": "camera ready"`) || strings.Contains(s, "slice}") {
		t.Errorf("comments:\n%s", s)
	}
	for name, content := range f.Files(start) {
		if len(content) == 0 || bytes.ContainsAny(content, "{}") && name != "comments.json" {
			t.Errorf("%s:\n%s", name, content)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	f := NewLarge(1, start, 1000)
	hosts := f.Hosts()
	for b.Loop() {
		for i := range hosts {
			f.Snapshot(hosts[i].Name, start)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(hosts)), "µs/host")
}
