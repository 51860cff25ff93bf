package snapshot

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func zipped(data []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Write(data)
	w.Close()
	return buf.Bytes()
}

func unzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// forge is a bundle with any snapshot and samples, under a checksum that fits:
// what a hostile node would send.
func forge(head, snap, samples string) []byte {
	return zipped(fmt.Appendf(nil, `{%s,"checksum":"%s","snapshot":%s,"samples":%s}`, head, checksum([]byte(snap), []byte(samples)), snap, samples))
}

const (
	forgedHead = `"schema":1,"host":"gpu01","boot_id":"b","first_seq":1,"last_seq":1`
	forgedSnap = `{"schema":1,"host":"gpu01","boot_id":"b","seq":1,"collected_at":"2026-11-20T05:00:00Z","gpus":[],"processes":[]}`
)

func forgedGPU(field string) []byte {
	return forge(forgedHead, strings.Replace(forgedSnap, `"gpus":[]`, `"gpus":[{"index":0,`+field+`}]`, 1), "[]")
}

func TestDecodeRefuses(t *testing.T) {
	whole, err := EncodeBundle(fleetBundle(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	doc := unzipped(t, whole)
	replace := func(old, new string) []byte {
		if !bytes.Contains(doc, []byte(old)) {
			t.Fatalf("%s is not in the document", old)
		}
		return zipped(bytes.Replace(doc, []byte(old), []byte(new), 1))
	}
	bomb := func(n int) []byte {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		for range n {
			w.Write(make([]byte, 1<<20))
		}
		w.Close()
		return buf.Bytes()
	}
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	samples := func(s string) []byte { return forge(forgedHead, forgedSnap, s) }
	for _, test := range []struct {
		name string
		data []byte
		code string
	}{
		{"nothing", nil, BadEmpty},
		{"gzip of nothing", zipped(nil), BadEmpty},
		{"not gzip", []byte("<html>"), BadGzip},
		{"cut in half", whole[:len(whole)/2], BadGzip},
		{"cut in the CRC", whole[:len(whole)-2], BadGzip},
		{"cut in the header", whole[:5], BadGzip},
		{"a larger file than allowed", bytes.Repeat([]byte{7}, MaxFileBytes+1), BadTooLarge},
		{"one as large as allowed", bytes.Repeat([]byte{7}, MaxFileBytes), BadGzip},
		{"a bomb", bomb(64), BadTooLarge},
		{"a second member", append(bytes.Clone(whole), whole...), BadTrailing},
		{"bytes after the gzip stream", append(bytes.Clone(whole), 0), BadTrailing},
		{"a second document", zipped(append(bytes.Clone(doc), doc...)), BadTrailing},
		{"a word after the document", zipped(append(bytes.Clone(doc), "x"...)), BadTrailing},
		{"half a document", zipped(doc[:len(doc)/2]), BadParse},
		{"a number", zipped([]byte("1")), BadParse},
		{"a list", zipped([]byte("[]")), BadParse},
		{"a deep document", zipped([]byte(deep)), BadDepth},
		{"a deep unknown field", forgedGPU(`"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40)), BadDepth},
		{"a newer schema", replace(`"schema":1`, `"schema":2`), BadSchema},
		{"a newer schema that does not fit", zipped([]byte(`{"schema":7,"host":{"name":"x"}}`)), BadSchema},
		{"no schema", replace(`"schema":1,`, ``), BadSchema},
		{"a changed reading", replace(`"power_limit_watts":700`, `"power_limit_watts":701`), BadChecksum},
		{"no checksum", replace(`"checksum"`, `"checksums"`), BadChecksum},
		{"a bad host", replace(`"host":"gpu01.example.org"`, `"host":"../../etc/cron.d/x"`), BadHost},
		{"another host inside", forge(strings.Replace(forgedHead, "gpu01", "gpu02", 1), forgedSnap, "[]"), BadParse},
		{"another number inside", forge(strings.Replace(forgedHead, `"last_seq":1`, `"last_seq":2`, 1), forgedSnap, "[]"), BadParse},
		{"host said twice", forge(forgedHead+`,"host":"evil"`, forgedSnap, "[]"), BadParse},
		{"no time", forge(forgedHead, strings.Replace(forgedSnap, "collected_at", "collected", 1), "[]"), BadTime},
		{"a year beyond", forge(forgedHead, strings.Replace(forgedSnap, "2026-", "9026-", 1), "[]"), BadParse},
		{"text for a number", forgedGPU(`"utilization_gpu_percent":"5"`), BadParse},
		{"a fraction of a percent", forgedGPU(`"utilization_gpu_percent":5.5`), BadParse},
		{"1e999", forgedGPU(`"power_draw_watts":1e999`), BadParse},
		{"NaN", forgedGPU(`"power_draw_watts":NaN`), BadParse},
		{"an object for a text", forgedGPU(`"uuid":{}`), BadParse},
		{"a name twice", forgedGPU(`"fan_percent":5,"fan_percent":6`), BadParse},
		{"a name twice in samples", samples(`[{"seq":[1],"seq":[1],"at":[1763616000000]}]`), BadParse},
		{"a name twice in the head", forge(forgedHead+`,"host":"gpu01"`, forgedSnap, "[]"), BadParse},
		{"samples that are none", samples(`{}`), BadParse},
		{"a block without samples", samples(`[{}]`), BadParse},
		{"numbers that fall", samples(`[{"seq":[1,-1],"at":[1763616000000,1]}]`), BadParse},
		{"samples after the snapshot", samples(`[{"seq":[1,1],"at":[1763616000000,1]}]`), BadParse},
		{"a sample in year 24,000", samples(`[{"seq":[1],"at":[700000000000000]}]`), BadTime},
		{"a column too few", samples(`[{"seq":[1],"at":[1763616000000],"gpus":[{"index":0}]}]`), BadParse},
		{"too many samples", samples(`[{"seq":[1` + strings.Repeat(",1", MaxSamples) + `],"at":[1763616000000` + strings.Repeat(",1", MaxSamples) + `]}]`), BadTooMany},
	} {
		b, err := DecodeBundle(bytes.NewReader(test.data))
		var refused *DecodeError
		if b != nil || !errors.As(err, &refused) || refused.Code != test.code || CodeOf(err) != test.code {
			t.Errorf("%s: got %v, want %s", test.name, err, test.code)
		}
	}
}

// TestAFileOfTheMostBytesIsRead: one more is refused.
func TestAFileOfTheMostBytesIsRead(t *testing.T) {
	for n, want := range map[int]string{MaxDecodedBytes: "", MaxDecodedBytes + 1: BadTooLarge} {
		if data, err := expand(bytes.NewReader(zipped(make([]byte, n)))); CodeOf(err) != want || err == nil && len(data) != n {
			t.Errorf("%d bytes: %d, %v", n, len(data), err)
		}
	}
}

// TestAFileThatNobodyReadsIsNotWritten: for its length, compressed or not.
func TestAFileThatNobodyReadsIsNotWritten(t *testing.T) {
	random := make([]byte, MaxFileBytes+1)
	rand.NewChaCha8([32]byte{}).Read(random)
	for n, content := range map[string][]byte{"compressed": random, "decompressed": make([]byte, MaxDecodedBytes+1)} {
		if data, err := compress(content); CodeOf(err) != BadTooLarge {
			t.Errorf("too long when %s: %d bytes, %v", n, len(data), err)
		}
	}
	if _, err := compress(make([]byte, MaxDecodedBytes)); err != nil {
		t.Errorf("as much as a reader takes: %v", err)
	}
}

// TestRefusalsSayWhatIsWrong: of a checksum as much as tells it from another.
func TestRefusalsSayWhatIsWrong(t *testing.T) {
	snap, other := forgedSnap, strings.Replace(forgedSnap, `"seq":1`, `"seq":2`, 1)
	for want, data := range map[string][]byte{
		"unexpected EOF": zipped(nil)[:5],
		fmt.Sprintf("the checksum says %s..., the content %s...", checksum([]byte(snap), []byte("[]"))[:15], checksum([]byte(other), []byte("[]"))[:15]): zipped(
			bytes.Replace(unzipped(t, forge(forgedHead, snap, "[]")), []byte(snap), []byte(other), 1)),
	} {
		if _, err := DecodeBundle(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A bundle that is cut anywhere is refused, never an empty or partial host.
func TestTruncatedAnywhere(t *testing.T) {
	data, err := EncodeBundle(fleetBundle(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, err := DecodeBundle(bytes.NewReader(data[:n])); CodeOf(err) == "" {
			t.Fatalf("cut at %d of %d: %v", n, len(data), err)
		}
	}
	doc := unzipped(t, data)
	for n := range doc {
		if _, err := DecodeBundle(bytes.NewReader(zipped(doc[:n]))); CodeOf(err) == "" {
			t.Fatalf("document cut at %d of %d: %v", n, len(doc), err)
		}
	}
}

func TestNamesDifferByCase(t *testing.T) {
	snap := strings.Replace(forgedSnap, `{`, `{"HOST":"evil","Seq":9,`, 1)
	b, err := DecodeBundle(bytes.NewReader(forge(forgedHead+`,"HOST":"evil","future":{"a":[1]}`, snap, "[]")))
	if err != nil {
		t.Fatal(err)
	}
	if b.Host != "gpu01" || b.Snapshot.Host != "gpu01" || b.Snapshot.Seq != 1 {
		t.Errorf("HOST overrode host: %q, %q, number %d", b.Host, b.Snapshot.Host, b.Snapshot.Seq)
	}
}

func TestReadingsThatCannotBe(t *testing.T) {
	for _, field := range []string{
		`"utilization_gpu_percent":105`, `"utilization_gpu_percent":-1`, `"temperature_celsius":4000`, `"power_draw_watts":-5`,
		`"power_draw_watts":1e300`, `"memory_used_mib":-1`, `"memory_total_mib":10,"memory_used_mib":11`, `"fan_percent":1000`,
		`"clock_sm_mhz":-1`, `"health":"fine"`,
		`"xid":{"code":0,"at":"2026-11-20T04:00:00Z"}`, `"xid":{"code":10000,"at":"2026-11-20T04:00:00Z"}`, `"xid":{"code":79}`, `"xid":{"code":79,"at":"2199-11-20T04:00:00Z"}`,
	} {
		b, err := DecodeBundle(bytes.NewReader(forgedGPU(field)))
		if err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}
		g, errs := b.Snapshot.GPUs[0], b.Snapshot.Errors
		if len(errs) != 1 || errs[0].Code != BadRange || errs[0].GPU == nil || *errs[0].GPU != 0 {
			t.Errorf("%s: told as %+v, want one bad:range of GPU 0", field, errs)
		}
		if g.UtilizationGPU != nil || g.Temperature != nil || g.PowerDraw != nil || g.MemoryUsed != nil || g.Fan != nil || g.ClockSM != nil || g.XID != nil || g.Health != HealthUnknown {
			t.Errorf("%s: still there: %+v", field, g)
		}
	}
}

func TestAProcessStartsBetweenTheNodeAndTheReading(t *testing.T) {
	now := time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		uptime *int64
		before time.Duration // of the reading
		known  bool
	}{
		{"with the node", ptr[int64](3600), time.Hour, true},
		{"a little before the node", ptr[int64](3600), time.Hour + 30*time.Second, true},
		{"before the node", ptr[int64](3600), time.Hour + 2*time.Minute, false},
		{"the node's start is not known", nil, 1000 * time.Hour, true},
		{"the node has been up for ever", ptr[int64](maxSeconds), 1000 * time.Hour, true},
		{"a little after the reading", nil, -30 * time.Second, true},
		{"after the reading", nil, -2 * time.Minute, false},
	} {
		started := TimeOf(now.Add(-c.before))
		s := &Snapshot{CollectedAt: TimeOf(now), Node: Node{UptimeSeconds: c.uptime}, Processes: []Process{{PID: 7, StartedAt: &started}}}
		if found := s.Validate(); (s.Processes[0].StartedAt != nil) != c.known || len(found) > 0 {
			t.Errorf("%s: %v, %v", c.name, s.Processes[0].StartedAt, found)
		}
	}
}

func TestTooManyIsCut(t *testing.T) {
	s := &Snapshot{Processes: make([]Process, 10_000)}
	for i := range 100_000 {
		s.GPUs = append(s.GPUs, GPU{Index: i, Health: HealthOK})
	}
	s.GPUs[1].Index = 0
	s.GPUs[2].ThrottleReasons = strings.Split(strings.Repeat("sw_power_cap ", MaxErrors+9), " ")
	found := s.Validate()
	if reasons := s.GPUs[1].ThrottleReasons; len(reasons) != MaxErrors {
		t.Errorf("%d throttle reasons are left", len(reasons))
	}
	if len(s.GPUs) != MaxGPUs-1 || len(s.Processes) != MaxProcesses || cap(s.GPUs) > 2*MaxGPUs {
		t.Errorf("%d GPUs and %d processes are left", len(s.GPUs), len(s.Processes))
	}
	text := fmt.Sprint(found)
	for _, want := range []string{"gpus: +99936 more", "processes: +5904 more", "GPU 0 is listed twice"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not told in %s", want, text)
		}
	}
	s = &Snapshot{GPUs: make([]GPU, MaxGPUs)}
	for i := range s.GPUs {
		s.GPUs[i] = GPU{Index: i, Health: "odd", Readings: Readings{UtilizationGPU: ptr(500)}}
	}
	if found := s.Validate(); len(found) != MaxErrors+1 || found[MaxErrors].Message != "problems: +64 more" {
		t.Errorf("%d problems, the last %+v; want %d and how many more", len(found), found[len(found)-1], MaxErrors)
	}
}

func TestTextsAreSafeAndShort(t *testing.T) {
	evil := "a\x1b[31m\u202eb\x00" + strings.Repeat("é", 1000)
	b := fleetBundle(1, 1)
	s := b.Snapshot
	s.Collector, s.DriverVersion, s.GPUs[0].Name, s.GPUs[0].UUID, s.GPUs[0].HealthReason = evil, evil, evil, evil, evil
	s.Processes[0].User, s.Processes[0].Program, s.Processes[0].Type = evil, evil, ProcessType(evil)
	s.Node.Kernel, s.Node.Disks[0].Mount, s.Node.Interfaces[0].Addrs[0] = evil, evil, evil
	s.Errors = []Problem{{Code: evil, Message: evil}}
	b.Samples = []Sample{s.Sample()}
	data, err := EncodeBundle(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeBundle(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`\u001b`, "\u202e", `\u0000`, strings.Repeat("é", 300)} {
		if bytes.Contains(shown, []byte(bad)) {
			t.Errorf("%q got through", bad)
		}
	}
	if n := len(got.Snapshot.Processes[0].Program); n > MaxProgramBytes {
		t.Errorf("a program's name is %d bytes", n)
	}
}

func TestHour(t *testing.T) {
	b := fleetBundle(8, 700)
	b.Samples[3].GPUs[2].Users = nil
	b.Samples[4].GPUs = nil
	b.Samples[5].GPUs = []GPUSample{}
	b.Samples[6].GPUs[1].Utilization, b.Samples[6].GPUs[1].Power = nil, nil
	b.Samples[7].GPUs[0].Users = []UserMemory{}
	want := &Hour{Host: b.Host, BootID: b.BootID, Start: time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC), Samples: b.Samples}
	data, err := EncodeHour(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeHour(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	equalJSON(t, want, got)
	again, err := EncodeHour(got)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the same hour gives other bytes (%v)", err)
	}
	doc := unzipped(t, data)
	lines := bytes.SplitAfter(doc, []byte("\n"))
	for _, test := range []struct {
		name string
		data []byte
		code string
	}{
		{"cut", data[:len(data)-9], BadGzip},
		{"a line less", zipped(bytes.Join(lines[:len(lines)-2], nil)), BadChecksum},
		{"only the header", zipped(bytes.TrimSpace(lines[0])), BadParse},
		{"a newer schema", zipped(bytes.Replace(doc, []byte(`"schema":1`), []byte(`"schema":2`), 1)), BadSchema},
		{"another count", zipped(bytes.Replace(doc, []byte(`"count":700`), []byte(`"count":701`), 1)), BadParse},
		{"another first number", zipped(bytes.Replace(doc, []byte(`"first_seq":100,`), []byte(`"first_seq":99,`), 1)), BadParse},
		{"another last number", zipped(bytes.Replace(doc, []byte(`"last_seq":799,`), []byte(`"last_seq":800,`), 1)), BadParse},
		{"no whole hour", zipped(bytes.Replace(doc, []byte(`05:00:00.000Z`), []byte(`05:00:01.000Z`), 1)), BadTime},
		{"no hour", zipped(bytes.Replace(doc, []byte(`"hour":"2026-11-20T05:00:00.000Z",`), nil, 1)), BadTime},
		{"a bundle", mustBundle(t), BadParse},
	} {
		if h, err := DecodeHour(bytes.NewReader(test.data)); h != nil || CodeOf(err) != test.code {
			t.Errorf("%s: got %v, want %s", test.name, err, test.code)
		}
	}
	less := bytes.Join(lines[:len(lines)-2], nil)
	says := fmt.Sprintf("the checksum says %s..., the content %s...", checksum(doc[len(lines[0]):])[:15], checksum(less[len(lines[0]):])[:15])
	if _, err := DecodeHour(bytes.NewReader(zipped(less))); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a line less: got %v, want %s", err, says)
	}
}

func mustBundle(t testing.TB) []byte {
	t.Helper()
	data, err := EncodeBundle(fleetBundle(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func equalJSON(t *testing.T, want, got any) {
	t.Helper()
	a, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("want\n%.2000s\ngot\n%.2000s", a, b)
	}
}

func TestSampleUsers(t *testing.T) {
	s := &Snapshot{Seq: 1, GPUs: []GPU{{Index: 0, Readings: Readings{PowerDraw: ptr(12.345)}}, {Index: 3}}, Processes: []Process{
		{GPU: 0, User: "bob", Type: Compute, UsedMemory: ptr(int64(5))},
		{GPU: 0, User: "ann", Type: ComputeGraphics, UsedMemory: ptr(int64(7))},
		{GPU: 0, User: "bob", Type: Compute},
		{GPU: 0, User: "xorg", Type: Graphics, UsedMemory: ptr(int64(90))},
		{GPU: 9, User: "lost", Type: Compute},
	}}
	got := s.Sample()
	if want := "[{ann 7} {bob 5}]"; fmt.Sprint(got.GPUs[0].Users) != want {
		t.Errorf("users of GPU 0 are %v, want %s", got.GPUs[0].Users, want)
	}
	if got.GPUs[1].Users == nil || len(got.GPUs[1].Users) != 0 || got.GPUs[1].Index != 3 {
		t.Errorf("an unused GPU is %+v, want an empty list of users", got.GPUs[1])
	}
	if *got.GPUs[0].Power != 12.3 {
		t.Errorf("power is %v, want 12.3", *got.GPUs[0].Power)
	}
	s.Errors = []Problem{{Code: CodeProcesses}}
	if got := s.Sample(); got.GPUs[0].Users != nil || got.GPUs[1].Users != nil {
		t.Error("users are told although processes could not be read")
	}
	second := s.GPUs[1].Index
	s.Errors, s.GPUs[1].ProcessesUnknown = []Problem{{Code: CodeProcesses, GPU: &second}}, "N/A"
	if got := s.Sample(); got.GPUs[0].Users == nil || got.GPUs[1].Users != nil || !s.ProcessesKnownOf(&s.GPUs[0]) || s.ProcessesKnownOf(&s.GPUs[1]) {
		t.Error("what is not known of the processes of one GPU is that GPU's alone")
	}
	s.Errors = nil
	s.Processes = nil
	if got := s.Sample(); got.GPUs[0].Users != nil {
		t.Error("users are told although there is no list of processes")
	}
}

func TestTime(t *testing.T) {
	when := time.Date(2026, 11, 20, 6, 5, 0, 123_900_000, time.FixedZone("", 14*3600))
	data, err := json.Marshal(TimeOf(when))
	if err != nil || string(data) != `"2026-11-19T16:05:00.123Z"` {
		t.Errorf("written as %s, %v", data, err)
	}
	for _, in := range []string{`5`, `""`, `"now"`, `"2026-11-20"`, `"9026-11-20T00:00:00Z"`, `"1969-12-31T00:00:00Z"`, `"2026-11-20T00:00:00"`} {
		var got Time
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s was read as %v", in, got)
		}
	}
	for in, want := range map[string]bool{"1970-01-01T00:00:00Z": true, "2261-12-31T23:59:59.999Z": true, "2262-01-01T00:00:00Z": false} {
		var got Time
		if err := json.Unmarshal([]byte(`"`+in+`"`), &got); (err == nil) != want {
			t.Errorf("%s was read as %v, %v", in, got, err)
		}
	}
	long := strings.Repeat("5", 41)
	for in, want := range map[string]string{long: "time is no string: " + long[:40] + "...", `"` + long + `"`: `time is not RFC 3339: "` + long[:40] + `..."`} {
		if err := new(Time).UnmarshalJSON([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	if data, err := TimeOf(when.AddDate(7000, 0, 0)).MarshalJSON(); err == nil {
		t.Errorf("the year 9026 was written as %s, which no reader takes", data)
	}
	for _, in := range []string{`"`, `"2026-11-20T00:00:00Zx`, `x2026-11-20T00:00:00Z"`} {
		if err := new(Time).UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s was read as a time", in)
		}
	}
	var zero, back Time
	data, err = json.Marshal(zero)
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || !back.IsZero() {
		t.Errorf("the zero time became %s, %v, %v", data, back, err)
	}
}

func TestWhatIsLeftOutIsNotKnown(t *testing.T) {
	whole := func() *Snapshot {
		return &Snapshot{GPUs: []GPU{{Index: 0, Health: HealthOK}, {Index: 1, Health: HealthOK}}, GPUsComplete: true,
			Processes: []Process{{GPU: 0, PID: 7}, {GPU: 1, PID: 8}}}
	}
	for name, c := range map[string]struct {
		change   func(*Snapshot)
		known    [2]bool
		complete bool
	}{
		"nothing":                       {func(*Snapshot) {}, [2]bool{true, true}, true},
		"a pid that cannot be":          {func(s *Snapshot) { s.Processes[1].PID = -1 }, [2]bool{true, false}, true},
		"a GPU that cannot be":          {func(s *Snapshot) { s.Processes[1].GPU = -1 }, [2]bool{false, false}, true},
		"a GPU that is not listed":      {func(s *Snapshot) { s.Processes[1].GPU = 9 }, [2]bool{true, true}, true},
		"more processes than are read":  {func(s *Snapshot) { s.Processes = append(make([]Process, MaxProcesses-1), s.Processes...) }, [2]bool{true, false}, true},
		"a GPU twice":                   {func(s *Snapshot) { s.GPUs = append(s.GPUs, GPU{Index: 1}) }, [2]bool{true, true}, false},
		"a GPU with an index below 0":   {func(s *Snapshot) { s.GPUs = append(s.GPUs, GPU{Index: -1}) }, [2]bool{true, true}, false},
		"more GPUs than are read":       {func(s *Snapshot) { s.GPUs = append(s.GPUs, make([]GPU, MaxGPUs)...) }, [2]bool{true, true}, false},
		"GPUs that could not be listed": {func(s *Snapshot) { s.GPUs = nil }, [2]bool{true, true}, false},
	} {
		s := whole()
		c.change(s)
		s.Validate()
		for i := range min(2, len(s.GPUs)) {
			if s.ProcessesKnownOf(&s.GPUs[i]) != c.known[i] {
				t.Errorf("%s: processes of GPU %d: %q", name, i, s.GPUs[i].ProcessesUnknown)
			}
		}
		if s.GPUsComplete != c.complete {
			t.Errorf("%s: complete is %v", name, s.GPUsComplete)
		}
	}
}
