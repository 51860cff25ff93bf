package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/consultest"
	"gpuboard/internal/testenv/need"
)

func testRegistrar(t *testing.T, agent *consultest.Agent) {
	target, err := url.Parse(agent.Address)
	if err != nil {
		t.Fatal(err)
	}
	var registrations atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(target)
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/service/register") {
			registrations.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer counting.Close()
	r := newConsul(t, ConsulOptions{Address: counting.URL})
	local := agent.Admin().Agent()
	if err := r.Report(t.Context(), Passing, "too early"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("Pass before Register: %v", err)
	}
	if _, err := r.Register(t.Context(), Registration{Host: "../x"}); !errors.Is(err, snapshot.ErrHost) {
		t.Errorf("a host name that is none: %v", err)
	}
	reg := Registration{Host: "gpu07", GPUs: 8, Models: []string{"NVIDIA A100-SXM4-80GB"}, Driver: "570.86",
		Title: "Seven", Owner: "vision",
		Notes: "one\nline", Drop: "sftp://drop@web.example/gpu07", Tags: []string{"a100"}}
	register := func() {
		t.Helper()
		if notices, err := r.Register(t.Context(), reg); err != nil || len(notices) > 0 {
			t.Fatalf("Register: %v, %v", notices, err)
		}
	}
	register()
	service, _, err := local.Service("gpuboard", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"host": "gpu07", "gpus": "8", "models": "NVIDIA A100-SXM4-80GB", "driver": "570.86",
		"title": "Seven",
		"owner": "vision", "notes": "one line", "drop": "sftp://drop@web.example/gpu07", "registered_by": "gpuboard"}
	if d := cmp.Diff(want, service.Meta); d != "" {
		t.Error(d)
	}

	c := newConsul(t, ConsulOptions{Address: agent.Address})
	check := func(want Check, output string) {
		t.Helper()
		consultest.Eventually(t, need.Patience, func() error {
			a := ask(t, c)
			if len(a.Hosts) == 1 && a.Hosts[0].Name == "gpu07" && a.Hosts[0].Check == want &&
				a.Hosts[0].CheckOutput == output {
				return nil
			}
			return fmt.Errorf("%+v", a)
		})
	}
	for _, tt := range []struct {
		report func() error
		want   Check
		output string
	}{
		{func() error { return r.Report(t.Context(), Warning, "push is slow") }, Warning, "push is slow"},
		{func() error { return r.Report(t.Context(), Critical, "nvidia-smi\nhangs") }, Critical, "nvidia-smi hangs"},
		{func() error { return r.Report(t.Context(), Passing, "8 GPUs, 3 free") }, Passing, ""},
	} {
		if err := tt.report(); err != nil {
			t.Fatal(err)
		}
		check(tt.want, tt.output)
	}

	state := func() string {
		t.Helper()
		checks, err := local.Checks()
		if err != nil || checks[CheckID] == nil {
			t.Fatalf("checks %v, %v", checks, err)
		}
		return checks[CheckID].Status + ": " + checks[CheckID].Output
	}
	register() // the same again
	if n := registrations.Load(); n != 1 {
		t.Errorf("%d registrations, where there was nothing new", n)
	}
	if got := state(); got != "passing: 8 GPUs, 3 free" {
		t.Errorf("after registering the same again: %s", got)
	}
	reg.Title, reg.TTL = "Eight", 20*time.Minute
	register()
	if got := state(); got != "passing: 8 GPUs, 3 free" {
		t.Errorf("after registering something else: %s", got)
	}
	if service, _, err = local.Service("gpuboard", nil); err != nil || service.Meta["title"] != "Eight" {
		t.Errorf("the new title did not arrive: %v, %v", service, err)
	}
	if checks, err := local.Checks(); err != nil || !strings.Contains(checks[CheckID].Notes, "20m") {
		t.Errorf("the new TTL did not arrive: %v, %v", checks, err)
	}

	agent.Restart() // it forgets everything
	if err := r.Report(t.Context(), Passing, "8 GPUs, 4 free"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("after a restart of the agent: %v", err)
	}
	register()
	if err := r.Report(t.Context(), Passing, "8 GPUs, 4 free"); err != nil {
		t.Errorf("registered again: %v", err)
	}
	check(Passing, "")
	if got := state(); got != "passing: 8 GPUs, 4 free" {
		t.Errorf("after a restart of the agent: %s", got)
	}

	for range 2 {
		if err := r.Deregister(t.Context()); err != nil {
			t.Errorf("Deregister: %v", err)
		}
	}
	consultest.Eventually(t, need.Patience, func() error {
		if a := ask(t, c); len(a.Hosts) != 0 {
			return fmt.Errorf("%+v", a.Hosts)
		}
		return nil
	})
	if err := r.Report(t.Context(), Passing, "fine"); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("Pass after Deregister: %v", err)
	}

	// A TTL that runs out is Consul's to notice.
	reg.TTL = time.Second
	register()
	if err := r.Report(t.Context(), Passing, "8 GPUs, 4 free"); err != nil {
		t.Fatal(err)
	}
	consultest.Eventually(t, need.Patience, func() error {
		if a := ask(t, c); len(a.Hosts) != 1 || a.Hosts[0].Check != Critical ||
			!strings.Contains(a.Hosts[0].CheckOutput, "TTL") {
			return fmt.Errorf("%+v", a.Hosts)
		}
		return nil
	})

	// A large registration within the limits is one that Consul takes.
	long := strings.Repeat("\"ü", 600)
	notices, err := r.Register(t.Context(), Registration{
		Host: "gpu07", Title: long, Group: long, Owner: long, Notes: long, Tags: slices.Repeat([]string{"t"}, 3),
	})
	if err != nil || len(notices) != 5 {
		t.Errorf("a large registration: %v, %v", err, notices)
	}
	if service, _, err = local.Service("gpuboard", nil); err != nil || len(service.Meta["notes"]) > maxMetaValue {
		t.Errorf("arrived: %v, %v", service, err)
	}
	if err := r.Deregister(t.Context()); err != nil {
		t.Error(err)
	}
}

