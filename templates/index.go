package templates

import (
	"slices"

	"github.com/a-h/templ"
)

// An IndexPage is index.html, and kiosk/index.html.
type IndexPage struct {
	Frame
	Units       Units
	FreeModels  []FreeModel
	Blind       bool // nothing at all is known of any GPU
	Next        *Next
	StaleHosts  int
	Silent      []string // their names, the first few
	SilentMore  int
	Lost        string // "2 GPUs, 1 MIG slice lost", "" for none
	HeldIdle    string
	States      []StateCount
	Problems    []Problem
	Notice      templ.Component // nil for none
	NoticeStart string          // its first words
	FreeNow     []FreeCard
	Piles       []Pile // instead of FreeNow, when that is long
	Groups      []Group
	Columns     [][]*Card // instead of Groups, of a site that is Rowed
	Rowed       bool      // the hosts' rows are on the page
	Search      Search
	Holders     []Holder
	HolderNames []Holder // the people among them, whose names stand below the bar where they do not fit in it
	HoldersMore int      // people who are not among them
	AsOf        *Moment
	BookingsOf  *Moment
	Supply      []Supply
	Sites       []Site
}

// A SitesPage is sites/index.html: the boards of other clusters.
type SitesPage struct {
	Frame
	Sites []Site
}

// A Site is the line of another board. Its numbers are the last that it said, also where it is old.
type Site struct {
	Name, Title, Href string
	Others            string // how many boards it reads itself, "" for none
	Old, Sum          bool   // Sum: it is the sum of the lines above
	Units             Units
	Models            []Supply
	ModelsMore        int
	Problems          string  // "" for none
	AsOf              *Moment // nil where nothing was read yet
}

// A Next is the GPU that comes free next.
type Next struct {
	Where, Href, By string
	At              *Moment
}

// A StateCount is how many GPUs and slices are in a state.
type StateCount struct{ State, Count string }

// A Supply is how many GPUs, or slices, of a model are free, now and next.
type Supply struct {
	Name, Title, Query string
	Free               int
	More               string // how many more are free at Next, by the bookings
	Next               *Moment
	NextHref           string // leads to the first of these
	Ribbon             string // how much of it is booked in the next seven days, in steps of six hours
	Booked             string // the same in words
}

// A FreeCard is one host's free GPUs of one model.
type FreeCard struct {
	Where, GPUs, Model string
	Count              int
	Until              *Moment
}

// A Group is hosts that stand together.
type Group struct {
	Name       string
	Hosts      []*Card
	Free       string // "4 + 1 MIG free", "" for none
	Model      string // of all its hosts; "" where these differ
	GlyphWidth int    // of the widest host
	NameWidth  string // a class of the style sheet: for names of up to so many characters
}

// wide reports whether its signs leave little of a narrow column.
func (g Group) wide() bool { return g.GlyphWidth > 10*18 }

// A FreeModel is how many GPUs of a model are free, and the search that finds them.
type FreeModel struct{ Text, Query string }

// A Search is what the script of the front page searches.
type Search struct {
	States []string      `json:"states"` // to which SearchGPU refers
	Models []SearchModel `json:"models"`
	Hosts  []SearchHost  `json:"hosts"`
}

// A SearchModel is a name and the GiB of its memory, a pair.
type SearchModel [2]any

// A SearchHost is one host of a Search, by the id of its line.
type SearchHost struct {
	ID     string      `json:"id"`
	Words  string      `json:"words"`          // title, group, state, owner, note, tags
	Seen   int64       `json:"seen,omitempty"` // the Unix time in seconds of its latest snapshot
	CPU    string      `json:"cpu,omitempty"`  // its load, %
	Memory string      `json:"ram,omitempty"`  // %
	GPUs   []SearchGPU `json:"gpus"`
}

// A SearchGPU is one GPU of a Search. On thousands of GPUs the names of fields would
// be most of the page, so it is an array: number, state (place in
// States), model (place in Models), users with programs, who booked it, the
// Unix time in seconds until which it is free, and the comment of the booking. Empty values at its end are left out.
type SearchGPU []any

// A Pile is all that is free of one model.
type Pile struct {
	Model string
	Count int
	Cards []FreeCard
	More  int
}

// A Holder is somebody's part of the bar of all who use a GPU now. X and W are in per cent. Class has "fits" where the
// name fits in the part.
type Holder struct {
	Person
	X, W, Class, Count string
	Idle               string // "2 idle", "" for none
	Title              string
}

// A PeoplePage is users/index.html: everybody who uses or has reserved a GPU, those with the most GPUs first.
type PeoplePage struct {
	Frame
	List []Ask
	More int // who are not listed
	Free Ask
}

// An Ask is one line of whom to ask.
type Ask struct {
	Name, Href, Reserved, Used, Idle string
	Means                            [3]Mean // of 2 hours, 24 hours, a week
	Where                            []Where
	WhereMore                        int
}

// A Mean is a number of GPUs in the past, and whether the present is well above
// or below it.
type Mean struct {
	Text  string
	Trend string // up, down, same, or "" where nothing is known
}

// remembered reports whether history knows how it was.
func (a Ask) remembered() bool { return a.Means != [3]Mean{} }

// remembered reports whether history knows of anybody how it was.
func (p *PeoplePage) remembered() bool {
	return p.Free.remembered() || slices.ContainsFunc(p.List, Ask.remembered)
}

// A Where is a link to a host.
type Where struct{ Text, Href string }

// title of the front page and of the wall screen.
func (p *IndexPage) title() string {
	if p.Blind {
		return p.T("index.title.blind")
	}
	return p.Units.some(p.Words)
}

// silentEnd is what follows the names of hosts that are silent.
func (p *IndexPage) silentEnd() string {
	if p.SilentMore > 0 {
		return ", " + p.Count(p.SilentMore, "more") + ")"
	}
	return ")"
}

// searchData is what the script searches, as JSON in the page.
func searchData(s Search) templ.Component { return templ.JSONScript("_gpus", s) }
