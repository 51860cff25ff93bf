// Package consultest runs real Consul agents on loopback for tests.
package consultest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/testenv/need"
)

// ManagementToken may do everything in an agent with ACLs.
const ManagementToken = "5f3a1c52-0e4c-4c1c-9d2f-6f1d0c9a7b10"

// leaderWithin bounds how long an agent may take until it answers and leads.
const leaderWithin = need.Patience

// Options says what kind of agent to start.
type Options struct {
	Node       string // "node1" when empty
	Datacenter string // "dc1" when empty
	NodeMeta   map[string]string
	ACL        bool   // ACLs on, denied by default; see [ManagementToken]
	TLS        bool   // HTTPS only, with a certificate of a CA made for this agent
	JoinWAN    *Agent // an agent of another datacenter
}

// An Agent is a running Consul server of one node, which keeps nothing on disk.
type Agent struct {
	Address string // for api.Config, with the scheme
	CAFile  string // with Options.TLS

	t       testing.TB
	opts    Options
	dir     string
	ports   ports
	process *exec.Cmd
	done    chan struct{} // closed when process has ended
	log     *logBuffer
}

type ports struct{ http, server, lan, wan int }

// Start starts an agent and waits until it leads. The test skips when there is
// no Consul to run, and fails instead when GPUBOARD_REQUIRE_ALL is 1. The agent
// is stopped when the test ends.
func Start(t testing.TB, o Options) *Agent {
	t.Helper()
	need.Time(t, "it starts a Consul")
	if o.Node == "" {
		o.Node = "node1"
	}
	if o.Datacenter == "" {
		o.Datacenter = "dc1"
	}
	a := &Agent{t: t, opts: o, dir: t.TempDir()}
	if o.TLS {
		a.CAFile = writeCertificates(t, a.dir)
	}
	t.Cleanup(a.Stop)
	program := Program(t)
	// A port that was free a moment ago may be taken: try others.
	var err error
	for range 3 {
		a.ports = freePorts(t)
		a.Address = fmt.Sprintf("http://127.0.0.1:%d", a.ports.http)
		if o.TLS {
			a.Address = fmt.Sprintf("https://127.0.0.1:%d", a.ports.http)
		}
		if err = a.run(program); err == nil {
			return a
		}
		a.Stop()
	}
	t.Fatalf("starting Consul: %v\n%s", err, a.log)
	return nil
}

// Stop ends the agent at once, as a crash would. It does nothing when the
// agent is not running.
func (a *Agent) Stop() {
	if a.process == nil {
		return
	}
	_ = a.process.Process.Kill()
	<-a.done
	a.process = nil
}

// Restart starts the agent again on the same address. It has forgotten
// everything.
func (a *Agent) Restart() {
	a.t.Helper()
	a.Stop()
	if err := a.run(Program(a.t)); err != nil {
		a.t.Fatalf("restarting Consul: %v\n%s", err, a.log)
	}
}

// Client returns a client of the agent; token "" for the anonymous one.
func (a *Agent) Client(token string) *api.Client {
	a.t.Helper()
	cfg := api.DefaultNonPooledConfig()
	cfg.Address, cfg.Token, cfg.TokenFile = a.Address, token, ""
	cfg.TLSConfig = api.TLSConfig{CAFile: a.CAFile}
	c, err := api.NewClient(cfg)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// Admin returns a client that may do everything.
func (a *Agent) Admin() *api.Client {
	a.t.Helper()
	if a.opts.ACL {
		return a.Client(ManagementToken)
	}
	return a.Client("")
}

// Token makes a token with one policy of the given rules.
func (a *Agent) Token(name, rules string) string {
	a.t.Helper()
	policy, _, err := a.Admin().ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		a.t.Fatalf("making the policy %s: %v", name, err)
	}
	token, _, err := a.Admin().ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		a.t.Fatalf("making a token for %s: %v", name, err)
	}
	return token.SecretID
}

