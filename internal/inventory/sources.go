package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gpuboard/internal/snapshot"
)

// An Entry is a host as the configuration lists it.
type Entry struct {
	Name, Title, Group, Owner, Note, Address string
	GPUs                                     int // 0 if it is not said how many there should be
	// Maintenance is the reason why the host is drained, or just "yes"; "" and
	// "no" for a host that is not.
	Maintenance string
}

// List reads the hosts of a configuration, by name. What cannot be used is
// left out and reported ("discovery:bad-name", "discovery:duplicate",
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
			Name: name, Title: e.Title, Group: e.Group, Owner: e.Owner, Note: e.Note, Address: e.Address,
		}
		h.Maintenance, h.MaintenanceReason = maintenanceOf(e.Maintenance)
		h.clean()
		var problems []snapshot.Problem
		if e.GPUs < 0 || e.GPUs > snapshot.MaxGPUs {
			problems = append(problems, problem("discovery:bad-list", name,
				"the list of hosts gives %s %d GPUs; from 0 to %d are possible", name, e.GPUs, snapshot.MaxGPUs))
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
		c.add(Host{Name: name}, "the drop "+quote(n))
	}
	return c.result("the drop directory")
}

// merge returns the union of the hosts of several sources, by name. Where they differ
// about a host, each field is the first source's that has it. A host that one source
// has lost and another still names is not gone.
func merge(sources ...[]Host) []Host {
	all := slices.Concat(sources...)
	slices.SortStableFunc(all, byName)
	var out []Host
	for _, h := range all {
		if n := len(out); n > 0 && out[n-1].Name == h.Name {
			out[n-1] = overlay(out[n-1], h)
			continue
		}
		h.Tags = slices.Clone(h.Tags)
		out = append(out, h)
	}
	return out
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
	h.Tags = tagsOf(append(h.Tags, o.Tags...))
	// A tombstone does not drain a host that exists.
	hGone, oGone := !h.GoneSince.IsZero(), !o.GoneSince.IsZero()
	switch {
	case hGone && !oGone:
		h.GoneSince, h.Maintenance, h.MaintenanceReason = time.Time{}, o.Maintenance, o.MaintenanceReason
	case hGone == oGone && o.Maintenance:
		h.Maintenance, h.MaintenanceReason = true, cmp.Or(h.MaintenanceReason, o.MaintenanceReason)
	}
	if hGone && o.GoneSince.After(h.GoneSince) {
		h.GoneSince = o.GoneSince
	}
	return h
}
