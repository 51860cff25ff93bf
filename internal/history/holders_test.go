package history

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/snapshot"
)

// holdersOf is who held a GPU in the last steps up to now, as a store that goes on says and one that was just opened.
func holdersOf(t *testing.T, s *Store, now time.Time, host, gpu string, steps int) []string {
	t.Helper()
	list := holdersIn(t, s, now, host, gpu)
	if d := cmp.Diff(list, holdersIn(t, openAt(t, s.path, now, Options{Once: true}), now, host, gpu)); d != "" {
		t.Errorf("a store that goes on has - where one that was opened has +:\n%s", d)
	}
	return list[SparkSteps-steps:]
}

func holdersIn(t *testing.T, s *Store, now time.Time, host, gpu string) []string {
	t.Helper()
	r, err := s.Recent(context.Background(), now, 30*time.Minute, 5)
	if err != nil {
		t.Fatal(err)
	}
	list := r.GPUs[Key{host, gpu}].Holders
	if len(list) != SparkSteps {
		t.Fatalf("%d steps", len(list))
	}
	return list
}

func expectHolders(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: the holders are %q, and it should be %q", what, got, want)
	}
}

// Of two people it is whoever holds more memory; nobody who is known is nobody, and a gap is nobody.
func TestWhoHeldAGPU(t *testing.T) {
	quarter := 15 * time.Minute
	at := func(quarters int) time.Time { return t0.Add(time.Duration(quarters) * quarter) }
	s := open(t, Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: at(9).Add(time.Minute),
		jobs: []job{
			{0, "ada", at(0), at(2), 1000, 90},
			{0, "bob", at(1), at(3), 3000, 0},
			{0, "", at(4), at(6), 3000, 90},
			{0, "ada", at(5), at(6), 2000, 90},
			{0, "ada", at(6), at(6).Add(5 * time.Minute), 10, 90},
			{0, "bob", at(6).Add(5 * time.Minute), at(6).Add(12 * time.Minute), 10, 90},
			{0, "ada", at(7).Add(5 * time.Minute), at(7).Add(10 * time.Minute), 10, 90},
			{0, "bob", at(7).Add(10 * time.Minute), at(8), 10, 90},
			{0, "cyd", at(9), at(10), 10, 90},
		},
		outages: [][2]time.Time{{at(8), at(9)}}}
	live(t, s, "gpu1", "boot", tr.samples())
	expectHolders(t, "nine quarters and the present one", holdersOf(t, s, tr.to, "gpu1", "GPU-gpu1-0", 10),
		"ada", "bob", "bob", "", "", "", "bob", "bob", "", "cyd")
}

// After a restart in the middle of a five, the boot of which most is known says who held the GPU.
func TestWhoHeldAGPUOverARestart(t *testing.T) {
	s := open(t, Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(45 * time.Minute),
		jobs: []job{
			{0, "ada", t0, t0.Add(21 * time.Minute), 10, 50}, {0, "bob", t0.Add(21 * time.Minute), t0.Add(2 * time.Hour), 10, 50},
		}}
	all := tr.samples()
	for i := 0; i < len(all); i += 3 {
		now, boot, sent := all[i+2].At, "one", all[:i+3]
		if i >= 63 {
			boot, sent = "two", all[63:i+3]
		}
		ingest(t, s, now, "gpu1", boot, sent)
		got := holdersIn(t, s, now, "gpu1", "GPU-gpu1-0")
		cold := openAt(t, s.path, now, Options{Once: true})
		ingest(t, cold, now, "gpu1", boot, sent)
		if d := cmp.Diff(got, holdersIn(t, cold, now, "gpu1", "GPU-gpu1-0")); d != "" {
			t.Fatalf("after %v a store that goes on has - where one that was opened has +:\n%s", now.Sub(t0), d)
		}
	}
	expectHolders(t, "three quarters", holdersIn(t, s, tr.to.Add(-time.Second), "gpu1", "GPU-gpu1-0")[SparkSteps-3:],
		"ada", "bob", "bob")
}

// A finished hour also replaces who held what.
func TestAFinishedHourReplacesWhoHeldAGPU(t *testing.T) {
	s := open(t, Options{})
	tr := &truth{host: "gpu1", gpus: 1, every: 20 * time.Second, from: t0, to: t0.Add(2 * time.Hour),
		jobs: []job{
			{0, "ada", t0, t0.Add(time.Hour), 10, 50}, {0, "bob", t0.Add(2 * time.Minute), t0.Add(15 * time.Minute), 99, 50},
		}}
	all := tr.samples()
	live(t, s, "gpu1", "boot", all[:6]) // two minutes, and then nothing until the next hour
	live(t, s, "gpu1", "boot", all[180:])
	before := holdersOf(t, s, tr.to, "gpu1", "GPU-gpu1-0", 9)
	expectHolders(t, "before the hour came", before, "ada", "", "", "", "", "", "", "", "")
	ingestHours(t, s, tr.to, "gpu1", "boot", all[:180])
	after := holdersOf(t, s, tr.to, "gpu1", "GPU-gpu1-0", 9)
	expectHolders(t, "with it", after, "bob", "ada", "ada", "ada", "", "", "", "", "")
}

