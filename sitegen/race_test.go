package sitegen_test

import (
	"os"
	"testing"
)

// TestRaceOfTheWorkers is for the race detector: everything that a generation does at
// the same time, for more hosts than there are workers, with history and with news of
// each host. Under the detector the other tests of this package take minutes, nearly all
// of them in the database.
func TestRaceOfTheWorkers(t *testing.T) {
	y := newYard(t, 20, true)
	for range 3 {
		y.push(every, y.names)
		y.generate()
	}
	for _, name := range y.names {
		for _, file := range []string{"index.html.gz", "history/index.html.gz", "status.txt"} {
			if info, err := os.Stat(y.path("site", "hosts", name, file)); err != nil || info.Size() == 0 {
				t.Errorf("%s of %s: %v", file, name, err)
			}
		}
	}
}
