package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
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
	// Addresses of the tests do not share a place.
	for places := 0; places < 4; {
		a.passwords.queue = newQueue()
		own := map[chan struct{}]bool{}
		for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.9"} {
			own[a.passwords.queue.place(address)] = true
		}
		places = len(own)
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

func TestOneAddressDoesNotStallOthersLogins(t *testing.T) {
	synctest.Test(t, oneAddressDoesNotStallOthersLogins)
}

func oneAddressDoesNotStallOthersLogins(t *testing.T) {
	s := newSlowAuth(t)
	ctx := t.Context()
	var guesses []<-chan int
	for n := range 5 {
		guesses = append(guesses, s.login(ctx, "192.0.2.1", "kai", fmt.Sprint("guess ", n)))
	}
	soon(t, "the first guess", s.began)
	synctest.Wait() // the others wait for their address
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
	synctest.Wait()
	if n := len(s.passwords.queue.running); n != 0 {
		t.Errorf("%d comparisons run, and nobody waits", n)
	}
}

func TestALoginEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, aLoginEndsWithItsRequest)
}

func aLoginEndsWithItsRequest(t *testing.T) {
	s := newSlowAuth(t)
	first := s.login(t.Context(), "192.0.2.1", "kai", "guess")
	soon(t, "the first guess", s.began)
	other := s.login(t.Context(), "192.0.2.9", "kai", "guess")
	soon(t, "the second guess", s.began)
	// Both are busy: one waits for its address, the other for a free place.
	for n, address := range []string{"192.0.2.1", "192.0.2.3"} {
		ctx, hangUp := context.WithCancel(t.Context())
		gone := s.login(ctx, address, "eva", "right")
		synctest.Wait()
		hangUp()
		if code := soon(t, "the end of a request whose client is gone", gone); code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", address, code)
		}
		synctest.Wait()
		if used := s.failures.present(address); used != time.Duration(1-n)*loginPause {
			t.Errorf("%s: wrong passwords count for %v, and nothing was compared of the one that left", address, used)
		}
	}
	close(s.end)
	soon(t, "the first", first)
	soon(t, "the second", other)
	if len(s.began) != 0 {
		t.Errorf("%q is compared, and its client is gone", <-s.began)
	}
}
