package templates

import (
	"cmp"

	"github.com/a-h/templ"
)

// A Person is somebody by name, and what that person runs.
type Person struct {
	Name, Href, Program string // Href is "" for who has no page
	Since               *Moment
}

// A Problem is one line of the error banner: a sentence of the site's, and
// behind it what the program said.
type Problem struct {
	Code, Message, Where, Href string
	Help                       string // where the code is explained, "" for nowhere
	Detail                     string // "" where the sentence says all of it
	Open                       bool   // there is room for the detail
	Severity                   string // error, warning
}

// A Booking is one booking.
type Booking struct {
	Person
	Host, HostHref string
	GPUs           string // "" for the whole host
	By             string
	From, Until    *Moment         // Until is nil for an open end
	Comment        templ.Component // nil for none
	Maintenance    bool
	Active         bool
	Expired        bool
	Soon           bool // it ends soon
	Forced         bool
	Line           int // of the file
}

// A Process runs on a GPU.
type Process struct {
	PID     string // "" where the row says it
	Text    string // memory, person, program
	Details []string
	Dead    bool
	Left    string // what it left behind, in words
	Kill    string // how to end that, "" for nothing
}

// A Last is what was last known of a GPU.
type Last struct {
	Text string // "busy, mira"
	At   *Moment
}

// A Fact is a name and a value.
type Fact struct{ Name, Value string }

// A Panel is how to book one GPU: what to type and what to paste, into which the script puts
// what somebody wants, and the bookings of that GPU, which the script lists.
type Panel struct {
	Href    string // of the form, or of what to do without one
	Command string
	JSON    string // "" where there is no room for it
	Due     []Due
}

// A Due is a booking as the script reads it.
type Due struct {
	Name, From, Until string // the times in ISO, "" for open
}

// A Segment is a part of a bar that is 100 units long.
type Segment struct {
	X, W  string
	Shade string // share1, share2, share3 in turn; "unowned" for what nobody is known to hold
}

// orDash is a value, or a dash for one that is not known.
func orDash(s string) string { return cmp.Or(s, "–") }

// attributeIf returns an attribute if a condition holds, else none. Nothing checks the value, so the name is never one
// of an address, a style or a program.
func attributeIf(name string, condition bool, value string) templ.OrderedAttributes {
	if !condition {
		return nil
	}
	return templ.OrderedAttributes{{Key: name, Value: value}}
}

// attribute returns an attribute if its value is not empty, else none.
func attribute(name, value string) templ.OrderedAttributes {
	return attributeIf(name, value != "", value)
}

// classIf returns a class if a condition holds, else none.
func classIf(condition bool, class string) templ.OrderedAttributes {
	return attributeIf("class", condition, class)
}

// invalid marks a field of a form, if it is the one that a refusal is about.
func invalid(refused bool) templ.OrderedAttributes {
	return append(attributeIf("aria-invalid", refused, "true"), attributeIf("aria-describedby", refused, "_say")...)
}

// picture describes an SVG to screen readers, or hides it from them if there are no words for it.
func picture(words string) templ.OrderedAttributes {
	if words == "" {
		return attribute("aria-hidden", "true")
	}
	return append(attribute("role", "img"), attribute("aria-label", words)...)
}
