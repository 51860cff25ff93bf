package templates

// An AboutPage is about/index.html.
type AboutPage struct {
	Frame
	Command  string // books from a command line
	Comments string // where the bookings are kept
	Sample   string // of that file
}
