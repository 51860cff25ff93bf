package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gpuboard/internal/booking"
)

// TestBookingsAreNeverTorn reads comments.json 100,000 times, as a program and
// as anybody else, while bookings are made and released. A writer in place has
// to fail the same check, or the check proves nothing.
func TestBookingsAreNeverTorn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "comments.json")
	whole := func(data []byte) bool {
		return len(data) >= len(people) && bytes.HasPrefix(data, []byte("{ // our")) &&
			bytes.HasSuffix(data, []byte("\"boreas\": []\n}\n")) &&
			bytes.Count(data, []byte{'{'}) == bytes.Count(data, []byte{'}'})
	}
	held := booking.Open(file, booking.Zone{Location: time.UTC})
	read := func(enough int64, write func(n int) error) (bad, reads int64, writes int) {
		putFile(t, file, []byte(people), 0o644)
		var torn, seen atomic.Int64
		var done atomic.Bool
		var readers sync.WaitGroup
		for r := range 4 {
			readers.Go(func() {
				for !done.Load() {
					var data []byte
					var err error
					if r%2 == 0 {
						data, err = os.ReadFile(file)
					} else {
						data, err = held.Read()
					}
					if err != nil || !whole(data) {
						torn.Add(1)
					}
					seen.Add(1)
				}
			})
		}
		for ; seen.Load() < enough || writes < 40; writes++ {
			if err := write(writes); err != nil {
				t.Error(err)
				break
			}
		}
		done.Store(true)
		readers.Wait()
		return torn.Load(), seen.Load(), writes
	}
	bad, reads, writes := read(100_000, func(n int) error {
		return booking.Open(file, booking.Zone{Location: time.UTC}).Update(context.Background(),
			booking.By{Name: "writer", At: time.Now()}, func(data []byte) ([]byte, error) {
				if n%8 == 7 {
					return []byte(people), nil
				}
				next, _, err := booking.Add(data, booking.Zone{Location: time.UTC},
					booking.Booking{Host: "atlas", Target: booking.Target{Index: n%8 + 2}, Name: fmt.Sprint("eva-", n),
						Until: time.Date(2099, 1, 1, 12, 0, 0, 0, time.UTC), Kind: booking.Reserved})
				return next, err
			})
	})
	t.Logf("%d reads during %d changes: %d bad", reads, writes, bad)
	if bad != 0 {
		t.Errorf("%d of %d reads were torn, or found nothing", bad, reads)
	}
	bad, reads, _ = read(2_000, func(int) error { return os.WriteFile(file, []byte(people), 0o644) })
	if bad == 0 {
		t.Errorf("a writer in place passed %d reads: the check cannot see a torn file", reads)
	}
}
