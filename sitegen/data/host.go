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
		Name        safe          `json:"name"`
		Title       string        `json:"title"`
		Group       string        `json:"group"`
		Owner       string        `json:"owner"`
		Note        string        `json:"note"`
		Address     string        `json:"address"`
		Datacenter  string        `json:"datacenter"`
		Tags        []string      `json:"tags"`
		State       safe          `json:"state"`
		Check       string        `json:"check"`
		SnapshotAt  time.Time     `json:"snapshot_at"`
		ClockOffset float64       `json:"clock_offset_seconds"`
		GoneSince   time.Time     `json:"gone_since"`
		Interval    *int64        `json:"interval_seconds"`
		Pulled      bool          `json:"pulled"`
		Driver      string        `json:"driver_version"`
		CUDA        string        `json:"cuda_version"`
		Tools       []toolDoc     `json:"tools"`
		Free        int           `json:"free"`
		FreeSlices  int           `json:"free_slices"`
		Models      []board.Model `json:"models"`
		Problems    []problemDoc  `json:"problems"`
	}
	hostDoc struct {
		hostHead
		Node snapshot.Node `json:"node"`
		GPUs []gpuDoc      `json:"gpus"`
	}
	toolDoc struct {
		Vendor  snapshot.Vendor `json:"vendor"`
		Name    string          `json:"name"`
		Version string          `json:"version"`
		Driver  string          `json:"driver_version"`
	}
	problemDoc struct {
		Code    safe   `json:"code"`
		Message safe   `json:"message"`
		Where   string `json:"where"`
		Host    string `json:"host"`
		GPU     *int   `json:"gpu"`
	}
)

// hostFiles hands on the files of every host, several hosts at a time. It
// returns the members of each in board.json, in the board's order.
func hostFiles(in render.Input, texts *bookingTexts) ([][]byte, error) {
	hosts, bookings := in.Board.Hosts, in.Board.BookingsByHost()
	fields := make([][]byte, len(hosts))
	err := render.InParallel(len(hosts), func(i int) error {
		h := &hosts[i]
		fields[i] = hostFields(h)
		file := hostFile(h, fields[i], texts.list(bookings[h.Name]))
		return in.Put(render.NewFile(HostsDir+h.Name+".json", file),
			texts.file("hosts/"+h.Name+".ics", h.Name, bookings[h.Name]))
	})
	return fields, err
}

// hostFields are the members of one host, so that the same bytes stand in
// board.json and in the host's own file. Nothing in them depends on when the site
// was generated: a time span is that of the snapshot.
func hostFields(h *board.Host) []byte {
	doc := hostDoc{
		hostHead: headOf(h),
		Node:     h.Node,
		GPUs:     docsOf(h.GPUs, func(g *board.GPU) gpuDoc { return gpuOf(g, h.SnapshotAt) }),
	}
	return members(encode(&doc))
}

func headOf(h *board.Host) hostHead {
	head := hostHead{
		Name: safe(h.Name), Title: h.Title, Group: h.Group, Owner: h.Owner, Note: h.Note,
		Address: h.Address, Datacenter: h.Datacenter, Tags: h.Tags, State: safe(h.State), Check: h.Check,
		SnapshotAt: h.SnapshotAt, ClockOffset: h.ClockOffset.Seconds(), GoneSince: h.GoneSince,
		Pulled: h.Pulled, Driver: h.Driver, CUDA: h.CUDA, Free: h.Totals.GPUs.Free(),
		FreeSlices: h.Totals.Slices.Free(),
		Models:     h.Models, Problems: docsOf(h.Problems, problemOf),
		Tools: docsOf(h.ToolsOf(), func(t *snapshot.Tool) toolDoc { return toolDoc(*t) }),
	}
	if h.Interval > 0 {
		head.Interval = new(int64(h.Interval.Seconds()))
	}
	return head
}

func problemOf(p *snapshot.Problem) problemDoc {
	return problemDoc{safe(p.Code), safe(p.Message), p.Where(), p.Host, p.GPU}
}

// hostFile is one host with what only its own page shows.
func hostFile(h *board.Host, fields []byte, bookings [][]byte) []byte {
	b := []byte(`],"utilization_24h_percent":[`)
	b = appendSteps(b, h, func(g *board.GPU) []*float64 { return g.Utilization }, func(b []byte, u *float64) []byte {
		if u == nil {
			return append(b, "null"...)
		}
		return strconv.AppendInt(b, int64(*u+0.5), 10)
	})
	b = append(b, `],"holders_24h":[`...)
	last, encoded := "", []byte("null") // most are as the one before them
	b = appendSteps(b, h, func(g *board.GPU) []string { return g.Holders }, func(b []byte, name string) []byte {
		if name != last {
			last, encoded = name, encode(name)
		}
		return append(b, encoded...)
	})
	start := fmt.Sprintf(`{"schema_version":%d,%s,"bookings":[`, SchemaVersion, fields)
	return joined(start, bookings, ",", string(b)+"]}\n")
}

// appendSteps appends a list for each GPU: a million values for 1,000 hosts.
func appendSteps[T any](b []byte, h *board.Host, of func(*board.GPU) []T, value func([]byte, T) []byte) []byte {
	for i := range h.GPUs {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"gpu":%d,"steps":[`, h.GPUs[i].Index)
		for j, v := range of(&h.GPUs[i]) {
			if j > 0 {
				b = append(b, ',')
			}
			b = value(b, v)
		}
		b = append(b, "]}"...)
	}
	return b
}

// hostsFile is the list of hosts without their GPUs: the small file to poll.
func hostsFile(in render.Input) []byte {
	type host struct {
		hostHead
		GPUs   int    `json:"gpus"`
		Slices int    `json:"slices"`
		Href   string `json:"href"`
	}
	return encodeFile(headerOf(in), object{{"hosts", docsOf(in.Board.Hosts, func(h *board.Host) host {
		return host{headOf(h), h.Totals.GPUs.All, h.Totals.Slices.All, "hosts/" + h.Name + ".json"}
	})}})
}

// An xidDoc is null where the driver has reported no error.
type xidDoc struct {
	snapshot.XID
	Meaning string `json:"meaning"`
}

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

func xidOf(x *snapshot.XID) xidDoc { return xidDoc{*x, render.EnglishXID(x.Code)} }

// idleFor is how long a GPU was idle at the time of the snapshot, nil where that is
// not known.
func idleFor(g *board.GPU, snapshotAt time.Time) *int64 {
	if g.IdleSince.IsZero() || snapshotAt.IsZero() {
		return nil
	}
	return new(int64(g.IdleFor(snapshotAt).Seconds()))
}
