package booking

import (
	"slices"
	"testing"

	"gpuboard/internal/snapshot"
)

func TestParsePlace(t *testing.T) {
	for arg, want := range map[string]string{
		"gpu01":         "gpu01 *",
		"GPU01":         "gpu01 *",
		"gpu01:0":       "gpu01 0",
		"gpu01:0,3,3":   "gpu01 0 3",
		"gpu01:1-3,0":   "gpu01 1 2 3 0",
		"gpu01:*":       "gpu01 *",
		"a.example:2":   "a.example 2",
		"gpu01: 0 , 1 ": "gpu01 0 1",
		"gpu01:GPU-3F1C7A52-90ab-4cde-8123-456789abcdef": "gpu01 GPU-3f1c7a52-90ab-4cde-8123-456789abcdef",
		"gpu01:GPU-12345678":                             "", // a part of one
		"gpu01:":                                         "",
		"gpu01:0,":                                       "",
		"gpu01:3-1":                                      "",
		"gpu01:0-99999999999":                            "",
		"gpu01:-1":                                       "",
		"gpu01:x":                                        "",
		":0":                                             "",
		"":                                               "",
		"a/b:0":                                          "",
		"gpu01:0:1":                                      "",
	} {
		host, targets, err := ParsePlace(arg)
		got := host
		for _, target := range targets {
			got += " " + target.String()
		}
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", arg, got, err, want)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	for _, s := range []string{"gpu01", "gpu01:0,1", "gpu01:0-3", "gpu01:GPU-1", "a:b:c", "x:0-0-0", "gpu01:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		host, targets, err := ParsePlace(arg)
		if err != nil {
			return
		}
		if again, err := snapshot.ParseHost(host); err != nil || again != host {
			t.Errorf("%q: the host %q is none: %v", arg, host, err)
		}
		if len(targets) == 0 || len(targets) > len(arg)*snapshot.MaxGPUs+1 {
			t.Errorf("%q: %d targets", arg, len(targets))
		}
		seen := map[Target]bool{}
		for _, target := range targets {
			back, hint := ParseTarget(target.String())
			if hint != "" || back != target || seen[target] {
				t.Errorf("%q: the target %q does not read back, or is there twice: %s", arg, target, hint)
			}
			seen[target] = true
		}
	})
}

func TestTargetCovers(t *testing.T) {
	for _, tt := range []struct {
		target Target
		index  int
		uuid   string
		want   bool
	}{
		{Target{All: true, Index: -1}, 3, "GPU-00000001-0000-4000-8000-000000000000", true},
		{Target{UUID: "GPU-00000001-0000-4000-8000-000000000000", Index: -1}, 3, "GPU-00000001-0000-4000-8000-000000000000", true},
		{Target{UUID: "GPU-00000001-0000-4000-8000-000000000000", Index: 3}, 3, "GPU-2", false},
		{Target{Index: 3}, 3, "GPU-00000001-0000-4000-8000-000000000000", true},
		{Target{Index: 3}, 2, "", false},
	} {
		if got := tt.target.Covers(tt.index, tt.uuid); got != tt.want {
			t.Errorf("%v covers %d %s: %v", tt.target, tt.index, tt.uuid, got)
		}
	}
}

func TestPlaces(t *testing.T) {
	b := func(host string, index int) Booking {
		return Booking{Host: host, Target: Target{Index: index}}
	}
	whole := Booking{Host: "c", Target: Target{All: true, Index: -1}}
	for want, list := range map[string][]Booking{
		"":                 nil,
		"a:0":              {b("a", 0)},
		"a:0,1":            {b("a", 0), b("a", 1)},
		"a:0 and b:0":      {b("a", 0), b("b", 0)},
		"a:0,2, b:1 and c": {b("a", 0), b("a", 2), b("b", 1), whole},
		"c and c:1":        {whole, b("c", 1)},
	} {
		if got := Places(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTargetsInOrder(t *testing.T) {
	want := []Target{{All: true}, {Index: 2}, {Index: 10}, {UUID: "GPU-a"}, {UUID: "GPU-b"}}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareTargets)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
