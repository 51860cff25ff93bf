package machine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"gpuboard/internal/failure"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
)

// What a version leaves on disk, the next one finds. The archive in testdata is
// what the first release leaves, written by
// "go test ./internal/cli -run TestLeftByAnEarlierVersion -freeze". Until that release it
// is written anew when one of these files changes, and never after it: a later
// version that changes one adds an archive of its own, and goes on reading this
// one.
const frozenSite = "testdata/frozen/1-site.tar.gz"

var freeze = flag.Bool("freeze", false, "write "+frozenSite+", which must not be there")

// frozenAt is when the frozen site was left alone.
var frozenAt = time.Date(2026, 11, 20, 10, 42, 0, 0, time.UTC)

// The frozen configuration. A hook writes down what it hears; another refuses
// until there is a file.
const frozenConfig = `data: %[1]s/data
site: %[1]s/site
state: %[1]s/state
spool: %[1]s/spool
to: file://%[1]s/data
host: gpu01
nvidia_smi: %[1]s/nvidia-smi
timezone: Europe/Paris
hosts: [gpu01, gpu02]
public_out: %[1]s/public
public_users: hash
consul:
  enabled: true
notify:
  - name: heard
    command: [sh, -c, "cat >>%[1]s/heard"]
    per_minute: 60
  - name: later
    command: [sh, -c, "test -e %[1]s/mended && cat >>%[1]s/late"]
    per_minute: 60
`

// live spends an hour with a node, a web host, Consul and people.
func live(b *bed) {
	consul := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/health/service/") {
			_, _ = io.WriteString(w,
				`[{"Node": {"Node": "pluto", "Address": "192.0.2.7", "Datacenter": "dc1"}, "Service": {"ID": "gpuboard", "Service": "gpuboard", "Meta": {"host": "pluto"}}, "Checks": []}]`)
			return
		}
		_, _ = io.WriteString(w, "[]")
	}))
	defer consul.Close()
	b.t.Setenv("CONSUL_HTTP_ADDR", consul.URL)
	b.must(os.Mkdir(b.path("data"), 0o755))
	for _, clock := range []string{"09:58:00", "09:59:00", "10:41:28"} {
		b.reads(clock)
	}
	b.do("publish", "--config", b.path("gpuboard.yml"))
	b.write("data/aliases.csv", "bobby,bob\n")
	b.write("data/comments.json", `{
  // kept as people write it
  "gpu01": {
    "0": [{"name": "bob", "date": "2026-09-01", "comment": "over"}, {"name": "ada", "date": "2099-01-01", "comment": "long"}],
  },
}
`)
	b.do("bookings", "--prune", "--config", b.path("gpuboard.yml"))
	b.at("10:41:29")
	b.run("generate", "--config", b.path("gpuboard.yml"))
	b.reads("10:41:40") // this one has not been pushed
	b.do("book", "gpu01:1", "--for", "2h", "--name", "eva", "--config", b.path("gpuboard.yml"))
	b.at("10:41:50")
	b.run("generate", "--config", b.path("gpuboard.yml"))
}

// reads has a node take a snapshot: the frozen one, of a machine that does not
// exist, as if it were gpu01's and taken then.
func (b *bed) reads(clock string) {
	b.at(clock)
	f, err := os.Open("../../snapshot/testdata/frozen/1-latest.json.gz")
	b.must(err)
	defer f.Close()
	bundle, err := snapshot.DecodeBundle(f)
	b.must(err)
	snap := bundle.Snapshot
	snap.Host, snap.CollectedAt = "gpu01", snapshot.Time{Time: b.now()}
	snap.Seq = uint64(b.now().Unix())
	s, err := spool.Open(b.path("spool"))
	b.must(err)
	b.must(s.Lock())
	b.must(s.Add(snap))
	b.must(s.Close())
}

