// Package inventory answers which hosts should exist, from Consul, from the list in
// the configuration, or from the drops. The last known answer goes into each one, because "no
// answer" must never look like "no hosts".
package inventory

import (
	"time"

	"gpuboard/internal/snapshot"
)

// Check is the state of a host's health checks in Consul.
type Check string

// The values of Check, Consul's own words; "" where Consul does not know the host.
const (
	Passing     Check = "passing"
	Warning     Check = "warning"
	Critical    Check = "critical"
	Maintenance Check = "maintenance"
)

// A Host is one machine that should be on the board.
type Host struct {
	Name    string `json:"name"`            // as snapshot.ParseHost returns it
	Title   string `json:"title,omitempty"` // shown instead of the name; "" for none
	Group   string `json:"group,omitempty"` // rack, room or team; "" for none
	Owner   string `json:"owner,omitempty"`
	Note    string `json:"note,omitempty"`    // one line
	Address string `json:"address,omitempty"` // the arguments of ssh; "" for the name
	// Datacenter is Consul's; "" outside Consul.
	Datacenter string   `json:"datacenter,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	// ExpectedGPUs is how many there should be; 0 if it is not known.
	ExpectedGPUs int    `json:"expected_gpus,omitempty"`
	Check        Check  `json:"check,omitempty"`
	CheckOutput  string `json:"check_output,omitempty"` // what the failing check says
	// Maintenance is true when the entry says that the host is drained.
	Maintenance       bool   `json:"maintenance,omitempty"`
	MaintenanceReason string `json:"maintenance_reason,omitempty"`
	// GoneSince is set on a host that its source no longer names and that is
	// still shown (a tombstone).
	GoneSince time.Time `json:"gone_since,omitzero"`
}

// clean makes every text of a host one safe line of bounded length.
func (h *Host) clean() {
	for _, name := range []*string{&h.Title, &h.Group, &h.Owner, &h.Datacenter} {
		*name = line(*name, snapshot.MaxNameBytes)
	}
	for _, text := range []*string{&h.Note, &h.Address, &h.CheckOutput, &h.MaintenanceReason} {
		*text = line(*text, snapshot.MaxTextBytes)
	}
	h.Tags = tagsOf(h.Tags)
}

// An Inventory is one answer to the question which hosts exist.
type Inventory struct {
	Hosts []Host // by name
	// Problems says what went wrong. A source did not answer
	// ("discovery:unreachable"), named no hosts ("discovery:empty") or far fewer
	// than before ("discovery:shrunk"), gave an old answer ("discovery:stale-read")
	// or omitted hosts for lack of permission ("discovery:filtered"). Names were
	// invalid ("discovery:bad-name"), given twice ("discovery:duplicate") or too
	// many ("discovery:too-many"). A field was invalid ("discovery:bad-meta",
	// "discovery:bad-list").
	Problems []snapshot.Problem
	// AsOf is the time of the oldest answer that is part of this one. It is in the
	// past while a last known answer is used.
	AsOf time.Time
	// Known is what to hand to the next call of [Resolver.Resolve].
	Known Known
}
