package data

import (
	"maps"
	"slices"
	"strconv"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// healthFile is health.json: every problem of the run with its code, place and
// words. The overall word is "ok" exactly when there is no problem, and then
// the command that generated exits 0.
func healthFile(in render.Input) []byte {
	b := in.Board
	problems := healthProblems(in)
	e := &apiEnc{}
	apiHeader(in, e)
	status := "ok"
	if len(problems) > 0 {
		status = "degraded"
	}
	e.str("status", status)
	e.time("inventory_as_of", b.InventoryAsOf)
	e.time("bookings_stale_since", b.BookingsStaleSince)
	e.int("problem_count", len(problems))
	counts := map[string]int{}
	for i := range problems {
		counts[problems[i].Code]++
	}
	e.object("by_code")
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		e.sep()
		e.b = append(apiQuote(e.b, code), ':')
		e.comma = false
		e.b = strconv.AppendInt(e.b, int64(counts[code]), 10)
		e.comma = true
	}
	e.close('}')
	apiProblems(e, problems)
	apiOver(e, b.Bookings)
	return e.end()
}

// apiOver lists the bookings that are over and still shown. They are no problem,
// but whoever wonders why an entry has no effect finds it here with its place.
func apiOver(e *apiEnc, bookings []board.Booking) {
	e.array("bookings_over")
	for i := range bookings {
		bk := &bookings[i]
		if !bk.Expired {
			continue
		}
		e.elem()
		e.str("where", snapshot.Problem{File: bk.File, Line: bk.Line, Col: bk.Col}.Where())
		e.str("host", bk.Host)
		e.str("name", bk.Name)
		e.time("until", bk.Until)
		e.close('}')
	}
	e.close(']')
}

// healthProblems is the board's own list and then those of each host that are
// not in it, the host named.
func healthProblems(in render.Input) []snapshot.Problem {
	b := in.Board
	type mark struct{ code, message, where string }
	seen := make(map[mark]bool, len(b.Problems))
	var all []snapshot.Problem
	add := func(p snapshot.Problem) {
		m := mark{p.Code, p.Message, p.Where()}
		if !seen[m] {
			seen[m] = true
			all = append(all, p)
		}
	}
	for _, p := range b.Problems {
		add(p)
	}
	for i := range b.Hosts {
		for _, p := range b.Hosts[i].Problems {
			if p.Host == "" {
				p.Host = b.Hosts[i].Name
			}
			add(p)
		}
	}
	return all
}
