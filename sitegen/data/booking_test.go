package data

import (
	"strings"
	"testing"
	"time"

	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

// What is appended by hand is what the encoder writes by the tags, which readers use.
func TestBookingsAreWrittenByTheirTags(t *testing.T) {
	type byTags bookingDoc // has no method that writes it
	docs := []bookingDoc{
		{},
		{ID: "a1", Host: "atlas", GPUs: []int{0, 12}, UUID: "GPU-1", Name: "ada", Kind: "booking", By: "lea",
			Slice:  new(3),
			Active: true, Expired: true, Forced: true},
		{From: boardtest.Now,
			Until: boardtest.Now.In(time.FixedZone("", 2*3600+1800)).Add(123456789 * time.Nanosecond)},
		{From: time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC),
			Until: boardtest.Now.Add(120 * time.Millisecond)},
	}
	for _, text := range []string{
		`a"b`, `a\b`, "a&b", "a<b", "a>b", "</script>", "~ \x7f", "\t", "Zoë 日本語 😀", "\x1b[31m\x00\u202e\u2028", "\xff",
		strings.Repeat("x", render.MaxText+1), strings.Repeat("é", render.MaxText),
	} {
		docs = append(docs, bookingDoc{ID: safe(text), UUID: text, Comment: safe(text), By: text})
	}
	for _, d := range docs {
		want := string(encode(byTags(d)))
		if got := string(d.appendTo(nil)); got != want {
			t.Errorf("appended:\n%s\nby tags:\n%s", got, want)
		}
		if got := string(encode(d)); got != want {
			t.Errorf("encoded:\n%s\nby tags:\n%s", got, want)
		}
	}
}
