package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestARepeatedGPUCountsOnce: the first of two with one index is believed.
func TestARepeatedGPUCountsOnce(t *testing.T) {
	s := &Snapshot{Host: "gpu01", CollectedAt: TimeOf(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)),
		GPUs: []GPU{{Index: 0, Name: "first"}, {Index: 0, Name: "second"}, {Index: 1}}}
	problems := s.Validate()
	if len(problems) != 1 || problems[0].Code != BadRepeated || len(s.GPUs) != 2 || s.GPUs[0].Name != "first" {
		t.Errorf("%+v, %+v", problems, s.GPUs)
	}
}

// TestRepeatedUUIDs: of GPUs, of MIG devices, and of one of each.
func TestRepeatedUUIDs(t *testing.T) {
	s := &Snapshot{GPUs: []GPU{{UUID: "a"}, {UUID: "a"},
		{UUID: "b", MIGDevices: []MIGDevice{{UUID: "m"}, {UUID: "b"}, {}}},
		{UUID: "c", MIGDevices: []MIGDevice{{UUID: "m"}, {}}}, {}, {}}}
	if got := slices.Sorted(maps.Keys(s.RepeatedUUIDs())); !slices.Equal(got, []string{"a", "b", "m"}) {
		t.Errorf("%q", got)
	}
}

// TestBounds: what is at a bound is believed, and what is one beyond it is left out and said.
func TestBounds(t *testing.T) {
	gpu := func(field string) string { return `"gpus":[{"index":0,"health":"ok",` + field + `}],"processes":[]` }
	node := func(field string) string { return `"gpus":[],"processes":[],"node":{` + field + `}` }
	process := func(field string) string { return `"gpus":[],"processes":[{` + field + `}]` }
	for field, bounds := range map[string][2]int64{
		`"gpus":[],"processes":[],"interval_seconds":%d`:         {0, 7 * 24 * 3600},
		node(`"uptime_seconds":%d`):                              {0, maxSeconds},
		node(`"cores":%d`):                                       {0, maxCores},
		node(`"load1":%d`):                                       {0, maxLoad},
		node(`"load5":%d`):                                       {0, maxLoad},
		node(`"load15":%d`):                                      {0, maxLoad},
		node(`"memory_total_mib":%d`):                            {1, maxMiB},
		node(`"memory_used_mib":%d`):                             {0, maxMiB},
		node(`"memory_total_mib":5,"memory_used_mib":%d`):        {0, 5},
		node(`"disks":[{"total_mib":%d}]`):                       {0, maxMiB},
		node(`"disks":[{"total_mib":5,"used_mib":%d}]`):          {0, 5},
		node(`"disk_users":[{"used_mib":%d}]`):                   {0, maxMiB},
		`"gpus":[{"index":%d,"health":"ok"}],"processes":[]`:     {0, maxIndex},
		gpu(`"memory_total_mib":%d`):                             {1, maxMiB},
		gpu(`"memory_used_mib":%d`):                              {0, maxMiB},
		gpu(`"memory_free_mib":%d`):                              {0, maxMiB},
		gpu(`"memory_total_mib":5,"memory_free_mib":%d`):         {0, 5},
		gpu(`"utilization_gpu_percent":%d`):                      {0, 100},
		gpu(`"utilization_memory_percent":%d`):                   {0, 100},
		gpu(`"temperature_celsius":%d`):                          {-60, 250},
		gpu(`"power_draw_watts":%d`):                             {0, 20_000},
		gpu(`"power_limit_watts":%d`):                            {0, 20_000},
		gpu(`"fan_percent":%d`):                                  {0, 250},
		gpu(`"pcie_width":%d`):                                   {0, 64},
		gpu(`"pcie_width_max":%d`):                               {0, 64},
		gpu(`"clock_sm_mhz":%d`):                                 {0, 20_000},
		gpu(`"clock_memory_mhz":%d`):                             {0, 20_000},
		gpu(`"retired_pages":%d`):                                {0, maxIndex},
		gpu(`"ecc":{"corrected_volatile":%d}`):                   {0, maxCount},
		gpu(`"ecc":{"uncorrected_volatile":%d}`):                 {0, maxCount},
		gpu(`"ecc":{"corrected_aggregate":%d}`):                  {0, maxCount},
		gpu(`"ecc":{"uncorrected_aggregate":%d}`):                {0, maxCount},
		gpu(`"remapped_rows":{"correctable":%d}`):                {0, maxIndex},
		gpu(`"remapped_rows":{"uncorrectable":%d}`):              {0, maxIndex},
		gpu(`"fabric":{"clique_id":%d}`):                         {0, 1<<32 - 1},
		gpu(`"xid":{"code":%d,"at":"2026-11-20T05:01:00.000Z"}`): {1, maxXID},
		process(`"pid":%d`):                                      {0, 1 << 31},
		process(`"pid":1,"gpu":%d`):                              {0, maxIndex},
		process(`"pid":1,"uid":%d`):                              {0, 1<<32 - 1},
		process(`"pid":1,"used_memory_mib":%d`):                  {0, maxMiB},
	} {
		for value, want := range map[int64]int{bounds[0] - 1: 1, bounds[0]: 0, bounds[1]: 0, bounds[1] + 1: 1} {
			snap := strings.Replace(forgedSnap, `"gpus":[],"processes":[]`, fmt.Sprintf(field, value), 1)
			b, err := DecodeBundle(bytes.NewReader(forge(forgedHead, snap, "[]")))
			if err != nil {
				t.Fatalf("%s: %v", snap, err)
			}
			if found := b.Snapshot.Errors; len(found) != want || want > 0 && found[0].Code != BadRange {
				t.Errorf(field+": %+v", value, found)
			}
		}
	}
}

