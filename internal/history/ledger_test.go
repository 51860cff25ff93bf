package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/history"
)

// A finished hour replaces what was known of it: what the generator missed is there then, and nothing counts twice.
func TestAFinishedHourReplacesWhatIsKnownOfIt(t *testing.T) {
	s := open(t, history.Options{})
	tr := &truth{host: "gpu1", gpus: 2, every: 20 * time.Second, from: t0, to: t0.Add(2 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(2 * time.Hour), 100, 50}}}
	all := tr.samples()
	live(t, s, "gpu1", "boot", all[:30])      // 10 minutes,
	live(t, s, "gpu1", "boot", all[150:30*9]) // and then nothing until 50 minutes later
	near(t, "seconds known before", covered(t, s, "gpu1", t0, t0.Add(time.Hour)), 20*60+30, 60)
	for range 2 {
		ingestHours(t, s, tr.to, "gpu1", "boot", all[:180])
		near(t, "seconds known of the hour", covered(t, s, "gpu1", t0, t0.Add(time.Hour)), 3600, 0)
		us, err := userTotalsOf(s, t0, t0.Add(time.Hour))
		if err != nil || len(us) != 1 {
			t.Fatal(us, err)
		}
		near(t, "GPU-hours", us[0].GPUHours, 1, 0)
		ingest(t, s, tr.to, "gpu1", "boot", all[225:30*9]) // what lies in the drop is read again
	}
}

// Two machines that send as one host do not make an hour of more than an hour; boots one after the other add up.
func TestBootsAreAddedWhereTheyDoNotOverlap(t *testing.T) {
	s := open(t, history.Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(2 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(2 * time.Hour), 100, 50}}}
	all := tr.samples()
	now := tr.to.Add(time.Minute)
	ingestHours(t, s, now, "gpu1", "one", all[:180])
	ingestHours(t, s, now, "gpu1", "two", all[:180])
	near(t, "seconds known of what two sent", covered(t, s, "gpu1", t0, t0.Add(time.Hour)), 3600, 0)
	ingestHours(t, s, now, "gpu1", "one", all[180:250])
	ingestHours(t, s, now, "gpu1", "three", all[270:])
	// The first boot stands for 50 s more than it was.
	near(t, "seconds known of two boots", covered(t, s, "gpu1", t0.Add(time.Hour), tr.to), 3600-20*20+50-20, 1)
	hosts, err := hostTotalsOf(s, t0, tr.to)
	if err != nil || len(hosts) != 1 || hosts[0].GPUHours > 2 {
		t.Errorf("totals are %+v (%v)", hosts, err)
	}
}

// What a sender of single samples gave is there after a restart, though no five is closed yet.
func TestSingleSamplesSurviveARestart(t *testing.T) {
	path := newPath(t)
	tr := &truth{host: "old", gpus: 1, every: time.Minute, from: t0, to: t0.Add(4 * time.Minute),
		jobs: []job{{0, "ada", t0, t0.Add(time.Hour), 100, 50}}}
	for i, sample := range tr.samples() {
		s := openAt(t, path, sample.At, history.Options{})
		ingest(t, s, sample.At, "old", "legacy", tr.samples()[i:i+1])
		s.Close()
	}
	s := openAt(t, path, tr.to, history.Options{})
	near(t, "seconds known", covered(t, s, "old", t0, t0.Add(5*time.Minute)), 300, 0)
}

// Sums of the fleet come back as they were, and are none where they are damaged or of other instants.
func TestSumsOfTheFleetAreKept(t *testing.T) {
	ctx := context.Background()
	path, now := filled(t)
	s := openAt(t, path, now, history.Options{})
	at := history.Steps(t0, t0.Add(4*time.Hour), time.Hour)
	want, err := s.Fleet(ctx, at, func(history.Key) string { return "H100" })
	if err != nil || len(want.Free["H100"]) != 4 || len(want.Users) != 1 || len(want.Hosts) != 1 {
		t.Fatalf("the fleet is %+v (%v)", want, err)
	}
	if err := s.KeepFleet(ctx, at, want); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = openAt(t, path, now, history.Options{})
	got, kept, err := s.KeptFleet(ctx, at)
	if d := cmp.Diff(want, got); err != nil || !kept || d != "" {
		t.Errorf("kept %t, %v (-want +got):\n%s", kept, err, d)
	}
	other := func(what string, at []time.Time) {
		if _, kept, err := s.KeptFleet(ctx, at); err != nil || kept {
			t.Errorf("%s is kept (%v)", what, err)
		}
	}
	other("another end", at[:4])
	other("another number of steps", []time.Time{at[0], at[4]})
	old := want
	old.People = nil // as it was kept before people were
	if err := s.KeepFleet(ctx, at, old); err != nil {
		t.Fatal(err)
	}
	other("what says nothing of people", at)
	change(t, path, "update fleet set data=zeroblob(50)")
	other("what is damaged", at)
}

// What each person held in each step is part of what all held in it, and a GPU of two people is shared.
func TestPeopleByStep(t *testing.T) {
	s := open(t, history.Options{})
	tr := &truth{host: "gpu1", gpus: 3, every: 20 * time.Second, from: t0, to: t0.Add(3 * time.Hour), jobs: []job{
		{0, "ada", t0, t0.Add(90 * time.Minute), 100, 50},
		{1, "ada", t0, t0.Add(3 * time.Hour), 300, 50},
		{1, "kai", t0.Add(2 * time.Hour), t0.Add(3 * time.Hour), 100, 50},
	}}
	live(t, s, "gpu1", "boot", tr.samples())
	f, err := s.Fleet(context.Background(), history.Steps(t0, tr.to, time.Hour),
		func(history.Key) string { return "H100" })
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"ada": {2, 1.5, 0.75}, "kai": {0, 0, 0.25}} {
		for i, v := range want {
			near(t, fmt.Sprintf("GPUs of %s in hour %d", name, i), f.People[name][i], v, 0.02)
		}
	}
	for i, step := range f.Steps {
		near(t, "GPUs of all", f.People["ada"][i]+f.People["kai"][i], *step.Held, 0.02)
		near(t, "GPUs of the model", *f.Held["H100"][i]+*f.Free["H100"][i], 3, 0.001)
		near(t, "GPUs of the model in use", *f.Held["H100"][i], *step.Held, 0.02)
	}
}

// The last five of an hour is open until a sample follows it. If the hour comes first, it does not count twice.
func TestAFinishedHourClosesItsLastFive(t *testing.T) {
	ctx := context.Background()
	s := open(t, history.Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(2 * time.Hour), 100, 50}}}
	live(t, s, "gpu1", "boot", tr.samples())
	for range 2 {
		us, err := userTotalsOf(s, t0, tr.to)
		if err != nil || len(us) != 1 {
			t.Fatal(us, err)
		}
		near(t, "GPU-hours", us[0].GPUHours, 1, 0)
		recent, err := s.Recent(ctx, tr.to, time.Hour, 5)
		if err != nil || len(recent.Users) != 1 {
			t.Fatal(recent, err)
		}
		near(t, "mean of 2 h", *recent.Users[0].Mean2h, 1, 0)
		ingestHours(t, s, tr.to, "gpu1", "boot", tr.samples())
	}
}
