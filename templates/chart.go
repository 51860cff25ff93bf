package templates

// A Chart is one curve: a step is one unit wide, and the top is Top.
type Chart struct {
	Class  string
	Bare   bool   // without the shape: only its numbers are shown
	Text   string // the whole in words
	N      int
	Path   string // M x, v and h in turn; the script reads the values back from it
	Gaps   string // what nothing is known of
	Booked string // spans that are booked
	Top    string
	Unit   string
	Mean   string // in words, "" when nothing is known
	Most   string
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
	Ticks    []Tick
	Rows     []ChartRow
	Lines    []Line // the values of utilization, by time
}

// A ChartRow is the charts of one GPU.
type ChartRow struct {
	GPU    string
	Slice  bool // of which no more than the memory is known
	Charts [4]Chart
	Mean   string // of utilization
	Held   string // % of the time known
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

// className is the classes of the picture.
func (c Chart) className() string {
	if c.Class == "" {
		return "ch"
	}
	return "ch " + c.Class
}