// testFileOfTheAgent: a node is described in a file of its agent, and a loop reports to
// the same service.
func testFileOfTheAgent(t *testing.T, agent *consultest.Agent) {
	text, err := os.ReadFile("../../deploy/consul/gpuboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Service struct {
			Name string            `json:"name"`
			Tags []string          `json:"tags"`
			Meta map[string]string `json:"meta"`
		} `json:"service"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	local := agent.Admin().Agent()
	load := &api.AgentServiceRegistration{ID: file.Service.Name, Name: file.Service.Name, Tags: file.Service.Tags,
		Meta:  file.Service.Meta,
		Check: &api.AgentServiceCheck{CheckID: CheckID, Name: "collector", TTL: "10m"}}
	if err := local.ServiceRegister(load); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a loop that is started again registers again
		r := newConsul(t, ConsulOptions{Address: agent.Address})
		if _, err := r.Register(t.Context(), Registration{
			Host: "gpu01", GPUs: 4, Models: []string{"NVIDIA A100"},
		}); err != nil {
			t.Fatal(err)
		}
		if err := r.Report(t.Context(), Passing, "4 GPUs, 1 free"); err != nil {
			t.Fatal(err)
		}
		consultest.Eventually(t, need.Patience, func() error {
			a := ask(t, newConsul(t, ConsulOptions{Address: agent.Address}))
			if len(a.Hosts) != 1 {
				return fmt.Errorf("%+v", a)
			}
			h := a.Hosts[0]
			if h.Title != "Vision box" || h.Group != "rack 4" || h.Owner != "vision" || h.Note != "no overnight jobs" ||
				h.Address == "" ||
				!slices.Equal(h.Tags, []string{"a100", "lab-b"}) || h.ExpectedGPUs != 4 || h.Check != Passing {
				return fmt.Errorf("%+v", h)
			}
			return nil
		})
	}
	if err := local.ServiceDeregister("gpuboard"); err != nil {
		t.Error(err)
	}
}

func TestRegistrationLimits(t *testing.T) {
	noEnvironment(t)
	c := newConsul(t, ConsulOptions{Service: "gpuboard-test"})
	s, notices := c.registration(
		Registration{Host: "gpu01", Notes: strings.Repeat("n", 513), Tags: []string{"a", "a", ""},
			Title: "\x1b"})
	if got := codes(notices); !slices.Equal(got, []string{"register:cut", "register:cut"}) {
		t.Errorf("notices: %v", notices)
	}
	if got := slices.Sorted(maps.Keys(s.Meta)); !slices.Equal(got,
		[]string{"host", "notes", "registered_by", "title"}) {
		t.Errorf("meta: %v", s.Meta)
	}
	if s.Meta["host"] != "gpu01" || len(s.Meta["notes"]) > 512 || s.Meta["title"] != `\x1b` ||
		!slices.Equal(s.Tags, []string{"a"}) {
		t.Errorf("registration: %+v", s)
	}
	if s.ID != "gpuboard-test" || s.Check.CheckID != CheckID || s.Check.TTL != "10m0s" ||
		s.Check.DeregisterCriticalServiceAfter != "" {
		t.Errorf("registration: %+v, check %+v", s, s.Check)
	}
	if s, notices := c.registration(Registration{Host: "gpu01", Notes: strings.Repeat("n", 512)}); len(notices) > 0 ||
		len(s.Meta["notes"]) != 512 {
		t.Errorf("exactly at the limit: %v, %v", notices, s.Meta)
	}
}
