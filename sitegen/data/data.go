// Package data renders what programs read: a Board becomes JSON, CSV, calendars,
// metrics, badges and a feed. It also reads the JSON back that a site published.
package data

import (
	"cmp"
	"strconv"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// SchemaVersion is the number that every JSON file under api/v1 carries.
// Fields are only ever added under one number; readers ignore what they do not know.
const SchemaVersion = 1

// Files renders everything for programs: JSON, metrics, calendars, badges and the
// shapes of the systems that gpuboard replaces. It is pure:
// equal inputs give equal bytes in equal order. The files of a host do not
// depend on when they were generated, so a host without news is not rewritten.
func Files(in render.Input) ([]render.File, error) {
	out := &render.Sink{Emit: in.Emit}
	shapes := newCompat(in)
	made, err := hostDatas(in, shapes, out)
	if err != nil {
		return nil, err
	}
	hosts := make([][]byte, len(made))
	for i := range made {
		hosts[i] = made[i].fields
	}
	// Each is handed on before the next is made, so that few are in memory.
	err = out.Put(
		render.NewFile("api/v1/board.json", apiBoard(in, hosts)...),
		render.NewFile("api/v1/free.json", apiFree(in)),
		render.NewFile("api/v1/hosts.json", apiHosts(in)),
		render.NewFile("api/v1/users.json", apiUsers(in)),
		render.NewFile("api/v1/bookings.json", apiBookings(in)),
		render.NewFile("health.json", healthFile(in)),
		render.NewFile("metrics.txt", metricsFile(in, made)...),
	)
	if err != nil {
		return nil, err
	}
	schemas, err := apiSchemas()
	if err != nil {
		return nil, err
	}
	calendars, err := icsShared(in)
	if err != nil {
		return nil, err
	}
	for _, more := range [][]render.File{schemas, calendars, badgeFiles(in), shapes.files()} {
		if err := out.Put(more...); err != nil {
			return nil, err
		}
	}
	if err := historyFiles(in, out); err != nil {
		return nil, err
	}
	return out.Sorted(), nil
}

// apiHeader starts a file that belongs to one generation. The next generation
// is expected one interval later; a reader that finds that moment long past
// knows that the generator has stopped.
func apiHeader(in render.Input, e *apiEnc) {
	b := in.Board
	e.open('{')
	e.int("schema_version", SchemaVersion)
	e.str("generation", in.GenerationID())
	e.time("generated_at", b.GeneratedAt)
	e.int64("generated_at_unix", b.GeneratedAt.Unix())
	e.time("next_generation_expected_at", apiNext(in))
}

func apiNext(in render.Input) time.Time {
	every := in.Board.Interval
	if every <= 0 {
		every = in.Site.Interval
	}
	if every <= 0 {
		return time.Time{}
	}
	return in.Board.GeneratedAt.Add(every)
}

func (e *apiEnc) end() []byte {
	e.close('}')
	return append(e.b, '\n')
}

// apiBoard is the whole board, one host a line, in parts.
func apiBoard(in render.Input, hosts [][]byte) [][]byte {
	b := in.Board
	e := &apiEnc{}
	apiHeader(in, e)
	e.str("title", cmp.Or(in.Site.Title, "GPU board"))
	e.strNull("lab", in.Site.Lab)
	e.bool("demo", b.Demo)
	e.time("inventory_as_of", b.InventoryAsOf)
	e.time("bookings_stale_since", b.BookingsStaleSince)
	apiTotals(e, b)
	apiModels(e, b.Models)
	apiProblems(e, b.Problems)
	e.array("hosts")
	if len(hosts) == 0 {
		return [][]byte{e.b, []byte("\n]}\n")}
	}
	return apiParts(append(e.b, "\n{"...), hosts, "},\n{", "}\n]}\n")
}

// apiParts are a file of parts that were made before, with something between
// them and at the end.
func apiParts(start []byte, made [][]byte, between, end string) [][]byte {
	parts := append(make([][]byte, 0, 2*len(made)+1), start)
	sep := []byte(between)
	for i, part := range made {
		if i > 0 {
			parts = append(parts, sep)
		}
		parts = append(parts, part)
	}
	return append(parts, []byte(end))
}

func apiTotals(e *apiEnc, b *board.Board) {
	e.object("totals")
	e.int("gpus", b.Totals.GPUs)
	e.int("free", b.Totals.Free())
	e.int("held_idle", b.Totals.HeldIdle)
	e.object("by_state")
	for _, s := range board.States() {
		e.int(string(s), b.Totals.ByState[s])
	}
	e.close('}')
	e.int("hosts", b.Totals.Hosts)
	e.object("by_host_state")
	for _, s := range []board.HostState{board.Up, board.Stale, board.Down, board.Never, board.Maintenance} {
		e.int(string(s), b.Totals.ByHost[s])
	}
	e.close('}')
	e.close('}')
}

func apiModels(e *apiEnc, models []board.Model) {
	e.array("models")
	for i := range models {
		m := &models[i]
		e.elem()
		e.str("name", m.Name)
		e.strNull("full_name", m.FullName)
		e.int64Ptr("memory_total_mib", m.MemoryTotal)
		e.int("total", m.Total)
		e.int("free", m.Free)
		e.close('}')
	}
	e.close(']')
}

func apiProblems(e *apiEnc, problems []snapshot.Problem) {
	e.array("problems")
	for i := range problems {
		apiProblem(e, &problems[i])
	}
	e.close(']')
}

func apiProblem(e *apiEnc, p *snapshot.Problem) {
	e.elem()
	e.str("code", p.Code)
	e.str("message", p.Message)
	e.strNull("where", p.Where())
	e.strNull("host", p.Host)
	e.intPtr("gpu", p.GPU)
	e.close('}')
}

// apiHostFile is one host with what only its own page shows.
func apiHostFile(h *board.Host, fields []byte, bookings []*board.Booking) []byte {
	e := &apiEnc{b: make([]byte, 0, len(fields)+96*4*len(h.GPUs)+256)}
	e.open('{')
	e.int("schema_version", SchemaVersion)
	e.b = append(append(e.b, ','), fields...)
	e.array("bookings")
	for _, bk := range bookings {
		e.sep()
		apiBooking(e, bk)
	}
	e.close(']')
	e.array("utilization_24h_percent")
	for i := range h.GPUs {
		e.elem()
		e.int("gpu", h.GPUs[i].Index)
		e.array("steps")
		for _, u := range h.GPUs[i].Utilization {
			e.sep()
			if u == nil {
				e.b = append(e.b, "null"...)
			} else {
				e.b = strconv.AppendInt(e.b, int64(*u+0.5), 10)
			}
		}
		e.close(']')
		e.close('}')
	}
	e.close(']')
	return e.end()
}
