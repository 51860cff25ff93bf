package faulttest

import (
	"math/rand/v2"
	"testing"
)

// TestSample: few calls are all chosen; of many there is one of each stretch, and
// any of them can be chosen.
func TestSample(t *testing.T) {
	if got := sample(rand.New(rand.NewPCG(1, 1)), 3); len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != 3 {
		t.Errorf("of three calls %v", got)
	}
	if got := sample(rand.New(rand.NewPCG(1, 1)), 0); len(got) != 0 {
		t.Errorf("of no calls %v", got)
	}
	const n = 1000
	seen := map[int]bool{}
	for source := range uint64(2000) {
		last := 0
		for i, at := range sample(rand.New(rand.NewPCG(source, 0)), n) {
			if at <= last || at <= i*n/sampled || at > (i+1)*n/sampled {
				t.Fatalf("with seed %d call %d is chosen from stretch %d, after %d", source, at, i, last)
			}
			seen[at], last = true, at
		}
	}
	if len(seen) != n {
		t.Errorf("only %d of %d calls can be chosen", len(seen), n)
	}
}
