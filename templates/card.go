package templates

import "cmp"

// A Card is one host with its GPUs.
type Card struct {
	ID, Title, Href string
	State           string // of the host
	Old             bool   // its values are not live
	Late            bool   // they are, but news should have come
	SSH             string
	Devices         string // what makes CUDA see the free GPUs
	Owner, Note     string
	Check           string // what Consul says of it
	Group           string
	Models          string // "8 × H100 80 GB"
	Seen            *Moment
	Clock           string // by how much the node's is wrong; "" when it is right
	Meters          []Meter
	Load            []Meter // all of them, also where a line does not show them
	Tags            []string
	Problems        []Problem
	Rows            []Row
	Glyphs          []Glyph
	States          string // the same in words
	GlyphWidth      int
	Units           Units
	Blind           bool   // the state of none of its GPUs is known
	Unread          string // why none of its GPUs can be read
	Open            bool   // the front page has its rows
	Whole           bool   // it is on the host's own page
	Why             string // why a host is one line without rows: it is silent or out of service; "" if it has rows
	Name            string // on a line, where the title is too long
	Model           string // of its GPUs, on a line: "H100"
	Users           []LineUser
	MoreUsers       int
	NextFree        *Moment // when the first of its bookings ends, where none of its GPUs is free
	Gone            *Moment
}

// Units are whole GPUs, and slices of others, and how many of them are free.
type Units struct {
	GPUs, FreeGPUs, Slices, FreeSlices int
	Free                               string // "4 + 1 MIG", "" for none
}

// Any reports whether there are any.
func (u Units) Any() bool { return u.GPUs+u.Slices > 0 }

// some says how many of the units are free, without how many there are.
func (u Units) some(w Words) string {
	return w.Count(u.FreeGPUs+u.FreeSlices, "card.free", cmp.Or(u.Free, "0"))
}

// free says how many of the units are free.
func (u Units) free(w Words) string {
	gpus := w.Count(u.GPUs, "free.gpu", u.FreeGPUs, u.GPUs)
	slices := w.Count(u.Slices, "free.slice", u.FreeSlices, u.Slices)
	switch {
	case u.Slices == 0:
		return gpus
	case u.GPUs == 0:
		return slices
	}
	return gpus + ", " + slices
}

// A LineUser is somebody on a host's line, and how many of its GPUs they have.
type LineUser struct {
	Name string
	GPUs int
}

// A Glyph is the sign of one card.
type Glyph struct {
	Sign  string     // the symbol; "" for one in parts
	Parts []SignPart // of a card whose slices differ
	X     int
	Soon  bool // not booked, but booked soon
}

// A SignPart is the slices of a card that are in one state.
type SignPart struct {
	State    string
	X, Width int
	Held     bool // in use, with or without a booking
	Load     int  // the height of its bar, 0 where the load is not known
}

// A Meter is one little bar in a card's header.
type Meter struct {
	Key   string // cpu, ram, disk
	Name  string // of a disk
	Label string // its name again, where more than one is shown
	Text  string // "34"
	Width string // of 46
	Over  bool   // worth a look: work waits, or hardly anything is left
	More  string // "21.8 / 64", "306 / 503 GiB"
}

// A Row is one GPU as a row of a table.
type Row struct {
	ID, Index string
	Class     string // of the row: its state, and what it is a part of
	Sign      string // its symbol: the state, and the load of a GPU that is held
	State     string
	Model     string // where a card has more than one
	Used      string
	Total     string
	BarText   string // the bar in words
	Bars      []Segment
	Util      string
	Heat      string
	Reason    string
	Driver    string // the driver's own words about a lost GPU
	Who       *Person
	More      []Person // the other people, by memory: the first of them
	MoreNames int      // how many people there are beside these
	Processes []Process
	// MoreProcesses is how many processes are left out of Processes.
	MoreProcesses int
	Only          int // the pid of the one process, where the row names it wholly
	Idle          string
	NoShow        bool
	For           *Moment // since when it has been used, or has been idle, and for how long that is
	Idles         bool
	Color         string // the class of the colour of who uses it
	Strip         *Strip // nil on a person's page
	Booking       *Booking
	Not           string // who is on it, though somebody else booked it
	Also          []*Booking
	AlsoMore      int
	Next          *Booking
	Free          *Moment // free from, where that is not the end of the booking
	Last          *Last
	Details       bool   // processes are listed
	UUID          string // of a slice, by which it is booked; "" for a GPU
	Part          string // the profile of a slice
	Alike         int    // how many free slices this row stands for, itself among them; 0 for other rows
	Of            string // the ID of the row of the GPU that it is a part of
	Slices        string // of a GPU that is partitioned: how many are free; "" where it has a state of its own
	Panel         *Panel
	Facts         []Fact
}
