package data

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gpuboard/internal/board"
	"gpuboard/sitegen/render"
)

type bookingDoc struct {
	ID      safe      `json:"id"`
	Host    safe      `json:"host"`
	GPUs    []int     `json:"gpus"` // empty for the whole host
	UUID    string    `json:"uuid"`
	Name    safe      `json:"name"`
	From    time.Time `json:"from"`  // null for one that has no start of its own
	Until   time.Time `json:"until"` // null for one that is open-ended
	Comment safe      `json:"comment"`
	Kind    safe      `json:"kind"`
	By      string    `json:"by"`
	Active  bool      `json:"active"`
	Expired bool      `json:"expired"`
	Forced  bool      `json:"forced"`
	Slice   *int      `json:"mig_device"`
}

func bookingOf(b *board.Booking) bookingDoc {
	return bookingDoc{
		ID: safe(b.ID), Host: safe(b.Host), GPUs: b.GPUs, UUID: b.UUID, Name: safe(b.Name), From: b.From,
		Until:   b.Until,
		Comment: safe(b.Comment), Kind: safe(b.Kind), By: b.By, Active: b.Active, Expired: b.Expired, Forced: b.Forced,
		Slice: b.Slice,
	}
}

// MarshalJSONTo implements [json.MarshalerTo].
func (d bookingDoc) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(d.appendTo(enc.AvailableBuffer()))
}

// appendTo writes what [encode] would write by its tags, in less than half the time: there may be tens of thousands.
func (d *bookingDoc) appendTo(b []byte) []byte {
	b = appendSafe(append(b, `{"id":`...), d.ID)
	b = appendSafe(append(b, `,"host":`...), d.Host)
	b = append(b, `,"gpus":[`...)
	for i, gpu := range d.GPUs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(gpu), 10)
	}
	b = appendKnown(append(b, `],"uuid":`...), d.UUID)
	b = appendSafe(append(b, `,"name":`...), d.Name)
	b = appendTime(append(b, `,"from":`...), d.From)
	b = appendTime(append(b, `,"until":`...), d.Until)
	b = appendSafe(append(b, `,"comment":`...), d.Comment)
	b = appendSafe(append(b, `,"kind":`...), d.Kind)
	b = appendKnown(append(b, `,"by":`...), d.By)
	b = strconv.AppendBool(append(b, `,"active":`...), d.Active)
	b = strconv.AppendBool(append(b, `,"expired":`...), d.Expired)
	b = strconv.AppendBool(append(b, `,"forced":`...), d.Forced)
	b = append(b, `,"mig_device":`...)
	if d.Slice == nil {
		return append(b, "null}"...)
	}
	return append(strconv.AppendInt(b, int64(*d.Slice), 10), '}')
}

// appendKnown is appendSafe with null for an empty text.
func appendKnown(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendSafe(b, safe(s))
}

// appendSafe writes a text as [encode] does. Most need no escapes, and so no encoder.
func appendSafe(b []byte, s safe) []byte {
	odd := func(r rune) bool {
		return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '&' || r == '<' || r == '>'
	}
	if len(s) > render.MaxText || strings.ContainsFunc(string(s), odd) {
		return append(b, encode(s)...)
	}

	return append(append(append(b, '"'), s...), '"')
}
