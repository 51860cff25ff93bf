package sitegen

import (
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

// TestReplayOfAnotherBoot: what an earlier boot has sent is a replay, also where its clock was
// ahead of the one that is shown. Only a number that is new counts as news of it.
func TestReplayOfAnotherBoot(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC)
	type pushed struct {
		boot   string
		seq    uint64
		at     time.Duration // by the node's clock
		replay bool
	}
	for _, test := range []struct {
		name   string
		pushes []pushed
	}{
		{"an earlier boot, later by its clock", []pushed{
			{"first", 12, 0, false}, {"second", 1, -time.Hour, true}, {"second", 2, -time.Hour, false},
			{"first", 12, 0, true}, {"first", 11, time.Minute, true}, {"first", 12, time.Minute, true}, {"second", 3, -time.Hour, false}}},
		{"an earlier boot with a new number is back", []pushed{
			{"first", 12, 0, false}, {"second", 1, -time.Hour, true}, {"second", 2, -time.Hour, false}, {"first", 13, time.Second, false}}},
		{"a boot that was never seen, and is earlier", []pushed{
			{"second", 12, 0, false}, {"first", 40, -time.Hour, true}, {"first", 40, -time.Hour, true}, {"first", 39, -time.Hour, true}}},
		{"a boot that was never seen, and is later", []pushed{{"second", 12, 0, false}, {"third", 1, time.Second, false}, {"second", 12, 0, true}}},
		{"the same boot", []pushed{{"first", 12, 0, false}, {"first", 12, 0, false}, {"first", 11, time.Hour, true}, {"first", 13, -time.Hour, false}}},
	} {
		mem := &memory{Senders: map[string][]sender{}}
		for i, p := range test.pushes {
			s := &snapshot.Snapshot{BootID: p.boot, Seq: p.seq, CollectedAt: snapshot.TimeOf(now.Add(p.at))}
			at := now.Add(time.Duration(i) * time.Second)
			problem := mem.accept("gpu01", &snapshot.Bundle{BootID: p.boot, Snapshot: s}, at, at.Add(5*time.Minute))
			if (problem != nil) != p.replay || problem != nil && problem.Code != "host:replayed" {
				t.Errorf("%s: push %d: %+v, want a replay: %v", test.name, i, problem, p.replay)
			}
		}
	}
}
