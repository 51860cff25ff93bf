package templates

import "github.com/a-h/templ"

// A BookPage is a page of the booking form: that of one GPU, or of a person.
type BookPage struct {
	Frame
	Where   string // "atlas 0", "atlas, all GPUs"
	Query   string // that asks for this language
	Form    Form
	Lines   []BookedLine // of this GPU
	Clashes []BookedLine // in the way
	Wait    int          // seconds until it is on the board
	Asked   *Moment      // the end that was asked about, in words of the site's

	User  string // who is logged in
	Mine  []BookedLine
	Hosts []BookableHost
}

// A Form is what stands in the fields.
type Form struct {
	Host, Model                      string
	State                            string // of the GPU, "" where it is not known
	ForOthers                        bool   // the name can be chosen
	Name, From, Until, Comment, Sure string
	Say, Detail, Field               string // what is wrong: a key behind "book.say.", more about it, the field
}

// A BookedLine is one booking, as the form lists it.
type BookedLine struct {
	ID          string
	Where, Href string
	Name, By    string
	From, Until *Moment
	Comment     templ.Component // nil for none
	Maintenance bool
	Active      bool
	Mine        bool
	Typed       string // its new end as it was typed
	Wrong       bool   // and refused
}

// A BookableHost is a host that can be booked.
type BookableHost struct {
	Name, Title string
	GPUs        []BookableGPU
}

// A BookableGPU is one of its GPUs, or of the slices of one.
type BookableGPU struct {
	Path  string // of its form: its index, or the UUID of a slice
	Label string
	State string
}

// A BookPlainPage is book/index.html where no server answers for it.
type BookPlainPage struct {
	Frame
	Comments string // where the bookings are kept
	Panel    *Panel
}

// describes is what explains the field for the end of a booking.
func (f Form) describes() string {
	if f.Field == "until" {
		return "_hint _say"
	}
	return "_hint"
}
