// Package inventory answers which hosts should exist: as Consul tells, as the
// configuration lists, or as the drops show. It keeps the last known answer,
// because "nobody answered" must never look like "there are none".
package inventory

import (
	"time"

	"gpuboard/internal/snapshot"
)

// Source names where a host is known from.
type Source string

// The values of Source.
const (
	FromConsul Source = "consul"
	FromList   Source = "list"
	FromDrops  Source = "drops"
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
	Name    string // as snapshot.ParseHost returns it
	Title   string // shown instead of the name; "" for none
	Group   string // rack, room or team; "" for none
	Owner   string
	Note    string // one line
	Address string // what to type behind ssh; "" for the name
	// Datacenter is Consul's; "" outside Consul.
	Datacenter string
	Tags       []string
	// ExpectedGPUs is how many there should be; 0 when nobody said.
	ExpectedGPUs int
	Sources      []Source
	Check        Check
	CheckOutput  string // what the failing check says
	// Maintenance is true when the entry says that the host is drained.
	Maintenance       bool
	MaintenanceReason string
	// GoneSince is set on a host that its source no longer names and that is
	// still shown (a tombstone).
	GoneSince time.Time
}

// An Inventory is one answer to the question which hosts exist.
type Inventory struct {
	Hosts []Host // by name
	// Problems says what went wrong while asking. A source did not answer
	// ("discovery:unreachable"), named nobody ("discovery:empty") or far fewer
	// than before ("discovery:shrunk"), answered from old knowledge
	// ("discovery:stale-read") or left hosts out for lack of permission
	// ("discovery:filtered"); names were refused ("discovery:bad-name"), given
	// twice ("discovery:duplicate") or too many ("discovery:too-many"); a field
	// made no sense ("discovery:bad-meta", "discovery:bad-list"); or the memory
	// of the last answer failed ("discovery:state").
	Problems []snapshot.Problem
	// AsOf is when the oldest answer that is part of this one was given; it is
	// in the past when a last known answer stands in.
	AsOf time.Time
}
