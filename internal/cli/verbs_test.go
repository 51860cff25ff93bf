package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestAVerbIsMadeByItsName: a run makes the one command that stands first, so
// the list has to have each under the name by which cobra knows it.
func TestAVerbIsMadeByItsName(t *testing.T) {
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, now: time.Now, getenv: func(string) string { return "" }}
	seen := map[string]bool{}
	for _, v := range a.commands() {
		c := v.make()
		if c.Name() != v.name || seen[v.name] {
			t.Errorf("the list calls %q what is %q (seen before: %v)", v.name, c.Name(), seen[v.name])
		}
		seen[v.name] = true
		a.args = []string{v.name, "--help"}
		if got := a.wanted(); len(got) != 1 || got[0]().Name() != v.name {
			t.Errorf("%s makes %d commands", v.name, len(got))
		}
	}
	for _, args := range [][]string{nil, {"--config", "collect"}, {"help", "collect"}, {"colect"}, {"__complete", "col"}} {
		a.args = args
		if got := a.wanted(); len(got) != len(seen) {
			t.Errorf("%q makes %d of %d commands", args, len(got), len(seen))
		}
	}
}
