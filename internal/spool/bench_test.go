package spool

import (
	"path/filepath"
	"testing"
	"time"
)

func BenchmarkAdd(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "spool"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := s.Add(snap(bootA, noon.Add(time.Duration(i)*20*time.Second))); err != nil {
			b.Fatal(err)
		}
	}
}
