package booking

import (
	"testing"

	"github.com/tailscale/hujson"
)

// wellFormed holds our reader against one that was written elsewhere: what it
// calls well-formed has to be, and the other way round.
func wellFormed(t *testing.T, r *reading) {
	t.Helper()
	if r.src == nil || r.src.skipped > 0 || r.root == nil {
		return
	}
	_, err := hujson.Parse([]byte(r.src.text + "\n"))
	if (err == nil) != (r.syntax == 0) {
		t.Errorf("hujson says %v, and we found %d mistakes in %q:\n%s", err, r.syntax, r.src.text, problems(r.cal.Problems))
	}
}
