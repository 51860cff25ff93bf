package templates

// A BookingsPage is bookings/index.html, or one of those that its list goes on on.
type BookingsPage struct {
	Frame
	Problems []Problem
	Weeks    []BookingWeek
	Pages    []Where   // of the list, this one without an address; none where one is enough
	Timeline *Timeline // nil where nothing is booked soon
	Since    *Moment   // of the bookings, while comments.json cannot be read
	Comments string    // where they are kept
	More     int       // bookings that are not listed
}

// A BookingWeek is the bookings that begin in one week, are running, or are over.
type BookingWeek struct {
	Title string
	Total int // with those on other pages
	List  []*Booking
}

// A Timeline is the bookings of the next days, a row for each GPU that has one.
// Positions along it are in per cent, so that it fits every screen.
type Timeline struct {
	Days []Tick
	Rows []Lane
	More int // rows left out
	// MoreBars are bookings left out of rows that have too many of them.
	MoreBars int
}

// A Tick is a mark on an axis; Short is for a narrow screen, where it is needed.
type Tick struct{ X, Text, Short string }

// A Lane is a row of the timeline.
type Lane struct {
	Label, Href string
	Book        string // the address of the form for it; "" for what is not there
	Text        string // its bookings in words
	Height      int
	Bars        []Bar
}

// A Bar is one booking of a lane.
type Bar struct {
	X, W        string
	Y, H        int
	TextY       int
	Name, Title string
	Class       string
}
