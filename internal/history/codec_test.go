// This is inside the package because what a damaged record means when it is written again is not seen from outside.

package history

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"gpuboard/internal/snapshot"
)

var t0 = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func randomReadings(r *rand.Rand, n int) []reading {
	h := newHost("h")
	var rs []reading
	at := t0
	for i := range n {
		at = at.Add(time.Duration(1+r.IntN(40000)) * time.Millisecond)
		s := snapshot.Sample{Seq: uint64(i + r.IntN(3)*1000), At: at}
		for g := range r.IntN(5) {
			if r.IntN(4) == 0 {
				continue
			}
			gs := snapshot.GPUSample{Index: g}
			if r.IntN(3) > 0 {
				gs.Utilization, gs.MemoryUsed = ptr(r.IntN(101)), ptr(r.Int64N(90000))
				gs.Temperature, gs.Power = ptr(r.IntN(130)-20), ptr(r.Float64()*700)
			}
			if r.IntN(4) > 0 {
				gs.Users = []snapshot.UserMemory{}
				for u := range r.IntN(3) {
					name := string(rune('a' + u + r.IntN(2)))
					gs.Users = append(gs.Users, snapshot.UserMemory{User: name, Memory: r.Int64N(90000)})
				}
			}
			s.GPUs = append(s.GPUs, gs)
		}
		rs = append(rs, h.read(&s, nil))
	}
	return rs
}

func FuzzFrame(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3 {
		d := &frame{slots: 24}
		d.put(3,
			newHost("a").fives(randomReadings(r, 200), t0.UnixMilli()/fiveMinutes, t0.UnixMilli()/fiveMinutes+11, 5))
		f.Add(d.encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := decodeFrame(data, 24, nil, nil)
		if err != nil {
			return
		}
		first := d.encode()
		again, err := decodeFrame(first, 24, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, again.encode()) {
			t.Fatal("it does not come back as it was")
		}
		if sum := d.fold(24); len(sum.rows) != len(d.rows) {
			t.Fatal("the sum has other rows")
		}
	})
}

// The fives of an hour from a damaged disk are refused, or mean something that can be written and read again.
func FuzzHour(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	five := t0.UnixMilli() / fiveMinutes
	for n := range 3 {
		var boots []bootFives
		for boot := range uint64(n + 1) {
			boots = putBoot(boots, boot*7, 2, newHost("a").fives(randomReadings(r, 90), five, five+3, 5), boot == 1)
		}
		f.Add(encodeBoots(boots))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		boots, err := decodeBoots(data, nil, nil)
		if err != nil {
			return
		}
		first := encodeBoots(boots)
		again, err := decodeBoots(first, nil, nil)
		if err != nil || !bytes.Equal(first, encodeBoots(again)) {
			t.Fatal("it does not come back as it was", err)
		}
		together(boots)
	})
}
