// Package s3test is an object store in this process, for tests.
package s3test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// A Store is an object store with one bucket.
type Store struct {
	t       testing.TB
	bucket  string
	backend *s3mem.Backend

	mu       sync.Mutex
	requests []string // METHOD /bucket/name
	in, out  int64    // bytes of their bodies, and of the answers'
	fault    func(n int, r *http.Request) int

	writing sync.Mutex // a store carries out one write after the other
	written func(name string, content []byte)
}

// Cut, as the answer to a request, is the end of the connection. Lost is the same once the store has done what was
// asked.
const (
	Cut  = -1
	Lost = -2
)

// Start starts a store with a bucket, and sets the environment by which it is found.
func Start(t *testing.T, bucket string) *Store {
	t.Helper()
	s := &Store{t: t, bucket: bucket, backend: s3mem.New()}
	if err := s.backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	answer := gofakes3.New(s.backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.in += max(r.ContentLength, 0)
		n, fault := len(s.requests), s.fault
		s.mu.Unlock()
		if fault != nil {
			switch status := fault(n, r); status {
			case 0:
			case Lost:
				answer.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			case Cut:
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(status)
				return
			}
		}
		if r.Method == http.MethodPut {
			s.writing.Lock()
			defer s.writing.Unlock()
		}
		answer.ServeHTTP(counted{w, s}, r)
		if r.Method == http.MethodPut && s.written != nil {
			name := strings.TrimPrefix(r.URL.Path, "/"+bucket+"/")
			content, _ := s.Get(name)
			s.written(name, content)
		}
	}))
	t.Cleanup(server.Close)
	environment(t, server.URL, "test")
	return s
}

// Fault makes fault decide what happens to a request, the n-th since Start: 0 is the store's own answer.
func (s *Store) Fault(fault func(n int, r *http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests returns those since it was last called, each as "METHOD /bucket/name".
func (s *Store) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.requests
	s.requests = nil
	return asked
}

// Written makes f hear what an object holds after each write of it, also after one that was refused.
func (s *Store) Written(f func(name string, content []byte)) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.written = f
}

// A counted answer is one whose bytes the store counts.
type counted struct {
	http.ResponseWriter
	s *Store
}

func (c counted) Write(b []byte) (int, error) {
	c.s.mu.Lock()
	c.s.out += int64(len(b))
	c.s.mu.Unlock()
	return c.ResponseWriter.Write(b)
}

// Bytes returns how many came into the store and went out of it since it was last called.
func (s *Store) Bytes() (in, out int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, out = s.in, s.out
	s.in, s.out = 0, 0
	return in, out
}

// Names returns the sorted names of all objects.
func (s *Store) Names() (names []string) {
	s.t.Helper()
	list, err := s.backend.ListBucket(s.bucket, &gofakes3.Prefix{}, gofakes3.ListBucketPage{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range list.Contents {
		names = append(names, o.Key)
	}
	slices.Sort(names)
	return names
}

// Get returns an object and its headers; nil for one that is missing.
func (s *Store) Get(name string) ([]byte, map[string]string) {
	s.t.Helper()
	o, err := s.backend.GetObject(s.bucket, name, nil)
	if err != nil {
		return nil, nil
	}
	defer o.Contents.Close()
	data, err := io.ReadAll(o.Contents)
	if err != nil {
		s.t.Fatal(err)
	}
	return data, o.Metadata
}

// Put puts an object into the store, beside the server.
func (s *Store) Put(name, content string) {
	s.t.Helper()
	meta := map[string]string{
		"Content-Type": "application/octet-stream", "Last-Modified": time.Now().UTC().Format(http.TimeFormat),
	}
	if _, err := s.backend.PutObject(s.bucket, name, meta, strings.NewReader(content), int64(len(content)),
		nil); err != nil {
		s.t.Fatal(fmt.Errorf("putting %s: %w", name, err))
	}
}
