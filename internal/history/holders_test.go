package history_test

import (
	"context"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// holdersOf is who held a GPU in the last steps up to now, as a store that goes on says and one that was just opened.
func holdersOf(t *testing.T, s *history.Store, path string, now time.Time, host, gpu string, steps int) []string {
	t.Helper()
	list := holdersIn(t, s, now, host, gpu)
	if d := cmp.Diff(list, holdersIn(t, openAt(t, path, now, history.Options{Once: true}), now, host, gpu)); d != "" {
		t.Errorf("a store that goes on has - where one that was opened has +:\n%s", d)
	}
	return list[history.SparkSteps-steps:]
}

func holdersIn(t *testing.T, s *history.Store, now time.Time, host, gpu string) []string {
	t.Helper()
	r, err := s.Recent(context.Background(), now, 30*time.Minute, 5)
	if err != nil {
		t.Fatal(err)
	}
	list := r.GPUs[history.Key{Host: host, GPU: gpu}].Holders
	if len(list) != history.SparkSteps {
		t.Fatalf("%d steps", len(list))
	}
	return list
}

func expectHolders(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: the holders are %q, and it should be %q", what, got, want)
	}
}

// Of two people it is whoever holds more memory; nobody who is known is nobody, and a gap is nobody.
func TestWhoHeldAGPU(t *testing.T) {
	quarter := 15 * time.Minute
	at := func(quarters int) time.Time { return t0.Add(time.Duration(quarters) * quarter) }
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: at(9).Add(time.Minute),
		jobs: []job{
			{0, "ada", at(0), at(2), 1000, 90},
			{0, "bob", at(1), at(3), 3000, 0},
			{0, "", at(4), at(6), 3000, 90},
			{0, "ada", at(5), at(6), 2000, 90},
			{0, "ada", at(6), at(6).Add(5 * time.Minute), 10, 90},
			{0, "bob", at(6).Add(5 * time.Minute), at(6).Add(12 * time.Minute), 10, 90},
			{0, "ada", at(7).Add(5 * time.Minute), at(7).Add(10 * time.Minute), 10, 90},
			{0, "bob", at(7).Add(10 * time.Minute), at(8), 10, 90},
			{0, "cyd", at(9), at(10), 10, 90},
		},
		outages: [][2]time.Time{{at(8), at(9)}}}
	live(t, s, "gpu1", "boot", tr.samples())
	expectHolders(t, "nine quarters and the present one", holdersOf(t, s, path, tr.to, "gpu1", "GPU-gpu1-0", 10),
		"ada", "bob", "bob", "", "", "", "bob", "bob", "", "cyd")
}

// After a restart in the middle of a five, the boot of which most is known says who held the GPU.
func TestWhoHeldAGPUOverARestart(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(45 * time.Minute),
		jobs: []job{
			{0, "ada", t0, t0.Add(21 * time.Minute), 10, 50},
			{0, "bob", t0.Add(21 * time.Minute), t0.Add(2 * time.Hour), 10, 50},
		}}
	all := tr.samples()
	for i := 0; i < len(all); i += 3 {
		now, boot, sent := all[i+2].At, "one", all[:i+3]
		if i >= 63 {
			boot, sent = "two", all[63:i+3]
		}
		ingest(t, s, now, "gpu1", boot, sent)
		got := holdersIn(t, s, now, "gpu1", "GPU-gpu1-0")
		cold := openAt(t, path, now, history.Options{Once: true})
		ingest(t, cold, now, "gpu1", boot, sent)
		if d := cmp.Diff(got, holdersIn(t, cold, now, "gpu1", "GPU-gpu1-0")); d != "" {
			t.Fatalf("after %v a store that goes on has - where one that was opened has +:\n%s", now.Sub(t0), d)
		}
	}
	list := holdersIn(t, s, tr.to.Add(-time.Second), "gpu1", "GPU-gpu1-0")
	expectHolders(t, "three quarters", list[history.SparkSteps-3:], "ada", "bob", "bob")
}

// A finished hour also replaces who held what.
func TestAFinishedHourReplacesWhoHeldAGPU(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(2 * time.Hour),
		jobs: []job{
			{0, "ada", t0, t0.Add(time.Hour), 10, 50},
			{0, "bob", t0.Add(2 * time.Minute), t0.Add(15 * time.Minute), 99, 50},
		}}
	all := tr.samples()
	live(t, s, "gpu1", "boot", all[:6]) // two minutes, and then nothing until the next hour
	live(t, s, "gpu1", "boot", all[180:])
	before := holdersOf(t, s, path, tr.to, "gpu1", "GPU-gpu1-0", 9)
	expectHolders(t, "before the hour came", before, "ada", "", "", "", "", "", "", "", "")
	ingestHours(t, s, tr.to, "gpu1", "boot", all[:180])
	after := holdersOf(t, s, path, tr.to, "gpu1", "GPU-gpu1-0", 9)
	expectHolders(t, "with it", after, "bob", "ada", "ada", "ada", "", "", "", "", "")
}

