package templates

import "slices"

// A Chart is one curve: a step is one unit wide, and the top is Top.
type Chart struct {
	Class  string
	Bare   bool   // without the shape: only its numbers are shown
	Text   string // the whole in words
	N      int
	Path   string  // M x, v and h in turn; the script reads the values back from it
	Parts  []Part  // the same of the steps of people who are known
	Unused string  // spans that are booked and not used
	Gaps   string  // what nothing is known of
	Booked string  // spans that are booked
	High   float64 // what the top stands for
	Top    string  // the same in words
	Unit   string
	Mean   string // in words, "" when nothing is known
	Most   string
}

// A Part is those steps of a chart that belong to one person.
type Part struct{ Color, Path string }

// An AxisTick is a time below a chart, in per cent of its width. Day is true where a day begins.
type AxisTick struct {
	X, Text string
	Anchor  string // a class: start, end, or "" for the middle
	Day     bool
}

// A Span is a part of the width of a chart, in per cent.
type Span struct{ X, Width string }

// A Mark is the number of something that happened, in per cent of the width of a chart.
type Mark struct {
	X, Number string
	Grave     bool
}

// A Happening is one thing that happened.
type Happening struct {
	At         *Moment
	Host, Href string // "" where it is clear
	Where      string // "" for a host that is named
	What       string
	Who        []Person
	Grave      bool
}

// A HostPast is the charts of one host, a tab for each length of time.
type HostPast struct {
	Tabs []HostTab
	JSON string // the address of the values
}

// A HostTab is the charts of one length of time.
type HostTab struct {
	Name     string
	Coverage string
	From     int64 // Unix
	Step     int   // seconds
	Ticks    []AxisTick
	Rows     []ChartRow
	Host     []NamedChart
	Silent   []Span // nothing is known of the host
	Marks    []Mark // of what happened to the host
	Happened []Happening
	Lines    []Line // the values of utilization, by time
}

// A ChartRow is the charts of one GPU.
type ChartRow struct {
	GPU    string
	Slice  bool // of which no more than the memory is known
	Charts [4]Chart
	Marks  []Mark // on the first chart
	Mean   string // of utilization
	Held   string // % of the time known
}

// A NamedChart is a chart of a host itself, or of the fleet.
type NamedChart struct {
	Name string
	Now  string // the newest value of the fleet that is known
	Chart
}

// A Line is the values at one time.
type Line struct {
	Text  string
	Cells []string
}

// A HostHistoryPage is hosts/<h>/history/index.html.
type HostHistoryPage struct {
	Frame
	Heading string
	Past    *HostPast
}

// A Stack is how many GPUs were in use over time, by person.
type Stack struct {
	From      int64 // Unix
	Step      int   // seconds
	N         int
	Text      string // the whole in words
	Top, Half string
	Ticks     []AxisTick
	Unknown   []Span
	Layers    []Layer // the upper ones first: each covers those below it
	Names     []Layer // from above
}

// A Layer is one person in a Stack. Y is where the name stands, in pixels.
type Layer struct {
	Color, Name string
	Short       string // the name as far as there is room
	Path        string
	Y           int
}

// A ModelUse is how much of the GPUs of a model was in use.
type ModelUse struct {
	Name  string
	Share string // per cent; "" where it is not known
	All   string // how many GPUs there are
	Free  int    // of them now
	Full  string // the part of the time in which none was free, per cent; "" where it is not known
	Chart Chart
}

// class is the class of the text of a tick.
func (t AxisTick) class() string {
	if t.Day {
		return "day " + t.Anchor
	}
	return t.Anchor
}

// unused reports whether a chart shows spans that were booked and not used.
func (t HostTab) unused() bool {
	return slices.ContainsFunc(t.Rows, func(r ChartRow) bool { return r.Charts[0].Unused != "" })
}

// fewTicks are those for which a small chart has room, the last one among them.
func fewTicks(ticks []AxisTick) (few []AxisTick) {
	every := 2
	if len(ticks) > 6 {
		every = 3
	}
	for i, t := range ticks {
		if (len(ticks)-1-i)%every == 0 {
			few = append(few, t)
		}
	}
	return few
}

// byPerson reports whether it is known of anybody what they used over time.
func (p *HistoryPage) byPerson() bool {
	return slices.ContainsFunc(p.Tabs, func(t FleetTab) bool { return t.Stack != nil && len(t.Stack.Layers) > 1 })
}