// at sets the bed's clock to a time of the frozen day.
func (b *bed) at(clock string) {
	now, err := time.Parse(time.TimeOnly, clock)
	b.must(err)
	midnight := frozenAt.Truncate(24 * time.Hour)
	b.now = func() time.Time { return midnight.Add(now.Sub(now.Truncate(24 * time.Hour))) }
}

// left is a bed with what the earlier version left.
func left(t *testing.T) *bed {
	b := newBed(t)
	f, err := os.Open(frozenSite)
	b.must(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	b.must(err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		b.must(err)
		data, err := io.ReadAll(r)
		b.must(err)
		if strings.HasPrefix(filepath.Base(h.Name), ".delivered-") {
			continue // is named for where this directory was; all is pushed again
		}
		b.write(h.Name, string(data))
		if h.Name == "spool" || strings.HasPrefix(h.Name, "spool/") {
			b.must(os.Chmod(b.path("spool"), 0o700))
		}
	}
	b.write("gpuboard.yml", fmt.Sprintf(frozenConfig, b.dir))
	b.t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1") // is away
	return b
}

// pack writes what a life left, without what can be made again.
func pack(b *bed) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	b.must(filepath.WalkDir(b.dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(b.dir, path)
		top, _, _ := strings.Cut(name, "/")
		if err != nil || entry.IsDir() || !slices.Contains([]string{"data", "state", "spool", "heard", "public"}, top) {
			return err
		}
		if strings.HasSuffix(name, "-shm") || top == "public" && name != "public/api/v1/bookings.json" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: frozenAt})
		}
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}))
	b.must(w.Close())
	b.must(z.Close())
	b.must(os.MkdirAll(filepath.Dir(frozenSite), 0o755))
	f, err := os.OpenFile(frozenSite, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	b.must(err)
	_, err = f.Write(out.Bytes())
	b.must(errors.Join(err, f.Close()))
}

var hashed = regexp.MustCompile(`"name":\s*"([^"]+)"`)

func TestLeftByAnEarlierVersion(t *testing.T) {
	if *freeze {
		b := newBed(t)
		b.write("gpuboard.yml", fmt.Sprintf(frozenConfig, b.dir))
		live(b)
		pack(b)
		return
	}
	for _, test := range []struct {
		name  string
		spoil func(b *bed)
	}{
		{"as it was", func(*bed) {}},
		// Who goes back finds what the newer one has added to the same schema.
		{"with fields of tomorrow", func(b *bed) {
			n := 0
			b.must(filepath.WalkDir(b.path("state"), func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" ||
					entry.Name() == "comments.last-good.json" {
					return err
				}
				text := readText(b.t, path)
				more := strings.Replace(text, "{", `{"of_tomorrow":{"a":[1,2]},`, 1)
				if more != text {
					n++
				}
				return os.WriteFile(path, []byte(more), 0o600)
			}))
			if n < 5 {
				b.t.Fatalf("only %d files were given a field", n)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := left(t)
			test.spoil(b)
			goesOn(t, b)
		})
	}
}

