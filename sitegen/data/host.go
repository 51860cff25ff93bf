package data

import (
	"fmt"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

type (
	hostHead struct {
		Name        safe         `json:"name"`
		Title       known        `json:"title"`
		Group       known        `json:"group"`
		Owner       known        `json:"owner"`
		Note        known        `json:"note"`
		Address     known        `json:"address"`
		Datacenter  known        `json:"datacenter"`
		Tags        []safe       `json:"tags"`
		State       safe         `json:"state"`
		Check       known        `json:"check"`
		SnapshotAt  moment       `json:"snapshot_at"`
		ClockOffset reading      `json:"clock_offset_seconds"`
		GoneSince   moment       `json:"gone_since"`
		Interval    *int64       `json:"interval_seconds"`
		Driver      known        `json:"driver_version"`
		CUDA        known        `json:"cuda_version"`
		Free        int          `json:"free"`
		Models      []modelDoc   `json:"models"`
		Problems    []problemDoc `json:"problems"`
	}
	hostDoc struct {
		hostHead
		Node nodeDoc  `json:"node"`
		GPUs []gpuDoc `json:"gpus"`
	}
	nodeDoc struct {
		Uptime      *int64         `json:"uptime_seconds"`
		Cores       *int           `json:"cores"`
		Load1       *reading       `json:"load1"`
		Load5       *reading       `json:"load5"`
		Load15      *reading       `json:"load15"`
		MemoryTotal *int64         `json:"memory_total_mib"`
		MemoryUsed  *int64         `json:"memory_used_mib"`
		OS          known          `json:"os"`
		Kernel      known          `json:"kernel"`
		Disks       []diskDoc      `json:"disks"`
		DiskUsers   []diskUserDoc  `json:"disk_users"`
		Interfaces  []interfaceDoc `json:"interfaces"`
	}
	diskDoc struct {
		Mount safe  `json:"mount"`
		Total int64 `json:"total_mib"`
		Used  int64 `json:"used_mib"`
	}
	diskUserDoc struct {
		Path safe  `json:"path"`
		User safe  `json:"user"`
		Used int64 `json:"used_mib"`
	}
	interfaceDoc struct {
		Name  safe   `json:"name"`
		Addrs []safe `json:"addrs"`
	}
	modelDoc struct {
		Name     safe   `json:"name"`
		FullName known  `json:"full_name"`
		Memory   *int64 `json:"memory_total_mib"`
		Total    int    `json:"total"`
		Free     int    `json:"free"`
	}
	problemDoc struct {
		Code    safe  `json:"code"`
		Message safe  `json:"message"`
		Where   known `json:"where"`
		Host    known `json:"host"`
		GPU     *int  `json:"gpu"`
	}
)

// hostFiles hands on the files of every host, several hosts at a time. It
// returns the members of each in board.json, in the board's order.
func hostFiles(in render.Input, shapes *compat, texts *bookingTexts) ([][]byte, error) {
	hosts, bookings := in.Board.Hosts, in.Board.BookingsByHost()
	fields := make([][]byte, len(hosts))
	err := render.InParallel(len(hosts), func(i int) error {
		h := &hosts[i]
		fields[i] = hostFields(h)
		calendar, err := texts.file("hosts/"+h.Name+".ics", h.Name, bookings[h.Name])
		if err != nil {
			return err
		}
		return in.Put(append(shapes.host(i, h),
			render.NewFile("api/v1/hosts/"+h.Name+".json", hostFile(h, fields[i], texts.list(bookings[h.Name]))),
			calendar)...)
	})
	return fields, err
}

// hostFields are the members of one host, so that the same bytes stand in
// board.json and in the host's own file. Nothing in them depends on when the site
// was generated: a time span is that of the snapshot.
func hostFields(h *board.Host) []byte {
	n := &h.Node
	doc := hostDoc{
		hostHead: headOf(h),
		Node: nodeDoc{
			Uptime: n.UptimeSeconds, Cores: n.Cores, Load1: (*reading)(n.Load1), Load5: (*reading)(n.Load5), Load15: (*reading)(n.Load15),
			MemoryTotal: n.MemoryTotal, MemoryUsed: n.MemoryUsed, OS: known(n.OS), Kernel: known(n.Kernel),
			Disks:      docsOf(n.Disks, func(d *snapshot.Disk) diskDoc { return diskDoc{safe(d.Mount), d.Total, d.Used} }),
			DiskUsers:  docsOf(n.DiskUsers, func(u *snapshot.DiskUser) diskUserDoc { return diskUserDoc{safe(u.Path), safe(u.User), u.Used} }),
			Interfaces: docsOf(n.Interfaces, func(i *snapshot.Interface) interfaceDoc { return interfaceDoc{safe(i.Name), safes(i.Addrs)} }),
		},
		GPUs: docsOf(h.GPUs, func(g *board.GPU) gpuDoc { return gpuOf(g, h.SnapshotAt) }),
	}
	return members(encode(&doc))
}

func headOf(h *board.Host) hostHead {
	head := hostHead{
		Name: safe(h.Name), Title: known(h.Title), Group: known(h.Group), Owner: known(h.Owner), Note: known(h.Note),
		Address: known(h.Address), Datacenter: known(h.Datacenter), Tags: safes(h.Tags), State: safe(h.State), Check: known(h.Check),
		SnapshotAt: moment{h.SnapshotAt}, ClockOffset: reading(h.ClockOffset.Seconds()), GoneSince: moment{h.GoneSince},
		Driver: known(h.Driver), CUDA: known(h.CUDA), Free: h.Free, Models: docsOf(h.Models, modelOf), Problems: docsOf(h.Problems, problemOf),
	}
	if h.Interval > 0 {
		head.Interval = new(int64(h.Interval.Seconds()))
	}
	return head
}

func modelOf(m *board.Model) modelDoc {
	return modelDoc{safe(m.Name), known(m.FullName), m.MemoryTotal, m.Total, m.Free}
}

func problemOf(p *snapshot.Problem) problemDoc {
	return problemDoc{safe(p.Code), safe(p.Message), known(p.Where()), known(p.Host), p.GPU}
}

// hostFile is one host with what only its own page shows.
func hostFile(h *board.Host, fields []byte, bookings [][]byte) []byte {
	b := []byte(`],"utilization_24h_percent":[`)
	for i := range h.GPUs {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"gpu":%d,"steps":[`, h.GPUs[i].Index)
		for j, u := range h.GPUs[i].Utilization { // a million numbers for 1,000 hosts
			if j > 0 {
				b = append(b, ',')
			}
			if u == nil {
				b = append(b, "null"...)
			} else {
				b = strconv.AppendInt(b, int64(*u+0.5), 10)
			}
		}
		b = append(b, "]}"...)
	}
	start := fmt.Sprintf(`{"schema_version":%d,%s,"bookings":[`, SchemaVersion, fields)
	return joined(start, bookings, ",", string(b)+"]}\n")
}

type bookingDoc struct {
	ID      safe   `json:"id"`
	Host    safe   `json:"host"`
	GPUs    []int  `json:"gpus"` // empty for the whole host
	UUID    known  `json:"uuid"`
	Name    safe   `json:"name"`
	From    moment `json:"from"`  // null for one that has no start of its own
	Until   moment `json:"until"` // null for one that is open-ended
	Comment safe   `json:"comment"`
	Kind    safe   `json:"kind"`
	By      known  `json:"by"`
	Active  bool   `json:"active"`
	Expired bool   `json:"expired"`
	Forced  bool   `json:"forced"`
	Slice   *int   `json:"mig_device"`
}

func bookingOf(b *board.Booking) bookingDoc {
	return bookingDoc{
		ID: safe(b.ID), Host: safe(b.Host), GPUs: b.GPUs, UUID: known(b.UUID), Name: safe(b.Name), From: moment{b.From}, Until: moment{b.Until},
		Comment: safe(b.Comment), Kind: safe(b.Kind), By: known(b.By), Active: b.Active, Expired: b.Expired, Forced: b.Forced, Slice: b.Slice,
	}
}

// hostsFile is the list of hosts without their GPUs: the small file to poll.
func hostsFile(in render.Input) []byte {
	type host struct {
		hostHead
		GPUs int    `json:"gpus"`
		Href string `json:"href"`
	}
	doc := struct {
		header
		Hosts []host `json:"hosts"`
	}{header: headerOf(in)}
	doc.Hosts = docsOf(in.Board.Hosts, func(h *board.Host) host { return host{headOf(h), h.CountUnits(), "hosts/" + h.Name + ".json"} })
	return encodeFile(&doc)
}

// The parts of a GPU that are null where the driver says nothing.
type (
	xidDoc struct {
		Code    int    `json:"code"`
		At      moment `json:"at"`
		Meaning safe   `json:"meaning"`
	}
	eccDoc struct {
		Mode                 known  `json:"mode"`
		CorrectedVolatile    *int64 `json:"corrected_volatile"`
		UncorrectedVolatile  *int64 `json:"uncorrected_volatile"`
		CorrectedAggregate   *int64 `json:"corrected_aggregate"`
		UncorrectedAggregate *int64 `json:"uncorrected_aggregate"`
	}
	fabricDoc struct {
		State       known `json:"state"`
		Status      known `json:"status"`
		CliqueID    *int  `json:"clique_id"`
		ClusterUUID known `json:"cluster_uuid"`
	}
	lastDoc struct {
		State safe   `json:"state"`
		Users []safe `json:"users"`
		At    moment `json:"at"`
	}
)

// orNull is the document of what is known, and nil for nil.
func orNull[T, D any](v *T, doc func(*T) D) *D {
	if v == nil {
		return nil
	}
	return new(doc(v))
}

// docsOf are the documents of a list.
func docsOf[T, D any](list []T, doc func(*T) D) []D {
	docs := make([]D, len(list))
	for i := range list {
		docs[i] = doc(&list[i])
	}
	return docs
}

func xidOf(x *snapshot.XID) xidDoc {
	return xidDoc{x.Code, moment{x.At.Time}, safe(render.EnglishXID(x.Code))}
}

func eccOf(e *snapshot.ECC) eccDoc {
	return eccDoc{known(e.Mode), e.CorrectedVolatile, e.UncorrectedVolatile, e.CorrectedAggregate, e.UncorrectedAggregate}
}

func fabricOf(f *snapshot.Fabric) fabricDoc {
	return fabricDoc{known(f.State), known(f.Status), f.CliqueID, known(f.ClusterUUID)}
}

func lastOf(l *board.LastSeen) lastDoc {
	return lastDoc{safe(l.State), safes(l.Users), moment{l.At}}
}

func momentOf(t *snapshot.Time) moment { return moment{t.Time} }

// idleFor is how long a GPU was idle at the time of the snapshot, nil where that is
// not known.
func idleFor(g *board.GPU, snapshotAt time.Time) *int64 {
	if g.IdleSince.IsZero() || snapshotAt.IsZero() {
		return nil
	}
	return new(int64(g.IdleFor(snapshotAt).Seconds()))
}
