package render

import (
	"fmt"
	"slices"
	"time"

	"gpuboard/board"
)

// hostData is what the data files hold of one host alone, whenever they are
// generated: in a fleet where little happens, nearly all of it is found in the
// cache.
type hostData struct {
	host     *board.Host // see Cache.unchanged
	zone     *time.Location
	title    string          // of the site, which calendars bear
	bookings []board.Booking // of the host
	past     *HostPast       // of which the shapes in states/ show an hour; nil where they do not
	day      time.Time       // of the generation: a calendar may begin with it

	own               []File
	fields            []byte // of board.json and of the host's own file
	node, info, agent []byte // its part of the shapes in compat/
	states            []byte // the same in states/
	metrics           []*metricsFamily
	// texts are its parts of status.txt, status.ansi and detail.ansi.
	texts [3]textKept
}

// A dataMaker makes the data of hosts, or finds that it is what it was.
type dataMaker struct {
	in     Input
	past   *History // for the shapes in states/; nil for none
	byHost map[string][]*board.Booking
}

// hostDatas makes the data of every host, in the board's order, with as many
// hands as there are processors. Their files go into out.
func hostDatas(in Input, byHost map[string][]*board.Booking, out *sink) ([]*hostData, error) {
	b := in.Board
	m := &dataMaker{in: in, past: in.History, byHost: byHost}
	if len(b.Hosts) > pastHosts {
		m.past = nil // an hour of a thousand hosts would be 35 MB with every news
	}
	var before map[string]*hostData
	if in.Cache != nil {
		before = in.Cache.data
	}
	made := make([]*hostData, len(b.Hosts))
	alike := in.Cache.unchanged(b)
	err := inTurn(len(b.Hosts), func(i int) error {
		h := &b.Hosts[i]
		made[i] = m.key(h, alike[i])
		if old := before[h.Name]; old != nil && made[i].same(old) {
			made[i] = old
			return nil
		}
		return m.render(made[i], h)
	}, func(i int) error {
		return out.putOwn(made[i].own, made[i] != before[b.Hosts[i].Name])
	})
	if err != nil {
		return nil, err
	}
	if in.Cache != nil {
		in.Cache.data = make(map[string]*hostData, len(made))
		for _, d := range made {
			in.Cache.data[d.host.Name] = d
		}
	}
	return made, nil
}

// key takes from a host what makes its data.
func (m *dataMaker) key(h, alike *board.Host) *hostData {
	d := &hostData{host: alike, zone: m.in.Site.Zone, title: icsTitle(m.in)}
	d.day = m.in.Board.GeneratedAt.UTC().Truncate(24 * time.Hour)
	if bs := m.byHost[h.Name]; len(bs) > 0 {
		d.bookings = make([]board.Booking, len(bs))
		for i, bk := range bs {
			d.bookings[i] = *bk
		}
	}
	if m.past != nil {
		d.past = m.past.Hosts[h.Name]
	}
	return d
}

func (d *hostData) same(e *hostData) bool {
	return d.host == e.host && d.zone == e.zone && d.title == e.title && d.past == e.past && d.day.Equal(e.day) &&
		equal(d.bookings, e.bookings)
}

func (m *dataMaker) render(d *hostData, h *board.Host) error {
	at := m.in.Board.GeneratedAt
	d.fields = apiHostFields(h)
	colored := textHost(h, d.zone)
	part := func(write func(*apiEnc)) []byte {
		e := &apiEnc{}
		write(e)
		return e.b
	}
	d.node = part(func(e *apiEnc) { compatNode(e, h, d.zone) })
	d.info = part(func(e *apiEnc) { compatInfo(e, h) })
	d.agent = part(func(e *apiEnc) { compatAgent(e, h) })
	d.states = part(func(e *apiEnc) { compatStates(e, h, d.zone, m.past) })
	one := &apiEnc{}
	one.open('{')
	one.raw(d.states)
	d.metrics = metricsHost(h)
	calendar, err := icsCalendar(d.title+": "+h.Name, m.byHost[h.Name], at)
	if err != nil {
		return fmt.Errorf("writing the calendar of %s: %w", h.Name, err)
	}
	d.own = []File{
		newFile("api/v1/hosts/"+h.Name+".json", apiHostFile(h, d.fields, m.byHost[h.Name])),
		newFile("hosts/"+h.Name+"/status.ansi", colored),
		newFile("hosts/"+h.Name+"/status.txt", textWithoutColor(colored)),
		newFile("hosts/"+h.Name+".ics", calendar),
		newFile("states/"+h.Name+"/index.json", one.end()),
		newFile("compat/gpu_status/"+h.Name+".json", append(slices.Clone(d.agent), '\n')),
	}
	return nil
}

// raw appends what was encoded apart as the next element or member.
func (e *apiEnc) raw(b []byte) {
	e.sep()
	e.b = append(e.b, b...)
}
