package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/testenv/need"
)

// slowAuth ends the comparison of a password only when the test says so.
type slowAuth struct {
	*Auth
	began chan string   // the password of each comparison that has begun
	end   chan struct{} // one element ends one
}

func newSlowAuth(t *testing.T) *slowAuth {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, fmt.Appendf(nil, "eva:%s\nkai:%s\n", hash, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	a, err := NewAuth(AuthOptions{Passwords: path, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s := &slowAuth{Auth: a, began: make(chan string, 100), end: make(chan struct{})}
	a.passwords.compare = func(hash, password []byte) error {
		s.began <- string(password)
		<-s.end
		return bcrypt.CompareHashAndPassword(hash, password)
	}
	return s
}

// login sends a login from an address; what comes of it arrives in the channel.
func (s *slowAuth) login(ctx context.Context, address, name, password string) <-chan int {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/book/?at=atlas:0", nil)
	r.SetBasicAuth(name, password)
	r.RemoteAddr = address + ":1234"
	done := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		s.who(w, r)
		done <- w.Code
	}()
	return done
}

// soon receives, or fails the test.
func soon[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(need.Patience):
		t.Fatalf("never came: %s", what)
		panic("not reached")
	}
}

// waiting waits until so many logins of an address run or wait.
func (s *slowAuth) waiting(t *testing.T, address string, want int) {
	t.Helper()
	q := s.passwords.queue
	for end := time.Now().Add(need.Patience); ; time.Sleep(time.Millisecond) {
		q.mu.Lock()
		n := 0
		if own := q.addresses[address]; own != nil {
			n = own.users
		}
		q.mu.Unlock()
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d logins of %s run or wait, want %d", n, address, want)
		}
	}
}

func TestOneAddressDoesNotStallOthersLogins(t *testing.T) {
	s := newSlowAuth(t)
	ctx := t.Context()
	var guesses []<-chan int
	for n := range 5 {
		guesses = append(guesses, s.login(ctx, "192.0.2.1", "kai", fmt.Sprint("guess ", n)))
	}
	soon(t, "the first guess", s.began)
	s.waiting(t, "192.0.2.1", 5)
	eva := s.login(ctx, "192.0.2.2", "eva", "right")
	if got := soon(t, "eva's turn", s.began); got != "right" {
		t.Errorf("%q is compared while a guess of the same address is", got)
	}
	close(s.end)
	if code := soon(t, "eva's login", eva); code != 200 {
		t.Errorf("eva: %d", code)
	}
	for _, g := range guesses {
		if code := soon(t, "a guess", g); code != 401 {
			t.Errorf("a guess: %d", code)
		}
	}
	s.waiting(t, "192.0.2.1", 0)
	if n := len(s.passwords.queue.addresses); n != 0 {
		t.Errorf("%d addresses are remembered, and nobody waits", n)
	}
}

func TestALoginEndsWithItsRequest(t *testing.T) {
	s := newSlowAuth(t)
	first := s.login(t.Context(), "192.0.2.1", "kai", "guess")
	soon(t, "the first guess", s.began)
	other := s.login(t.Context(), "192.0.2.9", "kai", "guess")
	soon(t, "the second guess", s.began)
	// Both are busy: one waits for its address, the other for a free place.
	for n, address := range []string{"192.0.2.1", "192.0.2.3"} {
		ctx, hangUp := context.WithCancel(t.Context())
		gone := s.login(ctx, address, "eva", "right")
		s.waiting(t, address, 2-n)
		hangUp()
		if code := soon(t, "the end of a request whose client is gone", gone); code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", address, code)
		}
		s.waiting(t, address, 1-n)
		if used := s.failures.used[address].n; used != float64(1-n) {
			t.Errorf("%s: %v wrong passwords are counted, and nothing was compared of the one that left", address, used)
		}
	}
	close(s.end)
	soon(t, "the first", first)
	soon(t, "the second", other)
	if len(s.began) != 0 {
		t.Errorf("%q is compared, and its client is gone", <-s.began)
	}
}
