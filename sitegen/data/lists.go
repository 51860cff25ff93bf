package data

import (
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

func freeOf(u *board.Unit) object {
	g, holder := u.GPU, ""
	if g.Booking != nil {
		holder = g.Booking.Name
	}
	return object{
		{"host", safe(u.Host.Name)}, {"title", u.Host.Title}, {"gpu", g.Index}, {"mig_device", g.SliceIndex()},
		{"uuid", g.UUID}, {"vendor", safe(g.Maker())}, {"model", safe(g.ShortName)},
		{"memory_total_mib", g.MemoryTotal},
		{"from", g.FreeFrom}, {"until", g.FreeUntil}, {"held_by", holder},
	}
}

func freeFile(in render.Input) []byte {
	b := in.Board
	return encodeFile(headerOf(in), object{
		{"free", b.Totals.GPUs.Free()}, {"gpus", b.Totals.GPUs.All},
		{"free_slices", b.Totals.Slices.Free()}, {"slices", b.Totals.Slices.All},
		{"models", b.Models}, {"free_now", docsOf(b.FreeNow, freeOf)}, {"next_free", orNull(b.NextFree, freeOf)},
	})
}

func usersFile(in render.Input) []byte {
	return encodeFile(headerOf(in), object{{"users", docsOf(in.Board.Users, func(u *board.User) object {
		return object{
			{"name", safe(u.Name)}, {"reserved_gpus", u.Reserved}, {"used_gpus", u.Used}, {"idle_gpus", u.Idle},
			{"reserved_slices", u.Slices.Reserved}, {"used_slices", u.Slices.Used}, {"idle_slices", u.Slices.Idle},
			{"used_memory_mib", u.Memory}, {"processes", u.Processes}, {"mean_used_gpus_2h", u.Mean2h},
			{"mean_used_gpus_24h", u.Mean24h}, {"mean_used_gpus_1w", u.Mean1w}, {"where", u.Where},
		}
	})}})
}

func bookingsFile(in render.Input, texts *bookingTexts) []byte {
	b := in.Board
	var problems []snapshot.Problem
	for _, p := range b.Problems {
		if strings.HasPrefix(p.Code, "booking:") {
			problems = append(problems, p)
		}
	}
	head := encodeFile(headerOf(in), object{{"stale_since", b.BookingsStaleSince}})
	return joined(string(head[:len(head)-2])+`,"bookings":[`, texts.list(texts.all), ",",
		`],"problems":`+string(encode(docsOf(problems, problemOf)))+"}\n")
}

// list are the elements of an array of bookings.
func (t *bookingTexts) list(bookings []*board.Booking) [][]byte {
	return docsOf(bookings, func(b **board.Booking) []byte { return t.of[*b].json })
}
