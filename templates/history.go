package templates

// A HistoryPage is history/index.html.
type HistoryPage struct {
	Frame
	Kept    bool // there is a history at all
	Known   bool // and it knows something
	Since   *Moment
	Week    string // the part of the GPU time that was used in 7 days; "" where it is not known
	Tabs    []FleetTab
	Windows []Window
	Costs   Costs
	Heat    *Heat
	Idle    []NowRow
	NoShows []NowRow
	Stuck   []NowRow
	Unused  []UnusedRow
	NowMore int // rows left out
	// Happened is what happened lately, the newest first.
	Happened []Happening
}

// Costs says which columns of costs there are.
type Costs struct {
	Money, CO2 bool
	Currency   string // "" where it is not said
}

// A FleetTab is the fleet over one length of time.
type FleetTab struct {
	Name, Coverage string
	From           int64 // Unix
	Step           int   // seconds
	Ticks          []AxisTick
	Stack          *Stack // nil where nothing is known
	Models         []ModelUse
	Rows           []NamedChart
	Heads          []string
	Lines          []Line
}

// A Window is who used how much in some days.
type Window struct {
	Name, Coverage     string
	Since              *Moment
	Users, Teams       []Use
	UsersMore          int
	Hosts              []Use
	HostsMore          int
	Hours, Share, Idle string // of all
}

// A Use is one line of who used how much.
type Use struct {
	Name, Href               string
	Hours, Share, Util       string
	Idle, Energy             string
	Cost, CO2                string
	Free, Coverage           string
	Color                    string // of a person
	Width, IdleWidth, IdleAt string // of a bar, the longest is 100; of its idle part, and where that begins
	Idles                    bool   // much of it was idle
	Now                      string // GPUs
	Spark                    string // GPUs in use over time, a path of Steps by 20 units
	Steps                    int
	Unknown                  bool // nobody known
}

// A NowRow is a GPU that somebody should look at.
type NowRow struct {
	Where, Href string
	Who         []Person
	For         string
	Memory      string
	Since       *Moment
}

// An UnusedRow is a booking that was not used.
type UnusedRow struct {
	Where, Href          string
	Person               Person
	From, Until          *Moment
	Booked, Unused, Part string // hours; of those known, per cent
	Unknown              string
}

// A Heat is the week by the hour.
type Heat struct {
	Days     []HeatDay // from Monday
	Coverage string
	Zone     string
}

// A HeatDay is one day of the week.
type HeatDay struct {
	Name  string
	Y     int
	Cells []HeatCell
}

// A HeatCell is one hour of a day.
type HeatCell struct {
	Hour  int
	X     int
	Shade int    // 0 to 9; -1 when it is not known
	Value string // % of the GPUs in use
}

// sum is what all used together.
func (u Window) sum(w Words) string {
	text := w.T("past.sum.hours", u.Hours)
	if u.Share != "" {
		text += ", " + w.T("past.sum.share", u.Share)
	}
	return text + " · " + w.T("past.sum.idle", u.Idle) + " · " + w.T("past.sum.coverage", u.Coverage)
}

// shownPeople is of how many people a table shows all at first, as history.css has it.
const shownPeople = 12
