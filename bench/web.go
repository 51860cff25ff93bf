package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/need"
	"gpuboard/internal/sshtest"
)

// weights is what a visitor loads.
func (s *suite) weights() error {
	for _, size := range []struct {
		hosts  int
		target float64
	}{{4, 6}, {40, 30}, {100, 60}, {s.big(), 200}} {
		f, err := s.fleet(size.hosts)
		if err != nil {
			return err
		}
		if _, err := s.generate(f); err != nil {
			return err
		}
		plain, err := os.ReadFile(f.path("site", "index.html"))
		if err != nil {
			return err
		}
		packed, err := os.Stat(f.path("site", "index.html.gz"))
		if err != nil {
			return err
		}
		var std bytes.Buffer
		w := gzip.NewWriter(&std)
		if _, err := w.Write(plain); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		s.add(row{id: "W1", what: fmt.Sprintf("the front page of %d hosts, gzipped (plain: %s KiB)", size.hosts, kib(int64(len(plain)))), unit: "KiB", values: []float64{float64(packed.Size()) / 1024}, target: size.target,
			besides: []beside{{"compress/gzip of it", float64(std.Len()) / 1024}}})
		if size.hosts != 4 {
			continue
		}
		requests := 1 + len(regexp.MustCompile(`<link[^>]+rel="?(stylesheet|icon|preload)|<script[^>]+src=|<img[^>]+src=`).FindAll(plain, -1))
		s.add(row{id: "W1", what: "requests for it", values: []float64{float64(requests)}, target: 6})
		for _, kind := range []string{"css", "js"} {
			files, err := filepath.Glob(f.path("site", "assets", "*."+kind+".gz"))
			if err != nil {
				return err
			}
			var sum int64
			for _, path := range files {
				info, err := os.Stat(path)
				if err != nil {
					return err
				}
				sum += info.Size()
			}
			s.add(row{id: "W1", what: strings.ToUpper(kind) + ", gzipped", unit: "KiB", values: []float64{float64(sum) / 1024}, target: 10})
		}
	}
	return nil
}

func kib(n int64) string { return number(float64(n) / 1024) }

// views is what a web server pays for a visitor.
func (s *suite) views() error {
	f, err := s.fleet(s.big())
	if err != nil {
		return err
	}
	if _, err := s.generate(f); err != nil {
		return err
	}
	return s.with(func(h *harness) error {
		nginx := need.Program(h, "nginx")
		dir, port := h.TempDir(), sshtest.FreePort(h)
		// As root it serves as another user, who has to get this far.
		for path := f.path("site"); path != filepath.Dir(s.dir); path = filepath.Dir(path) {
			if err := os.Chmod(path, 0o755); err != nil {
				return err
			}
		}
		config := fmt.Sprintf(`worker_processes 1; daemon off; pid %s/pid; error_log %s/error.log;
events {}
http { types { text/html html; } access_log off; keepalive_requests 1000000; sendfile on;
 client_body_temp_path %s; proxy_temp_path %s; fastcgi_temp_path %s; uwsgi_temp_path %s; scgi_temp_path %s;
 server { listen 127.0.0.1:%d; root %s; gzip_static on; } }`, dir, dir, dir, dir, dir, dir, dir, port, f.path("site"))
		if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o644); err != nil {
			return err
		}
		cmd := exec.Command(nginx, "-c", filepath.Join(dir, "nginx.conf"), "-p", dir)
		if err := cmd.Start(); err != nil {
			return err
		}
		h.Cleanup(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		})
		url := fmt.Sprintf("http://127.0.0.1:%d/", port)
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		get := func(etag string) (int, string, error) {
			req, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				return 0, "", err
			}
			req.Header.Set("Accept-Encoding", "gzip")
			if etag != "" {
				req.Header.Set("If-None-Match", etag)
			}
			resp, err := client.Do(req)
			if err != nil {
				return 0, "", err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, resp.Header.Get("ETag"), err
		}
		etag := ""
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			var code int
			if code, etag, err = get(""); err == nil && code == http.StatusOK {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("nginx does not answer: %d, %w", code, err)
			}
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		if err != nil {
			return err
		}
		worker, err := strconv.Atoi(strings.Fields(string(children) + " 0")[0])
		if err != nil {
			return err
		}
		for _, kind := range []struct {
			what, etag string
			target     float64
		}{{"a view of the front page, nginx, its .gz beside it", "", 0.05}, {"the same, not modified", etag, 0.01}} {
			var ms []float64
			for range s.times(8) {
				const each = 500
				before := spent(worker)
				for range each {
					if _, _, err := get(kind.etag); err != nil {
						return err
					}
				}
				ms = append(ms, float64((spent(worker)-before).Microseconds())/1000/each)
			}
			s.add(row{id: "S1", what: kind.what, unit: "ms", values: ms, target: kind.target, least: true})
		}
		with, rate, err := load(url, 3*time.Second)
		if err != nil {
			s.note("pages a second: %v", err)
			return nil
		}
		s.add(row{id: "S1", what: fmt.Sprintf("front pages of %d hosts a second, one nginx worker, asked by %s on the same machine", len(f.names), with), unit: "pages/s", values: []float64{rate}})
		return nil
	})
}
