package snapshot

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func partitioned() *Snapshot {
	return &Snapshot{Seq: 1, GPUs: []GPU{
		{Index: 0, UUID: "GPU-0"},
		{Index: 1, UUID: "GPU-1", MemoryUsed: ptr(int64(900)), MIGDevices: []MIGDevice{
			{Index: 0, UUID: "MIG-a", GPUInstanceID: ptr(1), ComputeInstanceID: ptr(0), MemoryUsed: ptr(int64(500))},
			{Index: 1, UUID: "MIG-b", GPUInstanceID: ptr(2), ComputeInstanceID: ptr(0)},
			{Index: 2, UUID: "MIG-c", GPUInstanceID: ptr(3), ComputeInstanceID: ptr(0), MemoryUsed: ptr(int64(12))},
			{Index: 3, GPUInstanceID: ptr(4), ComputeInstanceID: ptr(0), MemoryUsed: ptr(int64(12))},
			{Index: 4, UUID: "GPU-9", GPUInstanceID: ptr(5), ComputeInstanceID: ptr(0), MemoryUsed: ptr(int64(12))},
		}},
	}, Processes: []Process{
		{GPU: 1, User: "bob", Type: Compute, UsedMemory: ptr(int64(200)), GPUInstanceID: ptr(1),
			ComputeInstanceID: ptr(0)},
		{GPU: 1, User: "ann", Type: Compute, UsedMemory: ptr(int64(300)), GPUInstanceID: ptr(1),
			ComputeInstanceID: ptr(0)},
		{GPU: 1, User: "xorg", Type: Graphics},
	}}
}

