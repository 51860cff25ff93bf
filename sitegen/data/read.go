package data

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// What is read of a published board. It came over a network or from a
// directory that others write to, so it is bounded like everything foreign.
const (
	MaxBoardBytes = 64 << 20 // 1,000 hosts of 8 GPUs are some 10 MB
	MaxBoardHosts = 10_000

	maxProblems = 10_000
	maxBookings = 20_000

	// The steps of a GPU in the file of its host are all null at first.
	fewObjects     = 64 + 100*snapshot.MaxGPUs
	minObjectBytes = 48      // those of a board have more than 80, on average
	maxObjects     = 400_000 // 40 for each host
)

// The errors of reading what a site publishes.
var (
	// ErrSchema says that the file was written by a newer gpuboard.
	ErrSchema = errors.New("the site was written by a newer gpuboard: update this one")
	// ErrNotBoard says that it is not a file of a board at all.
	ErrNotBoard = errors.New("that is no board")
)

// A Published is a board as its site published it.
type Published struct {
	// Board has everything that [Status] shows. What board.json does not carry
	// is empty: Users, Bookings, and the curves of utilization with their holders.
	Board      *board.Board
	Title, Lab string
	Generation string // as the site named it
}

// ReadPublished reads api/v1/board.json. Fields that it does not know pass; texts
// are made safe, readings that cannot be become unknown, and so do states that
// nobody knows. The error wraps [ErrSchema], [ErrNotBoard] or the reader's own.
func ReadPublished(r io.Reader) (*Published, error) {
	var doc readDocument
	if err := readJSON(r, &doc, &doc.SchemaVersion); err != nil {
		return nil, fmt.Errorf("reading the board: %w", err)
	}
	switch {
	case doc.GeneratedAt.IsZero() || doc.Hosts == nil:
		return nil, fmt.Errorf("reading the board: %w: it does not say when it was made, or of which hosts",
			ErrNotBoard)
	case len(doc.Hosts) > MaxBoardHosts:
		return nil, fmt.Errorf("reading the board: %w: it has %d hosts, and %d are the most",
			ErrNotBoard, len(doc.Hosts), MaxBoardHosts)
	}
	b := &board.Board{
		GeneratedAt: doc.GeneratedAt, InventoryAsOf: readable(doc.InventoryAsOf),
		BookingsStaleSince: readable(doc.BookingsStaleSince), Demo: doc.Demo,
		Problems: readProblems(doc.Problems),
	}
	b.SetTimes(doc.NextExpectedAt, doc.LateAt)
	seen := map[string]bool{}
	for i := range doc.Hosts {
		h, ok := doc.Hosts[i].host(b.GeneratedAt)
		if !ok || seen[h.Name] {
			continue // a name that is none, or that another host has: nothing of it can be shown
		}
		seen[h.Name] = true
		b.Hosts = append(b.Hosts, h)
	}
	b.Count()
	return &Published{
		Board: b, Title: snapshot.Text(string(doc.Title), render.MaxText),
		Lab: snapshot.Text(string(doc.Lab), render.MaxText), Generation: readHex(string(doc.Generation)),
	}, nil
}

// ReadHost reads api/v1/hosts/<host>.json: one host, and all bookings for it
// that the site still shows. What is derived from the moment of the generation
// (how long it has been idle) is as of the host's snapshot.
func ReadHost(r io.Reader) (*board.Host, []board.Booking, error) {
	var doc struct {
		Schema int `json:"schema_version"`
		readHost
	}
	if err := readJSON(r, &doc, &doc.Schema); err != nil {
		return nil, nil, fmt.Errorf("reading the host: %w", err)
	}
	h, ok := doc.host(doc.SnapshotAt)
	if !ok {
		return nil, nil, fmt.Errorf("reading the host: %w: it names no host", ErrNotBoard)
	}
	b := &board.Board{Hosts: []board.Host{h}}
	b.Count()
	return &b.Hosts[0], readBookings(doc.Bookings, maxBookings), nil
}

