package publisher_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuboard/publisher"
)

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]publisher.Target{
		"sftp://u@web:2222/in":        {Scheme: "sftp", User: "u", Host: "web", Port: 2222, Dir: "/in"},
		"sftp://web":                  {Scheme: "sftp", Host: "web"},
		"sftp://web/":                 {Scheme: "sftp", Host: "web"},
		"sftp://web/~/drop/x":         {Scheme: "sftp", Host: "web", Dir: "drop/x"},
		"sftp://web/~":                {Scheme: "sftp", Host: "web"},
		"sftp://web/~/":               {Scheme: "sftp", Host: "web"},
		"sftp://web/~/.":              {Scheme: "sftp", Host: "web"},
		"sftp://web/..":               {Scheme: "sftp", Host: "web"},
		"sftp://web:1":                {Scheme: "sftp", Host: "web", Port: 1},
		"sftp://web:65535":            {Scheme: "sftp", Host: "web", Port: 65535},
		"sftp://web/~/../x":           {Scheme: "sftp", Host: "web", Dir: "../x"},
		"sftp://my_alias/a//b/../c":   {Scheme: "sftp", Host: "my_alias", Dir: "/a/c"},
		"sftp://[::1]:2222/in":        {Scheme: "sftp", Host: "::1", Port: 2222, Dir: "/in"},
		"sftp://web/with%20space":     {Scheme: "sftp", Host: "web", Dir: "/with space"},
		"file:///srv/data":            {Scheme: "file", Dir: "/srv/data"},
		"file://localhost/srv/data/":  {Scheme: "file", Dir: "/srv/data"},
		"file:///srv/with%20space/x/": {Scheme: "file", Dir: "/srv/with space/x"},
	} {
		got, err := publisher.ParseTarget(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
	if _, err := publisher.ParseTarget("file:///" + strings.Repeat("x", 2048-len("file:///"))); err != nil {
		t.Errorf("2048 bytes: %v", err)
	}
	for in, hint := range map[string]string{
		"file:///" + strings.Repeat("x", 2049-len("file:///")): "sftp://",
		"":                           "sftp://",
		"/srv/data":                  "file:///srv/data",
		"u@web:/in":                  "sftp://u@web/in",
		"web:in":                     "sftp://web/in",
		"web":                        "sftp://web/",
		":in":                        "file:///dir",
		"sftp:web/in":                "sftp://web/in",
		"sftp:/web/in":               "sftp://web/in",
		"s3:/bucket/in":              "write s3://bucket/in",
		"s3:bucket":                  "write s3://bucket",
		"file:/srv/data":             "write file:///srv/data",
		"sftp://[fe80::1%25eth0]/in": "brackets",
		"web:2":                      "sftp://web:2/",
		"web:/2":                     "sftp://web/2",
		"http://web/in":              "sftp://",
		"ssh://web/in":               "sftp://",
		"sftp:///in":                 "sftp://",
		"sftp://u:secret@web/in":     "key",
		"sftp://web:0/in":            "sftp://",
		"sftp://web:65536/in":        "sftp://",
		"sftp://web:/in":             "sftp://",
		"sftp://web/in?x=1":          "sftp://",
		"sftp://web/in#x":            "sftp://",
		"sftp://-oProxyCommand=x/in": "sftp://",
		"sftp://-l@web/in":           "sftp://",
		"sftp://@web/in":             "sftp://",
		"sftp://a%20b@web/in":        "sftp://",
		"file://u@/in":               "file:///in",
		"sftp:///":                   "sftp://",
		"sftp://web/a%0ab":           "sftp://",
		"sftp://web/\x1b[2J":         "sftp://",
		"sftp://::1/in":              "brackets",
		"sftp://[:]:1/in":            "sftp://",
		"sftp://w%24(id)/in":         "sftp://",
		"file://srv/data":            "file:///srv/data",
		"file://":                    "file:///dir",
		"sftp://web/" + strings.Repeat("x", 4096): "sftp://",
	} {
		_, err := publisher.ParseTarget(in)
		var e *publisher.Error
		if !errors.As(err, &e) || e.Code != publisher.CodeTarget || e.Temporary() ||
			!strings.Contains(e.Hint()+e.Error(), hint) {
			t.Errorf("%q: got %v", in, err)
			continue
		}
		if strings.Contains(e.Error(), "\x1b") || strings.ContainsRune(e.Error(), '\n') {
			t.Errorf("%q: the message carries control characters: %q", in, e.Error())
		}
		if len(e.Error()) > 300 {
			t.Errorf("%q: the message has %d bytes", in, len(e.Error()))
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"sftp://u@web:2222/in", "file:///x", "sftp://[::1]/~/x", "sftp://a%2fb/x", "u@h:/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := publisher.ParseTarget(s)
		if err != nil {
			if publisher.Code(err) != publisher.CodeTarget {
				t.Errorf("%q: error without its code: %v", s, err)
			}
			return
		}
		if strings.HasPrefix(target.Host, "-") || strings.HasPrefix(target.User, "-") ||
			strings.ContainsAny(target.Host+target.User+target.Dir, "\x00\n\r") {
			t.Errorf("%q: %+v", s, target)
		}
		again, err := publisher.ParseTarget(target.String())
		if err != nil || again != target {
			t.Errorf("%q: %+v is written %q and read back as %+v, %v", s, target, target.String(), again, err)
		}
	})
}

func TestStaggerOffsetIsEvenAndStable(t *testing.T) {
	const hosts, buckets, interval = 1000, 60, time.Minute
	var count [buckets]int
	for n := range hosts {
		name := "gpu" + string(rune('a'+n%26)) + "-" + strings.Repeat("0", n%3) + time.Duration(n).String()
		p := publisher.StaggerOffset(name, interval)
		if p < 0 || p >= interval || p != publisher.StaggerOffset(name, interval) {
			t.Fatalf("%s: %v", name, p)
		}
		count[p*buckets/interval]++
	}
	chi, most := 0.0, 0
	for _, n := range count {
		d := float64(n) - hosts/float64(buckets)
		chi += d * d / (hosts / float64(buckets))
		most = max(most, n)
	}
	// 59 degrees of freedom: 87.2 is exceeded by chance once in a hundred.
	if chi > 87.2 || most > 40 {
		t.Errorf("chi-square %.1f, fullest second %d", chi, most)
	}
	// A new version must not move all hosts at once.
	if got := publisher.StaggerOffset("gpu01", time.Minute); got != staggerOfGPU01 {
		t.Errorf("offset of gpu01 = %d, want %d", got, staggerOfGPU01)
	}
}

func TestUntilPushKeepsToTheOffset(t *testing.T) {
	const interval = 20 * time.Second
	offset := publisher.StaggerOffset("gpu01", interval)
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for range 100 {
		wait := publisher.UntilPush("gpu01", interval, at)
		if wait <= 0 || wait > interval {
			t.Fatalf("at %v: wait %v", at, wait)
		}
		next := at.Add(wait)
		if d := time.Duration(next.UnixNano()) % interval; d != offset {
			t.Fatalf("next at %v, %v after a multiple of the interval, want %v", next, d, offset)
		}
		at = next.Add(3*time.Second + time.Millisecond)
	}
}

const staggerOfGPU01 = 50069888602 * time.Nanosecond
