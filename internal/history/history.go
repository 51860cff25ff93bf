// Package history is a ledger of what GPUs did and who used how much.
//
// A [Store] is one SQLite file. It has for each host, boot and hour what the samples of
// each five minutes add up to, for three days, and for each host and day its hours. A
// five is written when it is over; the one that is going on comes from what nodes send
// last ([Store.IngestAll]). A finished hour replaces what is known of it, so the same
// samples may come again, in any order. A gap is unknown and never idle: nil in a
// series, and left out of means and sums.
//
// It keeps no samples: what came too late for its five comes with the hour. Times are
// UTC; a day of a zone is between two instants ([Days]), so it may have 23 or 25
// hours. Losing the history never harms the live board: a damaged file is set aside,
// and a full disk is a problem in [Store.Problems].
package history

import (
	"strconv"
	"time"
)

// A Key names a GPU or one of its MIG devices over time: by UUID, or by "index:N"
// where the driver gives none. Sums over GPUs leave MIG devices out.
type Key struct {
	Host string
	GPU  string
}

// Recent is what the board needs to know about the past.
type Recent struct {
	GPUs  map[Key]GPU
	Users []User
	// FreeMean2h, FreeMean24h and FreeMean1w are the mean numbers of GPUs that nobody used.
	FreeMean2h, FreeMean24h, FreeMean1w *float64
}

// A GPU is the recent past of one GPU.
type GPU struct {
	// Utilization is the last 24 hours in 96 steps of 15 minutes, oldest first,
	// in %; nil is a step without samples: unknown, not idle.
	Utilization []*float64
	// Holders is who held most of the memory in most of each of these steps; "" where
	// nobody did, or nobody who is known. They are known without utilization, too, as of MIG devices.
	Holders []string
	// IdleSince is when the mean utilization fell under the idle threshold and
	// has stayed there since; zero when it has not, or when less than the idle
	// window is known.
	IdleSince time.Time
}

// A User is the recent use of one person: mean numbers of GPUs held, counted in
// fractions of each GPU by share of its used memory; nil where too little is known.
type User struct {
	Name                    string
	Mean2h, Mean24h, Mean1w *float64
}

// IndexKey is the [Key].GPU of a GPU that has no UUID.
func IndexKey(index int) string { return "index:" + strconv.Itoa(index) }
