package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/costtest"
	"gpuboard/internal/testenv/need"
)

// What no real Consul does: only here is its place taken by a fake.
func TestConsulMisbehaves(t *testing.T) {
	noEnvironment(t)
	body := func(status int, s string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, s)
		}
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"500", body(500, "No cluster leader")},
		{"403", body(403, "Permission denied")},
		{"HTML", body(200, "<html><body>Please log in</body></html>")},
		{"nothing", body(200, "")},
		{"null", body(200, "null")},
		{"an object", body(200, `{"hosts":[]}`)},
		{"a list of something else", body(200, `[{"Node":null},{},null]`)},
		{"wrong types", body(200, `[{"Node":{"Node":7},"Service":{"ID":[]}}]`)},
		{"cut", body(200, `[{"Node":{"Node":"gpu01"},"Service":{"ID":"gpubo`)},
		{"deep", body(200, strings.Repeat("[", 100000))},
		{"the token sent back", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			fmt.Fprintf(w, "bad token %s\x1b[2J", r.Header.Get("X-Consul-Token"))
		}},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}},
		{"endless", func(w http.ResponseWriter, r *http.Request) {
			chunk := []byte(strings.Repeat(" ", 1<<16))
			for r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}},
		{"cut off", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			now := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
			k := resolverWith(t, now, "gpu01", "gpu02")
			k.Consul = newConsul(t,
				ConsulOptions{Address: server.URL, Token: "sesame-open", Timeout: need.Patience}).Query
			inv := k.Resolve(t.Context(), now.Add(3*time.Hour))
			if !slices.Equal(names(inv.Hosts), []string{"gpu01", "gpu02"}) ||
				!slices.Equal(codes(inv.Problems), []string{"discovery:unreachable"}) {
				t.Fatalf("%v, %v", names(inv.Hosts), inv.Problems)
			}
			m := inv.Problems[0].Message
			if !strings.Contains(m, "3 h ago") || strings.Contains(m, "sesame") ||
				snapshot.Text(m, snapshot.MaxTextBytes) != m {
				t.Errorf("message: %q", m)
			}
			if tt.name == "endless" && !strings.Contains(m, "longer than") {
				t.Errorf("it was read until the timeout: %q", m)
			}
		})
	}
}

// resolverWith returns a keeper that has heard of the hosts from Consul at now.
func resolverWith(t *testing.T, now time.Time, hosts ...string) *remembering {
	t.Helper()
	k := &remembering{Resolver: Resolver{Consul: says(hosts...)}}
	if inv := k.Resolve(t.Context(), now); len(inv.Hosts) != len(hosts) {
		t.Fatalf("at first: %+v", inv)
	}
	return k
}

func says(hosts ...string) QueryFunc {
	return func(context.Context) (Answer, error) {
		var a Answer
		for _, h := range hosts {
			a.Hosts = append(a.Hosts, Host{Name: h, Check: Passing, Datacenter: "dc1"})
		}
		return a, nil
	}
}

func TestConsulHangs(t *testing.T) {
	noEnvironment(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, datacenters := range [][]string{nil, {"*"}, {"east", "west", "north"}} {
		c := newConsul(t, ConsulOptions{
			Address: l.Addr().String(), Timeout: 200 * time.Millisecond, Datacenters: datacenters,
		})
		// Without its own bound the call would last until this one.
		ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
		_, err := c.Query(ctx)
		if err == nil || ctx.Err() != nil {
			t.Errorf("%v: %v", datacenters, err)
		}
		cancel()
	}
	r := newConsul(t, ConsulOptions{Address: l.Addr().String(), Timeout: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
	defer cancel()
	if err := r.Report(ctx, Passing, "fine"); err == nil || ctx.Err() != nil {
		t.Errorf("Pass: %v", err)
	}
	if _, err := r.Register(ctx, Registration{Host: "gpu01"}); err == nil || ctx.Err() != nil {
		t.Errorf("Register: %v", err)
	}
	if err := r.Deregister(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("Deregister: %v", err)
	}
}

func TestConsulStaleAnswers(t *testing.T) {
	noEnvironment(t)
	var contact, filtered string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("stale") || r.URL.Query().Has("passing") {
			t.Errorf("asked %s", r.URL)
		}
		w.Header().Set("X-Consul-LastContact", contact)
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", filtered)
		fmt.Fprint(w, `[{"Node":{"Node":"gpu01"},"Service":{"ID":"gpuboard"}}, null]`)
	}))
	defer server.Close()
	for _, tt := range []struct {
		contact, filtered string
		want              []string
	}{
		{"60000", "", nil},
		{"60001", "", []string{"discovery:stale-read"}},
		{"0", "true", []string{"discovery:filtered"}},
	} {
		contact, filtered = tt.contact, tt.filtered
		a := ask(t, newConsul(t, ConsulOptions{Address: server.URL}))
		if !slices.Equal(codes(a.Problems), tt.want) || len(a.Hosts) != 1 {
			t.Errorf("%+v: %+v", tt, a)
		}
	}
}

