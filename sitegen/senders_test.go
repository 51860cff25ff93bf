package sitegen_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/need"
	"gpuboard/sitegen"
)

const (
	firstBoot  = "aaaaaaaa-1111-4222-8333-444455556666"
	secondBoot = "bbbbbbbb-1111-4222-8333-444455556666"
)

// pushed is one bundle that lies in the drop of atlas when a generation runs.
type pushed struct {
	boot    string
	seq     uint64
	at      time.Duration // collected, after start, by the node's clock
	machine string        // whose GPUs and addresses; "" for atlas's own
	shown   uint64        // the number that the board must show
	code    string        // of the problem that it must name; "" for none
}

// send puts p into the drop of atlas.
func (l *lab) send(p pushed) {
	l.t.Helper()
	s := *l.fleet.Snapshot("atlas", start)
	s.BootID, s.Seq, s.CollectedAt = p.boot, p.seq, snapshot.TimeOf(start.Add(p.at))
	s.DriverVersion = string(rune('0'+p.seq/10)) + "." + string(rune('0'+p.seq%10)) // what the board shows of it
	if p.machine != "" {
		s.GPUs = slices.Clone(s.GPUs)
		for i := range s.GPUs {
			s.GPUs[i].UUID = "GPU-" + p.machine + "-" + string(rune('0'+i))
		}
		s.Node.Interfaces = []snapshot.Interface{{Name: "lo", Addrs: []string{"127.0.0.1/8"}},
			{Name: "docker0", Addrs: []string{"172.17.0.1/16"}},
			{Name: "eth0", Addrs: []string{"192.0.2." + p.machine + "/24"}}}
	}
	raw, err := snapshot.EncodeBundle(&snapshot.Bundle{
		Host: "atlas", BootID: s.BootID, Snapshot: &s, Samples: []snapshot.Sample{s.Sample()},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("data/drop/atlas/latest.json.gz", string(raw))
}

func codeOf(p *snapshot.Problem) string {
	if p == nil {
		return ""
	}
	return p.Code
}

// ordered is the problem of a host that replays or twins make, nil for none.
func ordered(r sitegen.Report, host string) *snapshot.Problem {
	h := hostOf(r.Board, host)
	for i, p := range h.Problems {
		if p.Code == "host:replayed" || p.Code == "host:twins" {
			return &h.Problems[i]
		}
	}
	return nil
}

// TestOrderOfSnapshots: each generation is a process of its own, which knows
// what was seen from the state directory alone.
func TestOrderOfSnapshots(t *testing.T) {
	t.Parallel()
	need.Time(t, "it makes a hundred generations")
	const replayed, twins = "host:replayed", "host:twins"
	for _, test := range []struct {
		name   string
		pushes []pushed
	}{
		{"an older number of the same boot", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {firstBoot, 11, -20 * time.Second, "", 12, replayed},
			{firstBoot, 11, -20 * time.Second, "", 12, replayed},
			{firstBoot, 13, 20 * time.Second, "", 13, ""}}},
		{"an older number with a later moment, from before the clock was set back", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {firstBoot, 11, 30 * time.Second, "", 12, replayed},
			{firstBoot, 10, 50 * time.Second, "", 12, replayed}}},
		{"older numbers that rise", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {firstBoot, 9, -time.Minute, "", 12, replayed},
			{firstBoot, 10, -40 * time.Second, "", 12, replayed},
			{firstBoot, 11, -20 * time.Second, "", 12, replayed}}},
		{"the clock is set back", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {firstBoot, 13, -time.Hour, "", 13, ""},
			{firstBoot, 14, -59 * time.Minute, "", 14, ""}}},
		{"a reboot", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {secondBoot, 1, 20 * time.Second, "", 1, ""},
			{secondBoot, 2, 40 * time.Second, "", 2, ""}}},
		{"a snapshot from before the reboot", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {secondBoot, 1, 20 * time.Second, "", 1, ""},
			{firstBoot, 12, 0, "", 1, replayed},
			{secondBoot, 2, 40 * time.Second, "", 2, ""}}},
		{"one that was never seen, from before the reboot", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {secondBoot, 1, 20 * time.Second, "", 1, ""},
			{firstBoot, 13, 10 * time.Second, "", 1, replayed},
			{firstBoot, 13, 10 * time.Second, "", 1, replayed}}},
		{"one of a boot that was never seen", []pushed{
			{secondBoot, 12, 0, "", 12, ""}, {firstBoot, 40, -time.Hour, "", 12, replayed},
			{firstBoot, 40, -time.Hour, "", 12, replayed},
			{secondBoot, 13, 20 * time.Second, "", 13, ""}}},
		{"a clock that was set back during a reboot", []pushed{
			{firstBoot, 12, 0, "", 12, ""}, {secondBoot, 1, -time.Hour, "", 12, replayed},
			{secondBoot, 2, -time.Hour + 20*time.Second, "", 2, ""},
			{secondBoot, 3, -time.Hour + 40*time.Second, "", 3, ""}}},
		{"a clock that was ahead is right after the reboot", []pushed{
			{firstBoot, 12, 5 * time.Hour, "", 12, ""}, {secondBoot, 1, 20 * time.Second, "", 1, ""},
			{secondBoot, 2, 40 * time.Second, "", 2, ""}}},
		{"two machines in turns", []pushed{
			{firstBoot, 12, 0, "7", 12, ""}, {secondBoot, 50, 10 * time.Second, "9", 50, ""},
			{firstBoot, 13, 20 * time.Second, "7", 13, twins},
			{secondBoot, 51, 30 * time.Second, "9", 51, twins}, {firstBoot, 14, 40 * time.Second, "7", 14, twins}}},
		{"two machines, one with a clock that is behind", []pushed{
			{firstBoot, 12, 0, "7", 12, ""}, {secondBoot, 50, -time.Hour, "9", 12, replayed},
			{secondBoot, 51, -time.Hour, "9", 51, ""},
			{firstBoot, 13, 50 * time.Second, "7", 13, twins}}},
		{"two containers of one machine, with GPUs of their own", []pushed{
			{firstBoot, 12, 0, "7", 12, ""}, {firstBoot, 10, 10 * time.Second, "9", 10, ""},
			{firstBoot, 13, 20 * time.Second, "7", 13, twins}}},
		{"a reboot loop", []pushed{
			{"aaaaaaaa-1", 1, 0, "", 1, ""}, {"bbbbbbbb-1", 2, 20 * time.Second, "", 2, ""},
			{"cccccccc-1", 1, 40 * time.Second, "", 1, ""},
			{"dddddddd-1", 2, 60 * time.Second, "", 2, ""}, {"eeeeeeee-1", 1, 80 * time.Second, "", 1, ""},
			{"ffffffff-1", 2, 100 * time.Second, "", 2, ""}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.hosts = []string{"atlas"}
			for i, p := range test.pushes {
				l.send(p)
				r := l.generate(start.Add(time.Duration(i) * 20 * time.Second))
				h := hostOf(r.Board, "atlas")
				if want := string(rune('0'+p.shown/10)) + "." + string(rune('0'+p.shown%10)); h.Driver != want {
					t.Errorf("generation %d: the board shows snapshot %s, want %s", i, h.Driver, want)
				}
				if got := codeOf(ordered(r, "atlas")); got != p.code {
					t.Errorf("generation %d: problem %q, want %q", i, got, p.code)
				}
			}
		})
	}
}

