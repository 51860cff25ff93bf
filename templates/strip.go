package templates

// A Strip is the last day of a GPU, the present, and its bookings of the next two days.
type Strip struct {
	Past []Area // in units of half an hour, 11 high
	Gaps string // where the host was silent
	Bars []StripBar
	Free string // for how long it is free, where nothing is booked
	Text string // the past in words
}

// An Area is the load of the time in which a person held a GPU.
type Area struct{ Class, Path string }

// A StripBar is a booking, and what stands at it. From and To are parts of the next two days.
type StripBar struct {
	From, To float64
	Texts    []string // what may stand there, the longest first
	X, W     string   // in per cent
	Class    string
	Text     string
	Left     bool // the text ends at the beginning of the bar
	DX       string
}