// forgedBlock is the samples of one GPU, with one column changed; no reading leaves the column out.
func forgedBlock(column string, reading ...any) string {
	block := `[{"seq":[1],"at":[1763616000000],"gpus":[{"index":0}],"users":["eva"]`
	for _, name := range []string{"utilization_percent", "memory_used_mib", "temperature_celsius", "power_draw_dw",
		"held"} {
		switch {
		case name != column && name == "held":
			block += `,"held":[[0,-1]]`
		case name != column:
			block += `,"` + name + `":[[null]]`
		case len(reading) > 0:
			block += `,"` + name + `":[` + fmt.Sprint(reading...) + `]`
		}
	}
	return block + "}]"
}

// TestBoundsOfSamples: a sample has bounds of its own, and what is beyond them is counted.
func TestBoundsOfSamples(t *testing.T) {
	for column, bounds := range map[string][2]int64{
		"utilization_percent": {0, maxPercent}, "memory_used_mib": {0, maxMiB},
		"temperature_celsius": {minCelsius, maxCelsius}, "power_draw_dw": {0, 10 * maxWatts}, "held": {0, maxMiB},
	} {
		for value, bad := range map[int64]int{bounds[0] - 1: 1, bounds[0]: 0, bounds[1]: 0, bounds[1] + 1: 1} {
			reading := fmt.Sprintf("[%d]", value)
			if column == "held" {
				reading = fmt.Sprintf("[0,1,0,%d]", value)
			}
			b, err := DecodeBundle(bytes.NewReader(forge(forgedHead, forgedSnap, forgedBlock(column, reading))))
			if err != nil {
				t.Fatalf("%s %d: %v", column, value, err)
			}
			if found := b.Snapshot.Errors; len(found) != bad || bad > 0 &&
				found[0].Message != "1 readings of earlier samples cannot be" {
				t.Errorf("%s %d: %+v", column, value, found)
			}
		}
		refused := []string{forgedBlock(column), forgedBlock(column, "[null],[null]")}
		if column != "held" { // which has any length
			refused = append(refused, forgedBlock(column, "[]"), forgedBlock(column, "[0,0]"))
		}
		for _, block := range refused {
			if _, _, err := DecodeSamples([]byte(block)); CodeOf(err) != BadParse {
				t.Errorf("%s: %v", block, err)
			}
		}
	}
	for column, want := range map[string]string{
		"[0,-1]": "", "[0,0]": "", "[0,1,0,5]": "", "[]": "", // the same as before
		"[0]": BadParse, "[-1,0]": BadParse, "[1,0]": BadParse, "[0,-2]": BadParse, "[0,1]": BadParse,
		"[0,1,0]": BadParse, "[0,1,1,5]": BadParse, "[0,1,-1,5]": BadParse, "[0,1,0,5,0]": BadParse,
	} {
		if _, _, err := DecodeSamples([]byte(forgedBlock("held", column))); CodeOf(err) != want {
			t.Errorf("the users %s: %v", column, err)
		}
	}
	for at, want := range map[time.Time]string{
		time.Date(minYear, 1, 1, 0, 0, 0, 0, time.UTC): "", time.Date(maxYear, 12, 31, 23, 59, 59, 0, time.UTC): "",
		time.Date(minYear-1, 12, 31, 23, 59, 59, 0, time.UTC): BadTime,
		time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC):      BadTime,
	} {
		if _, _, err := DecodeSamples(
			fmt.Appendf(nil, `[{"seq":[1],"at":[%d]}]`, at.UnixMilli())); CodeOf(err) != want {
			t.Errorf("a sample of %s: %v", at, err)
		}
	}
	for seq, want := range map[string]string{"1": "", "100000000000000": "", "0": BadParse,
		"100000000000001": BadParse} {
		named := func(text string) string { return strings.NewReplacer(`seq":1`, `seq":`+seq).Replace(text) }
		if _, err := DecodeBundle(
			bytes.NewReader(forge(named(forgedHead), named(forgedSnap), "[]"))); CodeOf(err) != want {
			t.Errorf("a snapshot of number %s: %v", seq, err)
		}
		if _, _, err := DecodeSamples(
			fmt.Appendf(nil, `[{"seq":[%s],"at":[1763616000000]}]`, seq)); CodeOf(err) != want {
			t.Errorf("a sample of number %s: %v", seq, err)
		}
	}
}

