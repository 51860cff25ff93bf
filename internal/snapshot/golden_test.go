package snapshot

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what the tests get into testdata")

// The files in testdata are what older versions wrote: they have to be read for
// ever, and written the same until Schema changes.
func TestGolden(t *testing.T) {
	b := fleetBundle(2, 4)
	b.Samples[1].GPUs[0].Utilization, b.Samples[1].GPUs[1].Users = nil, nil
	b.Samples[2].GPUs[0].Users = []UserMemory{}
	b.Snapshot.GPUs[1].Temperature = nil
	b.Samples[3] = b.Snapshot.Sample()
	hour := &Hour{Host: b.Host, BootID: b.BootID, Start: b.Samples[0].At.Truncate(time.Hour), Samples: b.Samples}
	bundleFile, err := EncodeBundle(b)
	if err != nil {
		t.Fatal(err)
	}
	hourFile, err := EncodeHour(hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"latest.json": unzipped(t, bundleFile),
		"hour.jsonl": unzipped(t, hourFile)} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(golden, data) {
			t.Errorf("%s is written as\n%s\nand was\n%s", name, data, golden)
		}
		if name == "latest.json" {
			got, err := DecodeBundle(bytes.NewReader(zipped(golden)))
			if err != nil {
				t.Fatal(err)
			}
			equalJSON(t, b, got)
		} else {
			got, err := DecodeHour(bytes.NewReader(zipped(golden)))
			if err != nil {
				t.Fatal(err)
			}
			equalJSON(t, hour, got)
		}
	}
}

func TestHourIsSmall(t *testing.T) {
	b := fleetBundle(8, 180)
	data, err := EncodeHour(
		&Hour{Host: b.Host, BootID: b.BootID, Start: b.Samples[0].At.Truncate(time.Hour), Samples: b.Samples})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(data))
	if len(data) > 8<<10 {
		t.Errorf("an hour of 8 GPUs every 20 s is %d bytes, want at most 8 KiB", len(data))
	}
}

// A bomb costs what the limit allows, not what it holds.
func TestBombCostsLittleMemory(t *testing.T) {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	chunk := make([]byte, 1<<20)
	for range 64 {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeBundle(bytes.NewReader(buf.Bytes()))
	runtime.ReadMemStats(&after)
	if CodeOf(err) != BadTooLarge {
		t.Errorf("got %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 48<<20 {
		t.Errorf("refusing a bomb took %d MiB", n>>20)
	}
}

func TestText(t *testing.T) {
	for _, test := range []struct {
		in   string
		max  int
		want string
	}{
		{"train.py", 64, "train.py"},
		{"naïve 训练", 64, "naïve 训练"},
		{"a\x1b[31mb\n", 64, `a\x1b[31mb\x0a`},
		{"a\u202eb\u2028\ufeff", 64, `a\u202eb\u2028\ufeff`},
		{"\xff\xfe", 64, `\xff\xfe`},
		{"\U000e0041", 64, `\U000e0041`},
		{"0123456789", 10, "0123456789"},
		{"0123456789x", 10, "0123456…"},
		{"ééééé", 10, "ééééé"},
		{"éééééé", 10, "ééé…"},
		{"ab\x00", 5, "ab…"},
		{"\x00", 3, "…"},
		{"abc", 2, ""},
		{"", 0, ""},
	} {
		if got := Text(test.in, test.max); got != test.want {
			t.Errorf("Text(%q, %d) = %q, want %q", test.in, test.max, got, test.want)
		}
	}
}

func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{"gpu01": "gpu01", "GPU-01.Example.ORG": "gpu-01.example.org", "7": "7"} {
		if got, err := ParseHost(in); got != want || err != nil {
			t.Errorf("ParseHost(%q) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ".", "..", "a..b", "a.", ".a", "-a", "a-", "a_b", "a/b", `a\b`, "a b", "a\x00", "ä",
		"x.json", "x.HTML", "x.gz", "x.ics", "x.txt", "a\n", "\u212a", "gpu\u017f"} {
		if got, err := ParseHost(in); err == nil {
			t.Errorf("ParseHost(%q) = %q, want an error", in, got)
		}
	}
	if _, err := ParseHost("gpu 01" + strings.Repeat("x", 100)); err == nil ||
		!strings.Contains(err.Error(), `"gpu 01`+strings.Repeat("x", 74)+`...": letters`) {
		t.Errorf("a long name with a space: %v", err)
	}
	if _, err := ParseHost("gpu 01" + strings.Repeat("x", 74)); err == nil ||
		!strings.Contains(err.Error(), strings.Repeat("x", 74)+`": letters`) {
		t.Errorf("one that need not be cut: %v", err)
	}
}

// TestShortHours: an hour of one sample is read; one of none, or with an empty line at its end, is refused.
func TestShortHours(t *testing.T) {
	b := fleetBundle(1, 1)
	data, err := EncodeHour(
		&Hour{Host: b.Host, BootID: b.BootID, Start: time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC), Samples: b.Samples})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := DecodeHour(bytes.NewReader(data)); err != nil || len(h.Samples) != 1 {
		t.Errorf("one sample: %v", err)
	}
	head, lines, _ := bytes.Cut(unzipped(t, data), []byte("\n"))
	forgeHour := func(count string, content []byte) []byte {
		forged := bytes.Replace(head, []byte(checksum(lines)), []byte(checksum(content)), 1)
		forged = bytes.Replace(forged, []byte(`"count":1`), []byte(`"count":`+count), 1)
		return zipped(slices.Concat(forged, []byte("\n"), content))
	}
	if _, err := DecodeHour(bytes.NewReader(forgeHour("1", lines))); err != nil {
		t.Fatalf("the same anew: %v", err)
	}
	for name, forged := range map[string][]byte{
		"no samples":         forgeHour("0", []byte("[]\n")),
		"an empty line":      forgeHour("1", slices.Concat(lines, []byte("\n"))),
		"one byte of a line": forgeHour("1", slices.Concat(lines, []byte("["))),
		"a line cut short":   forgeHour("1", bytes.TrimSpace(lines)),
		"a bad line before":  forgeHour("1", slices.Concat([]byte("[{}]\n"), lines)),
	} {
		if _, err := DecodeHour(bytes.NewReader(forged)); CodeOf(err) != BadParse {
			t.Errorf("%s: %v, want %s", name, err, BadParse)
		}
	}
}
