package data

import (
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
	status := "ok"
	if len(b.Problems) > 0 {
		status = "degraded"
	}
	var byCode object
	counts := countByCode(b.Problems)
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		byCode = append(byCode, member{code, counts[code]})
	}
	// A booking that is over is no problem, but whoever wonders why an entry has no
	// effect finds it here with its place.
	over := []object{}
	for i := range b.Bookings {
		if bk := &b.Bookings[i]; bk.Expired {
			where := snapshot.Problem{File: bk.File, Line: bk.Line, Col: bk.Col}.Where()
			over = append(over, object{
				{"where", safe(where)}, {"host", safe(bk.Host)}, {"name", safe(bk.Name)}, {"until", bk.Until},
			})
		}
	}
	return encodeFile(headerOf(in), object{
		{"status", status}, {"inventory_as_of", b.InventoryAsOf}, {"bookings_stale_since", b.BookingsStaleSince},
		{"problem_count", len(b.Problems)}, {"by_code", byCode},
		{"problems", docsOf(b.Problems, problemOf)},
		{"bookings_over", over},
	})
}

// countByCode counts problems by their codes.
func countByCode(problems []snapshot.Problem) map[string]int {
	counts := map[string]int{}
	for i := range problems {
		counts[problems[i].Code]++
	}
	return counts
}