// TestListsAreCut: of a list that is too long, the first ones are kept, and the rest is counted.
func TestListsAreCut(t *testing.T) {
	disk, user := Disk{Mount: "/", Total: 1}, DiskUser{Path: "/home", User: "eva"}
	s := &Snapshot{Host: "gpu01", CollectedAt: TimeOf(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)),
		Errors: make([]Problem, MaxErrors+1),
		Node: Node{Disks: slices.Repeat([]Disk{disk}, MaxDisks+1),
			DiskUsers: slices.Repeat([]DiskUser{user}, MaxDiskUsers+1),
			Interfaces: slices.Repeat(
				[]Interface{{Name: "eth0", Addrs: slices.Repeat([]string{"10.0.0.1"}, MaxAddrs+1)}}, MaxInterfaces+1)}}
	for i := range MaxGPUs + 1 {
		s.GPUs = append(s.GPUs, GPU{Index: i, Health: HealthOK})
	}
	s.GPUs[0].MIGDevices = make([]MIGDevice, MaxMIGDevices+1)
	for i := range MaxProcesses + 1 {
		s.Processes = append(s.Processes, Process{PID: 1 + i, GPU: 0})
	}
	s.Processes[0].Children = slices.Repeat([]Child{{PID: 9}}, MaxChildren+1)
	said := map[string]int{}
	for _, p := range s.Validate() {
		if list, ok := strings.CutSuffix(p.Message, ": +1 more"); ok && p.Code == BadTooMany {
			said[list]++
		}
	}
	want := map[string]int{"gpus": 1, "errors": 1, "disks": 1, "disk_users": 1, "interfaces": 1, "addrs": MaxInterfaces,
		"mig_devices": 1, "processes": 1, "children": 1}
	if !maps.Equal(said, want) {
		t.Errorf("said %v, want %v", said, want)
	}
	for list, n := range map[string][2]int{
		"gpus": {len(s.GPUs), MaxGPUs}, "errors": {len(s.Errors), MaxErrors}, "disks": {len(s.Node.Disks), MaxDisks},
		"disk users": {len(s.Node.DiskUsers), MaxDiskUsers},
		"interfaces": {len(s.Node.Interfaces), MaxInterfaces}, "addresses": {len(s.Node.Interfaces[0].Addrs), MaxAddrs},
		"MIG devices": {len(s.GPUs[0].MIGDevices), MaxMIGDevices}, "processes": {len(s.Processes), MaxProcesses},
		"children": {len(s.Processes[0].Children), MaxChildren},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: %d are kept, and %d is the most", list, n[0], n[1])
		}
	}
}

// TestDepth: as many brackets as there may be are read.
func TestDepth(t *testing.T) {
	for n, want := range map[int]string{MaxDepth: "", MaxDepth + 1: BadDepth} {
		if err := ofNode().Check([]byte(strings.Repeat("[", n) + strings.Repeat("]", n))); CodeOf(err) != want {
			t.Errorf("%d brackets: %v", n, err)
		}
	}
}

