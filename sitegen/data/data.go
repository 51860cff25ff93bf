// Package data renders what programs read: a Board becomes JSON, CSV, calendars,
// metrics, badges and a feed. It also reads the JSON back that a site published.
package data

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// SchemaVersion is the number that every JSON file under api/v1 carries.
// Fields are only ever added under one number; readers ignore what they do not know.
const SchemaVersion = 1

// Paths of files that are read back. A host's own is below HostsDir.
const (
	BoardPath    = "api/v1/board.json"
	BookingsPath = "api/v1/bookings.json"
	UsersPath    = "api/v1/users.json"
	HostsDir     = "api/v1/hosts/"
)

// Files renders everything for programs: JSON, metrics, calendars, badges, the feed and the
// shapes of the systems that gpuboard replaces. It is pure:
// equal inputs give equal bytes. The files of a host do not
// depend on when they were generated, so a host without news is not rewritten.
func Files(in render.Input) error {
	in.Site = in.Site.WithDefaults()
	texts := newBookingTexts(in)
	hosts, err := hostFiles(in, texts)
	if err != nil {
		return err
	}
	// These are handed on before others are made, so that fewer are in memory.
	err = in.Put(
		render.NewFile(BoardPath, boardFile(in, hosts)),
		render.NewFile("api/v1/free.json", freeFile(in)),
		render.NewFile("api/v1/hosts.json", hostsFile(in)),
		render.NewFile(UsersPath, usersFile(in)),
		render.NewFile(BookingsPath, bookingsFile(in, texts)),
		render.NewFile(SummaryPath, summaryFile(in)),
		render.NewFile("health.json", healthFile(in)),
		render.NewFile("metrics.txt", metricsFile(in)),
	)
	if err == nil {
		err = in.Put(slices.Concat(
			apiSchemas(), texts.shared(in.Board), siteFiles(in), badgeFiles(in), compatFiles(in),
			[]render.File{feedFile(in)},
		)...)
	}
	if err != nil {
		return err
	}
	return historyFiles(in)
}

// A header starts a file that belongs to one generation. A reader that finds LateAt
// past knows that the generator has stopped.
type header struct {
	SchemaVersion   int       `json:"schema_version"`
	Generation      safe      `json:"generation"`
	GeneratedAt     time.Time `json:"generated_at"`
	GeneratedAtUnix int64     `json:"generated_at_unix"`
	NextExpectedAt  time.Time `json:"next_generation_expected_at"`
	LateAt          time.Time `json:"late_at"`
}

func headerOf(in render.Input) header {
	b := in.Board
	h := header{
		SchemaVersion: SchemaVersion, Generation: safe(in.GenerationID()), GeneratedAt: b.GeneratedAt,
		GeneratedAtUnix: b.GeneratedAt.Unix(),
	}
	if b.Interval > 0 {
		h.NextExpectedAt, h.LateAt = b.Due(), b.LateAt()
	}
	return h
}

func totalsOf(t *board.Totals) object {
	var gpus, slices, hosts object
	for _, s := range board.States() {
		gpus = append(gpus, member{string(s), t.GPUs.ByState[s]})
		slices = append(slices, member{string(s), t.Slices.ByState[s]})
	}
	for _, s := range board.HostStates() {
		hosts = append(hosts, member{string(s), t.ByHost[s]})
	}
	return object{
		{"gpus", t.GPUs.All}, {"free", t.GPUs.Free()}, {"held_idle", t.GPUs.HeldIdle}, {"by_state", gpus},
		{"slices", t.Slices.All}, {"free_slices", t.Slices.Free()}, {"held_idle_slices", t.Slices.HeldIdle},
		{"slices_by_state", slices},
		{"hosts", t.Hosts}, {"by_host_state", hosts},
	}
}

// boardHead is the board without its hosts.
type boardHead struct {
	header
	Title              safe          `json:"title"`
	Lab                string        `json:"lab"`
	Demo               bool          `json:"demo"`
	InventoryAsOf      time.Time     `json:"inventory_as_of"`
	BookingsStaleSince time.Time     `json:"bookings_stale_since"`
	Totals             object        `json:"totals"`
	Models             []board.Model `json:"models"`
	Problems           []problemDoc  `json:"problems"`
}

// boardFile is the whole board, one host a line.
func boardFile(in render.Input, hosts [][]byte) []byte {
	b := in.Board
	head := encode(&boardHead{
		headerOf(in), safe(in.Site.Title), in.Site.Lab, b.Demo, b.InventoryAsOf, b.BookingsStaleSince,
		totalsOf(&b.Totals), b.Models, docsOf(b.Problems, problemOf),
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
//
// In the files of the directory, "$board" stands for the definition of that name in board.json,
// "$host" for the members of its host, and "$readings" for the readings of a GPU.
var apiSchemas = sync.OnceValue(func() (files []render.File) {
	entries, _ := apiSchemaFS.ReadDir("schema") // embedded, and read by every test
	fill := sharedSchema()
	for _, entry := range entries {
		content, _ := apiSchemaFS.ReadFile("schema/" + entry.Name())
		whole := snapshot.SchemaWithReadings(fill.Replace(string(content)))
		files = append(files, render.NewFile("api/v1/schema/"+entry.Name(), []byte(whole)))
	}
	return append(files, render.NewFile("api/v1/schema/snapshot.json", snapshot.SchemaJSON()))
})

// Schema returns the JSON Schema of a file, such as "free.json".
func Schema(name string) ([]byte, error) {
	for _, f := range apiSchemas() {
		if f.Path == "api/v1/schema/"+name {
			return f.Content, nil
		}
	}
	return nil, fmt.Errorf("there is no schema of %s", name)
}

// sharedSchema puts what board.json defines into another schema.
func sharedSchema() *strings.Replacer {
	var board struct {
		Definitions map[string]jsontext.Value `json:"$defs"`
	}
	var host struct {
		Required   jsontext.Value `json:"required"`
		Properties jsontext.Value `json:"properties"`
	}
	content, _ := apiSchemaFS.ReadFile("schema/board.json")
	_ = json.Unmarshal(content, &board)
	_ = json.Unmarshal(board.Definitions["host"], &host)

	fill := []string{`"$host": {}`, string(members(host.Properties)), `"$host"`, string(members(host.Required))}
	for name, definition := range board.Definitions {
		name = strconv.Quote(name) + ": "
		fill = append(fill, name+`"$board"`, name+string(definition))
	}
	return strings.NewReplacer(fill...)
}
