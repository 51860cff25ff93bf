package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuboard/internal/testenv/faulttest"
	"gpuboard/internal/testenv/webtest"
)

// TestNoTornReads reads the site through nginx while it is generated anew, and
// wants every answer to be whole. A writer that replaces files in place has to
// fail the same check, or the check proves nothing.
func TestNoTornReads(t *testing.T) {
	s := newWebSite(t)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	w := webtest.Start(t, "nginx", webtest.Options{Deploy: "deploy", Site: s.dir, Path: "/gpu"})
	generation := 0
	enough := 2500
	if faulttest.All() {
		enough = 100_000
	}
	whole := readWhile(w.URL, enough, func() error {
		generation++
		return s.generate(webStart.Add(time.Duration(generation) * 5 * time.Second))
	})
	if whole.err != nil {
		t.Fatal(whole.err)
	}
	t.Logf("%d reads (%d packed) during %d generations: %d bad", whole.reads, whole.packed, whole.rounds,
		len(whole.bad))
	for i, bad := range whole.bad {
		if i < 5 {
			t.Errorf("a read was %s", bad)
		}
	}
	if whole.packed < whole.reads/4 || whole.rounds < 10 {
		t.Errorf("only %d of %d reads were packed, and there were %d generations", whole.packed, whole.reads,
			whole.rounds)
	}

	torn := readWhile(w.URL, 2500, func() error {
		for _, name := range tornFiles {
			for _, name := range []string{name, name + ".gz"} {
				path := filepath.Join(s.dir, filepath.FromSlash(name))
				data, err := os.ReadFile(path)
				if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(name, ".gz") {
					continue // too short for a twin
				}
				if err != nil {
					return err
				}
				// In two writes, as a template that is executed into its file would.
				f, err := os.Create(path)
				if err != nil {
					return err
				}
				for _, part := range [][]byte{data[:len(data)/2], data[len(data)/2:]} {
					if _, err := f.Write(part); err != nil {
						return err
					}
				}
				if err := f.Close(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if torn.err != nil {
		t.Fatal(torn.err)
	}
	t.Logf("written in place: %d of %d reads bad", len(torn.bad), torn.reads)
	if len(torn.bad) == 0 {
		t.Errorf("a writer in place passed %d reads: the check cannot see a torn file", torn.reads)
	}
}

// tornFiles are what the readers ask for, and how each of them ends.
var tornFiles = []string{"index.html", "hosts/atlas/index.html", "status.txt", "api/v1/board.json", "health.json",
	"states/index.json", "metrics.txt"}

// watched is what readers saw.
type watched struct {
	reads, packed, rounds int
	bad                   []string
	err                   error
}

// readWhile lets two readers read until they have made enough reads and write has
// been called ten times.
func readWhile(url string, enough int, write func() error) watched {
	most := max(100_000, 2*enough) // a bound for a machine on which writing hardly ever ends
	var sum watched
	var mu sync.Mutex
	var readers sync.WaitGroup
	stop := make(chan struct{})
	reached := make(chan struct{})
	for reader := range 2 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := tornFiles[(i+3*reader)%len(tornFiles)]
				encoding := []string{"gzip", "gzip", "identity"}[i%3]
				a, err := ask(url+name, "Accept-Encoding", encoding)
				why := ""
				switch {
				case err != nil:
					why = err.Error()
				case a.code != http.StatusOK:
					why = http.StatusText(a.code)
				case strings.HasSuffix(name, ".json") && !json.Valid([]byte(a.body)):
					why = "not JSON"
				case strings.HasSuffix(name, ".html") &&
					(!strings.HasPrefix(a.body, "<!doctype html>") ||
						!strings.HasSuffix(strings.TrimSpace(a.body), "</html>")):
					why = "not a page"
				case strings.HasSuffix(name, ".txt") && (a.body == "" || !strings.HasSuffix(a.body, "\n")):
					why = "not a text"
				}
				mu.Lock()
				sum.reads++
				if a.packed {
					sum.packed++
				}
				if why != "" {
					sum.bad = append(sum.bad, fmt.Sprintf("%s (%s, %d bytes): %s", name, encoding, len(a.body), why))
				}
				if sum.reads == enough {
					close(reached)
				}
				full := sum.reads >= most
				mu.Unlock()
				if full {
					return
				}
			}
		})
	}
	rounds := 0
	var err error
	for done := false; err == nil && !(done && rounds >= 10); rounds++ {
		err = write()
		select {
		case <-reached:
			done = true
		default:
		}
	}
	close(stop)
	readers.Wait()
	sum.rounds, sum.err = rounds, err
	return sum
}