// TestTwoSendersOfOneHostAreReported: the problem tells the machines apart, and ends with the turns.
func TestTwoSendersOfOneHostAreReported(t *testing.T) {
	l := newLab(t)
	l.hosts = []string{"atlas"}
	at := time.Duration(0)
	var r sitegen.Report
	for i, boot := range []string{firstBoot, secondBoot, firstBoot} {
		at = time.Duration(i) * 20 * time.Second
		l.send(pushed{
			boot: boot, seq: uint64(10 + i), at: at, machine: map[string]string{firstBoot: "7", secondBoot: "9"}[boot],
		})
		r = l.generate(start.Add(at))
	}
	p := ordered(r, "atlas")
	if p == nil || p.Code != "host:twins" {
		t.Fatalf("the problem is %+v, want host:twins", p)
	}
	for _, want := range []string{"aaaaaaaa", "bbbbbbbb", "192.0.2.7", "192.0.2.9", "GPU-7-0", "GPU-9-0",
		"gpuboard check NAME"} {
		if !strings.Contains(p.Message, want) {
			t.Errorf("%q does not say %s", p.Message, want)
		}
	}
	if strings.Contains(p.Message, "172.17.0.1") {
		t.Errorf("%q names an address that both have", p.Message)
	}
	if !r.Degraded() {
		t.Error("the generation counts as well")
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{time.Hour, "host:twins"}, {time.Hour + time.Second, ""}} {
		l.send(pushed{boot: firstBoot, seq: 60, at: at + step.after, machine: "7"})
		if got := codeOf(ordered(l.generate(start.Add(at+step.after)), "atlas")); got != step.want {
			t.Errorf("%v after the last turn the problem is %q, want %q", step.after, got, step.want)
		}
	}
}

