package templates

import "github.com/a-h/templ"

// A BookPage is the booking form.
type BookPage struct {
	Frame
	User         string // who is logged in
	ForOthers    bool   // the name can be chosen
	Where        string // what is to be booked: "atlas 0, 1"; "" to ask how many
	Action       string // the form's address: "?at=…"
	Model, State string // of the GPU, where it is one
	Fields       BookFields
	FieldZone    string   // in which the times in the fields are read
	Models       []string // to choose from
	Offer        *BookOffer
	Jobs         []BookJob    // of others, on what is to be booked
	Over         string       // what a tick says: which jobs these are
	Lines        []BookedLine // of what is to be booked; without, the user's own
	Saved        []BookedLine // just now
	Released     bool         // just now
	Freed        []BookedLine // what was released, where it is known
	Again        string       // the address of the form that books it again; "" if it cannot
	SeeBoard     string       // the board's address, which marks what was saved
	Wait         int          // seconds until it is on the board
	Old          *Moment      // when the board was made, if that is long ago

	Say, Detail, Field string  // what is wrong: a key behind "book.say.", more about it, the field
	Asked              *Moment // the end that was asked about, in words of the site's
	Clashes            []BookedLine

	Hosts []BookableHost
}

// BookFields are what stands in the fields.
type BookFields struct {
	GPUs, Model, Memory        string
	OneHost                    bool
	Name, From, Until, Comment string
	Sure                       string   // what was asked about
	Over                       string   // the running jobs that are agreed to
	IDs                        []string // of the bookings that are to be changed
	End                        string   // the new one
}

// A BookOffer is what there is for somebody who wants so many GPUs of a kind.
type BookOffer struct {
	GPUs, Open, Fit     int
	Where, Action       string // "" if there are not so many
	From, Until         *Moment
	FromText, UntilText string  // as the form takes them
	Next                *Moment // when there are as many for as long; nil if that is not known
	NextHref            string
}

// A BookJob is what somebody runs on a GPU that is to be booked.
type BookJob struct {
	Where, Who, Program, Memory string
	Since                       *Moment
	Unknown                     bool // whether the GPU is in use is not known
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
	Title, Href string
	GPUs        []BookableGPU
}

// A BookableGPU is one of its GPUs, or of the slices of one.
type BookableGPU struct{ Href, Label, State string }

// A BookPlainPage is book/index.html where no server answers for it.
type BookPlainPage struct {
	Frame
	Comments string // where the bookings are kept
	Panel    *Panel
	Models   []string
}

// describes is what explains a field that has a hint.
func (p *BookPage) describes(field string) string {
	if p.Field == field {
		return "_hint-" + field + " _say"
	}
	return "_hint-" + field
}

// wait says when a change is on the board.
func (p *BookPage) wait() string {
	if p.Wait == 0 {
		return ""
	}
	return p.T("book.wait", p.Wait)
}
