package booking

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkBook is one booking in a file that has 20,000.
func BenchmarkBook(b *testing.B) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	text := `{"gpu01": {`
	for i := range 1000 {
		text += fmt.Sprintf("%q: [", fmt.Sprintf("MIG-%032d", i))
		for j := range 20 {
			text += fmt.Sprintf("{\"name\": \"name%05d\", \"from\": \"2026-12-%02d 10:00\", \"date\": \"2026-12-%02d 20:00\"},\n", i, j+1, j+1)
		}
		text += "],\n"
	}
	data := []byte(text + "}}")
	b.Run("policy", func(b *testing.B) {
		for b.Loop() {
			p := Policy{Login: "eva", Person: "eva", Now: now, Zone: time.UTC, FileZone: Zone{Location: time.UTC}}
			if _, err := p.Book(data, Booking{Host: "gpu09", Target: Target{Index: 0}, From: now, Until: now.Add(time.Hour)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("file", func(b *testing.B) {
		for b.Loop() {
			f := Open(filepath.Join(b.TempDir(), "comments.json"), Zone{Location: time.UTC})
			if err := f.stageAs(f.path, data, time.Time{}); err != nil {
				b.Fatal(err)
			}
			p := Policy{Login: "eva", Person: "eva", Now: now, Zone: time.UTC, FileZone: Zone{Location: time.UTC}}
			if err := f.Update(b.Context(), testBy, func(data []byte) ([]byte, error) {
				c, err := p.Book(data, Booking{Host: "gpu09", Target: Target{Index: 0}, From: now, Until: now.Add(time.Hour)})
				return c.After, err
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