// run starts the process and waits until it leads.
func (a *Agent) run(program string) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	file := filepath.Join(a.dir, "agent.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	a.log = &logBuffer{}
	cmd := exec.Command(program, "agent", "-dev", "-config-file", file)
	cmd.Stdout, cmd.Stderr = a.log, a.log
	cmd.Env = withoutConsul(os.Environ())
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	a.process, a.done = cmd, done
	return a.waitForLeader(done)
}

func (a *Agent) waitForLeader(done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaderWithin)
	defer cancel()
	client := a.Admin()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var leader string
		_, err := client.Raw().Query("/v1/status/leader", &leader, (&api.QueryOptions{}).WithContext(ctx))
		if err == nil && leader != "" {
			// The node is in the catalog once the new leader has looked around,
			// and with ACLs the tokens work from then on.
			_, _, err = client.Catalog().Node(a.opts.Node,
				(&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
			if err == nil {
				entries, _, err := client.Health().Service("consul", "", true, (&api.QueryOptions{}).WithContext(ctx))
				if err == nil && len(entries) > 0 {
					return nil
				}
			}
		}
		select {
		case <-done:
			return errors.New("the agent ended")
		case <-ctx.Done():
			return fmt.Errorf("no leader within %s: %v", leaderWithin, err)
		case <-tick.C:
		}
	}
}

// config names every port, so that nothing outside loopback is ever touched.
func (a *Agent) config() ([]byte, error) {
	p := map[string]int{"http": a.ports.http, "https": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		"server": a.ports.server, "serf_lan": a.ports.lan, "serf_wan": a.ports.wan}
	c := map[string]any{
		"node_name": a.opts.Node, "node_meta": a.opts.NodeMeta, "datacenter": a.opts.Datacenter,
		"primary_datacenter": a.opts.Datacenter,
		"bind_addr":          "127.0.0.1", "client_addr": "127.0.0.1", "advertise_addr": "127.0.0.1", "ports": p,
		"disable_update_check": true, "disable_remote_exec": true, "log_level": "warn",
		"connect":   map[string]any{"enabled": false},
		"telemetry": map[string]any{"disable_hostname": true},
	}
	if a.opts.TLS {
		p["http"], p["https"] = -1, a.ports.http
		c["tls"] = map[string]any{"https": map[string]any{
			"cert_file": filepath.Join(a.dir, "cert.pem"), "key_file": filepath.Join(a.dir, "key.pem"),
			"ca_file": a.CAFile}}
	}
	if a.opts.ACL {
		c["acl"] = map[string]any{"enabled": true, "default_policy": "deny",
			"tokens": map[string]any{"initial_management": ManagementToken, "agent": ManagementToken}}
	}
	if a.opts.JoinWAN != nil {
		delete(c, "primary_datacenter")
		c["retry_join_wan"] = []string{fmt.Sprintf("127.0.0.1:%d", a.opts.JoinWAN.ports.wan)}
		c["retry_interval_wan"] = "1s"
	}
	return json.Marshal(c)
}

// Eventually calls f until it returns nil, for at most the given time.
func Eventually(t testing.TB, within time.Duration, f func() error) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not within %s: %v", within, err)
		case <-tick.C:
		}
	}
}

// freePorts returns ports that are free for TCP and for UDP.
func freePorts(t testing.TB) ports {
	t.Helper()
	var held []net.Listener // until all are found, so that they differ
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	one := func() int {
		for range 20 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
			port := l.Addr().(*net.TCPAddr).Port
			u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			if err == nil {
				u.Close()
				return port
			}
		}
		t.Fatal("no free port")
		return 0
	}
	return ports{one(), one(), one(), one()}
}

// withoutConsul keeps a developer's own Consul variables away from the agent.
func withoutConsul(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "CONSUL_") {
			out = append(out, e)
		}
	}
	return out
}

// A logBuffer keeps the end of what an agent writes.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() > 64<<10 {
		l.b.Next(32 << 10)
	}
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
