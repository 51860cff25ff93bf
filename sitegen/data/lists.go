package data

import (
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

type freeDoc struct {
	Host   safe   `json:"host"`
	Title  known  `json:"title"`
	GPU    int    `json:"gpu"`
	Slice  *int   `json:"mig_device"`
	UUID   known  `json:"uuid"`
	Model  safe   `json:"model"`
	Memory *int64 `json:"memory_total_mib"`
	From   moment `json:"from"`
	Until  moment `json:"until"`
	By     known  `json:"held_by"`
}

func freeOf(u *board.Unit) freeDoc {
	g := u.GPU
	doc := freeDoc{
		Host: safe(u.Host.Name), Title: known(u.Host.Title), GPU: g.Index, Slice: g.SliceIndex(), UUID: known(g.UUID),
		Model: safe(g.ShortName), Memory: g.MemoryTotal, From: moment{g.FreeFrom}, Until: moment{g.FreeUntil},
	}
	if g.Booking != nil {
		doc.By = known(g.Booking.Name)
	}
	return doc
}

func freeFile(in render.Input) []byte {
	b := in.Board
	doc := struct {
		header
		Free     int        `json:"free"`
		GPUs     int        `json:"gpus"`
		Models   []modelDoc `json:"models"`
		FreeNow  []freeDoc  `json:"free_now"`
		NextFree *freeDoc   `json:"next_free"`
	}{header: headerOf(in), Free: b.Totals.Free(), GPUs: b.Totals.GPUs, Models: docsOf(b.Models, modelOf),
		FreeNow: docsOf(b.FreeNow, freeOf), NextFree: orNull(b.NextFree, freeOf)}
	return encodeFile(&doc)
}

func usersFile(in render.Input) []byte {
	type place struct {
		Host safe  `json:"host"`
		GPUs []int `json:"gpus"`
	}
	type user struct {
		Name      safe     `json:"name"`
		Reserved  int      `json:"reserved_gpus"`
		Used      reading  `json:"used_gpus"`
		Memory    int64    `json:"used_memory_mib"`
		Processes int      `json:"processes"`
		IdleGPUs  int      `json:"idle_gpus"`
		Mean2h    *reading `json:"mean_used_gpus_2h"`
		Mean24h   *reading `json:"mean_used_gpus_24h"`
		Mean1w    *reading `json:"mean_used_gpus_1w"`
		Where     []place  `json:"where"`
	}
	doc := struct {
		header
		Users []user `json:"users"`
	}{header: headerOf(in)}
	doc.Users = docsOf(in.Board.Users, func(u *board.User) user {
		return user{
			Name: safe(u.Name), Reserved: u.Reserved, Used: reading(u.Used), Memory: u.Memory, Processes: u.Processes, IdleGPUs: u.IdleGPUs,
			Mean2h: (*reading)(u.Mean2h), Mean24h: (*reading)(u.Mean24h), Mean1w: (*reading)(u.Mean1w),
			Where: docsOf(u.Where, func(w *board.UserHost) place { return place{safe(w.Host), w.GPUs} }),
		}
	})
	return encodeFile(&doc)
}

func bookingsFile(in render.Input, texts *bookingTexts) []byte {
	b := in.Board
	head := struct {
		header
		StaleSince moment `json:"stale_since"`
	}{headerOf(in), moment{b.BookingsStaleSince}}
	var problems []snapshot.Problem
	for _, p := range b.Problems {
		if strings.HasPrefix(p.Code, "booking:") {
			problems = append(problems, p)
		}
	}
	return joined("{"+string(members(encode(&head)))+`,"bookings":[`, texts.list(texts.all), ",",
		`],"problems":`+string(encode(docsOf(problems, problemOf)))+"}\n")
}

// list are the elements of an array of bookings.
func (t *bookingTexts) list(bookings []*board.Booking) [][]byte {
	docs := make([][]byte, len(bookings))
	for i, b := range bookings {
		docs[i] = t.of[b].json
	}
	return docs
}
