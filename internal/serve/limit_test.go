package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func TestLimiterForgetsStrangers(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	l := newLimiter(func() time.Time { return now }, 2, time.Minute)
	for i := range 2*maxKeys + maxKeys/2 {
		if l.take(fmt.Sprint("stranger", i)); len(l.used) > maxKeys {
			t.Fatalf("%d keys are remembered, and %d is the most", len(l.used), maxKeys)
		}
	}
	// Those who have done nothing for long go first.
	now = now.Add(time.Hour)
	l.take("eva")
	l.take("eva")
	for i := range maxKeys / 2 {
		l.take(fmt.Sprint("newcomer", i))
	}
	if wait := l.take("eva"); wait != time.Minute {
		t.Errorf("the third time at once has to wait %v, want 1m", wait)
	}
	if wait := l.take("mira", "eva"); wait != time.Minute || l.take("mira") != 0 || l.take("mira") != 0 {
		t.Error("a refusal for one key counts for another")
	}
}

func TestLimiterKeyOfAnAddress(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "::ffff:192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::ffff:1", true}, {"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%eth0", "fe80::1%eth1", true},
	} {
		a, b := addressKey(netip.MustParseAddr(tt.a)), addressKey(netip.MustParseAddr(tt.b))
		if (a == b) != tt.same {
			t.Errorf("%s is %s, %s is %s", tt.a, a, tt.b, b)
		}
	}
	if addressKey(netip.Addr{}) == "" {
		t.Error("no address has no key")
	}
}

func TestClientBehindProxies(t *testing.T) {
	a := &Auth{AuthOptions: AuthOptions{Proxies: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}}
	for _, tt := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:9", "203.0.113.5", "192.0.2.1"}, // no proxy: what it says does not count
		{"198.51.100.1:9", "", "198.51.100.1"},
		{"198.51.100.1:9", "203.0.113.5", "203.0.113.5"},
		{"198.51.100.1:9", "10.0.0.1, 203.0.113.5, 198.51.100.2", "203.0.113.5"},
		{"198.51.100.1:9", "203.0.113.5, unknown", "198.51.100.1"},
		{"198.51.100.1:9", "unknown, 203.0.113.5", "203.0.113.5"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.remote
		r.Header.Set("X-Forwarded-For", tt.forwarded)
		if got := a.client(r); got.String() != tt.want {
			t.Errorf("%s for %q: %s, want %s", tt.remote, tt.forwarded, got, tt.want)
		}
	}
}

func FuzzPasswords(f *testing.F) {
	f.Add("eva:$2y$05$" + strings.Repeat("a", 53) + "\n")
	f.Add("# nobody\r\neva:{SHA}x\n:x\neva")
	f.Add("a:$2a$31$" + strings.Repeat("a", 53))
	f.Fuzz(func(t *testing.T, text string) {
		hashes, err := parsePasswords("users", []byte(text))
		for name, hash := range hashes {
			if cost, err := bcrypt.Cost([]byte(hash)); err != nil || cost > maxCost || len(hash) != 60 {
				t.Errorf("%q has the hash %q", name, hash)
			}
			if !goodName(name) || strings.ContainsAny(name, ":\n\r") || !strings.Contains(text, name+":") {
				t.Errorf("the name %q", name)
			}
		}
		used := 0
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" && line[0] != '#' {
				used++
			}
		}
		if err == nil && len(hashes) != used {
			t.Errorf("%d lines make %d people, and nothing is wrong", used, len(hashes))
		}
	})
}

// TestRightPasswordsAreForgotten: those of many people, or of many files, do not fill the memory.
func TestRightPasswordsAreForgotten(t *testing.T) {
	p := &passwords{queue: newQueue(), compare: func(_, _ []byte) error { return nil }, seen: map[[32]byte]bool{}}
	for i := range maxSeen + 1 {
		c := candidate{real: true, mark: [32]byte{byte(i), byte(i >> 8)}}
		if ok, err := p.matches(t.Context(), c, "", ""); !ok || err != nil || !p.seen[c.mark] || len(p.seen) > maxSeen {
			t.Fatalf("password %d: %v, %v, and %d are remembered", i, ok, err, len(p.seen))
		}
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{1: "1", time.Second: "1", time.Second + 1: "2",
		6 * time.Second: "6"} {
		w := httptest.NewRecorder()
		if later(w, wait); w.Header().Get("Retry-After") != want {
			t.Errorf("%v: %q, want %q", wait, w.Header().Get("Retry-After"), want)
		}
	}
}

func TestNamesOfPeople(t *testing.T) {
	for name, want := range map[string]bool{
		strings.Repeat("x", maxUserBytes): true, strings.Repeat("x", maxUserBytes+1): false, "": false,
		"Eva Müller": true, "eva ": false, "\teva": false, "e\xffva": false,
		"e\x1fva": false, "e~va": true, "e\x7fva": false, "e\u0080va": false, "e\u009fva": false, "e\u00a0va": true,
	} {
		if got := goodName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestABrokenPasswordFileIsSaidOnce: it is read for each login, and the log has it once.
func TestABrokenPasswordFileIsSaidOnce(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "users")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := "eva:" + string(hash) + "\n"
	write(good)
	var log bytes.Buffer
	p, err := openPasswords(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{good + "mira\n", good + "mira\n", good, good + "mira\n"} {
		write(text)
		if c, _ := p.find("eva", "x"); !c.real {
			t.Errorf("with %q nobody knows eva", text)
		}
		if c, _ := p.find("nobody", "x"); c.real || c.hash != string(hash) {
			t.Errorf("with %q an unknown name is told from a known one by the time that it takes: %+v", text, c)
		}
	}
	if n := strings.Count(log.String(), "reading the passwords again"); n != 2 {
		t.Errorf("it is said %d times, want once for each time that it broke:\n%s", n, &log)
	}
}
