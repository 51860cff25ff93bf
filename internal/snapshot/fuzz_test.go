package snapshot

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/testenv/costtest"
)

// perByte is what a byte of a document may cost to read, in bytes of memory.
const perByte = 64

// What DecodeBundle lets pass is within the limits, and survives being written
// and read again. What it takes is in proportion to the document.
func FuzzDecodeBundle(f *testing.F) {
	whole := mustBundle(f)
	f.Add(unzipped(f, whole), true)
	f.Add(whole, false)
	f.Add(unzipped(f, forgedGPU(`"utilization_gpu_percent":105,"name":"\u202e"`)), true)
	f.Add(
		unzipped(f,
			forge(forgedHead, forgedSnap,
				`[{"seq":[1],"at":[1763616000000],"gpus":[{"index":0}],"utilization_percent":[[null]],"memory_used_mib":[[-5]],"temperature_celsius":[[3]],"power_draw_dw":[[77]],"users":["a"],"held":[[0,1,0,5]]}]`)), true)
	for _, name := range []string{"gpus", "processes", "errors", "another"} {
		for _, list := range costtest.Lists(`"`+name+`":`, "") {
			f.Add(
				unzipped(f,
					forge(forgedHead, strings.Replace(forgedSnap, `"gpus":[],"processes":[]`, string(list), 1), "[]")),
				true)
		}
	}
	for _, name := range []string{"throttle_reasons", "mig_devices"} {
		for _, list := range costtest.Lists(`"`+name+`":`, "") {
			f.Add(unzipped(f, forgedGPU(string(list))), true)
		}
	}
	for _, list := range costtest.Lists("", "") {
		f.Add(unzipped(f, forge(forgedHead, forgedSnap, string(list))), true)
	}
	for _, name := range []string{"gpus", "held", "users", "seq"} {
		for _, list := range costtest.Lists(`[{"seq":[1],"at":[1763616000000],"`+name+`":`, "}]") {
			f.Add(unzipped(f, forge(forgedHead, forgedSnap, string(list))), true)
		}
	}
	f.Add(unzipped(f, forge(forgedHead, strings.Replace(forgedSnap, `"schema":1,`, "", 1), "[]")), true)
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		size := MaxDecodedBytes
		if plain {
			size = len(data)
			// Past the checksum, or the fuzzer would never get beyond it.
			var doc struct {
				Snapshot, Samples json.RawMessage
				Checksum          string
			}
			if json.Unmarshal(data, &doc) == nil && doc.Checksum != "" {
				data = bytes.Replace(data, []byte(doc.Checksum), []byte(checksum(doc.Snapshot, doc.Samples)), 1)
			}
			data = zipped(data)
		}
		var b *Bundle
		var err error
		costtest.Check(t, size, perByte, func() { b, err = DecodeBundle(bytes.NewReader(data)) })
		costtest.Check(t, 0, 0, func() { BundleHost(bytes.NewReader(data)) })
		if err != nil {
			if b != nil || CodeOf(err) == "" {
				t.Fatalf("refused with %v and %v", b, err)
			}
			return
		}
		s := b.Snapshot
		if name, err := ParseHost(b.Host); err != nil || name != b.Host || len(s.GPUs) > MaxGPUs ||
			len(s.Processes) > MaxProcesses || len(b.Samples) > MaxSamples {
			t.Fatalf("beyond the limits: %q, %d GPUs, %d processes, %d samples", b.Host, len(s.GPUs), len(s.Processes),
				len(b.Samples))
		}
		for _, g := range s.GPUs {
			if u := g.UtilizationGPU; u != nil && (*u < 0 || *u > 100) || !safe(g.Name, MaxNameBytes) ||
				!safe(g.HealthReason, MaxTextBytes) {
				t.Fatalf("a GPU that cannot be: %+v", g)
			}
		}
		s.Errors = s.Errors[:min(len(s.Errors), MaxErrors)] // what was wrong is added to those of the node
		if len(s.Validate()) != 0 {
			t.Fatal("what was read is not valid yet")
		}
		again, err := EncodeBundle(b)
		if err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		if host := BundleHost(bytes.NewReader(again)); host != b.Host {
			t.Fatalf("its head names %q, and it is of %q", host, b.Host)
		}
		back, err := DecodeBundle(bytes.NewReader(again))
		if err != nil {
			t.Fatalf("cannot be read back: %v", err)
		}
		if diff := cmp.Diff(b, back); diff != "" {
			t.Fatalf("changed on the way:\n%s", diff)
		}
	})
}

