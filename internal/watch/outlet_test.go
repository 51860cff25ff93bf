package watch

import (
	"bytes"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/demo"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spool"
	"gpuboard/internal/testenv/s3test"
	"gpuboard/internal/testenv/sitetest"
	"gpuboard/publisher"
)

// elsewhere are the settings of a web host whose site or drops are in a bucket.
func elsewhere(t *testing.T, dir string, settings map[string]string) *config.Config {
	t.Helper()
	env := map[string]string{
		"GPUBOARD_DATA": filepath.Join(dir, "data"), "GPUBOARD_SITE": filepath.Join(dir, "site"),
		"GPUBOARD_STATE": filepath.Join(dir, "state"), "GPUBOARD_NO_HELP": "true", "GPUBOARD_NO_HISTORY": "true",
	}
	for name, value := range settings {
		env[name] = value
	}
	if err := os.MkdirAll(filepath.Join(dir, "data", "drop"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{Getenv: func(name string) string { return env[name] }})
	check(t, err)
	cfg.Once = true
	return cfg
}

// once makes a generation as a process of its own, and returns the codes of its problems.
func once(t *testing.T, cfg *config.Config, now time.Time) (codes []string) {
	t.Helper()
	g, err := NewGenerator(cfg, "", func() time.Time { return now }, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := g.Generate(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	last, err := g.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(report.Board.Problems, last...) {
		codes = append(codes, p.Code)
	}
	return codes
}

// TestACopyThatFails: the board says it until a copy has reached its end, which goes on where the last one ended.
func TestACopyThatFails(t *testing.T) {
	store := s3test.Start(t, "gpus")
	cfg := elsewhere(t, t.TempDir(), map[string]string{"GPUBOARD_PUBLISH_TO": "s3://gpus/lab"})
	store.Fault(func(int, *http.Request) int { return http.StatusForbidden })
	now := sitetest.Now
	if codes := once(t, cfg, now); !slices.Contains(codes, "site:unpublished") {
		t.Errorf("problems %q", codes)
	}
	store.Fault(nil)
	if codes := once(t, cfg, now.Add(time.Minute)); !slices.Contains(codes, "site:unpublished") ||
		len(store.Names()) > 0 {
		t.Errorf("a minute later: problems %q, objects %q", codes, store.Names())
	}
	if codes := once(t, cfg, now.Add(6*time.Minute)); len(codes) != 1 ||
		!slices.Contains(store.Names(), "lab/index.html") {
		t.Errorf("six minutes later: problems %q, objects %q", codes, store.Names())
	}
	page, err := os.ReadFile(filepath.Join(cfg.String("site"), "index.html"))
	if err != nil || !strings.Contains(string(page), `data-interval="300"`) {
		t.Errorf("the page goes by another interval: %v", err)
	}
	if codes := once(t, cfg, now.Add(7*time.Minute)); len(codes) > 0 {
		t.Errorf("after a copy that reached its end: %q", codes)
	}
}

// TestDropsOfABucket: what nodes push into a bucket is on the board, a finished hour is taken out of it, and what is
// wrong with one host keeps no other's away.
func TestDropsOfABucket(t *testing.T) {
	store := s3test.Start(t, "gpus")
	cfg := elsewhere(t, t.TempDir(), map[string]string{"GPUBOARD_DROPS": "s3://gpus/drops"})
	start := sitetest.Now.Truncate(time.Hour).Add(50 * time.Minute)
	fleet := demo.NewLarge(1, start, 2)
	hosts := fleet.Hosts()
	first, second := hosts[0].Name, hosts[1].Name
	spools := map[string]*spool.Spool{}
	push := func(host string, at time.Time) {
		t.Helper()
		target, err := publisher.ParseTarget("s3://gpus/drops/" + host)
		check(t, err)
		p, err := publisher.New(publisher.Options{Target: target, Host: host})
		check(t, err)
		defer p.Close()
		s := spools[host]
		if s == nil {
			s, err = spool.Open(filepath.Join(cfg.String("state"), "spool", host))
			check(t, err)
			spools[host] = s
		}
		check(t, s.Add(fleet.Snapshot(host, at)))
		_, err = p.Publish(t.Context(), s)
		check(t, err)
	}
	push(first, start)
	store.Put("drops/"+second+"/latest.json.gz", strings.Repeat("x", snapshot.MaxFileBytes+1))
	store.Put("drops/../etc/latest.json.gz", "a name that no host has")
	store.Put("drops/"+first+"/notes.txt", "a file that no node sends")
	if codes := once(t, cfg, start); !slices.Equal(codes, []string{"store:failed"}) {
		t.Errorf("problems %q", codes)
	}
	drop := filepath.Join(cfg.String("data"), "drop")
	latest := filepath.Join(drop, first, "latest.json.gz")
	before, err := os.ReadFile(latest)
	check(t, err)
	push(first, start.Add(20*time.Minute)) // and with it the hour that has ended
	if hours := hoursIn(store.Names()); hours != 1 {
		t.Fatalf("the bucket has %d finished hours: %q", hours, store.Names())
	}
	store.Requests()
	once(t, cfg, start.Add(20*time.Minute))
	after, err := os.ReadFile(latest)
	check(t, err)
	if bytes.Equal(before, after) {
		t.Error("the newer snapshot was not fetched")
	}
	if files, _ := filepath.Glob(filepath.Join(drop, first, "*")); len(files) != 2 || hoursIn(store.Names()) != 0 {
		t.Errorf("the drop has %q, the bucket %q", files, store.Names())
	}
	if others, _ := filepath.Glob(filepath.Join(drop, "*")); len(others) != 1 {
		t.Errorf("drops: %q", others)
	}
}

func hoursIn(names []string) (n int) {
	for _, name := range names {
		if _, _, hour := spool.HourOf(path.Base(name)); hour {
			n++
		}
	}
	return n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
