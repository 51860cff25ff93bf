package data

import (
	"gpuboard/sitegen/render"
)

// hostFiles puts the files of every host into out, several hosts at a time. It
// returns the members of each in board.json, in the board's order.
func hostFiles(in render.Input, shapes *compat, cals *calendars, out *render.Sink) ([][]byte, error) {
	hosts, bookings := in.Board.Hosts, in.Board.BookingsByHost()
	fields := make([][]byte, len(hosts))
	err := render.InParallel(len(hosts), func(i int) error {
		h := &hosts[i]
		fields[i] = hostFields(h)
		calendar, err := cals.file("hosts/"+h.Name+".ics", h.Name, bookings[h.Name])
		if err != nil {
			return err
		}
		return out.Put(append(shapes.host(i, h),
			render.NewFile("api/v1/hosts/"+h.Name+".json", hostFile(h, fields[i], bookings[h.Name])),
			calendar)...)
	})
	return fields, err
}
