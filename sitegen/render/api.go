package render

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

// APISchemaVersion is the number that every JSON file under api/v1 carries.
// Fields are only ever added under one number; readers ignore what they do not know.
const APISchemaVersion = 1

// Data renders everything that is not a page: JSON, text, metrics, calendars,
// badges and the shapes of the systems that gpuboard replaces. It is pure:
// equal inputs give equal bytes in equal order. The files of a host do not
// depend on when they were generated, so a host without news is not rewritten.
func Data(in Input) ([]File, error) {
	b := in.Board
	byHost := make(map[string][]*board.Booking, len(b.Hosts))
	for i := range b.Bookings {
		byHost[b.Bookings[i].Host] = append(byHost[b.Bookings[i].Host], &b.Bookings[i])
	}
	out := &sink{emit: in.Emit}
	made, err := hostDatas(in, byHost, out)
	if err != nil {
		return nil, err
	}
	hosts := make([][]byte, len(made))
	for i := range made {
		hosts[i] = made[i].fields
	}
	// Each is handed on before the next is made, so that few are in memory.
	err = out.put(
		newFile("api/v1/board.json", apiBoard(in, hosts)...),
		newFile("api/v1/free.json", apiFree(in)),
		newFile("api/v1/hosts.json", apiHosts(in)),
		newFile("api/v1/users.json", apiUsers(in)),
		newFile("api/v1/bookings.json", apiBookings(in)),
		newFile("health.json", healthFile(in)),
		newFile("metrics.txt", metricsFile(in, made)...),
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
	for _, more := range []func() []File{
		func() []File { return schemas }, func() []File { return textFiles(in) }, func() []File { return calendars },
		func() []File { return badgeFiles(in) }, func() []File { return compatFiles(made) },
	} {
		if err := out.put(more()...); err != nil {
			return nil, err
		}
	}
	if err := historyFiles(in, out); err != nil {
		return nil, err
	}
	apiSort(out.files)
	return out.files, nil
}

// Generation names one generation: a page and the JSON beside it carry the same
// one exactly when they were made from the same board. It is a digest of the
// moment and of what every host, GPU and booking was then.
func Generation(b *board.Board) string {
	buf := make([]byte, 0, 64*len(b.Hosts)+64)
	buf = apiTime(buf, b.GeneratedAt)
	for i := range b.Hosts {
		h := &b.Hosts[i]
		buf = append(append(append(append(buf, '\n'), h.Name...), '\t'), h.State...)
		buf = apiTime(append(buf, '\t'), h.SnapshotAt)
		for g := range h.Rows() {
			buf = append(append(buf, '\t'), g.State...)
		}
	}
	for i := range b.Bookings {
		buf = append(append(buf, '\n'), b.Bookings[i].ID...)
		buf = apiTime(append(buf, '\t'), b.Bookings[i].Until)
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:8])
}

func (in *Input) generation() string {
	if in.Generation != "" {
		return in.Generation
	}
	return Generation(in.Board)
}

// apiHeader starts a file that belongs to one generation. The next generation
// is expected one interval later; a reader that finds that moment long past
// knows that the generator has stopped.
func apiHeader(in Input, e *apiEnc) {
	b := in.Board
	e.open('{')
	e.int("schema_version", APISchemaVersion)
	e.str("generation", in.generation())
	e.time("generated_at", b.GeneratedAt)
	e.int64("generated_at_unix", b.GeneratedAt.Unix())
	e.time("next_generation_expected_at", apiNext(in))
}

func apiNext(in Input) time.Time {
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
func apiBoard(in Input, hosts [][]byte) [][]byte {
	b := in.Board
	e := &apiEnc{}
	apiHeader(in, e)
	e.str("title", textFirst(in.Site.Title, "GPU board"))
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
	e.int("schema_version", APISchemaVersion)
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

func apiSort(files []File) {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
}
