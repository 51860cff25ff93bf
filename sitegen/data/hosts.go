package data

import (
	"fmt"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// hostData is what one host contributes to the data files.
type hostData struct {
	files   []render.File // its own
	fields  []byte        // of board.json and of the host's own file
	metrics []*metricsFamily
}

// hostDatas makes the data of every host, in the board's order, on all
// processors. Their files go into out.
func hostDatas(in render.Input, shapes *compat, out *render.Sink) ([]*hostData, error) {
	hosts, bookings := in.Board.Hosts, map[string][]*board.Booking{}
	for i := range in.Board.Bookings {
		b := &in.Board.Bookings[i]
		bookings[b.Host] = append(bookings[b.Host], b)
	}
	made := make([]*hostData, len(hosts))
	err := render.InParallel(len(hosts), func(i int) (err error) {
		if made[i], err = hostDataOf(in, &hosts[i], bookings[hosts[i].Name]); err != nil {
			return err
		}
		made[i].files = append(made[i].files, shapes.host(i, &hosts[i])...)
		files := made[i].files
		made[i].files = nil
		return out.Put(files...)
	})
	return made, err
}

func hostDataOf(in render.Input, h *board.Host, bookings []*board.Booking) (*hostData, error) {
	d := &hostData{fields: hostFields(h), metrics: metricsHost(h)}
	calendar, err := icsCalendar(icsTitle(in)+": "+h.Name, bookings, in.Board.GeneratedAt)
	if err != nil {
		return nil, fmt.Errorf("writing the calendar of %s: %w", h.Name, err)
	}
	d.files = []render.File{
		render.NewFile("api/v1/hosts/"+h.Name+".json", hostFile(h, d.fields, bookings)),
		render.NewFile("hosts/"+h.Name+".ics", calendar),
	}
	return d, nil
}
