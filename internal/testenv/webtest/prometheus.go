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

// A Prometheus is a running Prometheus that scrapes one site.
type Prometheus struct {
	t   testing.TB
	url string
}

// StartPrometheus starts one with the shipped configuration, which scrapes a
// site every second here, and waits until the first scrape was good.
func StartPrometheus(t testing.TB, deploy string, site *Server) *Prometheus {
	t.Helper()
	program := need.Program(t, "prometheus")
	b := &builder{t: t, dir: Dir(t), port: sshtest.FreePort(t), name: "prometheus", o: Options{Deploy: deploy}}
	b.o.Path = strings.TrimSuffix(strings.TrimPrefix(site.URL, site.Host), "/")
	b.shipped()
	b.edit("scrape.yml", "scrape_interval: 1m", "scrape_interval: 1s", "evaluation_interval: 1m", "evaluation_interval: 1s",
		`targets: ["127.0.0.1"]`, fmt.Sprintf("targets: [%q]", strings.TrimPrefix(site.Host, "http://")))
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
		if n, err := p.query(`up{job="gpuboard"} == 1`); err == nil && n == 1 {
			return p
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("Prometheus cannot scrape %s:\n%s", site.URL, b.logs())
		}
	}
}

// Query evaluates an expression now and returns how many series it has; one
// that Prometheus refuses fails the test.
func (p *Prometheus) Query(expr string) int {
	p.t.Helper()
	n, err := p.query(expr)
	if err != nil {
		p.t.Errorf("%s: %v", expr, err)
	}
	return n
}

func (p *Prometheus) query(expr string) (int, error) {
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, fmt.Errorf("%s: %w", body, err)
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("refused: %s", answer.Error)
	}
	return len(answer.Data.Result), nil
}
