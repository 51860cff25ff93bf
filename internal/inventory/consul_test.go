package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/consul/api"
	"golang.org/x/sys/unix"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
)

// noEnvironment keeps a developer's own Consul out of a test.
func noEnvironment(t *testing.T) {
	t.Helper()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "CONSUL_") {
			t.Setenv(name, "")
		}
	}
}

func newConsul(t *testing.T, o ConsulOptions) *Consul {
	t.Helper()
	c, err := NewConsul(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(t *testing.T, c *Consul) Answer {
	t.Helper()
	a, err := c.Query(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func names(hosts []Host) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return out
}

func codes(problems []snapshot.Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Code)
	}
	return out
}

// enter writes a node with the service into the catalog.
func enter(t *testing.T, client *api.Client, service, node string, meta map[string]string, checks ...*api.HealthCheck) {
	t.Helper()
	if len(checks) == 0 {
		checks = []*api.HealthCheck{{CheckID: "gpuboard-collect", Status: "passing", ServiceID: service}}
	}
	for _, c := range checks {
		c.Node = node
	}
	_, err := client.Catalog().Register(&api.CatalogRegistration{Node: node, Address: "127.0.0.1", Checks: checks,
		NodeMeta: map[string]string{"rack": "r1", "kind": "gpu"},
		Service:  &api.AgentService{ID: service, Service: service, Tags: []string{"a100", service}, Meta: meta}}, nil)
	if err != nil {
		t.Fatalf("registering %q: %v", node, err)
	}
}

func leave(t *testing.T, client *api.Client, service string, nodes ...string) {
	t.Helper()
	for _, n := range nodes {
		if _, err := client.Catalog().Deregister(&api.CatalogDeregistration{Node: n, ServiceID: service}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConsul(t *testing.T) {
	noEnvironment(t)
	agent := consultest.Start(t, consultest.Options{})
	admin := agent.Admin()

	t.Run("every field", func(t *testing.T) {
		enter(t, admin, "fields", "GPU01", map[string]string{"title": "Vision\x1b[2J box", "owner": "vision",
			"notes": "no overnight\njobs",
			"gpus":  "8", "ssh_host": "gpu01.lab.example", "ssh_port": "2222", "maintenance": "new fans"})
		enter(t, admin, "fields", "node-x.lab.example", map[string]string{"host": "gpu02", "group": "g"})
		a := ask(t, newConsul(t, ConsulOptions{Address: agent.Address, Service: "fields"}))
		want := []Host{
			{Name: "gpu01", Title: `Vision\x1b[2J box`, Group: "r1", Owner: "vision", Note: "no overnight jobs",
				Address:    "-p 2222 gpu01.lab.example",
				Datacenter: "dc1", Tags: []string{"a100", "fields"}, ExpectedGPUs: 8, Check: Passing,
				Maintenance: true, MaintenanceReason: "new fans"},
			{Name: "gpu02", Group: "g", Address: "node-x.lab.example", Datacenter: "dc1", Tags: []string{"a100", "fields"},
				Check: Passing},
		}
		if d := cmp.Diff(want, a.Hosts); d != "" {
			t.Error(d)
		}
		if len(a.Problems) > 0 {
			t.Errorf("problems: %v", a.Problems)
		}
	})

	t.Run("bad meta degrades its own field", func(t *testing.T) {
		enter(t, admin, "badmeta", "gpu01", map[string]string{"gpus": "-1", "ssh_host": "-oProxyCommand=id", "title": "kept"})
		enter(t, admin, "badmeta", "gpu02", map[string]string{"gpus": "1e9", "ssh_port": "22; id"})
		a := ask(t, newConsul(t, ConsulOptions{Address: agent.Address, Service: "badmeta"}))
		if len(a.Hosts) != 2 || a.Hosts[0].Title != "kept" {
			t.Fatalf("hosts: %+v", a.Hosts)
		}
		for _, h := range a.Hosts {
			if h.Address != "" || h.ExpectedGPUs != 0 {
				t.Errorf("%s: address %q, %d GPUs", h.Name, h.Address, h.ExpectedGPUs)
			}
		}
		if got := codes(a.Problems); !slices.Equal(got, []string{"discovery:bad-meta", "discovery:bad-meta",
			"discovery:bad-meta", "discovery:bad-meta"}) {
			t.Errorf("problems: %v", a.Problems)
		}
	})

	t.Run("checks", func(t *testing.T) {
		check := func(id, status, output, notes string) *api.HealthCheck {
			return &api.HealthCheck{CheckID: id, Name: id, Status: status, Output: output, Notes: notes}
		}
		service := func(c *api.HealthCheck) *api.HealthCheck { c.ServiceID = "checks"; return c }
		good := func() *api.HealthCheck { return service(check("gpuboard-collect", "passing", "8 GPUs, 3 free", "")) }
		for _, tt := range []struct {
			node   string
			checks []*api.HealthCheck
			want   Host
		}{
			{"all-well", []*api.HealthCheck{good(), check("serfHealth", "passing", "alive", "")}, Host{Check: Passing}},
			{"service-warns", []*api.HealthCheck{service(check("gpuboard-collect", "warning", "slow\nlink", ""))},
				Host{Check: Warning, CheckOutput: "slow link"}},
			{"service-critical",
				[]*api.HealthCheck{service(check("gpuboard-collect", "critical", "TTL expired", "")),
					check("other", "warning", "w", "")},
				Host{Check: Critical, CheckOutput: "TTL expired"}},
			{"node-critical", []*api.HealthCheck{good(), check("serfHealth", "critical", "Agent not live", "")},
				Host{Check: Critical, CheckOutput: "Agent not live"}},
			{"node-drained", []*api.HealthCheck{good(), check("_node_maintenance", "critical", "", "new disk")},
				Host{Check: Maintenance, Maintenance: true, MaintenanceReason: "new disk"}},
			{"service-drained",
				[]*api.HealthCheck{good(), service(check("_service_maintenance:checks", "critical", "", "driver\x07"))},
				Host{Check: Maintenance, Maintenance: true, MaintenanceReason: `driver\x07`}},
		} {
			enter(t, admin, "checks", tt.node, nil, tt.checks...)
			a := ask(t, newConsul(t, ConsulOptions{
				Address: agent.Address, Service: "checks", Filter: fmt.Sprintf("Node.Node == %q", tt.node),
			}))
			if len(a.Hosts) != 1 {
				t.Errorf("%s: %d hosts", tt.node, len(a.Hosts))
				continue
			}
			tt.want.Name = tt.node
			if d := cmp.Diff(tt.want, a.Hosts[0], cmpopts.IgnoreFields(Host{}, "Group", "Datacenter", "Tags")); d != "" {
				t.Errorf("%s: %s", tt.node, d)
			}
		}
	})

	t.Run("the agent's own maintenance mode", func(t *testing.T) {
		r := newConsul(t, ConsulOptions{Address: agent.Address, Service: "ownmaint"})
		if _, err := r.Register(t.Context(), Registration{Host: "gpu09"}); err != nil {
			t.Fatal(err)
		}
		if err := admin.Agent().EnableServiceMaintenance("ownmaint", "moving racks"); err != nil {
			t.Fatal(err)
		}
		c := newConsul(t, ConsulOptions{Address: agent.Address, Service: "ownmaint"})
		consultest.Eventually(t, need.Patience, func() error {
			a := ask(t, c)
			if len(a.Hosts) == 1 && a.Hosts[0].Maintenance && a.Hosts[0].MaintenanceReason == "moving racks" {
				return nil
			}
			return fmt.Errorf("hosts: %+v", a.Hosts)
		})
		if err := r.Deregister(t.Context()); err != nil {
			t.Error(err)
		}
	})

	t.Run("choosing by tag, filter and node meta", func(t *testing.T) {
		enter(t, admin, "choose", "gpu01", map[string]string{"owner": "a"})
		enter(t, admin, "choose", "gpu02", map[string]string{"owner": "b"})
		for _, tt := range []struct {
			o    ConsulOptions
			want []string
		}{
			{ConsulOptions{Tags: []string{"a100", "choose"}}, []string{"gpu01", "gpu02"}},
			{ConsulOptions{Tags: []string{"a100", "h100"}}, nil},
			{ConsulOptions{Filter: `Service.Meta.owner == "b"`}, []string{"gpu02"}},
			{ConsulOptions{NodeMeta: map[string]string{"kind": "gpu"}}, []string{"gpu01", "gpu02"}},
			{ConsulOptions{NodeMeta: map[string]string{"kind": "web"}}, nil},
		} {
			tt.o.Address, tt.o.Service = agent.Address, "choose"
			if got := names(ask(t, newConsul(t, tt.o)).Hosts); !slices.Equal(got, tt.want) {
				t.Errorf("%+v: %v, want %v", tt.o, got, tt.want)
			}
		}
		_, err := newConsul(t, ConsulOptions{
			Address: agent.Address, Service: "choose", Filter: "not a filter",
		}).Query(t.Context())
		if err == nil {
			t.Error("a filter that is none: no error")
		}
	})

	t.Run("hostile names are refused and counted", func(t *testing.T) {
		bad := []string{"../../../etc/cron.d/x", "..", ".", "a/b", "<img src=x onerror=alert(1)>", "\x1b[2J", "a.", "😀",
			"x.json",
			strings.Repeat("n", 300), strings.Repeat("a.", 126) + "aa"}
		for _, n := range bad {
			enter(t, admin, "hostile", n, nil)
		}
		enter(t, admin, "hostile", "honest", map[string]string{"host": "../x"})
		for i := range 10 {
			enter(t, admin, "hostile", fmt.Sprintf("also bad %d", i), nil)
		}
		enter(t, admin, "hostile", "GOOD", nil)
		a := ask(t, newConsul(t, ConsulOptions{Address: agent.Address, Service: "hostile"}))
		if got := names(a.Hosts); !slices.Equal(got, []string{"good"}) {
			t.Errorf("hosts: %q", got)
		}
		if got := codes(a.Problems); len(got) != maxListed+1 ||
			slices.ContainsFunc(got, func(c string) bool { return c != "discovery:bad-name" }) {
			t.Errorf("problems: %v", got)
		}
		for _, p := range a.Problems {
			if snapshot.Text(p.Message, snapshot.MaxTextBytes) != p.Message {
				t.Errorf("not safe to print: %q", p.Message)
			}
		}
		if last := a.Problems[len(a.Problems)-1].Message; !strings.Contains(last, fmt.Sprint(len(bad)+1+10-maxListed)) {
			t.Errorf("the rest is not counted: %q", last)
		}
	})

	t.Run("one name from two nodes", func(t *testing.T) {
		enter(t, admin, "twice", "aaa", map[string]string{"host": "victim", "title": "impostor"})
		enter(t, admin, "twice", "victim", map[string]string{"title": "itself"})
		a := ask(t, newConsul(t, ConsulOptions{Address: agent.Address, Service: "twice"}))
		if len(a.Hosts) != 1 || a.Hosts[0].Title != "itself" {
			t.Errorf("hosts: %+v", a.Hosts)
		}
		if got := codes(a.Problems); !slices.Equal(got, []string{"discovery:duplicate"}) {
			t.Errorf("problems: %v", a.Problems)
		}
	})

	t.Run("none", func(t *testing.T) {
		if a := ask(t, newConsul(t, ConsulOptions{Address: agent.Address, Service: "gpubaord"})); len(a.Hosts) != 0 {
			t.Errorf("hosts: %+v", a.Hosts)
		}
	})

	t.Run("guarded and shown as gone", func(t *testing.T) { testShrink(t, agent) })
	t.Run("registrar", func(t *testing.T) { testRegistrar(t, agent) })
	t.Run("file of the agent", func(t *testing.T) { testFileOfTheAgent(t, agent) })

	// Last, because it takes the agent away.
	t.Run("down and up again", func(t *testing.T) { testDown(t, agent) })
}

func testShrink(t *testing.T, agent *consultest.Agent) {
	admin := agent.Admin()
	var all []string
	for i := range 10 {
		all = append(all, fmt.Sprintf("gpu%02d", i))
		enter(t, admin, "shrink", all[i], nil)
	}
	now := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	k := &remembering{Resolver: Resolver{
		Consul: newConsul(t, ConsulOptions{Address: agent.Address, Service: "shrink"}).Query,
	}}
	if inv := k.Resolve(t.Context(), now); len(inv.Hosts) != 10 || len(inv.Problems) != 0 {
		t.Fatalf("at first: %d hosts, %v", len(inv.Hosts), inv.Problems)
	}
	leave(t, admin, "shrink", all[:4]...)
	inv := k.Resolve(t.Context(), now.Add(time.Minute))
	if !slices.Equal(names(inv.Hosts), all) || !slices.Equal(codes(inv.Problems), []string{"discovery:shrunk"}) {
		t.Fatalf("less 40 %%: %v, %v", names(inv.Hosts), inv.Problems)
	}
	if !inv.Hosts[0].GoneSince.IsZero() || !inv.AsOf.Equal(now) {
		t.Errorf("gone since %v, as of %v", inv.Hosts[0].GoneSince, inv.AsOf)
	}
	k.AcceptShrink = true
	inv = k.Resolve(t.Context(), now.Add(2*time.Minute))
	if len(inv.Hosts) != 10 || len(inv.Problems) != 0 || inv.Hosts[3].GoneSince.IsZero() ||
		!inv.Hosts[4].GoneSince.IsZero() {
		t.Errorf("accepted: %+v, %v", inv.Hosts, inv.Problems)
	}
	k.AcceptShrink = false
	leave(t, admin, "shrink", all[4:]...)
	inv = k.Resolve(t.Context(), now.Add(3*time.Minute))
	if len(inv.Hosts) != 10 || !slices.Equal(codes(inv.Problems), []string{"discovery:empty"}) {
		t.Errorf("emptied: %v, %v", names(inv.Hosts), inv.Problems)
	}
}

func testDown(t *testing.T, agent *consultest.Agent) {
	enter(t, agent.Admin(), "down", "gpu01", map[string]string{"title": "One"})
	now := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	k := &remembering{Resolver: Resolver{
		Consul: newConsul(t, ConsulOptions{Address: agent.Address, Service: "down"}).Query,
	}}
	k.Resolve(t.Context(), now)
	agent.Stop()
	inv := k.Resolve(t.Context(), now.Add(12*time.Minute))
	if len(inv.Hosts) != 1 || inv.Hosts[0].Title != "One" ||
		!slices.Equal(codes(inv.Problems), []string{"discovery:unreachable"}) || !inv.AsOf.Equal(now) {
		t.Errorf("down: %+v", inv)
	}
	if !strings.Contains(inv.Problems[0].Message, "12 min ago") {
		t.Errorf("no age in %q", inv.Problems[0].Message)
	}
	agent.Restart()
	inv = k.Resolve(t.Context(), now.Add(13*time.Minute))
	if len(inv.Hosts) != 1 || !slices.Equal(codes(inv.Problems), []string{"discovery:empty"}) {
		t.Errorf("restarted and forgetful: %+v", inv)
	}
	enter(t, agent.Admin(), "down", "gpu01", nil)
	inv = k.Resolve(t.Context(), now.Add(14*time.Minute))
	if len(inv.Hosts) != 1 || len(inv.Problems) != 0 || !inv.AsOf.Equal(now.Add(14*time.Minute)) {
		t.Errorf("registered again: %+v", inv)
	}
}

func TestConsulTLS(t *testing.T) {
	noEnvironment(t)
	agent := consultest.Start(t, consultest.Options{TLS: true})
	enter(t, agent.Admin(), "gpuboard", "gpu01", nil)
	if _, err := newConsul(t, ConsulOptions{Address: agent.Address}).Query(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
	t.Run("from the environment", func(t *testing.T) {
		t.Setenv("CONSUL_HTTP_ADDR", strings.TrimPrefix(agent.Address, "https://"))
		t.Setenv("CONSUL_HTTP_SSL", "true")
		t.Setenv("CONSUL_CACERT", agent.CAFile)
		if a := ask(t, newConsul(t, ConsulOptions{})); len(a.Hosts) != 1 {
			t.Errorf("hosts: %+v", a)
		}
		t.Setenv("CONSUL_TLS_SERVER_NAME", "elsewhere.example")
		if _, err := newConsul(t, ConsulOptions{}).Query(t.Context()); err == nil {
			t.Error("a server of another name was believed")
		}
	})
}

func TestConsulDatacenters(t *testing.T) {
	noEnvironment(t)
	east := consultest.Start(t, consultest.Options{Datacenter: "east"})
	west := consultest.Start(t, consultest.Options{Datacenter: "west", Node: "node2", JoinWAN: east})
	enter(t, east.Admin(), "gpuboard", "gpu01", map[string]string{"title": "east's"})
	enter(t, west.Admin(), "gpuboard", "gpu01", map[string]string{"title": "west's"})
	enter(t, west.Admin(), "gpuboard", "gpu02", map[string]string{"group": "rack 4"})

	consultest.Eventually(t, need.Patience, func() error {
		a, err := newConsul(t, ConsulOptions{Address: east.Address, Datacenters: []string{"*"}}).Query(t.Context())
		if err != nil || len(a.Missing) > 0 || len(a.Hosts) != 2 {
			return fmt.Errorf("%+v, %v", a, err)
		}
		return nil
	})
	for _, tt := range []struct {
		datacenters []string
		want        []string
		title       string
	}{
		{nil, []string{"gpu01 r1"}, "east's"},
		{[]string{"west"}, []string{"gpu01 r1", "gpu02 rack 4"}, "west's"},
		{[]string{"west", "east"}, []string{"gpu01 west / r1", "gpu02 west / rack 4"}, "west's"},
		{[]string{"*"}, []string{"gpu01 east / r1", "gpu02 west / rack 4"}, "east's"},
	} {
		a := ask(t, newConsul(t, ConsulOptions{Address: east.Address, Datacenters: tt.datacenters}))
		var got []string
		for _, h := range a.Hosts {
			got = append(got, strings.TrimSpace(h.Name+" "+h.Group))
		}
		if !slices.Equal(got, tt.want) || a.Hosts[0].Title != tt.title {
			t.Errorf("%v: %+v", tt.datacenters, a.Hosts)
		}
		if double := slices.Contains(codes(a.Problems), "discovery:duplicate"); double != (len(tt.datacenters) == 2 ||
			slices.Contains(tt.datacenters, "*")) {
			t.Errorf("%v: %v", tt.datacenters, a.Problems)
		}
	}

	now := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	k := &remembering{Resolver: Resolver{
		Consul: newConsul(t, ConsulOptions{Address: east.Address, Datacenters: []string{"east", "west"}}).Query,
	}}
	k.Resolve(t.Context(), now)
	west.Stop()
	inv := k.Resolve(t.Context(), now.Add(time.Minute))
	if !slices.Equal(names(inv.Hosts), []string{"gpu01", "gpu02"}) ||
		!slices.Equal(codes(inv.Problems), []string{"discovery:unreachable"}) {
		t.Errorf("west is down: %+v", inv)
	}
	if inv.Hosts[1].Datacenter != "west" || !inv.Hosts[1].GoneSince.IsZero() || !inv.AsOf.Equal(now) {
		t.Errorf("west is down: %+v", inv)
	}
}

func TestConsulOptions(t *testing.T) {
	noEnvironment(t)
	for _, o := range []ConsulOptions{
		{Service: "../kv/secret"}, {Service: ".."}, {Service: "a?b"}, {Service: "a\nb"},
		{Address: "gopher://x"},
		{Datacenters: make([]string, MaxDatacenters+1)},
	} {
		if _, err := NewConsul(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	for _, name := range []string{"CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "/only/one")
			if _, err := NewConsul(ConsulOptions{}); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestMissingCredentialFilesAreRetried: a file that is not there, or holds nothing, is no error
// of the options. The agent is not asked without it, and is as soon as it is there.
func TestMissingCredentialFilesAreRetried(t *testing.T) {
	noEnvironment(t)
	dir := t.TempDir()
	fifo, empty, token := filepath.Join(dir, "fifo"), filepath.Join(dir, "empty"), filepath.Join(dir, "token")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(empty, []byte("\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var asked []string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("X-Consul-Token"))
		fmt.Fprint(w, "[]")
	}))
	defer agent.Close()
	for want, env := range map[string][]string{
		"reading the token for Consul: open " + token: {"CONSUL_HTTP_TOKEN_FILE", token},
		empty + " is empty":                           {"CONSUL_HTTP_TOKEN_FILE", empty},
		"it is a FIFO":                                {"CONSUL_HTTP_TOKEN_FILE", fifo},
		dir + ": not a regular file":                  {"CONSUL_HTTP_TOKEN_FILE", dir},
		"TLS files for Consul: open " + token:         {"CONSUL_CACERT", token}, "TLS files": {"CONSUL_CACERT", empty},
		"open " + token: {"CONSUL_CLIENT_CERT", empty, "CONSUL_CLIENT_KEY", token},
	} {
		t.Run(want, func(t *testing.T) {
			for pair := range slices.Chunk(env, 2) {
				t.Setenv(pair[0], pair[1])
			}
			_, err := newConsul(t, ConsulOptions{Address: agent.URL}).Query(context.Background())
			var file *fileError
			if !errors.As(err, &file) || !strings.Contains(err.Error(), want) || !strings.Contains(file.Hint(), "namei -l /") {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", token)
	c := newConsul(t, ConsulOptions{Address: agent.URL})
	if _, err := c.Query(context.Background()); err == nil || len(asked) > 0 {
		t.Errorf("%v, and asked with %q", err, asked)
	}
	if err := os.WriteFile(token, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Query(context.Background()); err != nil || len(asked) == 0 || asked[0] != "sesame" {
		t.Errorf("%v, and asked with %q", err, asked)
	}
}

func TestErrorsHideSecrets(t *testing.T) {
	err := hider{"sesame", ""}.wrap("asking", fmt.Errorf("bad token sesame: %w", context.Canceled))
	if strings.Contains(err.Error(), "sesame") || !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
}