// goesOn is the first hour of this version.
func goesOn(t *testing.T, b *bed) {
	config := []string{"--config", b.path("gpuboard.yml")}
	run := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := b.run(append(args, config...)...)
		if code != want {
			t.Fatalf("%v: exit %d\n%s%s", args, code, out, errs)
		}
		return errs
	}
	heard := readText(t, b.path("heard"))
	if !strings.Contains(heard, "booking-start") {
		t.Fatalf("the frozen hook heard\n%s", heard)
	}
	names := hashed.FindAllString(readText(t, b.path("public/api/v1/bookings.json")), -1)
	b.must(os.RemoveAll(b.path("public")))
	b.write("mended", "")

	// The web host is upgraded first, and Consul is away. The last news is not
	// stale yet, and it is time to try the hook again.
	b.at("10:42:25")
	if errs := run(failure.ExitDegraded, "generate"); strings.Count(errs, "\n") != 1 ||
		!strings.Contains(errs, "[discovery:unreachable]") {
		t.Errorf("the first generation says\n%s", errs)
	}
	board := readText(t, b.path("site/api/v1/board.json"))
	for _, want := range []string{`"pluto"`, `"gpu02"`, `"eva"`, `"ada"`} {
		if !strings.Contains(board, want) {
			t.Errorf("the board does not know %s any more", want)
		}
	}
	if now := readText(t, b.path("heard")); now != heard {
		t.Errorf("a hook hears again, or what is not so:\n%s", strings.TrimPrefix(now, heard))
	}
	if late := readText(t, b.path("late")); !strings.Contains(late, "booking-start") {
		t.Errorf("what waited for a hook has not come:\n%s", late)
	}
	if now := hashed.FindAllString(readText(t, b.path("public/api/v1/bookings.json")), -1); !slices.Equal(now, names) ||
		len(names) < 2 {
		t.Errorf("people are called %q on the public site, and were called %q", now, names)
	}

	// The node follows: what it had not pushed comes, and the hour is sealed.
	run(failure.ExitOK, "publish")
	b.at("11:00:10")
	run(failure.ExitOK, "collect")
	run(failure.ExitOK, "publish")
	hours, err := filepath.Glob(b.path("data/drop/gpu01/hour-*.jsonl.gz"))
	if err != nil || len(hours) != 2 {
		t.Errorf("the drop holds the hours %v, %v", hours, err)
	}
	run(failure.ExitDegraded, "generate")
	store, err := history.Open(t.Context(), b.path("state/history.db"), b.now(), history.Options{})
	b.must(err)
	defer store.Close()
	oldest, _, err := store.Known(t.Context())
	if want := frozenAt.Truncate(24 * time.Hour).Add(9*time.Hour + 58*time.Minute); err != nil || oldest.After(want) {
		t.Errorf("history begins at %v, %v, want %v", oldest, err, want)
	}
	if aside, _ := filepath.Glob(b.path("state/*corrupt*")); len(aside) > 0 {
		t.Errorf("set aside: %v", aside)
	}

	// What people wrote: the archive goes on, and what was last good stands in.
	archive := b.path("data/comments.archive.json")
	before := readText(t, archive)
	b.now = func() time.Time { return frozenAt.AddDate(0, 2, 0) }
	run(failure.ExitOK, "bookings", "--prune")
	after := readText(t, archive)
	if !strings.Contains(before, "bob") || !strings.Contains(after, "bob") || !strings.Contains(after, "eva") {
		t.Errorf("the archive was\n%s\nand is\n%s", before, after)
	}
	b.at("11:01:00")
	b.write("data/comments.json", "{ broken")
	run(failure.ExitDegraded, "generate")
	if board := readText(t, b.path("site/api/v1/board.json")); !strings.Contains(board, `"ada"`) {
		t.Error("a broken comments.json takes the bookings away")
	}
}

// TestLeftByALaterVersion: a history of another schema is left as it is, and the
// site goes on without.
func TestLeftByALaterVersion(t *testing.T) {
	b := left(t)
	path := b.path("state/history.db")
	pragma := func(text string) (version int) {
		db, err := sql.Open("sqlite", path)
		b.must(err)
		defer db.Close()
		b.must(db.QueryRow("pragma user_version" + text + "; pragma user_version").Scan(&version))
		return version
	}
	if got := pragma(" = 99"); got != 99 {
		t.Fatal(got)
	}
	b.at("10:43:00")
	out, errs, code := b.run("generate", "--config", b.path("gpuboard.yml"))
	if code != failure.ExitDegraded || !strings.Contains(errs, "newer gpuboard") ||
		!strings.Contains(errs, "[history:") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if board := readText(t, b.path("site/api/v1/board.json")); !strings.Contains(board, `"eva"`) {
		t.Error("there is no board")
	}
	if got := pragma(""); got != 99 {
		t.Errorf("it made version %d of it", got)
	}
}
