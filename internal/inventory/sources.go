package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"gpuboard/internal/snapshot"
)

// An Entry is a host as the configuration lists it.
type Entry struct {
	Name    string   `yaml:"name" json:"name"`
	Title   string   `yaml:"title" json:"title,omitempty"`
	Group   string   `yaml:"group" json:"group,omitempty"`
	Owner   string   `yaml:"owner" json:"owner,omitempty"`
	Note    string   `yaml:"note" json:"note,omitempty"`
	GPUs    int      `yaml:"gpus" json:"gpus,omitempty"`
	Address string   `yaml:"address" json:"address,omitempty"`
	Tags    []string `yaml:"tags" json:"tags,omitempty"`
	// Maintenance is the reason why the host is drained, or just "yes"; "" and
	// "no" for a host that is not.
	Maintenance string `yaml:"maintenance" json:"maintenance,omitempty"`
}

// List reads the hosts of a configuration, by name. What cannot be used is
// left out and told ("discovery:bad-name", "discovery:duplicate",
// "discovery:bad-list").
func List(entries []Entry) ([]Host, []snapshot.Problem) {
	var c collection
	for i, e := range entries {
		where := fmt.Sprintf("entry %d of the list of hosts", i+1)
		name, err := snapshot.ParseHost(e.Name)
		if err != nil {
			c.refuse(where, err)
			continue
		}
		h := Host{
			Name: name, Title: e.Title, Group: e.Group, Owner: e.Owner, Note: e.Note, Address: e.Address, Tags: e.Tags,
			Sources: []Source{FromList},
		}
		h.Maintenance, h.MaintenanceReason = maintenanceOf(e.Maintenance)
		h.clean()
		var problems []snapshot.Problem
		if e.GPUs < 0 || e.GPUs > snapshot.MaxGPUs {
			problems = append(problems, snapshot.Problem{Code: "discovery:bad-list", Host: name,
				Message: fmt.Sprintf("the list of hosts gives %s %d GPUs; from 0 to %d are possible", name, e.GPUs, snapshot.MaxGPUs)})
		} else {
			h.ExpectedGPUs = e.GPUs
		}
		c.add(h, where, problems...)
	}
	return c.result("the list of hosts")
}

// Drops returns a host for each name of a drop.
func Drops(names []string) ([]Host, []snapshot.Problem) {
	var c collection
	for _, n := range names {
		name, err := snapshot.ParseHost(n)
		if err != nil {
			c.refuse("the drop "+quote(n), err)
			continue
		}
		c.add(Host{Name: name, Sources: []Source{FromDrops}}, "the drop "+quote(n))
	}
	return c.result("the drop directory")
}

// Merge returns the union of the hosts of several sources, by name. Where they differ
// about a host, each field is the list's, else Consul's, else the drops'. A host that
// one source has lost and another still names is not gone.
func Merge(sources ...[]Host) []Host {
	var all []Host
	for _, s := range sources {
		all = append(all, s...)
	}
	slices.SortStableFunc(all, func(a, b Host) int {
		return cmp.Or(byName(a, b), cmp.Compare(rank(a), rank(b)))
	})
	var out []Host
	for _, h := range all {
		if n := len(out); n > 0 && out[n-1].Name == h.Name {
			out[n-1] = overlay(out[n-1], h)
			continue
		}
		h.Tags, h.Sources = slices.Clone(h.Tags), slices.Clone(h.Sources)
		out = append(out, h)
	}
	return out
}

// rank orders hosts by precedence of their sources; 0 is the highest.
func rank(h Host) int {
	best := 3
	for _, s := range h.Sources {
		if i := slices.Index([]Source{FromList, FromConsul, FromDrops}, s); i >= 0 {
			best = min(best, i)
		}
	}
	return best
}

// overlay fills the empty fields of h from o.
func overlay(h, o Host) Host {
	h.Title = cmp.Or(h.Title, o.Title)
	h.Group = cmp.Or(h.Group, o.Group)
	h.Owner = cmp.Or(h.Owner, o.Owner)
	h.Note = cmp.Or(h.Note, o.Note)
	h.Address = cmp.Or(h.Address, o.Address)
	h.Datacenter = cmp.Or(h.Datacenter, o.Datacenter)
	h.ExpectedGPUs = cmp.Or(h.ExpectedGPUs, o.ExpectedGPUs)
	if h.Check == "" {
		h.Check, h.CheckOutput = o.Check, o.CheckOutput
	}
	if o.Maintenance && (o.GoneSince.IsZero() || !h.GoneSince.IsZero()) { // a tombstone does not drain a host that exists
		h.Maintenance = true
		h.MaintenanceReason = cmp.Or(h.MaintenanceReason, o.MaintenanceReason)
	}
	h.Tags = tagsOf(append(h.Tags, o.Tags...))
	switch {
	case h.GoneSince.IsZero() && o.GoneSince.IsZero(), !h.GoneSince.IsZero() && !o.GoneSince.IsZero():
		h.Sources = append(h.Sources, o.Sources...)
		if o.GoneSince.After(h.GoneSince) {
			h.GoneSince = o.GoneSince
		}
	case !h.GoneSince.IsZero():
		h.Sources, h.GoneSince = slices.Clone(o.Sources), o.GoneSince
		h.Maintenance, h.MaintenanceReason = o.Maintenance, o.MaintenanceReason
	}
	return h
}