// A slice has a holder of its own, though nobody tells its utilization.
func TestWhoHeldASlice(t *testing.T) {
	s := open(t, Options{})
	var samples []snapshot.Sample
	for i := range 90 {
		ada, bob := snapshot.UserMemory{User: "ada", Memory: 30}, snapshot.UserMemory{User: "bob", Memory: 70}
		samples = append(samples, snapshot.Sample{Seq: uint64(i + 1), At: t0.Add(time.Duration(i) * 20 * time.Second),
			GPUs: []snapshot.GPUSample{
				{UUID: "GPU-1", Users: []snapshot.UserMemory{ada, bob}},
				{UUID: "MIG-a", MemoryUsed: ptr(int64(30)), Users: []snapshot.UserMemory{ada}},
				{UUID: "MIG-b", MemoryUsed: ptr(int64(70)), Users: []snapshot.UserMemory{bob}},
			}})
	}
	live(t, s, "gpu1", "boot", samples)
	now := t0.Add(30 * time.Minute)
	for gpu, want := range map[string]string{"GPU-1": "bob", "MIG-a": "ada", "MIG-b": "bob"} {
		expectHolders(t, gpu, holdersOf(t, s, now, "gpu1", gpu, 3)[:2], want, want)
	}
	users, err := userTotalsOf(s, t0, now)
	if err != nil || len(users) != 2 {
		t.Fatal(users, err)
	}
	near(t, "GPU-hours of bob", users[0].GPUHours, 0.35, 0.001)
}

// Hours that were written before holders were kept are read, and have none.
func TestHoursWithoutHolders(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	tr := &truth{host: "gpu1", gpus: 2, every: 20 * time.Second, from: t0, to: t0.Add(2 * time.Hour),
		jobs: []job{{0, "ada", t0, t0.Add(2 * time.Hour), 10, 50}}}
	live(t, s, "gpu1", "boot", tr.samples())
	now := tr.to.Add(time.Minute)
	packed := map[int64][]byte{}
	if err := eachRow(ctx, s.db, func(rows *sql.Rows) error {
		var id int64
		var data []byte
		err := rows.Scan(&id, &data)
		packed[id] = data
		return err
	}, "select id, data from hour"); err != nil || len(packed) != 2 {
		t.Fatal(len(packed), err)
	}
	for id, data := range packed {
		boots, err := decodeBoots(s.unpack(data), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range boots {
			f := boots[i].frame
			f.rows = slices.DeleteFunc(f.rows, func(r frameRow) bool { return r.kind == kindHolder })
		}
		if _, err := s.db.ExecContext(ctx, "update hour set data=? where id=?", s.pack.pack(encodeBoots(boots)), id); err != nil {
			t.Fatal(err)
		}
	}
	s = openAt(t, s.path, now, Options{})
	without := holdersOf(t, s, now, "gpu1", "GPU-gpu1-0", 9)[:7] // the last five is not written yet
	expectHolders(t, "of hours without", without, make([]string, 7)...)
	if p := s.Problems(now); len(p) > 0 {
		t.Errorf("problems are %v", p)
	}
	tr.from, tr.to = tr.to, tr.to.Add(30*time.Minute)
	tr.jobs = []job{{0, "bob", tr.from, tr.to, 10, 50}}
	live(t, s, "gpu1", "later", tr.samples())
	expectHolders(t, "with those since", holdersOf(t, s, tr.to, "gpu1", "GPU-gpu1-0", 5)[:4], "", "ada", "bob", "bob")
}

// Who held a GPU is no sum: hours and days do not have it.
func TestDaysHaveNoHolders(t *testing.T) {
	f := &frame{slots: fivesAnHour}
	for slot := range fivesAnHour {
		f.put(slot, []bucket{{v: [hFields]int64{hSamples: 1}, gpus: []gpuBucket{{gpu: 3, holder: 7}}}})
	}
	for _, want := range []*frame{f, f.fold(fivesAnHour)} {
		again, err := decodeFrame(want.encode(), want.slots, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, held := again.find(kindHolder, 3); held != (want == f) {
			t.Errorf("a frame of %d slots has holders: %t", want.slots, held)
		}
	}
}

// Of the three fives of a step, whoever is named most often, of two the later one.
func TestMostNamed(t *testing.T) {
	for _, test := range []struct {
		fives [3]uint32
		want  uint32
	}{
		{[3]uint32{}, 0}, {[3]uint32{1, 0, 0}, 1}, {[3]uint32{0, 0, 1}, 1}, {[3]uint32{1, 2, 0}, 2}, {[3]uint32{1, 0, 2}, 2},
		{[3]uint32{1, 1, 2}, 1}, {[3]uint32{1, 2, 1}, 1}, {[3]uint32{2, 1, 1}, 1}, {[3]uint32{1, 2, 3}, 3},
	} {
		t.Run(fmt.Sprint(test.fives), func(t *testing.T) {
			if got := mostNamed(test.fives); got != test.want {
				t.Errorf("it is %d, and it should be %d", got, test.want)
			}
		})
	}
}
