package templates

import "github.com/a-h/templ"

// A HelpPage is help/NAME/index.html.
type HelpPage struct {
	Frame
	Heading  string
	Contents []HelpHeading
	Body     templ.Component
}

// A HelpHeading is a line of a page's contents.
type HelpHeading struct {
	ID, Text string
	Sub      []HelpHeading
}

// A HelpIndexPage is help/index.html.
type HelpIndexPage struct {
	Frame
	Groups []HelpGroup
}

// A HelpGroup is the pages for some readers.
type HelpGroup struct {
	For   string // people, operators, programs
	Pages []HelpLink
}

// A HelpLink leads to a page.
type HelpLink struct{ Href, Title, About string }
