// Package board is the pure merge: hosts, snapshots, bookings and history at
// one moment become a [Board], which is all that pages, JSON, text and metrics
// are made from. Nothing here reads a clock, a disk or a network.
package board

import (
	"slices"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// A State is what one GPU is to somebody who looks for one. There is one
// vocabulary everywhere: page, JSON, text, metrics and command line.
type State string

// The states, in the order in which they decide (the first that applies).
const (
	Unknown   State = "unknown"     // stale, unreadable, never came, or too little is known to tell
	Lost      State = "lost"        // the driver reports an error, or an expected GPU is missing
	Drained   State = "maintenance" // by the host's inventory entry, or by a booking of that kind
	Contested State = "contested"   // booked by one, used by another
	InUse     State = "in-use"      // booked, and used by the one who booked it
	Booked    State = "booked"      // booked, and not in use
	Busy      State = "busy"        // used, and nobody booked it; by whom may be unknown
	Stuck     State = "stuck"       // memory held that no living process owns, of processes that are known
	Free      State = "free"
)

// States returns the nine states in the order in which a legend shows them.
func States() []State {
	return []State{Free, Booked, InUse, Busy, Contested, Stuck, Lost, Drained, Unknown}
}

// A HostState is how a host's snapshots arrive.
type HostState string

// The values of HostState.
const (
	Up          HostState = "up"
	Stale       HostState = "stale" // no news for longer than Settings.StaleAfter
	Down        HostState = "down"  // none for longer than Settings.DownAfter, or Consul says critical and nothing comes
	Never       HostState = "never" // expected, and nothing ever came
	Maintenance HostState = "maintenance"
)

// HostStates returns the five states in the order in which files list them.
func HostStates() []HostState { return []HostState{Up, Stale, Down, Never, Maintenance} }

// A Board is everything that one generation shows.
type Board struct {
	GeneratedAt time.Time
	Interval    time.Duration // the longest time between two generations; by it a board is late
	Next        time.Duration // from GeneratedAt until the next one is expected to be complete; 0: Interval
	Hosts       []Host        // in stable order: by group, then name
	Totals      Totals
	Models      []Model // by free count, then name
	FreeNow     []Unit  // those of Hosts that are free, the largest memory first
	// NextFree is the booked or held GPU that comes free first by its booking; nil for none.
	NextFree *Unit
	Users    []User
	Bookings []Booking // all that are still shown, by start
	Problems []snapshot.Problem
	Demo     bool
	// IdleNotice is how long somebody may hold a GPU idle before they are told.
	IdleNotice time.Duration
	// Colors are the colours of people, from 1 to [PersonColors]. Whoever has none is one of the others.
	Colors map[string]int
	// BookingsStaleSince is set while comments.json cannot be read and the last
	// good bookings stand in.
	BookingsStaleSince time.Time
	// InventoryAsOf is set when the list of hosts is an older one.
	InventoryAsOf time.Time
	// ID tells this board from others in their sums; "" for a board that nobody publishes.
	ID    string
	Sites []Site // the boards of other clusters, as the configuration has them
}

// PersonColors is how many people have a colour of their own.
const PersonColors = 10

// Totals counts whole GPUs, and apart from them MIG slices. Of a GPU that is partitioned
// its slices count, and it does not.
type Totals struct {
	GPUs, Slices Count
	Hosts        int
	ByHost       map[HostState]int
}

// A Count is how many there are in all and by state. Every one is in exactly one state.
type Count struct {
	All     int
	ByState map[State]int
	// HeldIdle counts those in use or busy that idle ([GPU.IdleSince]).
	HeldIdle int
}

// Free is how many are free.
func (c Count) Free() int { return c.ByState[Free] }

// A Model is all GPUs, or all slices of GPUs, of one name and memory size.
type Model struct {
	Name        string `json:"name"` // short
	FullName    string `json:"full_name"`
	MemoryTotal *int64 `json:"memory_total_mib"`
	MIG         bool   `json:"mig"` // they are slices
	Total       int    `json:"total"`
	Free        int    `json:"free"`
	Next        *Next  `json:"next,omitempty"` // nil where nobody said when more come free
}

// A Next is what comes free next of a model, by the bookings.
type Next struct {
	At    time.Time `json:"at"`
	Count int       `json:"count"` // how many do then
	// Where the first of these is; Host is empty in a sum over boards.
	Host  string `json:"host"`
	GPU   int    `json:"gpu"`
	Slice *int   `json:"mig_device"`
}

// A Host is one card.
type Host struct {
	Name       string
	Title      string
	Group      string
	Owner      string
	Note       string
	Address    string
	Datacenter string
	Tags       []string
	State      HostState
	Check      string // Consul's word, "" when it has none
	// SnapshotAt is when the newest good snapshot was collected; zero if never.
	SnapshotAt time.Time
	// ClockOffset is how far the node's clock is ahead of ours, when that is
	// far enough to matter; its snapshots then do not count as fresh.
	ClockOffset time.Duration
	GoneSince   time.Time
	Interval    time.Duration
	Pulled      bool // read by the web host over SSH
	Problems    []snapshot.Problem
	Driver      string
	CUDA        string
	Tools       []snapshot.Tool // of other vendors than NVIDIA: see [Host.ToolsOf]
	Node        snapshot.Node
	GPUs        []GPU
	Totals      Totals
	// Models sums the card's GPUs up: "8 × H100 80 GB".
	Models []Model

	// fresh tells a merge whether the last snapshot speaks about now.
	fresh bool
}

// A GPU is one row: a GPU, or one slice of a GPU that is partitioned (MIG).
type GPU struct {
	snapshot.GPU
	ShortName string
	// Slices are the MIG slices of a GPU that is partitioned, each a row of its
	// own: nobody can have such a GPU but by its slices. MIGDevices is empty on a
	// Board.
	Slices []GPU
	// Slice tells of a slice which it is; nil for a GPU. Index is then that of its
	// GPU, and UUID its own.
	Slice *Slice
	State State
	// Reason says in a few words why the state is what it is, where that is not
	// plain from the row (lost, stuck, unknown, maintenance). A code, not a sentence.
	Reason string
	// Missing is true for a row that stands for a GPU that should be there.
	Missing bool
	// CountedAt is the host that has listed the same card since; "" if it counts here.
	CountedAt string
	Processes []Process
	// Booking is the one in force, Next the one after it or the next to come.
	Booking *Booking
	Next    *Booking
	// Others are further bookings in force at the same time: a conflict.
	Others []Booking
	// MoreOthers is how many others there are.
	MoreOthers int
	// Since is when the present state began, as far as history reaches; zero when unknown.
	Since time.Time
	// IdleSince is since when it has been held with a mean utilization under the
	// idle threshold, before the board's GeneratedAt; zero when it is not, or when
	// that is not known.
	IdleSince time.Time
	// NoShow is true when it has been booked and idle for longer than Settings.NoShow.
	NoShow bool
	// FreeFrom is when it comes free by its bookings; zero when it is free, or
	// nobody said.
	FreeFrom time.Time
	// FreeUntil is when the next booking begins; zero when none is known.
	FreeUntil time.Time
	// Utilization is the last 24 hours in equal steps, oldest first; nil is a gap.
	Utilization []*float64
	// Holders are the people who held most of its memory in each of these steps, "" where nobody is known for certain.
	Holders []string
	// Last is what was last seen there, on a host whose news is too old to show.
	Last *LastSeen
}

// IdleFor is how long it has been held and idle at a moment; zero when it is not.
func (g *GPU) IdleFor(at time.Time) time.Duration {
	if g.IdleSince.IsZero() {
		return 0
	}
	return max(0, at.Sub(g.IdleSince))
}

// LastSeen is the state of a GPU when it was last known.
type LastSeen struct {
	State State     `json:"state"`
	Users []string  `json:"users"`
	At    time.Time `json:"at"`
}

// A Process is one process on a GPU.
type Process struct {
	snapshot.Process
	// Person is who that user is, after aliases; "" if that is not certain.
	Person string
	// Likely is the same where it is not certain.
	Likely string
	// By is what says so, and nil where the account does. For an unknown user it is two claims that contradict each
	// other, or nil.
	By []snapshot.Claim
	// Computes is whether it uses the GPU: see [snapshot.Computing].
	Computes bool
	// Share is the process's part of the GPU's memory, 0 to 1; nil when not known.
	Share *float64
}

// A Booking is one reservation as it is shown.
type Booking struct {
	ID      string
	Host    string
	GPUs    []int // indices; empty for the whole host
	Slice   *int  // which of the GPU's slices is booked; nil for all of it
	UUID    string
	Name    string
	From    time.Time
	Until   time.Time // zero: open-ended
	Comment string
	Kind    string
	By      string
	Active  bool
	Expired bool
	Forced  bool
	// Where it stands: the file, and the entry's line and column, from 1.
	File      string
	Line, Col int
}

// Covers reports whether a booking of a GPU's host is for this GPU or slice.
func (b *Booking) Covers(g *GPU) bool {
	if b.UUID != "" {
		return g.CoveredBy(booking.Target{UUID: b.UUID, Index: -1})
	}
	return len(b.GPUs) == 0 || slices.Contains(b.GPUs, g.Index)
}

// ByPerson reports whether it is known who has booked: an entry that cannot be read is nobody's.
func (b *Booking) ByPerson() bool { return b.Name != booking.Unreadable }

// A User is one person over all hosts, now.
type User struct {
	Name string
	Holding
	Slices    Holding
	Memory    int64 // MiB
	Processes int
	// Where lists the GPUs by host, in order.
	Where []UserHost
	// Means of Used over the last 2 h, 24 h and week; nil without history. History shares a partitioned GPU
	// among those who have slices of it.
	Mean2h, Mean24h, Mean1w *float64
}

// A Holding is what a user has of whole GPUs, or of slices.
type Holding struct {
	Reserved int     // booked now
	Used     float64 // shared ones by share of memory
	Idle     int     // used, and idle
}

// A UserHost is a user's GPUs on one host, and their slices of others by label.
type UserHost struct {
	Host   string   `json:"host"`
	GPUs   []int    `json:"gpus"`
	Slices []string `json:"slices"`
}
