package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/testenv/need"
	"gpuboard/internal/testenv/sshtest"
	"gpuboard/internal/testenv/webtest"
)

// A page is one address of a web server with one worker.
type page struct {
	url    string
	etag   string // with it, the page is not modified
	worker int    // the process that serves
	packed bool   // ask for it compressed
}

// bareNginx serves a site on four ports, without a line that it could do
// without: with the .gz beside, with compression on the fly, with none, and an
// empty file.
func (s *suite) bareNginx(h *harness, site string) (beside, flying, plain, empty page, err error) {
	nginx := need.Program(h, "nginx")
	dir := h.TempDir()
	nothing := filepath.Join(dir, "empty")
	if err = os.Mkdir(nothing, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(nothing, "index.html"), nil, 0o644)
	}
	if err != nil {
		return
	}
	if err = readable(nothing, s.dir); err != nil {
		return
	}
	var servers strings.Builder
	var urls []string
	for _, c := range []struct{ root, more string }{{site, "gzip_static on;"}, {site, "gzip on; gzip_min_length 1;"},
		{site, ""}, {nothing, ""}} {
		port := sshtest.FreePort(h)
		fmt.Fprintf(&servers, "server { listen 127.0.0.1:%d; root %s; %s }\n", port, c.root, c.more)
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d/", port))
	}
	config := fmt.Sprintf(`worker_processes 1; daemon off; pid %[1]s/pid; error_log %[1]s/error.log;
events {}
http { types { text/html html; } access_log off; keepalive_requests 1000000; sendfile on;
 client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
 %[2]s }`, dir, servers.String())
	if err = os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o644); err != nil {
		return
	}
	cmd := exec.Command(nginx, "-c", filepath.Join(dir, "nginx.conf"), "-p", dir)
	if err = cmd.Start(); err != nil {
		return
	}
	h.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	pages := make([]page, len(urls))
	for i, url := range urls {
		if pages[i], err = found(url, cmd.Process.Pid, i < 2); err != nil {
			return
		}
	}
	return pages[0], pages[1], pages[2], pages[3], nil
}

// visitable is a fleet with a site that a web server can read.
func (s *suite) visitable(hosts int) (*fleet, error) {
	f, err := s.fleet(hosts)
	if err != nil {
		return nil, err
	}
	if _, err := s.generate(f); err != nil {
		return nil, err
	}
	return f, readable(f.site(), s.memory)
}

