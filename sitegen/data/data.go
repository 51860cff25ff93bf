// Package data renders what programs read: a Board becomes JSON, CSV, calendars,
// metrics, badges and a feed. It also reads the JSON back that a site published.
package data

import (
	"embed"
	"fmt"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// SchemaVersion is the number that every JSON file under api/v1 carries.
// Fields are only ever added under one number; readers ignore what they do not know.
const SchemaVersion = 1

// Files renders everything for programs: JSON, metrics, calendars, badges and the
// shapes of the systems that gpuboard replaces. It is pure:
// equal inputs give equal bytes. The files of a host do not
// depend on when they were generated, so a host without news is not rewritten.
func Files(in render.Input) error {
	in.Site = in.Site.WithDefaults()
	shapes := newCompat(in)
	texts, err := newBookingTexts(in)
	if err != nil {
		return err
	}
	hosts, err := hostFiles(in, shapes, texts)
	if err != nil {
		return err
	}
	// Each is handed on before the next is made, so that few are in memory.
	err = in.Put(
		render.NewFile("api/v1/board.json", boardFile(in, hosts)),
		render.NewFile("api/v1/free.json", freeFile(in)),
		render.NewFile("api/v1/hosts.json", hostsFile(in)),
		render.NewFile("api/v1/users.json", usersFile(in)),
		render.NewFile("api/v1/bookings.json", bookingsFile(in, texts)),
		render.NewFile("health.json", healthFile(in)),
		render.NewFile("metrics.txt", metricsFile(in)),
	)
	if err != nil {
		return err
	}
	schemas, err := apiSchemas()
	if err != nil {
		return err
	}
	shared, err := texts.shared(in.Board)
	if err != nil {
		return err
	}
	for _, more := range [][]render.File{schemas, shared, badgeFiles(in), shapes.files()} {
		if err := in.Put(more...); err != nil {
			return err
		}
	}
	return historyFiles(in)
}

// A header starts a file that belongs to one generation. The next generation is
// expected one interval later; a reader that finds that moment long past knows that
// the generator has stopped.
type header struct {
	SchemaVersion   int    `json:"schema_version"`
	Generation      safe   `json:"generation"`
	GeneratedAt     moment `json:"generated_at"`
	GeneratedAtUnix int64  `json:"generated_at_unix"`
	NextExpectedAt  moment `json:"next_generation_expected_at"`
}

func headerOf(in render.Input) header {
	b := in.Board
	h := header{SchemaVersion: SchemaVersion, Generation: safe(in.GenerationID()), GeneratedAt: moment{b.GeneratedAt}, GeneratedAtUnix: b.GeneratedAt.Unix()}
	if b.Interval > 0 {
		h.NextExpectedAt = moment{b.GeneratedAt.Add(b.Interval)}
	}
	return h
}

type totalsDoc struct {
	GPUs        int    `json:"gpus"`
	Free        int    `json:"free"`
	HeldIdle    int    `json:"held_idle"`
	ByState     object `json:"by_state"`
	Hosts       int    `json:"hosts"`
	ByHostState object `json:"by_host_state"`
}

func totalsOf(t *board.Totals) totalsDoc {
	doc := totalsDoc{GPUs: t.GPUs, Free: t.Free(), HeldIdle: t.HeldIdle, Hosts: t.Hosts}
	for _, s := range board.States() {
		doc.ByState = append(doc.ByState, member{string(s), t.ByState[s]})
	}
	for _, s := range board.HostStates() {
		doc.ByHostState = append(doc.ByHostState, member{string(s), t.ByHost[s]})
	}
	return doc
}

// boardHead is the board without its hosts.
type boardHead struct {
	header
	Title              safe         `json:"title"`
	Lab                known        `json:"lab"`
	Demo               bool         `json:"demo"`
	InventoryAsOf      moment       `json:"inventory_as_of"`
	BookingsStaleSince moment       `json:"bookings_stale_since"`
	Totals             totalsDoc    `json:"totals"`
	Models             []modelDoc   `json:"models"`
	Problems           []problemDoc `json:"problems"`
}

// boardFile is the whole board, one host a line.
func boardFile(in render.Input, hosts [][]byte) []byte {
	b := in.Board
	head := encode(&boardHead{
		headerOf(in), safe(in.Site.Title), known(in.Site.Lab), b.Demo, moment{b.InventoryAsOf}, moment{b.BookingsStaleSince},
		totalsOf(&b.Totals), docsOf(b.Models, modelOf), docsOf(b.Problems, problemOf),
	})
	head = append(head[:len(head)-1], `,"hosts":[`...)
	if len(hosts) == 0 {
		return append(head, "\n]}\n"...)
	}
	return joined(string(head)+"\n{", hosts, "},\n{", "}\n]}\n")
}

// joined is a file of values that are encoded already, made in one piece: they may be megabytes.
func joined(start string, values [][]byte, between, end string) []byte {
	size := len(start) + len(values)*len(between) + len(end)
	for _, v := range values {
		size += len(v)
	}
	file := append(make([]byte, 0, size), start...)
	for i, v := range values {
		if i > 0 {
			file = append(file, between...)
		}
		file = append(file, v...)
	}
	return append(file, end...)
}

//go:embed schema/*.json
var apiSchemaFS embed.FS

// apiSchemas are the JSON Schemas (draft 2020-12) of the files beside them.
// They name what is always there; a file may have more. Beside them stands the
// schema of what a node sends.
func apiSchemas() ([]render.File, error) {
	entries, err := apiSchemaFS.ReadDir("schema")
	if err != nil {
		return nil, fmt.Errorf("listing the schemas: %w", err)
	}
	var files []render.File
	for _, entry := range entries {
		content, err := apiSchemaFS.ReadFile("schema/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading schema %s: %w", entry.Name(), err)
		}
		files = append(files, render.NewFile("api/v1/schema/"+entry.Name(), content))
	}
	return append(files, render.NewFile("api/v1/schema/snapshot.json", snapshot.SchemaJSON())), nil
}
