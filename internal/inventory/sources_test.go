package inventory

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestList(t *testing.T) {
	hosts, problems := List([]Entry{
		{Name: "GPU02", Title: "Two\x1b[m", Group: "g", Owner: "o", Note: "n", GPUs: 4, Address: "root@gpu02", Maintenance: "new disk", Tags: []string{"a", "a", "b"}},
		{Name: "gpu01", GPUs: 999, Maintenance: "no"},
		{Name: "gpu02", Title: "again"},
		{Name: "../x"}, {Name: ""},
		{Name: "gpu03", Maintenance: "yes"},
	})
	want := []Host{
		{Name: "gpu01", Sources: []Source{FromList}},
		{Name: "gpu02", Title: `Two\x1b[m`, Group: "g", Owner: "o", Note: "n", ExpectedGPUs: 4, Address: "root@gpu02", Tags: []string{"a", "b"},
			Maintenance: true, MaintenanceReason: "new disk", Sources: []Source{FromList}},
		{Name: "gpu03", Maintenance: true, Sources: []Source{FromList}},
	}
	if d := cmp.Diff(want, hosts); d != "" {
		t.Error(d)
	}
	if got := codes(problems); !slices.Equal(got, []string{"discovery:bad-list", "discovery:bad-name", "discovery:bad-name", "discovery:duplicate"}) {
		t.Errorf("problems: %v", problems)
	}
}

func TestDrops(t *testing.T) {
	hosts, problems := Drops([]string{"b", "a", "..", "A"})
	if !slices.Equal(names(hosts), []string{"a", "b"}) || !slices.Equal(hosts[0].Sources, []Source{FromDrops}) {
		t.Errorf("hosts: %+v", hosts)
	}
	if got := strings.Join(codes(problems), " "); got != "discovery:bad-name discovery:duplicate" {
		t.Errorf("problems: %v", problems)
	}
}

func TestMerge(t *testing.T) {
	list := []Host{{Name: "a", Title: "list", Tags: []string{"l"}, Sources: []Source{FromList}}}
	consul := []Host{
		{Name: "a", Title: "consul", Owner: "consul", ExpectedGPUs: 8, Check: Critical, CheckOutput: "ttl", Tags: []string{"c", "l"}, Datacenter: "dc1",
			Maintenance: true, MaintenanceReason: "why", Sources: []Source{FromConsul}},
		{Name: "b", Check: Passing, Sources: []Source{FromConsul}},
		{Name: "c", Title: "kept", Maintenance: true, GoneSince: t0, Sources: []Source{FromConsul}},
		{Name: "d", GoneSince: t0, Sources: []Source{FromConsul}},
	}
	drops := []Host{{Name: "a", Sources: []Source{FromDrops}}, {Name: "c", Sources: []Source{FromDrops}},
		{Name: "d", GoneSince: t0.Add(1), Sources: []Source{FromDrops}}, {Name: "e", Sources: []Source{FromDrops}}}
	want := []Host{
		{Name: "a", Title: "list", Owner: "consul", ExpectedGPUs: 8, Check: Critical, CheckOutput: "ttl", Tags: []string{"l", "c"}, Datacenter: "dc1",
			Maintenance: true, MaintenanceReason: "why", Sources: []Source{FromList, FromConsul, FromDrops}},
		{Name: "b", Check: Passing, Sources: []Source{FromConsul}},
		{Name: "c", Title: "kept", Sources: []Source{FromDrops}},
		{Name: "d", GoneSince: t0.Add(1), Sources: []Source{FromConsul, FromDrops}},
		{Name: "e", Sources: []Source{FromDrops}},
	}
	// The precedence is the sources', whatever the order of the arguments.
	for _, got := range [][]Host{Merge(list, consul, drops), Merge(drops, consul, list)} {
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	if got := Merge(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
