package dropbox

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// testLimiter is a limiter with a clock that the test moves, and a client for each connection.
type testLimiter struct {
	*limiter
	time time.Time
}

func newTestLimiter(l Limits) *testLimiter {
	d := &testLimiter{time: testNow}
	d.limiter = newLimiter(withDefaults(l), func() time.Time { return d.time })
	return d
}

// client is a connection as its client sees it.
type client struct {
	*attempt
	wasClosed bool
}

func (d *testLimiter) connect(source string) (*client, string) {
	g := &client{}
	v, why := d.accept(source, func() { g.wasClosed = true })
	g.attempt = v
	return g, why
}

// TestSilentConnectionsDoNotKeepOthersOut: an address that opens connections and says
// nothing loses those, and the node at another address gets in at once.
func TestSilentConnectionsDoNotKeepOthersOut(t *testing.T) {
	for name, tt := range map[string]struct {
		limits  Limits
		sources int // of silence
	}{
		"one address":                    {Limits{}, 1},
		"five addresses":                 {Limits{}, 5},
		"more addresses than handshakes": {Limits{}, 300},
		"the limit of connections":       {Limits{Connections: 100}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestLimiter(tt.limits)
			for round := range 10 {
				for n := range 2000 {
					d.connect(fmt.Sprint("silent", n%tt.sources))
				}
				if len(d.pending) > d.limits.Handshakes || d.total > d.limits.Connections {
					t.Fatalf("round %d: %d handshakes, %d connections", round, len(d.pending), d.total)
				}
				d.time = d.time.Add(loginGrace)
				node, why := d.connect("node")
				if why != "" {
					t.Fatalf("round %d: the node is turned away: %s", round, why)
				}
				// The silent ones go on, and the node's connection is not the one to go.
				for n := range 2000 {
					d.connect(fmt.Sprint("silent", n%tt.sources))
				}
				if node.wasClosed {
					t.Fatalf("round %d: the node is dropped", round)
				}
				d.loginEnded(node.attempt)
				d.closed(node.attempt)
			}
		})
	}
}

// TestManyNodesBehindOneAddress: all nodes behind one address get in, also when
// they come at once, some have the wrong key, and somebody there is silent.
func TestManyNodesBehindOneAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		silent, strangers int // per second
		longest           time.Duration
	}{
		"all at once":       {0, 0, 5 * time.Second},
		"with wrong keys":   {0, 10, 15 * time.Minute},
		"with silent ones":  {20, 0, 15 * time.Minute},
		"with both of them": {10, 10, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestLimiter(Limits{})
			waiting := 200
			began := d.time
			type silence struct {
				*client
				until time.Time
			}
			var silent []silence
			for waiting > 0 {
				if d.time.Sub(began) > tt.longest {
					t.Fatalf("%d nodes are not in after %v", waiting, tt.longest)
				}
				// Who comes first changes from second to second.
				second := int(d.time.Sub(began) / time.Second)
				honest := func() {
					var in []*client
					for range waiting {
						if g, why := d.connect("nat"); why == "" {
							in = append(in, g)
						}
					}
					for _, g := range in {
						if !g.wasClosed {
							d.loginEnded(g.attempt)
							waiting--
						}
					}
				}
				others := func() {
					for range tt.silent {
						if g, why := d.connect("nat"); why == "" {
							silent = append(silent, silence{g, d.time.Add(d.limits.HandshakeTimeout)})
						}
					}
					for range tt.strangers {
						if g, why := d.connect("nat"); why == "" {
							d.loginEnded(g.attempt)
							d.closed(g.attempt)
						}
					}
				}
				if second%2 == 0 {
					others()
					honest()
				} else {
					honest()
					others()
				}
				d.time = d.time.Add(time.Second)
				for len(silent) > 0 && !silent[0].until.After(d.time) {
					d.loginEnded(silent[0].attempt)
					d.closed(silent[0].attempt)
					silent = silent[1:]
				}
			}
			if d.total < 200 {
				t.Errorf("%d connections are counted, and 200 nodes are in", d.total)
			}
		})
	}
}