// ReadUsers reads api/v1/users.json as a board without hosts: its times, and who computes where.
func ReadUsers(r io.Reader) (*board.Board, error) {
	var doc struct {
		header
		Users []struct {
			Name  safe             `json:"name"`
			Where []board.UserHost `json:"where"`
		} `json:"users"`
	}
	if err := readJSON(r, &doc, &doc.SchemaVersion); err != nil {
		return nil, fmt.Errorf("reading the users: %w", err)
	}
	b := &board.Board{GeneratedAt: readable(doc.GeneratedAt)}
	b.SetTimes(doc.NextExpectedAt, doc.LateAt)
	for _, u := range doc.Users {
		b.Users = append(b.Users, board.User{Name: readName(u.Name), Where: u.Where})
	}
	return b, nil
}

// ReadBookings reads api/v1/bookings.json.
func ReadBookings(r io.Reader) ([]board.Booking, error) {
	var doc struct {
		Schema   int          `json:"schema_version"`
		Bookings []bookingDoc `json:"bookings"`
	}
	if err := readJSON(r, &doc, &doc.Schema); err != nil {
		return nil, fmt.Errorf("reading the bookings: %w", err)
	}
	return readBookings(doc.Bookings, maxBookings), nil
}

func readBookings(docs []bookingDoc, most int) []board.Booking {
	return docsOf(docs[:min(len(docs), most)], (*bookingDoc).booking)
}

// JSON writes the board in the shape of api/v1/board.json again. What was read
// and not changed comes out byte by byte as the site published it.
func (p *Published) JSON() []byte { return boardFile(p.input(), docsOf(p.Board.Hosts, hostFields)) }

// FreeJSON writes what is free of the board in the shape of api/v1/free.json.
func (p *Published) FreeJSON() []byte { return freeFile(p.input()) }

// BookingsJSON writes the bookings of the board in the shape of api/v1/bookings.json.
func (p *Published) BookingsJSON() []byte { return bookingsFile(p.input(), newBookingTexts(p.input())) }

// input has the site's own digest: that of what was read back would be over less.
func (p *Published) input() render.Input {
	site := render.Site{Title: p.Title, Lab: p.Lab}.WithDefaults()
	return render.Input{Board: p.Board, Site: site, Generation: p.Generation}
}

// HostJSON writes a host of a board in the shape of api/v1/hosts/<host>.json,
// with those of the board's bookings that are for it.
func HostJSON(b *board.Board, h *board.Host) []byte {
	bookings := docsOf(b.BookingsByHost()[h.Name],
		func(bk **board.Booking) []byte { return new(bookingOf(*bk)).appendTo(nil) })
	return hostFile(h, hostFields(h), bookings)
}

// readJSON reads one of these files: unknown fields pass, names match by
// case, and a name said twice is refused.
func readJSON(r io.Reader, doc any, schema *int) error {
	data, err := io.ReadAll(io.LimitReader(r, MaxBoardBytes+1))
	if err != nil {
		return err
	}
	if len(data) > MaxBoardBytes {
		return fmt.Errorf("%w: it is larger than %d MiB", ErrNotBoard, MaxBoardBytes>>20)
	}
	lenient := jsonv2.JoinOptions(jsontext.AllowInvalidUTF8(true), jsonv2.RejectUnknownMembers(false))
	if err = (snapshot.Bounds{Few: fewObjects, EachBytes: minObjectBytes, Most: maxObjects}).Check(data); err == nil {
		err = jsonv2.Unmarshal(data, doc, lenient)
	}
	if err != nil {
		// A newer number explains why it does not fit.
		var head struct {
			Schema int `json:"schema_version"`
		}
		if jsonv2.Unmarshal(data, &head, lenient) == nil && head.Schema > SchemaVersion {
			return fmt.Errorf("%w (it has schema %d, and this one reads %d)", ErrSchema, head.Schema, SchemaVersion)
		}
		return fmt.Errorf("%w: %s", ErrNotBoard, snapshot.Text(err.Error(), snapshot.MaxTextBytes))
	}
	switch {
	case *schema > SchemaVersion:
		return fmt.Errorf("%w (it has schema %d, and this one reads %d)", ErrSchema, *schema, SchemaVersion)
	case *schema < 1:
		return fmt.Errorf("%w: it does not say its schema_version", ErrNotBoard)
	}
	return nil
}

// readHex keeps the name of a generation if it looks like one.
func readHex(s string) string {
	if len(s) > 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}

// readable drops a moment that no calendar of ours reaches.
func readable(t time.Time) time.Time {
	if y := t.Year(); y < 1970 || y > 2199 {
		return time.Time{}
	}
	return t.UTC()
}
