package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"name", "name", 0}, {"nam", "name", 1}, {"nmae", "name", 1},
		{"data", "date", 1}, {"gpu1", "gpu01", 1}, {"interval", "intervall", 1}, {"abc", "xyz", 3},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := Distance(tt.b, tt.a); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
	if got := Distance(strings.Repeat("a", 100_000), "a"); got < maxBytes {
		t.Errorf("a very long word is %d away", got)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"name", "date", "from", "kind"}
	for word, want := range map[string]string{"naem": "name", "data": "date", "form": "from", "zzzz": "", "": "",
		"dates!!": ""} {
		if got := Nearest(word, known, 2); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := DidYouMean("fron", known); got != `; did you mean "from"?` {
		t.Errorf("fron: %q", got)
	}
	if got := DidYouMean("zzzz", known); got != "" {
		t.Errorf("zzzz: %q", got)
	}
}
