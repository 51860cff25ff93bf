package templates

// A UserPage is users/<u>/index.html.
type UserPage struct {
	Frame
	Name      string
	Calendar  string // the address of the bookings
	Ask       Ask    // empty for somebody who holds nothing
	Holds     []Hold
	HoldsMore int
	Use       []Window // of this person alone: the first of Users
	Costs     Costs
	Bookings  []*Booking
	// BookingsMore is how many others there are.
	BookingsMore int
}

// A Hold is a GPU that a person uses or has reserved.
type Hold struct {
	Where, Href string
	Row         *Row
	Mine        []Process
}
