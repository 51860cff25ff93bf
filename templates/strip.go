package templates

// A Strip is the last day of a GPU, the present, and its bookings of the next two days.
type Strip struct {
	Past []Part // in units of half an hour, 11 high
	Gaps string // where the host was silent
	Bars []StripBar
	Free string // for how long it is free, where nothing is booked
	Text string // the past in words
}

// A StripBar is a booking, and the text that stands at it.
type StripBar struct {
	X, W  string // in per cent
	Class string
	Text  string
	More  string // of the text, where the window is wide
	// TextClass is "right" for a text that begins where the bar does, "left" for one that ends there.
	TextClass string
}