// TestOneAddressCannotFillTheServer: what is left of the limit for all is there at
// once for others, before anybody has to be dropped.
func TestOneAddressCannotFillTheServer(t *testing.T) {
	d := newTestLimiter(Limits{})
	for range 2000 {
		d.connect("silent")
	}
	if n := len(d.pending); n != d.limits.SourceHandshakes {
		t.Errorf("one address has %d connections that are not logged in, and %d is the most", n,
			d.limits.SourceHandshakes)
	}
	if _, why := d.connect("node"); why != "" {
		t.Errorf("a node at another address is turned away: %s", why)
	}
}

// TestConnectionsAreCounted lets connections end in every way; nothing is counted at the end.
func TestConnectionsAreCounted(t *testing.T) {
	d := newTestLimiter(Limits{Handshakes: 3, SourceHandshakes: 2})
	var all []*client
	for n := range 60 {
		g, why := d.connect(fmt.Sprint("source", n%4))
		d.time = d.time.Add(time.Second)
		if why != "" {
			continue
		}
		all = append(all, g)
		if n%3 != 2 {
			d.loginEnded(g.attempt)
		}
	}
	dropped := 0
	for _, g := range all {
		if g.wasClosed {
			dropped++
			d.loginEnded(g.attempt)
		}
		d.closed(g.attempt)
		d.closed(g.attempt)
	}
	if dropped == 0 {
		t.Error("nobody was dropped, so the test proves nothing")
	}
	if d.total != 0 || len(d.pending) != 0 {
		t.Errorf("all have left, and %d connections and %d logins are counted", d.total, len(d.pending))
	}
}

// TestSessionsOfAHostAreCounted: one that ends makes room for one.
func TestSessionsOfAHostAreCounted(t *testing.T) {
	d := newTestLimiter(Limits{PerHost: 2})
	var leave []func()
	for n, want := range []bool{true, true, false, true, false} {
		if n == 3 {
			leave[0]()
			leave = leave[1:]
		}
		left, ok := d.acceptHost("gpu01")
		if ok != want {
			t.Errorf("session %d: %v", n, ok)
		}
		if ok {
			leave = append(leave, left)
		}
	}
	for _, end := range leave {
		end()
	}
	if len(d.hosts) != 0 {
		t.Errorf("all have left, and %v are counted", d.hosts)
	}
}

func TestSources(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true}, {"192.0.2.1:1", "192.0.2.2:1", false},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8::ffff:0:1]:1", true}, {"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
	} {
		a, b := source(address(tt.a)), source(address(tt.b))
		if (a == b) != tt.same {
			t.Errorf("%s is %s, %s is %s", tt.a, a, tt.b, b)
		}
	}
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// TestTwoHundredSilentConnections opens them to a real server. A node at another
// address gets in; one at the same address does when the silent ones have had
// their time.
func TestTwoHundredSilentConnections(t *testing.T) {
	var ahead atomic.Int64
	now := func() time.Time { return testNow.Add(time.Duration(ahead.Load())) }
	b := startAt(t, Limits{Handshakes: 20, SourceHandshakes: 10, HandshakeTimeout: time.Hour}, now, "gpu01", "gpu02")
	for n := range 200 {
		conn, err := b.dialFrom(fmt.Sprintf("127.0.0.%d", 10+n%20))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// All that are let in have heard the server's greeting; the others are told why not.
	eventually(t, "the server is full", func() bool {
		conn, err := b.dialFrom("127.0.0.9")
		if err != nil {
			return false
		}
		defer conn.Close()
		greeting := make([]byte, 4)
		_, err = io.ReadFull(conn, greeting)
		return err != nil || string(greeting) != "SSH-"
	})
	if _, err := b.loginFrom(t, "127.0.0.1", "gpu01"); err == nil {
		t.Fatal("there is room, so the test proves nothing")
	}
	ahead.Store(int64(loginGrace))
	if _, err := b.loginFrom(t, "127.0.0.1", "gpu01"); err != nil {
		t.Errorf("the node at another address: %v", err)
	}
	if _, err := b.loginFrom(t, "127.0.0.10", "gpu02"); err != nil {
		t.Errorf("the node at the address of silent connections: %v", err)
	}
}