func FuzzDecodeHour(f *testing.F) {
	b := fleetBundle(2, 3)
	whole, err := EncodeHour(
		&Hour{Host: b.Host, BootID: b.BootID, Start: b.Samples[0].At.Truncate(time.Hour), Samples: b.Samples})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(unzipped(f, whole), true)
	f.Add(whole, false)
	first, _, _ := bytes.Cut(unzipped(f, whole), []byte("\n"))
	for _, list := range costtest.Lists(string(first)+"\n", "\n") {
		f.Add(list, true)
	}
	f.Add([]byte(string(first)+"\n"+strings.Repeat("[]\n", 30_000)), true)
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		size := MaxDecodedBytes
		if plain {
			size = len(data)
			first, rest, _ := bytes.Cut(data, []byte("\n"))
			var head header
			if json.Unmarshal(first, &head) == nil && head.Checksum != "" {
				data = bytes.Replace(data, []byte(head.Checksum), []byte(checksum(rest)), 1)
			}
			data = zipped(data)
		}
		var h *Hour
		var err error
		costtest.Check(t, size, perByte, func() { h, err = DecodeHour(bytes.NewReader(data)) })
		if err != nil {
			if h != nil || CodeOf(err) == "" {
				t.Fatalf("refused with %v and %v", h, err)
			}
			return
		}
		if len(h.Samples) == 0 || len(h.Samples) > MaxSamples {
			t.Fatalf("%d samples", len(h.Samples))
		}
		again, err := EncodeHour(h)
		if err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		back, err := DecodeHour(bytes.NewReader(again))
		if err != nil {
			t.Fatalf("cannot be read back: %v", err)
		}
		if diff := cmp.Diff(h, back); diff != "" {
			t.Fatalf("changed on the way:\n%s", diff)
		}
	})
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"gpu01", "GPU01.Example.org", "../../etc/cron.d/x", "a.json", "-a", "a..b",
		strings.Repeat("a", 300), "\u017f", "\u212a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := ParseHost(s)
		if err != nil {
			return
		}
		if again, err := ParseHost(name); err != nil || again != name {
			t.Fatalf("%q became %q, and that %q (%v)", s, name, again, err)
		}
		if len(name) > 253 || strings.ContainsAny(name, "/\\ \x00%?#:") || strings.Contains(name, "..") ||
			name[0] == '.' || name[0] == '-' {
			t.Fatalf("%q is no file name", name)
		}
		if len(name) != len(s) || !strings.EqualFold(name, s) {
			t.Fatalf("%q is another name than %q", name, s)
		}
	})
}

func safe(s string, max int) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 && len(s) <= max
}

func FuzzText(f *testing.F) {
	f.Add("plain", 10)
	f.Add("\x1b[31m\u202eevil\xff\u2028", 20)
	f.Add(strings.Repeat("é", 100), 64)
	f.Add("\U000e0041", 9)
	f.Fuzz(func(t *testing.T, s string, max int) {
		if max < 0 || max > 1<<16 {
			return
		}
		got := Text(s, max)
		if !safe(got, max) {
			t.Fatalf("Text(%q, %d) = %q", s, max, got)
		}
		if again := Text(got, max); again != got {
			t.Fatalf("Text(%q, %d) is not settled: %q, then %q", s, max, got, again)
		}
		if safe(s, max) && got != s {
			t.Fatalf("harmless %q became %q", s, got)
		}
	})
}
