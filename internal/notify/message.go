package notify

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"gpuboard/internal/events"
)

// Limits of one message. Teams refuses more than 28 KiB, Mattermost more than 16,383
// characters, and escaping can triple the length of a text.
const (
	maxTogether  = 50 // events
	maxTextBytes = 7_000
)

// A message is what is sent to one hook at once. With one event it has its fields. Its kind
// is "several" for several, and else "daily-summary", "weekly-report", "monthly-report" or "test".
type message struct {
	events.Event
	Text    string         `json:"text"` // complete, several lines
	Events  []events.Event `json:"events"`
	Dropped int            `json:"dropped,omitempty"` // events that were dropped before these
	Title   string         `json:"title,omitempty"`
	URL     string         `json:"url,omitempty"`

	to      string   // the person to whom it goes, of a hook to people
	mention []string // names in the chat of those whom it concerns
}

// message returns one that holds no event yet.
func (c *Notifier) message(id string, kind events.Kind, at time.Time) message {
	return message{Event: events.Event{ID: id, Kind: kind, At: at.UTC().Truncate(time.Second)}, Title: c.opt.Title,
		URL: c.opt.SiteURL, Events: []events.Event{}}
}

// eventMessage returns a message of events. A repeated message has the same id.
func (c *Notifier) eventMessage(items []item, dropped int, now time.Time) message {
	m := c.message("", "several", now)
	m.Dropped, m.to = dropped, items[0].To
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = it.ID
		m.Events = append(m.Events, *it.Event)
	}
	if len(items) == 1 {
		m.Event = m.Events[0]
		m.Text = m.Summary
		if now.Sub(m.At) > 10*time.Minute {
			m.Text += " (" + c.clock(m.At, now) + ")"
		}
	} else {
		m.ID = fmt.Sprintf("several/%x", sha256.Sum256([]byte(strings.Join(ids, "\n"))))[:48]
		m.Summary = fmt.Sprintf("%d things happened", len(items))
		m.Text = m.Summary + c.listed(m.Events, now)
	}
	if dropped > 0 {
		m.Text += fmt.Sprintf("\n%d earlier ones are left out: they waited too long, or were too many.", dropped)
	}
	return m
}

// listed returns a line for each event, as many as fit.
func (c *Notifier) listed(list []events.Event, now time.Time) string {
	var b strings.Builder
	for i, e := range list {
		line := "\n" + c.clock(e.At, now) + " " + e.Summary
		if b.Len()+len(line) > maxTextBytes {
			fmt.Fprintf(&b, "\nand %d more", len(list)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

func (c *Notifier) clock(t, now time.Time) string {
	t, now = t.In(c.opt.Zone), now.In(c.opt.Zone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04 MST")
}

func (c *Notifier) summaryMessage(it item, dropped int) message {
	kind := events.Kind("daily-summary")
	if of, _, _ := strings.Cut(it.ID, "/"); of != "daily" {
		kind = events.Kind(of + "-report")
	}
	m := c.message(it.ID, kind, it.Accepted)
	m.Dropped = dropped
	m.Text = cutBytes(it.Text, maxTextBytes)
	m.Summary, _, _ = strings.Cut(m.Text, "\n")
	return m
}

func (c *Notifier) testMessage(h *Hook, now time.Time) message {
	m := c.message("test/"+now.UTC().Format("20060102T150405Z"), "test", now)
	m.Summary = "a test: the hook " + h.Name + " works"
	m.Text = m.Summary
	return m
}

// subject returns the message in one line, with the title of the board.
func (m message) subject() string { return m.titled("", asItIs, m.Summary) }
