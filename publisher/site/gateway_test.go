package site_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuboard/internal/testenv/s3test"
)

// TestARealBucketHoldsTheSite copies to a real S3 gateway, and reads the pages through a web server in front of it.
func TestARealBucketHoldsTheSite(t *testing.T) {
	address, _ := s3test.Gateway(t, "gpus")
	s3test.Publish(t, "gpus")
	gateway, err := url.Parse(address + "/gpus/lab")
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(httputil.NewSingleHostReverseProxy(gateway))
	defer front.Close()
	w := newWebsite(t, "s3://gpus/lab")
	for n := range 3 {
		w.generation(n + 1)
		w.check(w.copies())
		got := map[string]string{}
		for name := range w.wanted() {
			got[name] = body(t, front.URL+"/"+name)
		}
		if d := cmp.Diff(w.wanted(), got); d != "" {
			t.Error(d)
		}
	}
	for name, want := range map[string]string{
		"index.html":         "text/html; charset=utf-8, no-cache",
		"status.txt":         "text/plain; charset=utf-8, no-cache",
		"api/v1/board.json":  "application/json, no-cache",
		"assets/style-1.css": "text/css; charset=utf-8, public, max-age=31536000, immutable",
	} {
		answer, err := http.Head(front.URL + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Header.Get("Content-Type") + ", " + answer.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	answer, err := http.Get(front.URL + "/users/p1.txt")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		t.Error("a file that the site no longer has is still in the bucket")
	}
}

func body(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", address, answer.Status, err)
	}
	return string(data)
}
