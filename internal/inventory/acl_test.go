package inventory

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
)

const deploy = "../../deploy/consul"

func rules(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The policies of deploy/consul suffice for what they are for, and for nothing else.
func TestACL(t *testing.T) {
	noEnvironment(t)
	agent := consultest.Start(t, consultest.Options{ACL: true})
	enter(t, agent.Admin(), "gpuboard", "gpu01", nil)
	generator := agent.Token("generator", rules(t, "acl-generator.hcl"))
	leader := agent.Token("leader", rules(t, "acl-generator-leader.hcl"))
	collector := agent.Token("collector", rules(t, "acl-collector.hcl"))
	consul := func(token string) *Consul {
		return newConsul(t, ConsulOptions{Address: agent.Address, Token: token})
	}

	t.Run("discovery", func(t *testing.T) {
		if got := names(ask(t, consul(generator)).Hosts); !slices.Equal(got, []string{"gpu01"}) {
			t.Errorf("with the generator's policy: %v", got)
		}
		// No token, and one that may do something else: 200 with [].
		now := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
		for _, token := range []string{"", leader} {
			k := resolverWith(t, now, "gpu01")
			k.Consul = consul(token).Query
			inv := k.Resolve(t.Context(), now.Add(time.Minute))
			if len(inv.Hosts) != 1 || !slices.Contains(codes(inv.Problems), "discovery:empty") {
				t.Errorf("with another token: %+v", inv)
			}
		}
		k := resolverWith(t, now, "gpu01")
		k.Consul = consul("00000000-dead-beef-0000-000000000000").Query // revoked
		inv := k.Resolve(t.Context(), now.Add(time.Minute))
		if len(inv.Hosts) != 1 || !slices.Equal(codes(inv.Problems), []string{"discovery:unreachable"}) ||
			strings.Contains(inv.Problems[0].Message, "dead-beef") {
			t.Errorf("with a revoked token: %+v", inv)
		}
	})

	t.Run("token file, rotated", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		write := func(token string) {
			if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(leader)
		t.Setenv("CONSUL_HTTP_TOKEN_FILE", file)
		c := newConsul(t, ConsulOptions{Address: agent.Address})
		if got := ask(t, c).Hosts; len(got) != 0 {
			t.Errorf("with the wrong token: %v", got)
		}
		write(generator)
		if got := ask(t, c).Hosts; len(got) != 1 {
			t.Errorf("with the right token: %v", got)
		}
	})

	t.Run("registration", func(t *testing.T) {
		for _, tt := range []struct {
			token string
			works bool
		}{{"", false}, {generator, false}, {leader, false}, {collector, true}} {
			r := newConsul(t, ConsulOptions{Address: agent.Address, Token: tt.token})
			_, err := r.Register(t.Context(), Registration{Host: "gpu02"})
			if (err == nil) != tt.works {
				t.Errorf("Register, expected to work %v: %v", tt.works, err)
			}
			if err := r.Report(t.Context(), Passing, "fine"); (err == nil) != tt.works {
				t.Errorf("Pass, expected to work %v: %v", tt.works, err)
			}
			if !tt.works {
				continue
			}
			consultest.Eventually(t, need.Patience, func() error {
				if got := names(ask(t, consul(generator)).Hosts); !slices.Equal(got, []string{"gpu01", "gpu02"}) {
					return errNotConsul
				}
				return nil
			})
			if err := r.Deregister(t.Context()); err != nil {
				t.Error(err)
			}
		}
		// The collector's token is on every node: it must not reach further.
		client := agent.Client(collector)
		if err := client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web"}); err == nil {
			t.Error("the collector's token registers other services")
		}
		if _, err := client.KV().Put(&api.KVPair{Key: "x"}, nil); err == nil {
			t.Error("the collector's token writes keys")
		}
		if _, err := client.Catalog().Register(&api.CatalogRegistration{Node: "gpu01", Address: "127.0.0.9"},
			nil); err == nil {
			t.Error("the collector's token takes other nodes over")
		}
	})

	t.Run("election", func(t *testing.T) {
		for _, token := range []string{"", generator, collector} {
			l := consul(token).NewLeader(leaderKey)
			l.step(t.Context())
			if l.Held() {
				t.Error("held without the leader's policy")
			}
		}
		l := consul(leader).NewLeader(leaderKey)
		l.step(t.Context())
		if !l.Held() {
			t.Error("not held with the leader's policy")
		}
		l.resign()
		other := consul(leader).NewLeader("another/key")
		other.step(t.Context())
		if other.Held() {
			t.Error("held a key that the policy does not name")
		}
	})
}

func TestServiceDefinition(t *testing.T) {
	noEnvironment(t)
	data, err := os.ReadFile(filepath.Join(deploy, "gpuboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "deregister_critical_service_after") {
		t.Error("a dead host would vanish")
	}
	if !json.Valid(data) {
		t.Fatal("not JSON")
	}
	ctx, cancel := context.WithTimeout(t.Context(), need.Patience)
	defer cancel()
	// An agent reads the file beside its own, which has to name a directory.
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"agent.json":    []byte(`{"data_dir": "/nonexistent"}`),
		"gpuboard.json": data,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(ctx, consultest.Program(t), "validate", dir).CombinedOutput()
	if err != nil {
		t.Errorf("consul validate: %v\n%s", err, out)
	}
}
