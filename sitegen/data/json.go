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
	// no names are looked up: it is faster
	b, err := json.Marshal(doc, jsontext.EscapeForHTML(true), jsontext.AllowDuplicateNames(true), marshalers)
	if err != nil {
		panic("encoding a document of the site: " + err.Error())
	}
	return b
}

// encodeFile writes a file that has the members of several documents.
func encodeFile(docs ...any) []byte {
	parts := docsOf(docs, func(doc *any) []byte { return members(encode(*doc)) })
	return joined("{", parts, ",", "}\n")
}

// members are the members of an encoded object, without its braces.
func members(object []byte) []byte { return object[1 : len(object)-1] }

// A safe is a text that is made harmless when it is written: what a terminal would
// obey is a visible escape even after a program has decoded the JSON.
type safe string

// MarshalJSONTo implements [json.MarshalerTo].
func (s safe) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteToken(jsontext.String(snapshot.Text(string(s), render.MaxText)))
}

// marshalers write what is not known as null: a text that is empty, since in a board an empty text is one that
// is not known, and the zero time. Other texts are safe; a time is RFC 3339 in UTC, to the millisecond where
// there are any; a number has at most three decimals.
var marshalers = json.WithMarshalers(json.JoinMarshalers(
	json.MarshalToFunc(func(enc *jsontext.Encoder, s string) error {
		if s == "" {
			return enc.WriteToken(jsontext.Null)
		}
		return safe(s).MarshalJSONTo(enc)
	}),
	json.MarshalToFunc(marshalTime),
	json.MarshalToFunc(func(enc *jsontext.Encoder, t snapshot.Time) error { return marshalTime(enc, t.Time) }),
	json.MarshalToFunc(marshalNumber),
))

func safes(list []string) []safe {
	return docsOf(list, func(s *string) safe { return safe(*s) })
}

// marshalNumber writes at most three decimals: no reading is better than
// that, and more digits would make equal values look different.
func marshalNumber(enc *jsontext.Encoder, f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) || math.Abs(f) > 1e15 {
		return enc.WriteToken(jsontext.Null)
	}
	f = math.Round(f*1000)/1000 + 0 // and not -0
	return enc.WriteValue(strconv.AppendFloat(enc.AvailableBuffer(), f, 'f', -1, 64))
}

func marshalTime(enc *jsontext.Encoder, t time.Time) error {
	return enc.WriteValue(appendTime(enc.AvailableBuffer(), t))
}

// appendTime writes a time as a value of JSON.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return append(t.UTC().Truncate(time.Millisecond).AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// An object has these members, in this order.
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
