package data

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gpuboard/internal/events"
	"gpuboard/internal/testenv/boardtest"
	"gpuboard/sitegen/render"
)

func feedParse(t testing.TB, in render.Input, log []events.Event) feedDoc {
	t.Helper()
	in.Site, in.Events = in.Site.WithDefaults(), log
	f := feedFile(in)
	var doc feedDoc
	if err := xml.Unmarshal(f.Content, &doc); err != nil || !utf8.Valid(f.Content) || f.Path != "feed.atom" {
		t.Fatalf("%s: %v", f.Path, err)
	}
	return doc
}

func TestFeed(t *testing.T) {
	var log []events.Event
	for i := range 150 {
		log = append(log, events.Event{
			ID: fmt.Sprint("host-down/atlas/", i), Kind: events.HostDown, Host: "atlas",
			At:      boardtest.Now.Add(time.Duration(i) * time.Minute),
			Summary: fmt.Sprint("atlas is down ", i, " <b>&]]>", boardtest.Evil),
		})
	}
	doc := feedParse(t, render.Input{Site: render.Site{BaseURL: "https://lab.example/gpu"}}, log)
	if len(doc.Entries) != feedMost || !strings.HasPrefix(doc.Entries[0].Title, "atlas is down 149 <b>&]]>") {
		t.Errorf("%d entries, the first is %q", len(doc.Entries), doc.Entries[0].Title)
	}
	if doc.Updated != doc.Entries[0].Updated || doc.Entries[0].Updated != "2026-11-20T12:11:10Z" {
		t.Errorf("updated %s, the newest %s", doc.Updated, doc.Entries[0].Updated)
	}
	if got := doc.Entries[0].Links[0].Href; got != "https://lab.example/gpu/hosts/atlas/" {
		t.Errorf("link %s", got)
	}
	ids := map[string]bool{doc.ID: true}
	for _, e := range doc.Entries {
		if ids[e.ID] || !strings.HasPrefix(e.ID, "urn:uuid:") || len(e.ID) != 45 {
			t.Errorf("id %s", e.ID)
		}
		ids[e.ID] = true
		if strings.ContainsFunc(e.Title, boardtest.Obeyed) {
			t.Errorf("title %q", e.Title)
		}
	}
}

// A reader would show old news again if an id or the bytes changed without cause.
func TestFeedChangesOnlyWithEvents(t *testing.T) {
	log := []events.Event{{ID: "a", Kind: events.GPULost, Host: "atlas", At: boardtest.Now, Summary: "x"}}
	in := boardtest.Lab()
	in.Events = log
	one := feedFile(in)
	in.Board.GeneratedAt = in.Board.GeneratedAt.Add(time.Hour)
	if two := feedFile(in); !bytes.Equal(one.Content, two.Content) {
		t.Errorf("the feed changes with the moment")
	}
	more := append(log, events.Event{
		ID: "b", Kind: events.GPUBack, Host: "../../x", At: boardtest.Now.Add(time.Hour), Summary: "y",
	})
	a, b := feedParse(t, in, log), feedParse(t, in, more)
	if a.Entries[0].ID != b.Entries[1].ID || a.Updated == b.Updated || a.ID != b.ID {
		t.Errorf("ids %+v, %+v", a, b)
	}
	if b.Entries[0].Links[0].Href != "index.html" {
		t.Errorf("a link to %s", b.Entries[0].Links[0].Href)
	}
	if empty := feedParse(t, render.Input{}, nil); len(empty.Entries) != 0 || empty.Updated != "1970-01-01T00:00:00Z" {
		t.Errorf("empty feed %+v", empty)
	}
}
