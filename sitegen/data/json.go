package data

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// encode writes a document, which may stand in a script element of a page. The
// types of this package always can be written, so an error is a programming error.
func encode(doc any) []byte {
	b, err := json.Marshal(doc, jsontext.EscapeForHTML(true), jsontext.AllowDuplicateNames(true)) // no names are looked up: it is faster
	if err != nil {
		panic("encoding a document of the site: " + err.Error())
	}
	return b
}

// encodeFile writes a document as a whole file.
func encodeFile(doc any) []byte { return append(encode(doc), '\n') }

// members are the members of an encoded object, without its braces.
func members(object []byte) []byte { return object[1 : len(object)-1] }

// A safe is a text that is made harmless when it is written: what a terminal would
// obey is a visible escape even after a program has decoded the JSON.
type safe string

// MarshalJSONTo implements [json.MarshalerTo].
func (s safe) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteToken(jsontext.String(snapshot.Text(string(s), render.MaxText)))
}

// A known is a safe text that is null when it is empty: in a board an empty text is
// one that is not known.
type known string

// MarshalJSONTo implements [json.MarshalerTo].
func (s known) MarshalJSONTo(enc *jsontext.Encoder) error {
	if s == "" {
		return enc.WriteToken(jsontext.Null)
	}
	return safe(s).MarshalJSONTo(enc)
}

func safes(list []string) []safe {
	return docsOf(list, func(s *string) safe { return safe(*s) })
}

// A reading is a number with at most three decimals: no reading is better than
// that, and more digits would make equal values look different.
type reading float64

// MarshalJSONTo implements [json.MarshalerTo].
func (v reading) MarshalJSONTo(enc *jsontext.Encoder) error {
	f := float64(v)
	if math.IsNaN(f) || math.IsInf(f, 0) || math.Abs(f) > 1e15 {
		return enc.WriteToken(jsontext.Null)
	}
	f = math.Round(f*1000) / 1000
	if f == 0 {
		f = 0 // and not -0
	}
	return enc.WriteValue(strconv.AppendFloat(enc.AvailableBuffer(), f, 'f', -1, 64))
}

// A moment is RFC 3339 in UTC, to the millisecond where there are any, and null for
// the zero time.
type moment struct{ time.Time }

// MarshalJSONTo implements [json.MarshalerTo].
func (t moment) MarshalJSONTo(enc *jsontext.Encoder) error {
	if t.IsZero() {
		return enc.WriteToken(jsontext.Null)
	}
	return enc.WriteToken(jsontext.String(t.UTC().Format("2006-01-02T15:04:05.999Z07:00")))
}

// An object has members whose names are data, in this order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSONTo implements [json.MarshalerTo].
func (o object) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, m := range o {
		if err := safe(m.name).MarshalJSONTo(enc); err != nil {
			return err
		}
		if err := json.MarshalEncode(enc, m.value); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}
