package serve_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

func TestFetchNum(t *testing.T) {
	const rest = `{"timestamp":3}],"ip_address":"10.0.0.1","status":"running"},"b":{"data":[],"ip_address":null,"status":"down"}}`
	newest, all := `{"a":{"data":[`+rest, `{"a":{"data":[{"timestamp":1},{"timestamp":2},`+rest
	_, h := site(t,
		map[string]string{"index.html": "x", "states/index.json": newest, "states/a/index.json": newest,
			"states/a/samples.json": all,
			"states/b/samples.json": "[1", "states/odd/index.json": "[1"})
	for _, c := range []struct {
		target string
		code   int
		first  int // timestamp of a's first point
		points int
	}{
		{"/states/?fetch_num=2", 200, 2, 2},
		{"/states/a/?fetch_num=1", 200, 3, 1},
		{"/states/index.json?fetch_num=99", 200, 1, 3},
		{"/states/", 200, 3, 1},
		{"/states/a/", 200, 3, 1},
		{"/states/a/?fetch_num=3", 200, 1, 3},
		{"/states/?fetch_num=0", 400, 0, 0},
		{"/states/?fetch_num=-1", 400, 0, 0},
		{"/states/?fetch_num=all", 400, 0, 0},
		{"/states/?fetch_num=99999999999999999999", 400, 0, 0},
		{"/states/none/?fetch_num=2", 404, 0, 0},
		{"/states/none/index.json?fetch_num=2", 404, 0, 0},
	} {
		w := get(h, c.target)
		if w.Code != c.code {
			t.Errorf("%s: status %d, want %d", c.target, w.Code, c.code)
		}
		if c.code != http.StatusOK {
			continue
		}
		head := w.Header()
		if got := head.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: Cache-Control %q", c.target, got)
		}
		if got := head.Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
			t.Errorf("%s: Content-Length %s of %d bytes", c.target, got, w.Body.Len())
		}
		if got := head.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type %q", c.target, got)
		}
		var got map[string]struct {
			Data   []struct{ Timestamp int }
			Status string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s: %v", c.target, err)
			continue
		}
		if a := got["a"]; len(a.Data) != c.points || a.Data[0].Timestamp != c.first || a.Status != "running" ||
			got["b"].Status != "down" {
			t.Errorf("%s: %s", c.target, w.Body)
		}
	}
	if w := get(h, "/states/?fetch_num=0"); w.Body.String() != "fetch_num is a number from 1 on\n" {
		t.Errorf("no points: %s", w.Body)
	}
	for _, target := range []string{"/states/a/samples.json", "/index.html"} { // which have no lists to be cut
		if w := get(h, target+"?fetch_num=1"); w.Body.String() != get(h, target).Body.String() {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
	if w := get(h, "/states/odd/?fetch_num=1"); w.Code != 200 || w.Body.String() != "[1" {
		t.Errorf("a file that is not as it should be is not sent as it is: %d %s", w.Code, w.Body)
	}
}

// TestGetStatusByPost: clients of gpu-cluster-monitor ask by POST with a password, where the site has its files and nowhere else.
func TestGetStatusByPost(t *testing.T) {
	post := func(h http.Handler, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(`{"passwd": "8888"}`))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, r)
		return w
	}
	files := map[string]string{"index.html": "page", "get-status/index.json": `{"Nodes":[]}`}
	_, with := site(t, files)
	for _, target := range []string{"/get-status", "/get-status/"} {
		if w, got := post(with, target), get(with, "/get-status/"); w.Code != 200 ||
			w.Body.String() != got.Body.String() ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("POST %s: %d %s", target, w.Code, w.Body)
		}
	}
	delete(files, "get-status/index.json")
	_, without := site(t, files)
	for h, target := range map[http.Handler]string{without: "/get-status", with: "/index.html"} {
		if w := post(h, target); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d %s", target, w.Code, w.Body)
		}
	}
}
