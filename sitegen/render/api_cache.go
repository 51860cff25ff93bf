package render

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gpuboard/board"
)

// hostData is what the data files hold of one host alone, whenever they are
// generated: in a fleet where little happens, nearly all of it is found in the
// cache.
type hostData struct {
	host     board.Host  // as it was; some of it is compared apart or stands in no part
	since    []time.Time // when each GPU fell idle
	zone     *time.Location
	title    string          // of the site, which calendars bear
	bookings []board.Booking // of the host
	past     *HostPast       // of which the shapes in states/ show an hour; nil where they do not
	day      time.Time       // of the generation: a calendar may begin with it

	fields            []byte // of board.json and of the host's own file
	file              []byte // its own file
	colored, plain    []byte // its status.ansi and status.txt
	node, info, agent []byte // its part of the shapes in compat/
	agentFile         []byte
	states, stateFile []byte // the same in states/
	calendar          []byte
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
// hands as there are processors.
func hostDatas(in Input, byHost map[string][]*board.Booking) ([]*hostData, error) {
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
	errs := make([]error, len(b.Hosts))
	var next atomic.Int64
	var hands sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(b.Hosts)) {
		hands.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(b.Hosts); i = int(next.Add(1)) - 1 {
				h := &b.Hosts[i]
				made[i] = m.key(h)
				if old := before[h.Name]; old != nil && made[i].same(old) {
					made[i] = old
					continue
				}
				errs[i] = m.render(made[i], h)
			}
		})
	}
	hands.Wait()
	if in.Cache != nil {
		in.Cache.data = make(map[string]*hostData, len(made))
		for _, d := range made {
			in.Cache.data[d.host.Name] = d
		}
	}
	return made, errors.Join(errs...)
}

// key takes from a host what makes its data. How long a GPU has been idle grows
// with every generation; since when does not.
func (m *dataMaker) key(h *board.Host) *hostData {
	d := &hostData{host: *h, zone: m.in.Site.Zone, title: icsTitle(m.in), since: make([]time.Time, len(h.GPUs))}
	for i := range h.GPUs {
		d.since[i] = apiIdleSince(&h.GPUs[i], m.in.Board.GeneratedAt)
	}
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
	if d.zone != e.zone || d.title != e.title || d.past != e.past || !d.day.Equal(e.day) || len(d.host.GPUs) != len(e.host.GPUs) || !slices.EqualFunc(d.since, e.since, time.Time.Equal) {
		return false
	}
	x, y := d.host, e.host
	x.GPUs, y.GPUs = nil, nil
	if !reflect.DeepEqual(&x, &y) || !reflect.DeepEqual(d.bookings, e.bookings) {
		return false
	}
	for i := range d.host.GPUs {
		g, old := d.host.GPUs[i], e.host.GPUs[i]
		g.IdleFor, old.IdleFor = 0, 0
		if !reflect.DeepEqual(&g, &old) {
			return false
		}
	}
	return true
}

func (m *dataMaker) render(d *hostData, h *board.Host) (err error) {
	at := m.in.Board.GeneratedAt
	d.fields = apiHostFields(h, at)
	d.file = apiHostFile(h, d.fields, m.byHost[h.Name])
	d.colored = textHost(h, at, d.zone)
	d.plain = textWithoutColor(d.colored)
	part := func(write func(*apiEnc)) []byte {
		e := &apiEnc{}
		write(e)
		return e.b
	}
	d.node = part(func(e *apiEnc) { compatNode(e, h, d.zone) })
	d.info = part(func(e *apiEnc) { compatInfo(e, h) })
	d.agent = part(func(e *apiEnc) { compatAgent(e, h) })
	d.agentFile = append(slices.Clone(d.agent), '\n')
	d.states = part(func(e *apiEnc) { compatStates(e, h, d.zone, m.past) })
	one := &apiEnc{}
	one.open('{')
	one.raw(d.states)
	d.stateFile = one.end()
	d.calendar, err = icsCalendar(d.title+": "+h.Name, m.byHost[h.Name], at)
	if err != nil {
		return fmt.Errorf("writing the calendar of %s: %w", h.Name, err)
	}
	return nil
}

// raw appends what was encoded apart as the next element or member.
func (e *apiEnc) raw(b []byte) {
	e.sep()
	e.b = append(e.b, b...)
}
