package data

import (
	"cmp"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// feedMost is how many events the feed has: a reader that looks once a day
// misses none, and the file stays small.
const feedMost = 100

type feedDoc struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []feedLink  `xml:"link"`
	Entries []feedEntry `xml:"entry"`
}

type feedEntry struct {
	ID       string       `xml:"id"`
	Title    string       `xml:"title"`
	Updated  string       `xml:"updated"`
	Category feedCategory `xml:"category"`
	Links    []feedLink   `xml:"link"`
	Summary  string       `xml:"summary"`
}

type feedCategory struct {
	Term string `xml:"term,attr"`
}

type feedLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

// feedFile is feed.atom: what happened, newest first (RFC 4287). The feed changes when an event is added
// and at no other time, so most generations do not write it. Links are relative
// where the site's address is not configured.
func feedFile(in render.Input) render.File {
	title, log := in.Site.Title, in.Events
	if in.Site.Lab != "" {
		title += ", " + in.Site.Lab
	}
	base := in.Site.BaseURL
	if base != "" && !strings.HasSuffix(base, "/") {
		base += "/"
	}
	doc := feedDoc{
		ID: feedID("feed\x00" + base + "\x00" + title), Title: snapshot.Text(title, snapshot.MaxTextBytes),
		Author: "gpuboard", Updated: feedTime(time.Unix(0, 0)),
		Links: []feedLink{{"self", base + "feed.atom"}, {"alternate", cmp.Or(base, "index.html")}},
	}
	for i := len(log) - 1; i >= 0 && len(doc.Entries) < feedMost; i-- {
		e := &log[i]
		if len(doc.Entries) == 0 {
			doc.Updated = feedTime(e.At)
		}
		entry := feedEntry{
			ID: feedID(base + "\x00" + e.ID), Title: snapshot.Text(e.Summary, snapshot.MaxTextBytes),
			Updated: feedTime(e.At), Category: feedCategory{Term: string(e.Kind)},
			Summary: snapshot.Text(e.Summary+" ("+e.At.UTC().Format("2006-01-02 15:04:05 UTC")+")",
				snapshot.MaxTextBytes),
		}
		page := cmp.Or(base, "index.html")
		if host, err := snapshot.ParseHost(e.Host); err == nil && e.Kind != events.HostGone {
			page = base + "hosts/" + host + "/"
		}
		entry.Links = []feedLink{{"alternate", page}}
		doc.Entries = append(doc.Entries, entry)
	}
	body, _ := xml.MarshalIndent(doc, "", " ") // of texts alone it cannot fail
	return render.NewFile("feed.atom", append([]byte(xml.Header), append(body, '\n')...))
}

// feedID makes a name-based UUID: Atom wants an IRI that never changes, and a
// site without an address has no other.
func feedID(name string) string {
	h := sha256.Sum256([]byte("gpuboard\x00" + name))
	h[6] = h[6]&0x0f | 0x80 // version 8: made by a rule of our own
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func feedTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
