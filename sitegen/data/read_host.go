package data

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// What the decoder fills in. GPUs, processes and nodes have the same names in a
// snapshot and in the API, so those types serve for both.
type (
	readDocument struct {
		boardHead
		Totals jsontext.Value `json:"totals"` // counted anew
		Hosts  []readHost     `json:"hosts"`
	}
	readHost struct {
		hostHead
		Node     snapshot.Node `json:"node"`
		GPUs     []readGPU     `json:"gpus"`
		Bookings []bookingDoc  `json:"bookings"` // in the host's own file
	}
	readGPU struct {
		snapshot.GPU
		readRow
		MIGDevices []readSlice `json:"mig_devices"`
	}
	readSlice struct {
		snapshot.MIGDevice
		readRow
	}
	// readRow is what GPUs and slices have in common.
	readRow struct {
		rowDoc
		ShortName string        `json:"short_name"`
		State     string        `json:"state"`
		Reason    string        `json:"reason"`
		Missing   bool          `json:"missing"`
		Processes []readProcess `json:"processes"`
	}
	readProcess struct {
		snapshot.Process
		Person   string           `json:"person"`
		Likely   string           `json:"likely_user"`
		Source   snapshot.Source  `json:"user_source"`
		Conflict []snapshot.Claim `json:"user_conflict"`
		Computes *bool            `json:"computes"`
		Share    *float64         `json:"share"`
	}
)

// host makes a card of it; false when its name is none.
func (r *readHost) host(generatedAt time.Time) (board.Host, bool) {
	name, err := snapshot.ParseHost(string(r.Name))
	if err != nil {
		return board.Host{}, false
	}
	h := board.Host{
		Name: name, Title: readName(r.Title), Group: readName(r.Group), Owner: readName(r.Owner),
		Note: readText(r.Note), Address: readText(r.Address), Datacenter: readName(r.Datacenter),
		Check: readName(r.Check), State: board.HostState(r.State), SnapshotAt: readable(r.SnapshotAt),
		GoneSince: readable(r.GoneSince), Pulled: r.Pulled,
		Problems: readProblems(r.Problems),
	}
	for _, tag := range r.Tags[:min(len(r.Tags), snapshot.MaxErrors)] {
		h.Tags = append(h.Tags, readName(tag))
	}
	if !slices.Contains(board.HostStates(), h.State) {
		h.State = board.Stale // a word that nobody knows says nothing about now
	}
	if r.ClockOffset > -1e9 && r.ClockOffset < 1e9 {
		h.ClockOffset = time.Duration(float64(r.ClockOffset) * float64(time.Second))
	}
	if every := r.Interval; every != nil && *every > 0 && *every < 7*24*3600 {
		h.Interval = time.Duration(*every) * time.Second
	}
	r.rows(&h, generatedAt)
	return h, true
}

// rows reads the GPUs and their slices. Their readings go through the same check
// as those that come from a node.
func (r *readHost) rows(h *board.Host, generatedAt time.Time) {
	s := snapshot.Snapshot{Node: r.Node, DriverVersion: string(r.Driver), CUDAVersion: string(r.CUDA)}
	for _, t := range r.Tools {
		if t.Vendor != snapshot.NVIDIA { // which is made from the driver
			s.Tools = append(s.Tools, snapshot.Tool(t))
		}
	}
	seen := map[int]bool{}
	var from []*readGPU
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if g.Index < 0 || g.Index > 1<<20 || seen[g.Index] || len(from) == snapshot.MaxGPUs {
			continue
		}
		seen[g.Index] = true
		from = append(from, g)
		g.MIGDevices = g.MIGDevices[:min(len(g.MIGDevices), snapshot.MaxMIGDevices)]
		for j := range g.MIGDevices {
			g.GPU.MIGDevices = append(g.GPU.MIGDevices, g.MIGDevices[j].MIGDevice)
		}
		s.GPUs = append(s.GPUs, g.GPU)
	}
	s.Validate() // takes nothing away: the lists fit, and each index is there once
	h.Node, h.Driver, h.CUDA, h.Tools = s.Node, s.DriverVersion, s.CUDAVersion, s.Tools
	left, leftOfSlices := snapshot.MaxProcesses, snapshot.MaxProcesses
	for i, g := range from {
		row := board.GPU{GPU: s.GPUs[i]}
		row.MIGDevices = nil
		g.fill(&row, &left, generatedAt)
		for j := range g.MIGDevices {
			slice := board.NewSlice(&row, &s.GPUs[i].MIGDevices[j])
			slice.ProcessesUnknown = readName(g.MIGDevices[j].ProcessesUnknown)
			g.MIGDevices[j].fill(&slice, &leftOfSlices, generatedAt)
			row.Slices = append(row.Slices, slice)
		}
		h.GPUs = append(h.GPUs, row)
	}
}

