package data

import (
	"cmp"
	"maps"
	"slices"

	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// healthFile is health.json: every problem of the run with its code, place and
// words. The overall word is "ok" exactly when there is no problem, and then
// the command that generated exits 0.
func healthFile(in render.Input) []byte {
	b := in.Board
	// A booking that is over is no problem, but whoever wonders why an entry has no
	// effect finds it here with its place.
	type over struct {
		Where safe   `json:"where"`
		Host  safe   `json:"host"`
		Name  safe   `json:"name"`
		Until moment `json:"until"`
	}
	problems := healthProblems(in)
	doc := struct {
		header
		Status             string       `json:"status"`
		InventoryAsOf      moment       `json:"inventory_as_of"`
		BookingsStaleSince moment       `json:"bookings_stale_since"`
		ProblemCount       int          `json:"problem_count"`
		ByCode             object       `json:"by_code"`
		Problems           []problemDoc `json:"problems"`
		BookingsOver       []over       `json:"bookings_over"`
	}{
		header: headerOf(in), Status: "ok", InventoryAsOf: moment{b.InventoryAsOf}, BookingsStaleSince: moment{b.BookingsStaleSince},
		ProblemCount: len(problems), Problems: docsOf(problems, problemOf),
	}
	if len(problems) > 0 {
		doc.Status = "degraded"
	}
	counts := map[string]int{}
	for _, p := range problems {
		counts[p.Code]++
	}
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		doc.ByCode = append(doc.ByCode, member{code, counts[code]})
	}
	for i := range b.Bookings {
		if bk := &b.Bookings[i]; bk.Expired {
			where := snapshot.Problem{File: bk.File, Line: bk.Line, Col: bk.Col}.Where()
			doc.BookingsOver = append(doc.BookingsOver, over{safe(where), safe(bk.Host), safe(bk.Name), moment{bk.Until}})
		}
	}
	return encodeFile(&doc)
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
			p.Host = cmp.Or(p.Host, b.Hosts[i].Name)
			add(p)
		}
	}
	return all
}
