package watch

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/booking"
	"gpuboard/internal/failure"
	"gpuboard/internal/inventory"
)

// Edits above a mistake move its line. It is logged once all the same, and another one at the same time
// is logged, too.
func TestAMistakeThatMovesIsLoggedOnce(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	l := &loop{log: failure.NewLog(&out, time.Now), problems: map[string]bool{}}
	generate := func(comments string) {
		cal := booking.Parse("comments.json", []byte(comments), booking.Zone{Location: time.UTC},
			booking.Options{Now: now})
		b, _ := board.Merge(board.Input{Now: now, Hosts: []inventory.Host{{Name: "gpu01"}}, Calendar: cal})
		l.logProblems(b)
	}
	stray := `"gpu09": { "0": { "name": "eve", "date": "2026-12-01" } }`
	clash := `"gpu01": { "0": [
		{ "name": "bob", "date": "2026-12-01" },
		{ "name": "kai", "date": "2026-12-01" } ] }`
	for i := range 34 {
		generate(fmt.Sprintf("{\n%s%s,\n%s%s\n}", strings.Repeat("\n", i), clash, strings.Repeat(" ", i), stray))
	}
	for _, code := range []string{"[booking:unknown-host]", "[booking:overlap]"} {
		if n := strings.Count(out.String(), code); n != 1 {
			t.Errorf("%s is logged %d times:\n%s", code, n, out.String())
		}
	}

	generate(
		"{\n" + stray +
			`, "gpu08": { "0": { "name": "bob" } }, "gpu01": { "0": { "nane": "x", "date": "2026-12-01" } } }`)
	for _, another := range []string{`books the host "gpu08"`, "[booking:field]"} {
		if n := strings.Count(out.String(), another); n != 1 {
			t.Errorf("%s is logged %d times:\n%s", another, n, out.String())
		}
	}
	if strings.Count(out.String(), `"gpu09"`) != 1 {
		t.Errorf("logged again: %s", out.String())
	}
}