// processes reads those of one GPU or slice, as long as there are any left of what
// a host may have.
func (r *readRow) processes(g *board.GPU, left *int) []board.Process {
	var s snapshot.Snapshot
	var from []*readProcess
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.PID < 0 || p.PID > 1<<31 || *left == 0 {
			continue
		}
		*left--
		p.GPU, p.GPUUUID = g.Index, g.UUID
		p.Claims = p.Conflict // so that Validate limits them, too
		from = append(from, p)
		s.Processes = append(s.Processes, p.Process)
	}
	s.Validate() // takes nothing away
	var out []board.Process
	for i := range s.Processes {
		p := board.Process{
			Process: s.Processes[i], Person: readName(from[i].Person), Likely: readName(from[i].Likely),
			Computes: !s.Processes[i].Dead(), By: s.Processes[i].Claims,
		}
		p.Claims = nil
		if source := from[i].Source; snapshot.Fits("source", string(source)) {
			p.By = []snapshot.Claim{{User: p.Owner().Login(), Source: source}}
		}
		if computes := from[i].Computes; computes != nil {
			p.Computes = *computes
		}
		if share := from[i].Share; share != nil && *share >= 0 && *share <= 1 {
			p.Share = share
		}
		out = append(out, p)
	}
	return out
}

// fill sets what a GPU or slice is to people.
func (r *readRow) fill(g *board.GPU, left *int, generatedAt time.Time) {
	g.ShortName, g.State, g.Reason, g.Missing = readName(r.ShortName), readState(r.State), readName(r.Reason), r.Missing
	g.CountedAt = readName(r.CountedAt)
	g.Since, g.NoShow, g.FreeFrom, g.FreeUntil = readable(
		r.Since), r.NoShow, readable(r.FreeFrom), readable(r.FreeUntil)
	g.Processes = r.processes(g, left)
	if at := readable(r.IdleSince); !at.IsZero() && at.Before(generatedAt) {
		g.IdleSince = at
	}
	g.Booking, g.Next = orNull(r.Booking, (*bookingDoc).booking), orNull(r.Next, (*bookingDoc).booking)
	g.Others = readBookings(r.Others, snapshot.MaxErrors)
	if r.Last != nil {
		g.Last = &board.LastSeen{State: readState(r.Last.State), At: readable(r.Last.At)}
		for _, u := range r.Last.Users[:min(len(r.Last.Users), snapshot.MaxErrors)] {
			g.Last.Users = append(g.Last.Users, readName(u))
		}
	}
}

func readState[S ~string](s S) board.State {
	if state := board.State(s); slices.Contains(board.States(), state) {
		return state
	}
	return board.Unknown
}

func (r *bookingDoc) booking() board.Booking {
	b := board.Booking{
		ID: readName(r.ID), Host: readText(r.Host), UUID: readName(r.UUID), Name: readName(r.Name),
		From: readable(r.From), Until: readable(r.Until), Comment: snapshot.Text(string(r.Comment), render.MaxText),
		Kind: readName(r.Kind), By: readName(r.By),
		Active: r.Active, Expired: r.Expired, Forced: r.Forced,
	}
	b.GPUs = append(b.GPUs, r.GPUs[:min(len(r.GPUs), snapshot.MaxGPUs)]...)
	if r.Slice != nil && *r.Slice >= 0 && *r.Slice < 1<<20 {
		b.Slice = r.Slice
	}
	return b
}

// readProblems reads the list of what is not well. Where a problem is stands
// there in words, which is all that anybody shows of it.
func readProblems(list []problemDoc) []snapshot.Problem {
	var problems []snapshot.Problem
	for _, r := range list[:min(len(list), maxProblems)] {
		p := snapshot.Problem{
			Code: readName(r.Code), Message: snapshot.Text(string(r.Message), render.MaxText), Host: readText(r.Host),
			GPU: r.GPU,
		}
		if where := readText(r.Where); where != p.Where() {
			p.File = where
		}
		problems = append(problems, p)
	}
	return problems
}

func readName[S ~string](s S) string { return snapshot.Text(string(s), snapshot.MaxNameBytes) }
func readText[S ~string](s S) string { return snapshot.Text(string(s), snapshot.MaxTextBytes) }