// readable lets everybody reach a folder: as root nginx serves as another user.
func readable(folder, top string) error {
	for ; folder != filepath.Dir(top); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// found waits for a server to answer, and asks who serves.
func found(url string, server int, packed bool) (page, error) {
	p := page{url: url, packed: packed}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		code, etag, err := p.get(http.DefaultClient)
		if err == nil && code == http.StatusOK {
			p.etag = etag
			break
		}
		if time.Now().After(end) {
			return p, fmt.Errorf("nginx does not answer: %d, %w", code, err)
		}
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", server, server))
	if err != nil {
		return p, err
	}
	p.worker, err = strconv.Atoi(strings.Fields(string(children) + " 0")[0])
	return p, err
}

// get asks for the page once.
func (p page) get(client *http.Client) (code int, etag string, err error) {
	req, err := http.NewRequest(http.MethodGet, p.url, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("User-Agent", "Mozilla/5.0") // no curl: that gets the text
	req.Header.Set("Accept-Encoding", "identity")
	if p.packed {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	if p.etag != "" {
		req.Header.Set("If-None-Match", p.etag)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("ETag"), err
}

// apart is what a request costs the worker where each waits for the one before,
// in ms: it has to be woken for each.
func (p page) apart(each, times int) ([]float64, error) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	want := http.StatusOK
	if p.etag != "" {
		want = http.StatusNotModified
	}
	var ms []float64
	for range times {
		before := spent(p.worker)
		for range each {
			code, _, err := p.get(client)
			if err == nil && code != want {
				err = fmt.Errorf("%s answers %d, not %d", p.url, code, want)
			}
			if err != nil {
				return nil, err
			}
		}
		ms = append(ms, float64((spent(p.worker)-before).Microseconds())/1000/float64(each))
	}
	return ms, nil
}

// crowded is what a request costs the worker where 16 are asked at a time, in ms,
// and how many it answers in a second.
func (p page) crowded(length time.Duration, times int) (ms []float64, rate float64, err error) {
	for range times {
		before := spent(p.worker)
		var count, perSecond float64
		if perSecond, count, err = p.load(length); err != nil {
			return nil, 0, err
		}
		ms, rate = append(ms, float64((spent(p.worker)-before).Microseconds())/1000/count), max(rate, perSecond)
	}
	return ms, rate, nil
}

var (
	perSecond = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	inAll     = regexp.MustCompile(`([0-9]+) requests in`)
)

// load asks a web server for a page as fast as it answers, with 16 at a time:
// pages a second, and how many. ab would speak HTTP/1.0, to which nginx sends no
// compressed file.
func (p page) load(length time.Duration) (rate, count float64, err error) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return 0, 0, errors.New("wrk is not installed")
	}
	encoding := "Accept-Encoding: identity"
	if p.packed {
		encoding = "Accept-Encoding: gzip"
	}
	args := []string{"-t1", "-c16", fmt.Sprintf("-d%ds", int(length.Seconds())), "-H", encoding}
	if p.etag != "" {
		args = append(args, "-H", "If-None-Match: "+p.etag)
	}
	_, out, err := program(nil, wrk, append(args, p.url)...)
	if err != nil {
		return 0, 0, err
	}
	return rates(out)
}

// rates reads what wrk says: pages a second, and how many.
func rates(out []byte) (rate, count float64, err error) {
	m, n := perSecond.FindSubmatch(out), inAll.FindSubmatch(out)
	if m == nil || n == nil {
		return 0, 0, fmt.Errorf("it says no rate: %s", bytes.TrimSpace(out))
	}
	if rate, err = strconv.ParseFloat(string(m[1]), 64); err == nil {
		count, err = strconv.ParseFloat(string(n[1]), 64)
	}
	if err == nil && count == 0 {
		err = fmt.Errorf("it got no answer: %s", bytes.TrimSpace(out))
	}
	return rate, count, err
}

// views is what a web server pays for a visitor: by the shipped configuration,
// and by a bare one beside it.
func (s *suite) views() error {
	f, err := s.visitable(s.big())
	if err != nil {
		return err
	}
	return s.with(func(h *harness) error {
		server := webtest.Start(h, "nginx", webtest.Options{Deploy: "deploy", Site: f.site()})
		shipped, err := found(server.URL, server.PID, true)
		if err != nil {
			return err
		}
		beside, flying, plain, empty, err := s.bareNginx(h, f.site())
		if err != nil {
			return err
		}
		if err := s.oneByOne(shipped, beside, flying, plain, empty); err != nil {
			return err
		}
		if err := s.atOnce(shipped, beside, empty); err != nil {
			s.note("S1, 16 at a time: %v", err)
		}
		return nil
	})
}

// whole is the page as who has never seen it asks for it.
func (p page) whole() page { p.etag = ""; return p }

func (s *suite) oneByOne(shipped, packed, flying, plain, empty page) error {
	one := func(p page, each int) float64 {
		ms, err := p.apart(each, 4)
		if err != nil {
			s.note("S1, %s: %v", p.url, err)
			return 0
		}
		return slices.Min(ms)
	}
	view, err := shipped.whole().apart(500, s.times(8))
	if err != nil {
		return err
	}
	s.add(
		row{id: "S1", what: "a view of the front page, nginx as shipped, its .gz beside it, one at a time", unit: "ms",
			values: view, least: true, rivals: []rival{{"a bare nginx", one(packed.whole(), 500), 1.3}},
			besides: []beside{
				{"without compression", one(plain.whole(), 50)}, {"compressed on the fly", one(flying.whole(), 10)},
				{"an empty file", one(empty.whole(), 500)}}})
	same, err := shipped.apart(500, s.times(8))
	if err != nil {
		return err
	}
	s.add(row{id: "S1", what: "the same, not modified", unit: "ms", values: same, least: true,
		rivals:  []rival{{"a bare nginx", one(packed, 500), 1.3}},
		besides: []beside{{"a bare nginx, an empty file", one(empty, 500)}}})
	return nil
}

func (s *suite) atOnce(shipped, packed, empty page) error {
	const length = time.Second
	one := func(p page) float64 {
		ms, _, err := p.crowded(length, 3)
		if err != nil {
			return 0
		}
		return slices.Min(ms)
	}
	view, rate, err := shipped.whole().crowded(length, s.times(5))
	if err != nil {
		return err
	}
	s.add(
		row{id: "S1", what: "a view, 16 at a time, asked by wrk on the same machine", unit: "ms", values: view,
			least: true, rivals: []rival{{"a bare nginx", one(packed.whole()), 1.3}},
			besides: []beside{{"an empty file", one(empty.whole())}}})
	same, _, err := shipped.crowded(length, s.times(5))
	if err != nil {
		return err
	}
	s.add(row{id: "S1", what: "the same, not modified", unit: "ms", values: same, least: true,
		rivals:  []rival{{"a bare nginx", one(packed), 1.3}},
		besides: []beside{{"a bare nginx, an empty file", one(empty)}}})
	s.add(
		row{id: "S1", what: "views a second, one nginx worker, 16 at a time", unit: "pages/s", values: []float64{rate}})
	return nil
}
