package templates

import "github.com/a-h/templ"

// A Frame is what every page of the site needs around its content.
type Frame struct {
	Words
	Slots
	Kind       string // index, host, user, people, sites, bookings, history, about, kiosk, help, book
	Path       string // of the page in its language, such as hosts/gpu01/index.html
	Root       string // leads to where the pages in this language begin: "" or "../" or "../../"
	Files      string // leads to the site's root, where the files are that all languages share
	Lang       string
	Languages  []Language // that the site is written in, if there are several
	Book       string     // leads to the booking form
	Title, Lab string
	Version    string
	CSS        string
	JS         []string
	Icon       string
	Touch      string  // the icon on a phone's home screen
	Zone       string  // of the times on the page
	ZoneName   string  // of the site's zone, such as Europe/Paris
	Built      *Moment // the moment that the page shows
	// Description is what programs show beside a link to the page; "" for nothing.
	Description string
	Generation  string // the id that page and JSON of one generation share; "" on pages of one host
	Interval    int    // seconds; a page that is 2.5 times as old is late
	Next        int    // seconds from Built until the next generation is complete; 0 on pages that do not follow it
	Demo        bool
	Help        bool   // the site has the documentation
	Skip        string // the id that the first link of the page leads to; "" for its content
	Clusters    bool   // the site shows boards of other clusters
}

// Slots are a site's own HTML.
type Slots struct {
	Head   templ.Component // at the end of <head>
	Banner templ.Component // above the content
	Footer templ.Component // at the end of the footer
}

// A Language is one of those that a site is written in.
type Language struct {
	Code string
	Name string // in the language itself
	Dir  string // where its pages lie in the site: "" or "de/"
}

// A Moment is a time as a page shows it and as a program reads it.
type Moment struct{ ISO, Text string }

// states are those that the legend explains, in its order.
func states() []string {
	return []string{"free", "booked", "in-use", "busy", "contested", "stuck", "lost", "maintenance", "unknown"}
}

// made says in which zone the times are, and what made the page.
func (f Frame) made() string {
	if f.Version == "" {
		return f.T("frame.made.plain", f.Zone)
	}
	return f.T("frame.made", f.Zone, f.Version)
}
