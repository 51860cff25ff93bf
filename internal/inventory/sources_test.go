package inventory

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestList(t *testing.T) {
	hosts, problems := List([]Entry{
		{
			Name: "GPU02", Title: "Two\x1b[m", Group: "g", Owner: "o", Note: "n", GPUs: 4, Address: "root@gpu02",
			Maintenance: "new disk",
		},
		{Name: "gpu01", GPUs: 999, Maintenance: "no"},
		{Name: "gpu02", Title: "again"},
		{Name: "../x"}, {Name: ""},
		{Name: "gpu03", Maintenance: "yes"},
	})
	want := []Host{
		{Name: "gpu01"},
		{Name: "gpu02", Title: `Two\x1b[m`, Group: "g", Owner: "o", Note: "n", ExpectedGPUs: 4, Address: "root@gpu02",
			Maintenance: true, MaintenanceReason: "new disk"},
		{Name: "gpu03", Maintenance: true},
	}
	if d := cmp.Diff(want, hosts); d != "" {
		t.Error(d)
	}
	if got := codes(problems); !slices.Equal(got, []string{"discovery:bad-list", "discovery:bad-name",
		"discovery:bad-name", "discovery:duplicate"}) {
		t.Errorf("problems: %v", problems)
	}
}

func TestDrops(t *testing.T) {
	hosts, problems := Drops([]string{"b", "a", "..", "A"})
	if !slices.Equal(names(hosts), []string{"a", "b"}) {
		t.Errorf("hosts: %+v", hosts)
	}
	if got := strings.Join(codes(problems), " "); got != "discovery:bad-name discovery:duplicate" {
		t.Errorf("problems: %v", problems)
	}
}

func TestMerge(t *testing.T) {
	list := []Host{{Name: "a", Title: "list", Tags: []string{"l"}}}
	consul := []Host{
		{Name: "a", Title: "consul", Owner: "consul", ExpectedGPUs: 8, Check: Critical, CheckOutput: "ttl",
			Tags: []string{"c", "l"}, Datacenter: "dc1",
			Maintenance: true, MaintenanceReason: "why"},
		{Name: "b", Check: Passing},
		{Name: "c", Title: "kept", Maintenance: true, GoneSince: t0},
		{Name: "d", GoneSince: t0},
	}
	drops := []Host{{Name: "a"}, {Name: "c"},
		{Name: "d", GoneSince: t0.Add(1)}, {Name: "e"}}
	want := []Host{
		{Name: "a", Title: "list", Owner: "consul", ExpectedGPUs: 8, Check: Critical, CheckOutput: "ttl",
			Tags: []string{"l", "c"}, Datacenter: "dc1",
			Maintenance: true, MaintenanceReason: "why"},
		{Name: "b", Check: Passing},
		{Name: "c", Title: "kept"},
		{Name: "d", GoneSince: t0.Add(1)},
		{Name: "e"},
	}
	if d := cmp.Diff(want, merge(list, consul, drops)); d != "" {
		t.Error(d)
	}
	if got := merge(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
