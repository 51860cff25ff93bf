package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/testenv/faulttest"
)

// TestHistorySurvivesAFailedRead: a disk that fails to read once costs a look at
// the past and not the past. At each system call that reads the history one
// generation fails to; the next one shows all of it.
func TestHistorySurvivesAFailedRead(t *testing.T) {
	t.Parallel() // beside those that mostly wait
	faulttest.Require(t)
	report := faulttest.Everywhere(t, 2, func(dir string) faulttest.Scene {
		s := generation(t, dir)
		s.Reads = true
		s.Choose = func(c faulttest.Call) bool {
			return !c.Changes && strings.Contains(c.On, dir+"/") && strings.Contains(filepath.Base(c.On), "history.db")
		}
		check := s.Check
		s.Check = func(t testing.TB, r faulttest.Run) {
			if aside, _ := filepath.Glob(filepath.Join(dir, "state", "history.db.corrupt-*")); len(aside) > 0 {
				t.Errorf("%s: the history was given up: %v: %s", r, aside, r.Said)
			}
			if _, err := os.Stat(filepath.Join(dir, "state", "history.db")); err != nil {
				t.Errorf("%s: %v", r, err)
			}
			check(t, r)
		}
		return s
	}, faulttest.Broken)
	if report.Calls < 10 {
		t.Errorf("only %d calls: that is no history", report.Calls)
	}
}

// TestGenerateAtEveryRead lets each system call fail by which a generation reads
// what goes into it, but its history. What it reads of the site, to find what is
// the same already, is read by several hands in an order that is never the same.
func TestGenerateAtEveryRead(t *testing.T) {
	t.Parallel()
	faulttest.Require(t)
	faulttest.Everywhere(t, 2, func(dir string) faulttest.Scene {
		s := generation(t, dir)
		s.Reads, s.Env = true, []string{"GOMAXPROCS=1"}
		s.Choose = func(c faulttest.Call) bool {
			return below(dir, false)(c) && !strings.Contains(filepath.Base(c.On), "history.db") &&
				!strings.Contains(c.On, dir+"/site/")
		}
		return s
	}, faulttest.Broken)
}