// TestSampleOfTheHost: what is not known of a host is not 0, as in files of nodes that did not tell it, and what cannot
// be becomes unknown.
func TestSampleOfTheHost(t *testing.T) {
	at := fleetBundle(1, 1).Snapshot.CollectedAt
	var samples []Sample
	for i, node := range []Node{
		{Load1: ptr(8.1), Cores: ptr(64), MemoryUsed: ptr(int64(5000))},
		{Load1: ptr(8.1), Cores: ptr(0)},
		{Load1: ptr(8.1)},
		{Cores: ptr(64), MemoryUsed: ptr(int64(0))},
		{Load1: ptr(0.0), Cores: ptr(64)},
		{Load1: ptr(1e6), Cores: ptr(2)},
	} {
		samples = append(samples, (&Snapshot{Seq: uint64(i + 1), CollectedAt: at, Node: node}).Sample())
	}
	say := func(list []Sample) (text string) {
		for _, s := range list {
			number := func(v any, known bool) {
				if !known {
					v = "?"
				}
				text += fmt.Sprint(v, " ")
			}
			number(deref(s.Load), s.Load != nil)
			number(deref(s.MemoryUsed), s.MemoryUsed != nil)
		}
		return text
	}
	const want = "13 5000 ? ? ? ? ? 0 0 ? 10000 ? "
	data, err := EncodeSamples(samples)
	if err != nil {
		t.Fatal(err)
	}
	again, bad, err := DecodeSamples(data)
	if say(samples) != want || say(again) != want || bad != 0 || err != nil {
		t.Errorf("%s, read back %s with %d bad (%v), want %s", say(samples), say(again), bad, err, want)
	}

	for columns, want := range map[string]string{
		``: "? ? ? ? 0",
		`"load_percent":[],"host_memory_used_mib":[],`:                  "? ? ? ? 0",
		`"load_percent":[10000,1],"host_memory_used_mib":[-1,2],`:       "10000 ? ? 1 2",
		`"load_percent":[null,7],"host_memory_used_mib":[1,999999999],`: "? 1 7 1000000000 0",
		`"load_percent":[1],`:                    "refused",
		`"host_memory_used_mib":[1,2,3],`:        "refused",
		`"host_memory_used_mib":[1,9999999999],`: "? 1 ? ? 1",
	} {
		got := "refused"
		list, bad, err := DecodeSamples([]byte(`[{"seq":[1,1],"at":[1763616000000,1000],` + columns + `"gpus":null}]`))
		if err == nil {
			got = say(list) + fmt.Sprint(bad)
		}
		if got != want || err != nil && CodeOf(err) != BadParse {
			t.Errorf("%s is read as %s (%v), want %s", columns, got, err, want)
		}
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// A slice has a sample after those of the GPUs, where it has a name of its own
// and its memory is known.
func TestSampleOfSlices(t *testing.T) {
	s := partitioned()
	s.CollectedAt = fleetBundle(1, 1).Snapshot.CollectedAt
	want := []GPUSample{
		{Index: 1, UUID: "MIG-a", MemoryUsed: ptr(int64(500)), Users: []UserMemory{{"ann", 300}, {"bob", 200}}},
		{Index: 1, UUID: "MIG-c", MemoryUsed: ptr(int64(12)), Users: []UserMemory{}},
	}
	sample := s.Sample()
	if diff := cmp.Diff(want, sample.GPUs[2:]); diff != "" || sample.GPUs[0].UUID != "GPU-0" ||
		len(sample.GPUs[1].Users) != 2 {
		t.Errorf("samples of slices (-want +got):\n%s", diff)
	}
	data, err := EncodeSamples([]Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := DecodeSamples(data)
	if err != nil || cmp.Diff(sample.GPUs, again[0].GPUs) != "" {
		t.Errorf("written and read: %v\n%s", err, cmp.Diff(sample.GPUs, again))
	}

	s.Processes = append(s.Processes, Process{GPU: 1, User: "cleo", Type: Compute})
	for _, row := range s.Sample().GPUs[2:] {
		if row.Users != nil || row.MemoryUsed == nil {
			t.Errorf("a process may be on any slice, and %s is held by %v", row.UUID, row.Users)
		}
	}
	s = partitioned()
	s.GPUs[1].ProcessesUnknown = "N/A"
	for _, row := range s.Sample().GPUs[2:] {
		if row.Users != nil {
			t.Errorf("the processes are not known, and %s is held by %v", row.UUID, row.Users)
		}
	}
}

// A host of very many slices has a sample that can be read, with all its GPUs.
func TestSampleOfManySlices(t *testing.T) {
	s := &Snapshot{Seq: 1, CollectedAt: fleetBundle(1, 1).Snapshot.CollectedAt}
	for g := range 20 {
		gpu := GPU{Index: g, UUID: fmt.Sprintf("GPU-%d", g)}
		for i := range 7 {
			gpu.MIGDevices = append(gpu.MIGDevices,
				MIGDevice{UUID: fmt.Sprintf("MIG-%d-%d", g, i), MemoryUsed: ptr(int64(12))})
		}
		s.GPUs = append(s.GPUs, gpu)
	}
	sample := s.Sample()
	if len(sample.GPUs) != MaxGPUs || sample.GPUs[19].UUID != "GPU-19" || sample.GPUs[20].UUID != "MIG-0-0" {
		t.Fatalf("%d rows, and %d is the most", len(sample.GPUs), MaxGPUs)
	}
	data, err := EncodeSamples([]Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := DecodeSamples(data); err != nil {
		t.Error(err)
	}
}

// A reading that cannot be is unknown, and those after it are what they are.
func TestReadingsAfterOneThatCannotBe(t *testing.T) {
	samples, bad, err := DecodeSamples(
		[]byte(`[{"seq":[1,1,1],"at":[1763616000000,1000,1000],"gpus":[{"index":0}],"users":["eva"],"utilization_percent":[[10,1000,-950]],
		"memory_used_mib":[[null,null,null]],"temperature_celsius":[[null,null,null]],"power_draw_dw":[[null,null,null]],"held":[[0,1,0,-5,1,1,0,99999999999]]}]`))
	if err != nil || bad != 3 || len(samples) != 3 {
		t.Fatalf("%d of %d samples' readings cannot be: %v", bad, len(samples), err)
	}
	want := []*int{ptr(10), nil, ptr(60)}
	for i, s := range samples {
		g := s.GPUs[0]
		if diff := cmp.Diff(want[i], g.Utilization); diff != "" || len(g.Users) != 1 ||
			g.Users[0] != (UserMemory{User: "eva"}) {
			t.Errorf("sample %d: users %v, utilization (-want +got):\n%s", i, g.Users, diff)
		}
	}
}

// Samples of other GPUs, in another order or not known, are read as they were written.
func TestSamplesOfOtherGPUs(t *testing.T) {
	at := fleetBundle(1, 1).Snapshot.CollectedAt.Time
	var want []Sample
	for i, gpus := range [][]GPUSample{
		{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}}, {{Index: 0, UUID: "GPU-b"}, {Index: 1, UUID: "GPU-a"}},
		{{Index: 0, UUID: "GPU-b"}},
		{{Index: 3, UUID: "GPU-b"}}, {}, nil, {{Index: 3, UUID: "GPU-b"}},
	} {
		for g := range gpus {
			gpus[g].MemoryUsed = ptr(int64(10*i + g))
		}
		want = append(want, Sample{Seq: uint64(i + 1), At: at.Add(time.Duration(i) * time.Second).UTC(), GPUs: gpus})
	}
	data, err := EncodeSamples(want)
	if err != nil {
		t.Fatal(err)
	}
	got, bad, err := DecodeSamples(data)
	if diff := cmp.Diff(want, got); diff != "" || bad > 0 || err != nil {
		t.Errorf("%d bad, %v (-want +got):\n%s", bad, err, diff)
	}
}

// Numbers are written up to the largest that is read.
func TestNumbersOfSamples(t *testing.T) {
	at := fleetBundle(1, 1).Snapshot.CollectedAt.Time
	for seq, want := range map[uint64]bool{1: true, maxSeq: true, maxSeq + 1: false} {
		data, err := EncodeSamples([]Sample{{Seq: seq, At: at}})
		if (err == nil) != want {
			t.Errorf("number %d: %v", seq, err)
		}
		if err != nil {
			continue
		}
		if again, _, err := DecodeSamples(data); err != nil || again[0].Seq != seq {
			t.Errorf("number %d: read as %v, %v", seq, again, err)
		}
	}
	for index, want := range map[int]string{-1: BadParse, 0: "", maxIndex: "", maxIndex + 1: BadParse} {
		block := strings.Replace(forgedBlock(""), `"index":0`, fmt.Sprintf(`"index":%d`, index), 1)
		if _, _, err := DecodeSamples([]byte(block)); CodeOf(err) != want {
			t.Errorf("a GPU of index %d: %v", index, err)
		}
	}
	full := &Hour{Host: "gpu01", BootID: "b", Start: at.Truncate(time.Hour)}
	for i := range MaxSamples {
		full.Samples = append(full.Samples,
			Sample{Seq: uint64(i + 1), At: full.Start.Add(time.Duration(i) * 800 * time.Millisecond)})
	}
	if _, err := EncodeHour(full); err != nil {
		t.Errorf("an hour of as many samples as there may be: %v", err)
	}
	full.Samples = append(full.Samples, Sample{Seq: MaxSamples + 1, At: full.Start.Add(time.Hour - 1)})
	if _, err := EncodeHour(full); CodeOf(err) != BadTooMany {
		t.Errorf("an hour of one more: %v", err)
	}
	// The sum of these is negative.
	if _, _, err := DecodeSamples(
		[]byte(`[{"seq":[5,9223372036854775807],"at":[1763616000000,1000]}]`)); CodeOf(err) != BadParse {
		t.Errorf("numbers that overflow: %v", err)
	}
}

func TestMIGDeviceOf(t *testing.T) {
	device := func(ids ...int) MIGDevice { // of the GPU instance and the compute instance, as far as they are known
		d := MIGDevice{}
		if len(ids) > 0 {
			d.GPUInstanceID = ptr(ids[0])
		}
		if len(ids) > 1 {
			d.ComputeInstanceID = ptr(ids[1])
		}
		return d
	}
	for _, tt := range []struct {
		name    string
		devices []MIGDevice
		process MIGDevice // its instances
		want    int
	}{
		{"the one of its instances", []MIGDevice{device(1, 0), device(2, 0), device(3, 0)}, device(2, 0), 1},
		{"another compute instance", []MIGDevice{device(1, 0), device(2, 0)}, device(2, 1), -1},
		{"a process without instances", []MIGDevice{device(1, 0)}, device(), -1},
		{"no device", nil, device(1, 0), -1},
		{"a compute instance that is not known, and one device", []MIGDevice{device(1, 0), device(2, 0)}, device(2), 1},
		{"a compute instance that is not known, and two devices", []MIGDevice{device(2, 0), device(2, 1)}, device(2),
			-1},
		{"a device without instances, alone", []MIGDevice{device()}, device(1, 0), 0},
		{"two devices without instances", []MIGDevice{device(), device()}, device(1, 0), -1},
		{"a device without instances before the one", []MIGDevice{device(), device(1, 0)}, device(1, 0), 1},
		{"a device without instances after the one", []MIGDevice{device(1, 0), device()}, device(1, 0), 0},
		{"two without instances beside the one", []MIGDevice{device(), device(1, 0), device()}, device(1, 0), 1},
		{"a driver that repeats itself", []MIGDevice{device(1, 0), device(1, 0)}, device(1, 0), -1},
	} {
		p := Process{GPUInstanceID: tt.process.GPUInstanceID, ComputeInstanceID: tt.process.ComputeInstanceID}
		if got := MIGDeviceOf(tt.devices, &p); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestWhichProblemsAreSevere(t *testing.T) {
	for code, want := range map[string]bool{
		BadGzip:                 true,
		BadRange:                true,
		"discovery:duplicate":   true,
		"discovery:unreachable": true,
		"booking:unreadable":    true,
		"booking:emptied":       true,
		"note:unreadable":       true,
		"gpu:hung":              true,
		"booking:date":          false,
		"gpu:lost":              false,
		"smi:timeout":           false,
		"drop:full":             false,
		"state:unwritable":      false,
		"":                      false,
	} {
		if p := (Problem{Code: code}); p.Severe() != want {
			t.Errorf("%q is severe: %v, want %v", code, !want, want)
		}
	}
}

func TestWhereAProblemIs(t *testing.T) {
	for want, p := range map[string]Problem{
		"comments.json:12:3": {File: "comments.json", Line: 12, Col: 3, Host: "gpu03"},
		"comments.json":      {File: "comments.json", Host: "gpu03", GPU: ptr(2)},
		"gpu03 #2":           {Host: "gpu03", GPU: ptr(2)}, "gpu03": {Host: "gpu03"}, "": {GPU: ptr(2)},
	} {
		if got := p.Where(); got != want {
			t.Errorf("%+v is at %q, want %q", p, got, want)
		}
	}
}

// TestTenths: a column holds tenths, and what no card can draw is not known.
func TestTenths(t *testing.T) {
	at := fleetBundle(1, 1).Snapshot.CollectedAt.Time
	for value, want := range map[float64]string{0.25: "3", 999_999_999: "9999999990", 1e12: "null", -1e12: "null",
		math.NaN(): "null"} {
		data, err := EncodeSamples([]Sample{{Seq: 1, At: at, GPUs: []GPUSample{{Power: &value}}}})
		if err != nil || !strings.Contains(string(data), `"power_draw_dw":[[`+want+`]]`) {
			t.Errorf("%v W, want %s: %s, %v", value, want, data, err)
		}
	}
}

// TestSamplesOfCardsWithOneUUID: which of them a sample is of, its number alone says.
func TestSamplesOfCardsWithOneUUID(t *testing.T) {
	s := &Snapshot{GPUs: []GPU{{Index: 0, UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1"}, {Index: 2, UUID: "GPU-0"}}}
	got := ""
	for _, g := range s.Sample().GPUs {
		got += fmt.Sprintf("%d=%s ", g.Index, g.UUID)
	}
	if want := "0= 1=GPU-1 2= "; got != want {
		t.Errorf("samples of %q, want %q", got, want)
	}
}
