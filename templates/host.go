package templates

import "github.com/a-h/templ"

// A HostPage is hosts/<h>/index.html.
type HostPage struct {
	Frame
	Card     *Card
	Note     templ.Component // what the site says of the host; nil for nothing
	Facts    []Fact
	Calendar string // the address of its bookings
	JSON     string
	Past     bool      // there is a history
	Charts   *HostPast // of the last day, where they stand on this page
}