// A slice has a holder of its own, though nobody tells its utilization.
func TestWhoHeldASlice(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	var samples []snapshot.Sample
	for i := range 90 {
		ada, bob := snapshot.UserMemory{User: "ada", Memory: 30}, snapshot.UserMemory{User: "bob", Memory: 70}
		samples = append(samples, snapshot.Sample{Seq: uint64(i + 1), At: t0.Add(time.Duration(i) * 20 * time.Second),
			GPUs: []snapshot.GPUSample{
				{UUID: "GPU-1", Users: []snapshot.UserMemory{ada, bob}},
				{UUID: "MIG-a", MemoryUsed: ptr(int64(30)), Users: []snapshot.UserMemory{ada}},
				{UUID: "MIG-b", MemoryUsed: ptr(int64(70)), Users: []snapshot.UserMemory{bob}},
			}})
	}
	live(t, s, "gpu1", "boot", samples)
	now := t0.Add(30 * time.Minute)
	for gpu, want := range map[string]string{"GPU-1": "bob", "MIG-a": "ada", "MIG-b": "bob"} {
		expectHolders(t, gpu, holdersOf(t, s, path, now, "gpu1", gpu, 3)[:2], want, want)
	}
	users, err := userTotalsOf(s, t0, now)
	if err != nil || len(users) != 2 {
		t.Fatal(users, err)
	}
	near(t, "GPU-hours of bob", users[0].GPUHours, 0.35, 0.001)
}

// Hours that were written before holders were kept are read, and have none.
func TestHoursWithoutHolders(t *testing.T) {
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	tr := &truth{host: "gpu1", gpus: 2, every: 20 * time.Second, from: t0, to: t0.Add(2 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(2 * time.Hour), 10, 50}}}
	live(t, s, "gpu1", "boot", tr.samples())
	now := tr.to.Add(time.Minute)
	// The two hours as a program wrote them that knew of no holders.
	for i, hour := range []string{hourWithoutHolders1, hourWithoutHolders2} {
		data, err := hex.DecodeString(hour)
		if err != nil {
			t.Fatal(err)
		}
		change(t, path, "update hour set data=? where id = (select id from hour order by id limit 1 offset ?)", data, i)
	}
	s = openAt(t, path, now, history.Options{})
	without := holdersOf(t, s, path, now, "gpu1", "GPU-gpu1-0", 9)[:7] // the last five is not written yet
	expectHolders(t, "of hours without", without, make([]string, 7)...)
	if p := s.Problems(now); len(p) > 0 {
		t.Errorf("problems are %v", p)
	}
	users, err := userTotalsOf(s, t0, t0.Add(90*time.Minute))
	if err != nil || len(users) != 1 {
		t.Fatal(users, err)
	}
	near(t, "GPU-hours of ada", users[0].GPUHours, 1.5, 0)
	tr.from, tr.to = tr.to, tr.to.Add(30*time.Minute)
	tr.jobs = []job{{0, "bob", tr.from, tr.to, 10, 50}}
	live(t, s, "gpu1", "later", tr.samples())
	since := holdersOf(t, s, path, tr.to, "gpu1", "GPU-gpu1-0", 5)[:4]
	expectHolders(t, "with those since", since, "", "ada", "bob", "bob")
}

const (
	hourWithoutHolders1 = "" +
		"28b52ffd44008d0085030054035522b0c69bdc2fcd008203010c67000dd804000eb0ea01000df02e000ec8d6050ee0c20900" +
		"67010eb0e1a09902000068000c1e750117000e8b00d5762065c9e8558e93110068e5940cc0324075007023b383af3a20943c" +
		"311900aa03b011571d808d7e4a006002aa5f9885647361a7275158"
	hourWithoutHolders2 = "" +
		"28b52ffd4400ad005d0400c4045522b0c69bdc2fcd00a203010c67000ed80400d70410b0ea010000afea010ef02e00ef2e10" +
		"c8d60500c7d605e0c209dfc209006710b0e1afe104a099029f9902000068000c1e00001d7501001900233bcbdbce00683b0c" +
		"42178018e02da93a00fa00db180a0d60cc0c02c14740c42028b30ba93a00fa00db180a115090a03a060519aaeb98a4a47061" +
		"f42ce09d"
)

// Of the three fives of a step, whoever is named most often, of two the later one.
func TestWhoHeldMostFivesOfAStep(t *testing.T) {
	steps := []struct{ fives, want string }{ // a letter for who held the GPU in each five
		{"   ", ""}, {"a  ", "a"}, {"  a", "a"}, {"ab ", "b"}, {"a b", "b"},
		{"aab", "a"}, {"aba", "a"}, {"baa", "a"}, {"abc", "c"},
	}
	path := newPath(t)
	s := openAt(t, path, t0, history.Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0}
	var want []string
	for _, step := range steps {
		for _, who := range step.fives {
			end := tr.to.Add(5 * time.Minute)
			if who != ' ' {
				tr.jobs = append(tr.jobs, job{0, string(who), tr.to, end, 10, 50})
			}
			tr.to = end
		}
		want = append(want, step.want)
	}
	live(t, s, "gpu1", "boot", tr.samples())
	got := holdersOf(t, s, path, tr.to.Add(-time.Second), "gpu1", "GPU-gpu1-0", len(steps))
	expectHolders(t, "nine steps", got, want...)
}
