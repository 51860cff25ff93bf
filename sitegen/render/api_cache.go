package render

import (
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
	host  board.Host  // as it was, less what is compared apart or stands in no part
	since []time.Time // when each GPU fell idle
	zone  *time.Location

	fields            []byte // of board.json and of the host's own file
	colored, plain    []byte // its status.ansi and status.txt
	node, info, agent []byte // its part of the shapes in compat/
}

// hostDatas makes the data of every host, in the board's order, with as many
// hands as there are processors.
func hostDatas(in Input) []*hostData {
	b := in.Board
	var before map[string]*hostData
	if in.Cache != nil {
		before = in.Cache.data
	}
	made := make([]*hostData, len(b.Hosts))
	var next atomic.Int64
	var hands sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(b.Hosts)) {
		hands.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(b.Hosts); i = int(next.Add(1)) - 1 {
				h := &b.Hosts[i]
				made[i] = hostDataKey(h, b.GeneratedAt, in.Site.Zone)
				if old := before[h.Name]; old != nil && made[i].same(old) {
					made[i] = old
					continue
				}
				made[i].render(h, b.GeneratedAt)
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
	return made
}

// hostDataKey takes from a host what makes its data. How long a GPU has been
// idle grows with every generation; since when does not.
func hostDataKey(h *board.Host, generatedAt time.Time, zone *time.Location) *hostData {
	d := &hostData{host: *h, zone: zone, since: make([]time.Time, len(h.GPUs))}
	d.host.GPUs = slices.Clone(h.GPUs)
	for i := range d.host.GPUs {
		g := &d.host.GPUs[i]
		d.since[i] = apiIdleSince(g, generatedAt)
		g.Utilization, g.IdleFor = nil, 0
	}
	return d
}

func (d *hostData) same(e *hostData) bool {
	return d.zone == e.zone && slices.EqualFunc(d.since, e.since, time.Time.Equal) && reflect.DeepEqual(d.host, e.host)
}

func (d *hostData) render(h *board.Host, generatedAt time.Time) {
	d.fields = apiHostFields(h, generatedAt)
	d.colored = textHost(h, generatedAt, d.zone)
	d.plain = textWithoutColor(d.colored)
	part := func(write func(*apiEnc)) []byte {
		e := &apiEnc{}
		write(e)
		return e.b
	}
	d.node = part(func(e *apiEnc) { compatNode(e, h, d.zone) })
	d.info = part(func(e *apiEnc) { compatInfo(e, h) })
	d.agent = part(func(e *apiEnc) { compatAgent(e, h) })
}

// raw appends what was encoded apart as the next element or member.
func (e *apiEnc) raw(b []byte) {
	e.sep()
	e.b = append(e.b, b...)
}
