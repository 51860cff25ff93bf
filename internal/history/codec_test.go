package history

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/snapshot"
)

var compare = cmp.AllowUnexported(frame{}, frameRow{})

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
					gs.Users = append(gs.Users, snapshot.UserMemory{User: string(rune('a' + u + r.IntN(2))), Memory: r.Int64N(90000)})
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
		d.put(3, newHost("a").fives(randomReadings(r, 200), t0.UnixMilli()/fiveMinutes, t0.UnixMilli()/fiveMinutes+11, 5))
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

func TestReadingsHoldUntilTheNextSample(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []int64 // s
		want []int64
	}{
		{"regular", []int64{0, 20, 40}, []int64{20, 20, 50}},
		{"alone", []int64{0}, []int64{50}},
		{"one is missing", []int64{0, 20, 60, 80}, []int64{20, 40, 20, 50}},
		{"two are missing", []int64{0, 20, 80, 100}, []int64{20, 50, 20, 50}},
		{"every five minutes", []int64{0, 300, 600}, []int64{300, 300, 300}},
		{"every ten minutes is too seldom", []int64{0, 600}, []int64{50, 50}},
		{"twice at one moment", []int64{0, 0, 20}, []int64{0, 20, 50}},
	} {
		var rs []reading
		for i, at := range c.at {
			rs = append(rs, reading{At: at * 1000, Seq: uint64(i)})
		}
		for i, want := range c.want {
			if got := hold(rs, i); got != want*1000 {
				t.Errorf("%s: sample %d stands for %d ms, and it should be %d s", c.name, i, got, want)
			}
		}
	}
}

func TestImpossibleValuesAreUnknown(t *testing.T) {
	h := newHost("h")
	s := snapshot.Sample{At: t0, GPUs: []snapshot.GPUSample{
		{Index: 0, Utilization: ptr(105), MemoryUsed: ptr(int64(-1)), Temperature: ptr(1000), Power: ptr(-3.0),
			Users: []snapshot.UserMemory{{User: "b", Memory: -5}, {User: "a", Memory: 1 << 62}, {User: "b", Memory: 7}}},
		{Index: 0, Utilization: ptr(1)},
		{Index: 1, UUID: "GPU-\x1b[31m"},
	}}
	r := h.read(&s, nil)
	want := []gpuReading{
		{GPU: 0, Values: [sFields]int32{none, none, none, none}, Users: []userMemory{{1, 7}, {2, maxMemory}}},
		{GPU: 1, Values: [sFields]int32{none, none, none, none}},
	}
	if d := cmp.Diff(want, r.GPUs, compare); d != "" {
		t.Error(d)
	}
	if got := h.gpus.name(1); got != `GPU-\x1b[31m` {
		t.Errorf("the name is %q", got)
	}
}

// The fives of an hour from a damaged disk are refused, or mean something that can be written and read again.
func FuzzHour(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	five := t0.UnixMilli() / fiveMinutes
	for n := range 3 {
		var boots []bootFives
		for boot := range uint64(n + 1) {
			boots, _ = putBoot(boots, boot*7, 2, newHost("a").fives(randomReadings(r, 90), five, five+3, 5), boot == 1)
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
