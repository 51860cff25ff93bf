package fleettest_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/fleettest"
)

var start = time.Date(2026, 11, 20, 9, 42, 10, 0, time.UTC)

// meanUsed returns the mean number of GPUs that each person used within a span.
// A GPU that several share at a moment counts for each by share of their memory.
func meanUsed(f *demo.Fleet, from, until time.Time) map[string]float64 {
	uses := fleettest.Truth(f, from, until)
	mean := map[string]float64{}
	for start := 0; start < len(uses); {
		end := start + 1
		for end < len(uses) && uses[end].Host == uses[start].Host && uses[end].GPU == uses[start].GPU {
			end++
		}
		addShares(mean, uses[start:end])
		start = end
	}
	for user := range mean {
		mean[user] /= until.Sub(from).Seconds()
	}
	return mean
}

// addShares adds, for each user of one GPU, the seconds times the share.
func addShares(sum map[string]float64, uses []demo.Use) {
	var edges []time.Time
	for _, u := range uses {
		edges = append(edges, u.From, u.Until)
	}
	slices.SortFunc(edges, time.Time.Compare)
	for i := 1; i < len(edges); i++ {
		a, b := edges[i-1], edges[i]
		total := int64(0)
		for _, u := range uses {
			if !u.From.After(a) && !u.Until.Before(b) {
				total += u.Memory
			}
		}
		for _, u := range uses {
			if !u.From.After(a) && !u.Until.Before(b) && total > 0 {
				sum[u.User] += b.Sub(a).Seconds() * float64(u.Memory) / float64(total)
			}
		}
	}
}

// The aggregates of a day, gathered from snapshots alone, are the truth.
func TestTruthIsWhatSnapshotsShow(t *testing.T) {
	f := demo.New(5, start)
	from, until := start.Add(-30*time.Hour), start.Add(-6*time.Hour)
	const step = time.Minute
	got, n := map[string]float64{}, 0.0
	for at := from.Add(step / 2); at.Before(until); at = at.Add(step) {
		n++
		for _, h := range f.Hosts() {
			s := f.Collected(h.Name, at)
			total := map[int]int64{}
			for _, p := range s.Processes {
				if p.Type != snapshot.Graphics || p.Dead() {
					total[p.GPU] += *p.UsedMemory
				}
			}
			for _, p := range s.Processes {
				if p.Type != snapshot.Graphics || p.Dead() {
					got[p.User] += float64(*p.UsedMemory) / float64(total[p.GPU])
				}
			}
		}
	}
	want := meanUsed(f, from, until)
	if len(want) < 5 {
		t.Errorf("only %v use anything", want)
	}
	for user, mean := range want {
		if math.Abs(got[user]/n-mean) > 0.03 {
			t.Errorf("%q used %.3f GPUs as the snapshots tell, and %.3f in truth", user, got[user]/n, mean)
		}
	}
	for user := range got {
		if _, ok := want[user]; !ok {
			t.Errorf("%q is in the snapshots and not in the truth", user)
		}
	}
}

// The lab is busy, and not full.
func TestTheFleetIsAsBusyAsALab(t *testing.T) {
	f := demo.NewLarge(1, start, 20)
	total := 0.0
	for _, mean := range meanUsed(f, start.Add(-7*24*time.Hour), start) {
		total += mean
	}
	if part := total / 160; part < 0.55 || part > 0.95 {
		t.Errorf("%.0f %% of the GPUs are in use", 100*part)
	}
	if len(f.Hosts()) != 20 || f.Snapshot("gpu0019", start) == nil {
		t.Errorf("hosts %v", f.Hosts())
	}
}

func ExampleTruth() {
	f := demo.New(1, start)
	for _, u := range fleettest.Truth(f, start.Add(-time.Hour), start) {
		if u.Host == "atlas" && u.User == "mira" {
			fmt.Println(u.GPU, u.Program, u.Until.Sub(u.From))
		}
	}
	// Output:
	// 0 train.py 1h0m0s
	// 1 train.py 1h0m0s
	// 2 train.py 1h0m0s
}