// TestReplayWithoutLastGood: where nothing newer is left to be shown, the replay
// is better than nothing, and is named all the same.
func TestReplayWithoutLastGood(t *testing.T) {
	l := newLab(t)
	l.hosts = []string{"atlas"}
	l.send(pushed{boot: firstBoot, seq: 12})
	l.generate(start)
	l.write("state/lastgood.tar", "")
	l.send(pushed{boot: firstBoot, seq: 11, at: -time.Minute})
	r := l.generate(start.Add(20 * time.Second))
	if h := hostOf(r.Board, "atlas"); h.Driver != "1.1" || codeOf(ordered(r, "atlas")) != "host:replayed" {
		t.Errorf("driver %q, problems %+v", h.Driver, h.Problems)
	}
}

// TestReplayOverLateNews: what is shown instead of a replay came late, and that is said as before.
func TestReplayOverLateNews(t *testing.T) {
	l := newLab(t)
	l.hosts = []string{"atlas"}
	for i, p := range []pushed{{seq: 11}, {seq: 12, at: -time.Hour}, {seq: 11}} {
		p.boot = firstBoot
		l.send(p)
		h := hostOf(l.generate(start.Add(time.Duration(i)*20*time.Second)).Board, "atlas")
		if i > 0 &&
			(h.Driver != "1.2" ||
				!slices.ContainsFunc(h.Problems, func(q snapshot.Problem) bool { return q.Code == "clock:behind" })) {
			t.Errorf("generation %d: snapshot %s, problems %+v", i, h.Driver, h.Problems)
		}
	}
}

// TestImpossibleNumber: a number that no collector can have reached does not stop the host.
func TestImpossibleNumber(t *testing.T) {
	l := newLab(t)
	l.hosts = []string{"atlas"}
	l.send(pushed{boot: firstBoot, seq: 12})
	l.generate(start)
	for i, p := range []pushed{
		{seq: 1e14, shown: 12, code: "bad:parse"},
		{seq: 13, shown: 13},
		{seq: uint64(start.Unix()) + 1000, shown: 13, code: "bad:parse"},
		{seq: 14, shown: 14},
	} {
		at := time.Duration(i+1) * 20 * time.Second
		p.boot, p.at = firstBoot, at
		l.send(p)
		h := hostOf(l.generate(start.Add(at)).Board, "atlas")
		code := ""
		for _, problem := range h.Problems {
			code += problem.Code
		}
		if want := string(rune('0'+p.shown/10)) + "." + string(rune('0'+p.shown%10)); h.Driver != want ||
			code != p.code {
			t.Errorf("after number %d: snapshot %s, want %s; problems %+v, want %q", p.seq, h.Driver, want, h.Problems,
				p.code)
		}
	}
}

// TestAcceptedHost: a machine was put back to an image of the same boot, and stays a replay until
// the command that the problem names is run.
func TestAcceptedHost(t *testing.T) {
	l := newLab(t)
	l.hosts = []string{"atlas", "boreas"}
	l.send(pushed{boot: firstBoot, seq: 90})
	l.generate(start)
	var p *snapshot.Problem
	for i := range 3 {
		l.send(pushed{boot: firstBoot, seq: uint64(20 + i), at: time.Duration(i) * 20 * time.Second})
		p = ordered(l.generate(start.Add(time.Duration(i+1)*20*time.Second)), "atlas")
	}
	if codeOf(p) != "host:replayed" || !strings.HasSuffix(p.Message, ": gpuboard accept atlas") {
		t.Fatalf("the problem is %+v", p)
	}
	before, err := os.ReadFile(l.path("state/memory.json"))
	if err != nil {
		t.Fatal(err)
	}
	if known, err := sitegen.Accept(l.path("state"), "nobody"); known || err != nil {
		t.Errorf("a host that nobody knows: %v, %v", known, err)
	}
	if known, err := sitegen.Accept(l.path("state"), "atlas"); !known || err != nil {
		t.Fatalf("accepting: %v, %v", known, err)
	}
	after, err := os.ReadFile(l.path("state/memory.json"))
	if err != nil || !strings.Contains(string(before), `"boreas":[`) || !strings.Contains(string(after), `"boreas":[`) {
		t.Errorf("what is known of others is gone, %v", err)
	}
	r := l.generate(start.Add(time.Minute + time.Second))
	if h := hostOf(r.Board, "atlas"); h.Driver != "2.2" || ordered(r, "atlas") != nil {
		t.Errorf("the board shows %s: %+v", h.Driver, h.Problems)
	}
	l.write("state/memory.json", "{")
	if _, err := sitegen.Accept(l.path("state"), "atlas"); err == nil {
		t.Error("a state that cannot be read was replaced")
	}
}