// TestABundleOfEarlierSamples: one sample is enough to begin before the snapshot, and none is later than it.
func TestABundleOfEarlierSamples(t *testing.T) {
	b := fleetBundle(1, 2)
	b.Samples = b.Samples[:1]
	data, err := EncodeBundle(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeBundle(bytes.NewReader(data)); err != nil || len(got.Samples) != 1 {
		t.Errorf("one earlier sample: %v", err)
	}
	head := strings.Replace(forgedHead, `"first_seq":1`, `"first_seq":2`, 1)
	for name, data := range map[string][]byte{
		"another first number": forge(head, forgedSnap, `[{"seq":[1],"at":[1763616000000]}]`),
		"a later sample":       forge(head, forgedSnap, `[{"seq":[2],"at":[1763616000000]}]`),
	} {
		if _, err := DecodeBundle(bytes.NewReader(data)); CodeOf(err) != BadParse {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMemoryThatCannotBeIsNotKnown(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for _, c := range []struct {
		total, used, free int64
		want              string // which are known
	}{
		{100, 10, 90, "total used free"}, {100, 0, 100, "total used free"}, {100, 100, 0, "total used free"},
		{100, -1, 90, "total free"}, {100, 101, 90, "total free"}, {100, 10, 101, "total used"},
		{100, 10, -1, "total used"},
		{0, 0, 0, ""}, {-1, 10, 90, "used free"}, {maxMiB + 1, 10, 90, "used free"},
	} {
		s := &Snapshot{GPUs: []GPU{{MemoryTotal: n(c.total), MemoryUsed: n(c.used), MemoryFree: n(c.free),
			Health:     HealthOK,
			MIGDevices: []MIGDevice{{MemoryTotal: n(c.total), MemoryUsed: n(c.used)}}}}}
		found := s.Validate()
		var known []string
		for _, field := range []struct {
			name  string
			value *int64
		}{{"total", s.GPUs[0].MemoryTotal}, {"used", s.GPUs[0].MemoryUsed}, {"free", s.GPUs[0].MemoryFree}} {
			if field.value != nil {
				known = append(known, field.name)
			}
		}
		if got := strings.Join(known, " "); got != c.want || (len(known) == 3) != (len(found) == 0) {
			t.Errorf("%+v: %q is known, %v", c, got, found)
		}
		m := s.GPUs[0].MIGDevices[0]
		if (m.MemoryTotal != nil) != strings.Contains(c.want, "total") ||
			(m.MemoryUsed != nil) != strings.Contains(c.want, "used") {
			t.Errorf("%+v: of a slice %+v", c, m)
		}
	}
}

// TestEveryReadingHasBounds: no number of a GPU is believed that is far out of its range.
func TestEveryReadingHasBounds(t *testing.T) {
	g := GPU{ECC: &ECC{}, RemappedRows: &Remapped{}, Fabric: &Fabric{}}
	var names []string
	var set func(v reflect.Value, path string)
	each := func(v reflect.Value, path string, f func(v reflect.Value, path string)) {
		for _, field := range reflect.VisibleFields(v.Type()) {
			f(v.FieldByIndex(field.Index), path+"."+field.Name)
		}
	}
	set = func(v reflect.Value, path string) {
		if v.Kind() != reflect.Pointer {
			return
		}
		number := reflect.New(v.Type().Elem())
		switch number.Elem().Kind() {
		case reflect.Int, reflect.Int64:
			number.Elem().SetInt(math.MaxInt64)
		case reflect.Float64:
			number.Elem().SetFloat(math.MaxFloat64)
		default:
			if !v.IsNil() {
				each(v.Elem(), path, set)
			}
			return
		}
		v.Set(number)
		names = append(names, path)
	}
	each(reflect.ValueOf(&g).Elem(), "GPU", set)
	if len(names) < 15 {
		t.Fatalf("only %q are set", names)
	}
	s := Snapshot{GPUs: []GPU{g}}
	s.Validate()
	var kept func(v reflect.Value, path string)
	kept = func(v reflect.Value, path string) {
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return
		}
		if v.Elem().Kind() == reflect.Struct {
			each(v.Elem(), path, kept)
			return
		}
		t.Errorf("%s is believed to be %v: give it bounds in readings.go or validate.go", path, v.Elem())
	}
	each(reflect.ValueOf(s.GPUs[0]), "GPU", kept)
}
