package need

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// witness is a test that notes how it ends.
type witness struct {
	testing.TB
	ended string
}

func (w *witness) Helper()           {}
func (w *witness) Skip(args ...any)  { w.end("skipped", args) }
func (w *witness) Fatal(args ...any) { w.end("failed", args) }
func (w *witness) end(how string, args []any) {
	w.ended = how + ": " + fmt.Sprint(args...)
	runtime.Goexit()
}

func TestWhatIsMissing(t *testing.T) {
	for name, lacks := range map[string]func(testing.TB){
		"no-such-program is not installed": func(t testing.TB) { Program(t, "no-such-program") },
		"unknown time zone No/Where":       func(t testing.TB) { Zone(t, "No/Where") },
		"the moon":                         func(t testing.TB) { Skip(t, "the moon") },
	} {
		for required, want := range map[string]string{"": "skipped: ", "0": "skipped: ", "1": "failed: "} {
			t.Setenv("GPUBOARD_REQUIRE_ALL", required)
			w := &witness{}
			done := make(chan struct{})
			go func() {
				defer close(done)
				lacks(w)
			}()
			<-done
			if !strings.HasPrefix(w.ended, want+name) {
				t.Errorf("with %q the test that needs it ends so: %q, want %q", required, w.ended, want+name)
			}
		}
	}
}

func TestWhatIsThere(t *testing.T) {
	if path := Program(t, "sh"); !strings.HasSuffix(path, "/sh") {
		t.Errorf("the shell is %q", path)
	}
	if zone := Zone(t, "Asia/Kathmandu"); zone.String() != "Asia/Kathmandu" {
		t.Errorf("the zone is %v", zone)
	}
}
