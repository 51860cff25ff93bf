package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/inventory"
	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/webtest"
	"gpuboard/sitegen"
)

var (
	metricType = regexp.MustCompile(`(?m)^# TYPE (\S+) gauge$`)
	metricUse  = regexp.MustCompile(`\bgpuboard_[a-z0-9_]+\b`)
)

// metrics are the names of all metrics that a generated site has.
func (s *webSite) metrics() []string {
	var names []string
	for _, m := range metricType.FindAllStringSubmatch(s.file("metrics.txt"), -1) {
		names = append(names, m[1])
	}
	return names
}

// promtool runs promtool in the directory of the alerts.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	c := exec.Command(need.Program(t, "promtool"), args...)
	c.Dir, c.Stdin = filepath.Join("deploy", "prometheus"), strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusFiles(t *testing.T) {
	t.Parallel()
	s := newWebSite(t)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	promtool(t, s.file("metrics.txt"), "check", "metrics")
	promtool(t, "", "check", "config", "scrape.yml")
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml")
}

// TestAlertsAreDocumented compares the table of alerts with the rules.
func TestAlertsAreDocumented(t *testing.T) {
	names := map[string]string{}
	for file, line := range map[string]string{"deploy/prometheus/alerts.yml": `(?m)- alert: (\S+)$`,
		"docs/metrics.md": "(?m)^\\| `(Gpuboard\\w+)` \\|"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(line).FindAllStringSubmatch(string(data), -1) {
			names[file] += m[1] + "\n"
		}
	}
	if rules := names["deploy/prometheus/alerts.yml"]; rules == "" || rules != names["docs/metrics.md"] {
		t.Errorf("the alerts are\n%sand docs/metrics.md has\n%s", rules, names["docs/metrics.md"])
	}
}

// TestEveryAlertIsSeenFiring wants each alert among those that promtool sees firing in alerts_test.yml.
func TestEveryAlertIsSeenFiring(t *testing.T) {
	rules, err := os.ReadFile("deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("deploy/prometheus/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range regexp.MustCompile(`(?m)- alert: (\S+)$`).FindAllSubmatch(rules, -1) {
		name := string(rule[1])
		if !regexp.MustCompile(`alertname: ` + name + `\n +exp_alerts:\n +- exp_labels`).Match(tests) {
			t.Errorf("no test sees %s firing", name)
		}
		if !regexp.MustCompile(`alertname: ` + name + `, exp_alerts: \[\]`).Match(tests) {
			t.Errorf("no test sees %s keep silent before its time", name)
		}
	}
}

// TestMetricNames looks for metrics that are spoken of and do not exist, and in
// the page about them for those that exist and are not spoken of.
func TestMetricNames(t *testing.T) {
	s := newWebSite(t)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	known := s.metrics()
	if len(known) < 20 {
		t.Fatalf("the site has the metrics %q only", known)
	}
	for _, name := range []string{"deploy/prometheus/alerts.yml", "deploy/prometheus/alerts_test.yml",
		"deploy/grafana/gpuboard.json", "docs/metrics.md", "README.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		used := metricUse.FindAllString(string(data), -1)
		for _, metric := range used {
			if !slices.Contains(known, metric) {
				t.Errorf("%s speaks of %s, which no site has", name, metric)
			}
		}
		if name == "docs/metrics.md" {
			for _, metric := range known {
				if !slices.Contains(used, metric) {
					t.Errorf("%s says nothing of %s", name, metric)
				}
			}
		}
	}
}

type grafana struct {
	UID, Title    string
	SchemaVersion int
	Panels        []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ RefID, Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition, AllValue string }
	}
}

// TestDashboard puts every question of the dashboard and of the documentation to
// a Prometheus that has scraped two sites through web servers, a large and a small one.
func TestDashboard(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("deploy/grafana/gpuboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d grafana
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 30 || len(d.Panels) < 10 {
		t.Fatalf("%q %q with schema %d and %d panels is no dashboard", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	s := newWebSite(t)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	small := newWebSite(t, func(o *sitegen.Options) {
		o.Inventory = func(_ context.Context, now time.Time, _ inventory.Known) inventory.Inventory {
			return inventory.Inventory{Hosts: []inventory.Host{{Name: "atlas"}}, AsOf: now}
		}
	})
	if err := small.generate(webStart); err != nil {
		t.Fatal(err)
	}
	p := webtest.StartPrometheus(t, "deploy",
		webtest.Start(t, "nginx", webtest.Options{Deploy: "deploy", Site: s.dir, Path: "/gpu"}),
		webtest.Start(t, "nginx", webtest.Options{Deploy: "deploy", Site: small.dir}))
	if n, want := p.Query(`{__name__=~"gpuboard_.*", cluster="cluster1"}`), strings.Count(s.file("metrics.txt"),
		"\n")-2*len(s.metrics()); n != want {
		t.Errorf("Prometheus has %d series of %d", n, want)
	}
	doc, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	questions := regexp.MustCompile("(?m)^\\| [^|]*\\? \\| `(.*)` \\|$").FindAllSubmatch(doc, -1)
	for _, q := range questions {
		// Some look for what a good fleet does not have, or at a week that was not.
		if n := p.Query(string(q[1])); n == 0 && !strings.ContainsAny(string(q[1]), ">[") {
			t.Errorf("docs/metrics.md asks for nothing: %s", q[1])
		}
	}
	if len(questions) < 5 {
		t.Errorf("docs/metrics.md has %d questions", len(questions))
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, panel := range d.Panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the id %d", panel.ID)
		}
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q lies over %q", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%q asks for nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			ask := func(cluster string) int {
				return p.Query(strings.NewReplacer("$cluster", cluster, "$host", ".*").Replace(target.Expr))
			}
			// Nobody needs to be idle in the demonstration.
			if idle := strings.Contains(target.Expr, "idle_seconds"); (ask(".*") == 0 || ask("cluster1") == 0) &&
				!idle {
				t.Errorf("%q shows nothing: %s", panel.Title, target.Expr)
			}
			if n := ask("nowhere"); n != 0 {
				t.Errorf("%q shows %d series of a cluster that is not there: %s", panel.Title, n, target.Expr)
			}
		}
	}
	gpus := func(cluster string) float64 {
		t.Helper()
		values := p.Values(strings.ReplaceAll(`sum(gpuboard_gpus{cluster=~"$cluster"})`, "$cluster", cluster))
		if len(values) != 1 {
			t.Fatalf("%s has %q GPUs", cluster, values)
		}
		n, err := strconv.ParseFloat(values[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if all, one, two := gpus(".*"), gpus("cluster1"), gpus("cluster2"); all != one+two || two == 0 || one <= two {
		t.Errorf("%v GPUs, of which %v and %v in the two clusters", all, one, two)
	}
	choices := map[string]int{}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			choices[v.Name] = p.Query(
				"count by (" + m[2] + ") (" + strings.ReplaceAll(m[1], "$cluster", "cluster2") + ")")
			if v.AllValue != ".*" { // a board without the label is one of all
				t.Errorf("%s: all is %q", v.Name, v.AllValue)
			}
		}
	}
	if choices["cluster"] != 2 || choices["host"] != 1 {
		t.Errorf("the dashboard lets choose among %v", choices)
	}
}
