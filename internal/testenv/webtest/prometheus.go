package webtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
)

// A Prometheus is a running Prometheus that scrapes sites.
type Prometheus struct {
	t   testing.TB
	url string
}

// StartPrometheus starts one with the shipped configuration, which scrapes each
// site every second here, and waits until the first scrapes were good. The sites
// are the clusters "cluster1", "cluster2" and so on.
func StartPrometheus(t testing.TB, deploy string, sites ...*Server) *Prometheus {
	t.Helper()
	program := need.Program(t, "prometheus")
	b := &builder{t: t, dir: Dir(t), port: sshtest.FreePort(t), name: "prometheus", o: Options{Deploy: deploy}}
	b.o.Path = strings.TrimSuffix(strings.TrimPrefix(sites[0].URL, sites[0].Host), "/")
	b.shipped()
	var targets []string
	for i, site := range sites {
		targets = append(targets,
			fmt.Sprintf("targets: [%q]\n        labels: {cluster: cluster%d, __metrics_path__: %smetrics.txt}",
				strings.TrimPrefix(site.Host, "http://"), i+1, strings.TrimPrefix(site.URL, site.Host)))
	}
	b.edit("scrape.yml", "scrape_interval: 1m", "scrape_interval: 1s", "evaluation_interval: 1m",
		"evaluation_interval: 1s",
		`targets: ["127.0.0.1"]`+"\n        labels: {cluster: CLUSTER_NAME}", strings.Join(targets, "\n      - "))
	p := &Prometheus{t: t, url: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port))}
	b.url, b.o.Path = p.url, ""
	c := exec.Command(program, "--config.file="+b.path("gpuboard/scrape.yml"), "--storage.tsdb.path="+b.path("data"),
		"--web.listen-address="+b.listen(), "--log.level=warn")
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	must(t, b.run(c))
	deadline := time.After(answersWithin)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if up, err := p.query(`up{job="gpuboard"} == 1`); err == nil && len(up) == len(sites) {
			return p
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("Prometheus cannot scrape:\n%s", b.logs())
		}
	}
}

// Query evaluates an expression now and returns how many series it has; one
// that Prometheus refuses fails the test.
func (p *Prometheus) Query(expr string) int { p.t.Helper(); return len(p.Values(expr)) }

// Values evaluates an expression now and returns the value of each series.
func (p *Prometheus) Values(expr string) []string {
	p.t.Helper()
	values, err := p.query(expr)
	if err != nil {
		p.t.Errorf("%s: %v", expr, err)
	}
	return values
}

func (p *Prometheus) query(expr string) (values []string, err error) {
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value []any } // time and value
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", body, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("refused: %s", answer.Error)
	}
	for _, r := range answer.Data.Result {
		values = append(values, fmt.Sprint(r.Value[len(r.Value)-1]))
	}
	return values, nil
}