func TestConsulNamesTooMany(t *testing.T) {
	noEnvironment(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `[`)
		for i := range MaxHosts + 7 {
			fmt.Fprintf(w, `{"Node":{"Node":"n%05d"},"Service":{"Tags":["%s"]}},`, i,
				strings.Join(make([]string, 70), `t","t`))
		}
		fmt.Fprint(w, `null]`)
	}))
	defer server.Close()
	a := ask(t, newConsul(t, ConsulOptions{Address: server.URL, Timeout: time.Minute}))
	if len(a.Hosts) != MaxHosts || !slices.Equal(codes(a.Problems), []string{"discovery:too-many"}) {
		t.Errorf("%d hosts, %v", len(a.Hosts), a.Problems)
	}
}

// TestConsulAnswersAreBounded: an answer of nothing but {} is refused before it is decoded.
func TestConsulAnswersAreBounded(t *testing.T) {
	noEnvironment(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w,
			`[{"Node":{"Node":"gpu01"},"Service":{"ID":"gpuboard"},"Checks":[{}`+strings.Repeat(",{}", 10_000)+`]}]`)
	}))
	defer server.Close()
	_, err := newConsul(t, ConsulOptions{Address: server.URL, Timeout: need.Patience}).Query(t.Context())
	if snapshot.CodeOf(err) != snapshot.BadTooLarge {
		t.Errorf("10,001 checks of one host: %v", err)
	}
	if err := tooCostly([]byte("[0" + strings.Repeat(",0", 1000) + "]")); err == nil {
		t.Error("1,001 numbers in the place of services")
	}
}

func FuzzConsulAnswer(f *testing.F) {
	f.Add(`[{"Node":{"Node":"GPU01","Datacenter":"dc1","Meta":{"rack":"r"}},"Service":{"ID":"gpuboard","Tags":["a",""],"Meta":{"gpus":"8",
		"ssh_host":"::1","ssh_port":"2222","maintenance":"why","title":"<b>\u202e"}},"Checks":[null,{"CheckID":"_node_maintenance","Notes":"n"},
		{"CheckID":"serfHealth","Status":"odd","Output":"o\n"}]},{"Node":{"Node":"../x"},"Service":{}},{"Node":{"Node":"gpu01"},"Service":{}}]`)
	f.Add(`[]`)
	f.Add(`null`)
	f.Add(`[null]`)
	for _, list := range slices.Concat(costtest.Lists("", ""),
		costtest.Lists(`[{"Node":{"Node":"gpu01"},"Service":{"ID":"gpuboard"},"Checks":`, "}]")) {
		f.Add(string(list))
	}
	f.Fuzz(func(t *testing.T, data string) {
		var entries []*api.ServiceEntry
		var err error
		// A value of the wrong type costs most, because encoding/json goes on behind it.
		costtest.Check(t, len(data), 320, func() {
			if err = tooCostly([]byte(data)); err == nil {
				err = json.Unmarshal([]byte(data), &entries)
			}
		})
		if err != nil {
			return
		}
		whole, err := wholeEntries(entries)
		if err != nil {
			return
		}
		hosts, problems := hostsOf([]reply{{datacenter: "dc1", entries: whole}})
		if len(whole) > 0 && len(hosts)+len(problems) == 0 {
			t.Fatal("entries, and neither a host nor a word about them")
		}
		safe := func(texts ...string) {
			for _, text := range texts {
				if snapshot.Text(text, snapshot.MaxTextBytes) != text {
					t.Fatalf("not safe to print: %q", text)
				}
			}
		}
		for i, h := range hosts {
			if name, err := snapshot.ParseHost(h.Name); err != nil || name != h.Name || i > 0 &&
				hosts[i-1].Name >= h.Name {
				t.Fatalf("host %q: %v", h.Name, err)
			}
			if h.Check == "" || h.Check == Passing && h.CheckOutput != "" || h.Check == Maintenance && !h.Maintenance ||
				len(h.Tags) > MaxTags {
				t.Fatalf("host %+v", h)
			}
			if a := strings.TrimPrefix(h.Address, "-p "); strings.HasPrefix(a, "-") ||
				strings.ContainsAny(a, ";&|$`'\"\\<>()") {
				t.Fatalf("address %q", h.Address)
			}
			safe(
				append(h.Tags, h.Title, h.Group, h.Owner, h.Note, h.Address, h.Datacenter, h.CheckOutput,
					h.MaintenanceReason)...,
			)
		}
		for _, p := range problems {
			safe(p.Message)
		}
	})
}

func TestConsulSocket(t *testing.T) {
	noEnvironment(t)
	path := filepath.Join(t.TempDir(), "s") // short: sockets have 108 bytes
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `[{"Node":{"Node":"gpu01"},"Service":{"ID":"gpuboard"}}]`)
	})}
	go server.Serve(l)
	defer server.Close()
	if a := ask(t, newConsul(t, ConsulOptions{Address: "unix://" + path})); len(a.Hosts) != 1 {
		t.Errorf("%+v", a)
	}
}
