package history

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gpuboard/internal/snapshot"
)

var compare = cmp.AllowUnexported(reading{}, gpuReading{}, userMemory{}, frame{}, frameRow{}, mark{}, span{})

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
		rs = append(rs, h.read(uint64(r.IntN(2)), &s, nil))
	}
	return rs
}

func TestChunksComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		rs := randomReadings(r, rapid.IntRange(0, 60).Draw(rt, "n"))
		got, err := decodeChunk(encodeChunk(rs))
		if err != nil {
			rt.Fatal(err)
		}
		for i := range rs {
			if len(rs[i].gpus) == 0 {
				rs[i].gpus = nil
			}
		}
		if d := cmp.Diff(rs, got, compare); len(rs) > 0 && d != "" {
			rt.Fatal(d)
		}
	})
}

// Two chunks of an hour of 8 GPUs fit into a page of the database. One that takes more
// than half a page fills a whole one, and the file nearly doubles.
func TestAnHourFitsIntoHalfAPage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := newHost("gpu0000")
	var rs []reading
	for i := range 180 {
		s := noisy(r, 0, uint64(i), t0.Add(time.Duration(i)*20*time.Second))
		rs = append(rs, h.read(1, &s, nil))
	}
	pack, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(pack.pack(encodeChunk(rs))); n > 1950 {
		t.Errorf("an hour of 8 GPUs takes %d bytes", n)
	}
}

// A chunk from a damaged disk is refused, or means something that can be
// written and read again; it never takes much more memory than its bytes.
func FuzzChunk(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 7, 40} {
		f.Add(encodeChunk(randomReadings(r, n)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rs, err := decodeChunk(data)
		if err != nil {
			return
		}
		for i := range rs {
			if i > 0 && inOrder(rs[i-1], rs[i]) >= 0 {
				t.Fatal("out of order")
			}
			for _, g := range rs[i].gpus {
				if slices.Min(g.values[:]) < none || g.values[sUtil] > 100 {
					t.Fatalf("impossible %+v", g)
				}
			}
		}
		again, err := decodeChunk(encodeChunk(rs))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(rs, again, compare); d != "" {
			t.Fatal(d)
		}
		for _, b := range newHost("a").rollup(rs, t0.UnixMilli(), fiveMinutes, 3, 5) {
			if b.v[hCover] < 0 || b.v[hCover] > 300 {
				t.Fatalf("%d s of 300 are known", b.v[hCover])
			}
		}
	})
}

func FuzzFrame(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3 {
		d := &frame{slots: 24}
		d.put(3, newHost("a").rollup(randomReadings(r, 200), t0.UnixMilli(), fiveMinutes, 12, 5))
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

func FuzzMarks(f *testing.F) {
	ms := marks{}
	for _, seq := range []uint64{5, 6, 9, 1, 7, 1 << 40} {
		ms.add(seq%2, seq, int64(seq))
	}
	f.Add(ms.encode(), uint64(8))
	f.Fuzz(func(t *testing.T, data []byte, seq uint64) {
		ms, err := decodeMarks(data)
		if err != nil {
			return
		}
		ms.add(1, seq, 5)
		if !ms.has(1, seq) {
			t.Fatal("forgotten at once")
		}
		again, err := decodeMarks(ms.encode())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(ms, again, compare); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzJournal(f *testing.F) {
	body := encodeChunk(randomReadings(rand.New(rand.NewPCG(2, 1)), 4))
	f.Add(append([]byte{1, byte(len(body))}, body...))
	f.Fuzz(func(t *testing.T, data []byte) {
		total := 0
		if err := readEntries(data, func(_ int64, body []byte) error {
			rs, err := decodeHeads(body)
			total += len(rs)
			return err
		}); err == nil && total*2 > len(data) {
			t.Fatalf("%d samples out of %d bytes", total, len(data))
		}
	})
}

func TestMarksAreASet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms, set := marks{}, map[uint64]bool{}
		for _, seq := range rapid.SliceOfN(rapid.Uint64Range(0, 60), 0, 80).Draw(rt, "seqs") {
			if ms.has(1, seq) != set[seq] {
				rt.Fatalf("%d: known %v, and it should be %v", seq, ms.has(1, seq), set[seq])
			}
			ms.add(1, seq, 1)
			set[seq] = true
		}
		n := 0
		if m := ms[1]; m != nil {
			for i, s := range m.Spans {
				n += int(s.Hi - s.Lo + 1)
				if i > 0 && s.Lo <= m.Spans[i-1].Hi+1 {
					rt.Fatalf("spans touch: %v", m.Spans)
				}
			}
		}
		if n != len(set) {
			rt.Fatalf("%d numbers are known of %d", n, len(set))
		}
	})
}

func TestMarksOfAHostileNodeAreBounded(t *testing.T) {
	ms := marks{}
	for i := range uint64(5000) {
		ms.add(1, i*2, 1)
		ms.add(i, 1, int64(i))
	}
	if len(ms) > maxBoots {
		t.Errorf("%d boots are remembered", len(ms))
	}
	if b := ms.encode(); len(b) > 64<<10 {
		t.Errorf("they take %d bytes", len(b))
	}
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
			rs = append(rs, reading{at: at * 1000, seq: uint64(i)})
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
	r := h.read(1, &s, nil)
	want := []gpuReading{
		{gpu: 0, values: [sFields]int32{none, none, none, none}, users: []userMemory{{1, 7}, {2, maxMemory}}},
		{gpu: 1, values: [sFields]int32{none, none, none, none}},
	}
	if d := cmp.Diff(want, r.gpus, compare); d != "" {
		t.Error(d)
	}
	if got := h.gpus.name(1); got != `GPU-\x1b[31m` {
		t.Errorf("the name is %q", got)
	}
}
