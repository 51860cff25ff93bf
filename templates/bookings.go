package templates

// A BookingsPage is bookings/index.html, or one of those that its list goes on on.
type BookingsPage struct {
	Frame
	Problems []Problem
	Weeks    []BookingWeek
	Pages    []Where // of the list, this one without an address; none where one is enough
	Week     *Week   // nil without hosts
	Since    *Moment // of the bookings, while comments.json cannot be read
	Comments string  // where they are kept
	More     int     // bookings that are not listed
}

// A BookingWeek is the bookings that begin in one week, are running, or are over.
type BookingWeek struct {
	Title string
	Total int // with those on other pages
	List  []*Booking
}

// A Week is the picture of the bookings of seven days. Positions along it are in per cent, so
// that it fits every screen.
type Week struct {
	From, Until string // when it begins and ends
	Now         string // where now is
	Clock       string // and its time
	Booked      bool   // there are bookings
	Days        []WeekDay
	Groups      []WeekGroup
	More        int // lines left out
	MoreBars    int // bookings left out
}

// A WeekDay is one of the days of a week; Short is for a narrow screen, where it is needed.
type WeekDay struct {
	X, W, Text, Short string
	Free              bool // of the weekend
}

// A WeekGroup is hosts of one group or model. Those without bookings have one line together.
type WeekGroup struct {
	Name    string
	Hosts   []WeekHost
	Without []Where // hosts, with the address of the form for one of their GPUs
	Free    string  // how many of these are free now
}

// A WeekHost is a host's band: how many of its GPUs are free when. It can be opened to their bookings.
type WeekHost struct {
	ID, Title, Href string
	Book, Label     string // the address of the form for what is free first, and its words
	Why             string // why nothing is known to be free, or nothing is, in place of a band
	Silent          bool   // the former
	Band            []WeekPart
	Open            bool
	Height          int // of all lines; 0 if it cannot be opened
	Labels          []WeekLabel
	Places          string // what can be booked on each line, as the form takes it
	Bars            []Bar
	Text            string // who has booked
}

// A WeekPart is a part of a band, which begins at X. Fits and OfFits are the classes of texts that need a wide screen.
type WeekPart struct {
	X, TextX     string
	Class        string // of its tint
	Free, Of     string
	Fits, OfFits string
}

// A WeekLabel is the name of a GPU beside its line.
type WeekLabel struct {
	Y    int
	Text string
}

// A Bar is one booking on a picture of time.
type Bar struct {
	X, W    string
	Y, H    int
	TextX   string // where the name begins within the bar, in per cent
	Beside  bool   // the name is behind the bar
	Fits    string // the class of a name that needs a wide screen; "no-room" if it has no room at all
	Name    string
	Comment string // a space for one that has no room, "" for none
	Title   string
	Class   string
}

// TextY is where the foot of its letters is: in the middle of the first line, or of the first two.
func (b *Bar) TextY() int {
	switch {
	case b.H < 8:
		return b.H/2 + 4
	case b.H > 24 && !b.Beside:
		return 21
	}
	return 12
}
