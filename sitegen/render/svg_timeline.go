package render

import (
	"cmp"
	"slices"
	"time"

	"gpuboard/internal/board"
)

const (
	timelineDays = 7
	timelineRow  = 26 // pixels
	timelineRows = 400
	timelineBars = 128 // in one row
)

// A timeline is the bookings of the next seven days, a row for each GPU that
// has one. Positions along it are in per cent, so that it fits every screen.
type timeline struct {
	Days []tick
	Rows []lane
	More int // rows left out
	// MoreBars are bookings left out of rows that have too many of them.
	MoreBars int
}

// A tick is a mark on an axis; Short is for a narrow screen, where it is needed.
type tick struct{ X, Text, Short string }

type lane struct {
	Label, Href string
	Height      int
	Bars        []bar
}

type bar struct {
	X, W        string
	Y, H        int
	TextY       int
	Name, Title string
	Maintenance bool
	Open        bool // runs out of the picture
}

func (v *view) timeline() *timeline {
	b := v.in.Board
	from := b.GeneratedAt
	to := from.Add(timelineDays * 24 * time.Hour)
	at := func(t time.Time) float64 { return float64(t.Sub(from)) / float64(to.Sub(from)) }

	type key struct {
		host string
		gpu  int // -1 for the whole host
		mig  int // which of its slices; -1 for all of it
	}
	lanes := map[key][]*board.Booking{}
	for i := range b.Bookings {
		bk := &b.Bookings[i]
		if !bk.From.Before(to) || !bk.Until.IsZero() && !bk.Until.After(from) {
			continue
		}
		if len(bk.GPUs) == 0 {
			lanes[key{bk.Host, -1, -1}] = append(lanes[key{bk.Host, -1, -1}], bk)
		}
		for _, gpu := range bk.GPUs {
			k := key{bk.Host, gpu, -1}
			if bk.Slice != nil {
				k.mig = *bk.Slice
			}
			lanes[k] = append(lanes[k], bk)
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	keys := make([]key, 0, len(lanes))
	for k := range lanes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.host, y.host), cmp.Compare(x.gpu, y.gpu), cmp.Compare(x.mig, y.mig))
	})

	t := &timeline{}
	for m := firstMidnight(from, v.words.zone); m.Before(to); m = m.AddDate(0, 0, 1) {
		t.Days = append(t.Days, tick{X: percent(at(m)), Text: v.words.date(m), Short: v.words.weekdays[m.Weekday()]})
	}
	for i, k := range keys {
		if i == timelineRows {
			t.More = len(keys) - timelineRows
			break
		}
		l := lane{Label: k.host}
		if k.gpu >= 0 {
			one := board.Booking{GPUs: []int{k.gpu}, Slice: lanes[k][0].Slice}
			l.Label += " " + one.Labels()[0]
		}
		if v.hosts[k.host] {
			l.Href = "../hosts/" + k.host + "/index.html"
		}
		list := lanes[k]
		slices.SortStableFunc(list, func(x, y *board.Booking) int { return x.From.Compare(y.From) })
		if len(list) > timelineBars {
			t.MoreBars += len(list) - timelineBars
			list = list[:timelineBars]
		}
		// Bookings that overlap stand below each other.
		var ends []time.Time
		for _, bk := range list {
			end := bk.Until
			if end.IsZero() || end.After(to) {
				end = to
			}
			begin := bk.From
			if begin.Before(from) {
				begin = from
			}
			level := slices.IndexFunc(ends, func(e time.Time) bool { return !e.After(begin) })
			if level < 0 {
				level, ends = len(ends), append(ends, end)
			}
			ends[level] = end
			title := clean(bk.Name)
			if m := v.words.near(bk.From, from); m != nil {
				title += " " + m.Text
			}
			title += " –"
			if m := v.words.near(bk.Until, from); m != nil {
				title += " " + m.Text
			}
			if bk.Comment != "" {
				title += ": " + clean(bk.Comment)
			}
			l.Bars = append(l.Bars, bar{
				X: percent(at(begin)), W: percent(max(0.004, at(end)-at(begin))),
				Y: 3 + level*(timelineRow-4), H: timelineRow - 6, TextY: 3 + level*(timelineRow-4) + 14,
				Name: clean(bk.Name), Title: title, Maintenance: bk.Kind == "maintenance", Open: bk.Until.IsZero(),
			})
		}
		l.Height = timelineRow + (len(ends)-1)*(timelineRow-4)
		t.Rows = append(t.Rows, l)
	}
	return t
}
