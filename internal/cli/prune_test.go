package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/booking"
)

// Whenever pruning is killed, each booking is in the file or in the archive,
// both are whole, and the next run ends what was begun.
func TestPruneKilledAtAnyMoment(t *testing.T) {
	const old = 40
	dir := t.TempDir()
	file, archive := filepath.Join(dir, "comments.json"), filepath.Join(dir, "comments.archive.json")
	var text strings.Builder
	text.WriteString("{\n  \"gpu01\": { \"0\": [\n")
	for i := range old {
		fmt.Fprintf(&text, "    { \"name\": \"u\", \"date\": \"2020-01-%02d\", \"comment\": \"c%d\" },\n", i%28+1, i)
	}
	text.WriteString("    { \"name\": \"u\", \"comment\": \"stays\" }\n  ] }\n}\n")

	inFile := func() map[string]int {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cal := booking.Parse(file, data, time.UTC, booking.Options{})
		if cal.Broken {
			t.Fatalf("the file is broken: %v", cal.Problems)
		}
		have := map[string]int{}
		for _, b := range cal.Bookings {
			have[b.Comment]++
		}
		return have
	}
	inArchive := func() map[string]int {
		have := map[string]int{}
		data, err := os.ReadFile(archive)
		if errors.Is(err, fs.ErrNotExist) {
			return have
		}
		for line := range strings.Lines(string(data)) {
			var b struct{ Comment string }
			if err := json.Unmarshal([]byte(line), &b); err != nil || !strings.HasSuffix(line, "\n") {
				t.Fatalf("the archive is broken at %q: %v", line, err)
			}
			have[b.Comment]++
		}
		return have
	}
	prune := func() *exec.Cmd {
		cmd := exec.Command("gpuboard", "bookings", "--prune", "--comments", file)
		cmd.Env = append(os.Environ(), "GPUBOARD_TIMEZONE=UTC", "GPUBOARD_CONFIG=", "GPUBOARD_SITE="+dir, "GPUBOARD_DATA="+dir)
		return cmd
	}
	between := 0
	for i := range 6 {
		if err := errors.Join(os.WriteFile(file, []byte(text.String()), 0o644), os.RemoveAll(archive)); err != nil {
			t.Fatal(err)
		}
		cmd := prune()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(12+10*i) * time.Millisecond) // the moment of the kill is what is tried
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		have, moved := inFile(), inArchive()
		for n := range old {
			c := fmt.Sprintf("c%d", n)
			if have[c]+moved[c] == 0 || have[c] > 1 || moved[c] > 1 {
				t.Fatalf("killed at %d: %s is %d times in the file and %d times in the archive", i, c, have[c], moved[c])
			}
		}
		if len(moved) > 0 && len(have) > 1 {
			between++
		}
		if out, err := prune().CombinedOutput(); err != nil {
			t.Fatalf("afterwards: %v\n%s", err, out)
		}
		have, moved = inFile(), inArchive()
		if len(have) != 1 || have["stays"] != 1 || len(moved) != old {
			t.Fatalf("afterwards: %d in the file, %d in the archive", len(have), len(moved))
		}
		for c, n := range moved {
			if n != 1 {
				t.Fatalf("afterwards %s is %d times in the archive", c, n)
			}
		}
	}
	t.Logf("killed between the two files %d times", between)
}
