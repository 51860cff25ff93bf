package data

import (
	"fmt"
	"slices"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

// hostData is what one host contributes to the data files.
type hostData struct {
	files             []render.File // its own
	fields            []byte        // of board.json and of the host's own file
	node, info, agent []byte        // its part of the shapes in compat/
	states            []byte        // the same in states/
	metrics           []*metricsFamily
}

// hostDatas makes the data of every host, in the board's order, on all
// processors. Their files go into out.
func hostDatas(in render.Input, byHost map[string][]*board.Booking, out *render.Sink) ([]*hostData, error) {
	hosts := in.Board.Hosts
	past := in.History
	if len(hosts) > render.FullHistoryHosts {
		past = nil // an hour of a thousand hosts would be 35 MB with every news
	}
	made := make([]*hostData, len(hosts))
	err := render.InTurn(len(hosts), func(i int) (err error) {
		made[i], err = hostDataOf(in, &hosts[i], byHost[hosts[i].Name], past)
		return err
	}, func(i int) error {
		files := made[i].files
		made[i].files = nil
		return out.Put(files...)
	})
	return made, err
}

func hostDataOf(in render.Input, h *board.Host, bookings []*board.Booking, past *render.History) (*hostData, error) {
	zone := in.Site.Zone
	d := &hostData{fields: apiHostFields(h), metrics: metricsHost(h)}
	part := func(write func(*apiEnc)) []byte {
		e := &apiEnc{}
		write(e)
		return e.b
	}
	d.node = part(func(e *apiEnc) { compatNode(e, h, zone) })
	d.info = part(func(e *apiEnc) { compatInfo(e, h) })
	d.agent = part(func(e *apiEnc) { compatAgent(e, h) })
	d.states = part(func(e *apiEnc) { compatStates(e, h, zone, past) })
	one := &apiEnc{}
	one.open('{')
	one.raw(d.states)
	calendar, err := icsCalendar(icsTitle(in)+": "+h.Name, bookings, in.Board.GeneratedAt)
	if err != nil {
		return nil, fmt.Errorf("writing the calendar of %s: %w", h.Name, err)
	}
	d.files = []render.File{
		render.NewFile("api/v1/hosts/"+h.Name+".json", apiHostFile(h, d.fields, bookings)),
		render.NewFile("hosts/"+h.Name+".ics", calendar),
		render.NewFile("states/"+h.Name+"/index.json", one.end()),
		render.NewFile("compat/gpu_status/"+h.Name+".json", append(slices.Clone(d.agent), '\n')),
	}
	return d, nil
}

// raw appends what was encoded apart as the next element or member.
func (e *apiEnc) raw(b []byte) {
	e.sep()
	e.b = append(e.b, b...)
}
