package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// remembering resolves with what the last answer left, as a file has it.
type remembering struct {
	Resolver
	known []byte
}

func (r *remembering) Resolve(ctx context.Context, now time.Time) Inventory {
	var last Known
	if r.known != nil {
		if err := json.Unmarshal(r.known, &last); err != nil {
			panic(err)
		}
	}
	inv := r.Resolver.Resolve(ctx, now, last)
	r.known, _ = json.Marshal(inv.Known)
	return inv
}

var (
	t0     = time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	errOut = errors.New("connection refused")
)

func fails(err error) QueryFunc {
	return func(context.Context) (Answer, error) { return Answer{}, err }
}

// fleet names n hosts, gpu00 and on.
func fleet(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("gpu%02d", i))
	}
	return out
}

// shown renders an inventory: names, with the minutes since when a host is gone.
func shown(inv Inventory) string {
	var out []string
	for _, h := range inv.Hosts {
		s := h.Name
		if !h.GoneSince.IsZero() {
			s += fmt.Sprintf("†%d", int(h.GoneSince.Sub(t0).Minutes()))
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestResolver(t *testing.T) {
	type step struct {
		minute int
		consul QueryFunc
		accept bool
		want   string // as shown renders it
		codes  string
		asOf   int // minute
	}
	partly := func(missing string, hosts ...Host) QueryFunc {
		return func(context.Context) (Answer, error) {
			return Answer{Hosts: hosts, Missing: map[string]string{missing: "no path"}}, nil
		}
	}
	in := func(datacenter string, names ...string) []Host {
		var out []Host
		for _, n := range names {
			out = append(out, Host{Name: n, Datacenter: datacenter})
		}
		return out
	}
	day := 24 * 60
	for name, steps := range map[string][]step{
		"never an answer": {
			{0, fails(errOut), false, "", "discovery:unreachable", 0},
			{1, says(), false, "", "discovery:empty", 1},
			{2, says("a"), false, "a", "", 2},
		},
		"last known while unreachable, for ever": {
			{0, says("a", "b"), false, "a b", "", 0},
			{1, fails(errOut), false, "a b", "discovery:unreachable", 0},
			{30 * day, fails(errOut), true, "a b", "discovery:unreachable", 0},
			{30*day + 1, says("a", "b"), false, "a b", "", 30*day + 1},
		},
		"empty, even when shrinking is accepted": {
			{0, says("a", "b"), false, "a b", "", 0},
			{1, says(), false, "a b", "discovery:empty", 0},
			{2, says(), true, "a b", "discovery:empty", 0},
		},
		"exactly 70 % is believed": {
			{0, says(fleet(10)...), false, strings.Join(fleet(10), " "), "", 0},
			{1, says(fleet(7)...), false, strings.Join(fleet(7), " ") + " gpu07†1 gpu08†1 gpu09†1", "", 1},
		},
		"less is not, until it is accepted": {
			{0, says(fleet(10)...), false, strings.Join(fleet(10), " "), "", 0},
			{1, says(fleet(6)...), false, strings.Join(fleet(10), " "), "discovery:shrunk", 0},
			{2, says(fleet(6)...), false, strings.Join(fleet(10), " "), "discovery:shrunk", 0},
			{3, says(fleet(6)...), true, strings.Join(fleet(6), " ") + " gpu06†3 gpu07†3 gpu08†3 gpu09†3", "", 3},
			{4, says(fleet(6)...), false, strings.Join(fleet(6), " ") + " gpu06†3 gpu07†3 gpu08†3 gpu09†3", "", 4},
		},
		"as many, but all others": {
			{0, says("a", "b"), false, "a b", "", 0},
			{1, says("c", "d"), false, "a b c d", "discovery:shrunk", 0},
		},
		"one of two may leave": {
			{0, says("a", "b"), false, "a b", "", 0},
			{1, says("a"), false, "a b†1", "", 1},
			{2, says("a"), false, "a b†1", "", 2},
			{day, says("a"), false, "a b†1", "", day},
			{day + 1, says("a"), false, "a", "", day + 1},
		},
		"back from the dead": {
			{0, says("a", "b"), false, "a b", "", 0},
			{1, says("a"), false, "a b†1", "", 1},
			{2, says("a", "b"), false, "a b", "", 2},
			{3, says("a"), false, "a b†3", "", 3},
		},
		"tombstones while unreachable": {
			{0, says("a", "b"), false, "a b", "", 0},
			{1, says("a"), false, "a b†1", "", 1},
			{2, fails(errOut), false, "a b†1", "discovery:unreachable", 1},
			{day + 1, fails(errOut), false, "a", "discovery:unreachable", 1},
		},
		"a datacenter that does not answer takes its own hosts only": {
			{0, partly("none", append(in("east", "a", "b"), in("west", "c", "d", "e")...)...), false, "a b c d e",
				"discovery:unreachable", 0},
			{1, partly("west", in("east", "a")...), false, "a b†1 c d e", "discovery:unreachable", 0},
			{2, partly("east", in("west", "c", "d")...), false, "a b†1 c d e†2", "discovery:unreachable", 1},
			{3, partly("west"), false, "a b†1 c d e†2", "discovery:unreachable discovery:empty", 1},
		},
		"a host that moves between datacenters": {
			{0, partly("none", append(in("east", "a", "b"), in("west", "c")...)...), false, "a b c",
				"discovery:unreachable", 0},
			{1, partly("west", in("east", "a", "b", "c")...), false, "a b c", "discovery:unreachable", 1},
		},
		"the clock goes back": {
			{0, says("a", "b"), false, "a b", "", 0},
			{120, says("a"), false, "a b†120", "", 120},
			{-60, fails(errOut), false, "a b†-60", "discovery:unreachable", -60},
			{-60 + day, fails(errOut), false, "a", "discovery:unreachable", -60},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var k remembering
			for _, s := range steps {
				k.Resolver = Resolver{Consul: s.consul, AcceptShrink: s.accept}
				now := t0.Add(time.Duration(s.minute) * time.Minute)
				inv := k.Resolve(t.Context(), now)
				if got := shown(inv); got != s.want {
					t.Errorf("minute %d: shown %q, want %q", s.minute, got, s.want)
				}
				if got := strings.Join(codes(inv.Problems), " "); got != s.codes {
					t.Errorf("minute %d: problems %q, want %q: %v", s.minute, got, s.codes, inv.Problems)
				}
				if want := t0.Add(time.Duration(s.asOf) * time.Minute); !inv.AsOf.Equal(want) {
					t.Errorf("minute %d: as of %s, want %s", s.minute, inv.AsOf, want)
				}
			}
		})
	}
}

// Flapping, of a host and of Consul as a whole, must not make a host come and go.
func TestResolverFlapping(t *testing.T) {
	k := &remembering{Resolver: Resolver{Consul: says(fleet(4)...)}}
	k.Resolve(t.Context(), t0)
	for i := range 40 {
		switch i % 4 {
		case 0:
			k.Consul = says(fleet(3)...) // the last one is away
		case 1:
			k.Consul = fails(errOut)
		case 2:
			k.Consul = says()
		case 3:
			k.Consul = says(fleet(4)...)
		}
		inv := k.Resolve(t.Context(), t0.Add(time.Duration(i)*time.Minute))
		if !slices.Equal(names(inv.Hosts), fleet(4)) {
			t.Fatalf("turn %d: %v", i, names(inv.Hosts))
		}
		if gone := !inv.Hosts[3].GoneSince.IsZero(); gone != (i%4 != 3) {
			t.Errorf("turn %d: gone %v", i, gone)
		}
	}
}

func TestResolverMergesItsSources(t *testing.T) {
	list, _ := List([]Entry{{Name: "a", Title: "listed"}})
	drops := func(names ...string) QueryFunc {
		return func(context.Context) (Answer, error) {
			h, p := Drops(names)
			return Answer{Hosts: h, Problems: p}, nil
		}
	}
	k := &remembering{Resolver: Resolver{List: list, Consul: says("a", "b"), Drops: drops("b", "c", "d", "E")}}
	if got := shown(k.Resolve(t.Context(), t0)); got != "a b c d e" {
		t.Fatalf("shown %q", got)
	}
	// The disk of the drops is gone, and so is Consul.
	k.Consul, k.Drops = fails(errOut), drops()
	inv := k.Resolve(t.Context(), t0.Add(time.Minute))
	if got := shown(inv); got != "a b c d e" ||
		strings.Join(codes(inv.Problems), " ") != "discovery:unreachable discovery:empty" {
		t.Errorf("shown %q, %v", got, inv.Problems)
	}
	// What is not asked is not shown, and not forgotten.
	k.Consul, k.Drops = nil, nil
	if got := shown(k.Resolve(t.Context(), t0.Add(2*time.Minute))); got != "a" {
		t.Errorf("the list alone: %q", got)
	}
	k.Consul = fails(errOut)
	if got := shown(k.Resolve(t.Context(), t0.Add(3*time.Minute))); got != "a b" {
		t.Errorf("Consul is asked again: %q", got)
	}
	// A host that Consul lost and that still pushes is not gone.
	k.Consul, k.Drops = says("a"), drops("b", "c", "d", "e")
	inv = k.Resolve(t.Context(), t0.Add(4*time.Minute))
	if got := shown(inv); got != "a b c d e" {
		t.Errorf("%q, %+v", got, inv.Hosts)
	}
	// No drops yet is how every site begins.
	k = &remembering{Resolver: Resolver{Drops: drops()}}
	if inv := k.Resolve(t.Context(), t0); len(inv.Problems) > 0 {
		t.Errorf("no drops: %v", inv.Problems)
	}
}

func TestResolverKeepsEveryField(t *testing.T) {
	h := Host{Name: "a", Title: `"T" <b>`, Group: "g", Owner: "o", Note: "n\\", Address: "-p 22 a", Datacenter: "dc1",
		Tags:         []string{"x", "y"},
		ExpectedGPUs: 8, Check: Critical, CheckOutput: "out", Maintenance: true, MaintenanceReason: "why"}
	k := &remembering{Resolver: Resolver{
		Consul: func(context.Context) (Answer, error) { return Answer{Hosts: []Host{h}}, nil },
	}}
	k.Resolve(t.Context(), t0)
	k.Consul = fails(errOut)
	if d := cmp.Diff([]Host{h}, k.Resolve(t.Context(), t0.Add(time.Hour)).Hosts); d != "" {
		t.Error(d)
	}
}

// A damaged state may name what is no host, or a time that has not come.
func TestWhatIsKnownIsUsable(t *testing.T) {
	var last Known
	err := json.Unmarshal([]byte(`{"consul": [
		{"name": "b", "seen_at": "2026-11-20T05:00:00Z", "gone_since": "2999-01-01T00:00:00Z"},
		{"name": "../../x", "seen_at": "2026-11-20T05:00:00Z"}, {"name": "A", "seen_at": "2026-11-20T05:00:00Z"},
		{"name": "a", "seen_at": "2999-01-01T00:00:00Z"}, {"name": "a", "seen_at": "2026-11-20T05:00:00Z"}
	], "elsewhere": [{"name": "c"}]}`), &last)
	if err != nil {
		t.Fatal(err)
	}
	inv := (&Resolver{Consul: fails(errOut)}).Resolve(t.Context(), t0, last)
	if got := shown(inv); got != "a b†0" || !inv.AsOf.Equal(t0) || len(last["consul"]) != 5 {
		t.Errorf("%q as of %s; what was known has %d hosts", got, inv.AsOf, len(last["consul"]))
	}
}
