// Package docs is the documentation as data: the Markdown pages of this
// directory, embedded, and the order in which a site's help lists them.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed *.md
var embedded embed.FS

// Files returns the pages as they were built in, NAME.md each.
func Files() fs.FS { return embedded }

// Who a page is for.
const (
	ForPeople    = "people"    // who use GPUs
	ForOperators = "operators" // who run a board
	ForPrograms  = "programs"  // who read the board's files
)

// A Page is one page of the help.
type Page struct {
	Name  string // of its file, without ".md"
	For   string
	About string // one line: what it answers
}

// Pages lists every page once, in the order of the help's contents.
func Pages() []Page {
	return []Page{
		{"members", ForPeople, "I only want to use a GPU: read the page, take one, book one"},
		{"finding-gpus", ForPeople, "which GPU is free, in a terminal and in a script"},
		{"bookings", ForPeople, "book, extend and release: on the command line and in the file"},
		{"bookings-web", ForPeople, "the same in the browser"},
		{"install", ForOperators, "from nothing to a board, step by step"},
		{"troubleshooting", ForOperators, "the commonest problems, and every code"},
		{"care", ForOperators, "back-up, restore, moving, renaming and removing"},
		{"configuration", ForOperators, "every setting"},
		{"commands", ForOperators, "every command and its flags"},
		{"webservers", ForOperators, "nginx, Apache, Caddy, lighttpd, passwords"},
		{"consul", ForOperators, "nodes that register themselves, two web hosts"},
		{"notify", ForOperators, "events to chat, mail and programs"},
		{"security", ForOperators, "what is published, threats, recommendations"},
		{"reliability", ForOperators, "promises, and the tests that prove them"},
		{"scale", ForOperators, "large fleets, and what they cost"},
		{"theming", ForOperators, "your own words, languages and colours"},
		{"migration", ForOperators, "from other boards"},
		{"migration-001", ForOperators, "from the older GPU Monitor, one host at a time"},
		{"api", ForPrograms, "JSON, text, calendars, feeds and badges"},
		{"metrics", ForPrograms, "Prometheus, alerts, Grafana"},
	}
}
