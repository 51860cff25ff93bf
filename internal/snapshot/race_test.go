package snapshot

import (
	"bytes"
	"sync"
	"testing"
)

// TestRaceOfTheCompressors is for the race detector: of this package, goroutines share the
// compressors alone. What each of them writes is what one alone would have written.
func TestRaceOfTheCompressors(t *testing.T) {
	const bundles, writers = 4, 8
	var want [bundles][]byte
	for i := range want {
		data, err := EncodeBundle(fleetBundle(1+i, 2))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = data
	}
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for turn := range 2 * bundles {
				i := (writer + turn) % bundles
				got, err := EncodeBundle(fleetBundle(1+i, 2))
				if err != nil || !bytes.Equal(got, want[i]) {
					t.Errorf("writer %d: bundle %d is another one, %v", writer, i, err)
				}
			}
		})
	}
	all.Wait()
}
