package sitegen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	json "github.com/go-json-experiment/json/v1" // reads large files in half the time

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/board"
	"gpuboard/internal/events"
	"gpuboard/internal/snapshot"
)

// newsFile remembers, in the state directory, what the last generation saw and
// what happened of late.
const newsFile = "events.json"

// An Announcer carries events out. The generator calls Troubles and Accept
// before it writes the site and Deliver after; never two at a time.
type Announcer interface {
	// Accept takes events durably, each id once. After an error none counts as
	// accepted, and the next generation hands them in again. text makes the text of a
	// daily summary, or of a weekly or monthly report, where one is due.
	Accept(fresh []events.Event, text func(of string) string, now time.Time) error
	// Troubles says what could not be carried out so far.
	Troubles() []snapshot.Problem
	// Deliver sends what was accepted, within a small budget, and says what
	// could not be carried out.
	Deliver(ctx context.Context, now time.Time) []snapshot.Problem
	// Close ends what is in progress, and says what could not be carried out.
	Close() []snapshot.Problem
}

// news is what happened: the memory that the next board is compared with, and
// the latest events, newest last.
type news struct {
	Memory events.Memory  `json:"memory"`
	Log    []events.Event `json:"log"`

	kept bool // what is in the file is to stay as it is
}

// news compares the board with the ones before it. An event is accepted for
// delivery before it is remembered: whatever ends the program in between, the
// next generation finds it again, under the same id.
func (g *Generator) news(b *board.Board, now time.Time) *news {
	var n news
	data, err := atomicfile.Read(filepath.Join(g.opt.State, newsFile), maxMemoryBytes)
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n = news{}
		b.Problems = append(b.Problems, snapshot.Problem{Code: "state:forgotten", File: newsFile,
			Message: fmt.Sprintf("the saved events cannot be read, and start anew: %v", err)})
	}
	if g.opt.Pretend {
		n.kept = true
		return &n
	}
	fresh, next := events.Diff(n.Memory, b)
	log := events.Keep(n.Log, fresh)
	if g.opt.Announcer != nil {
		b.Problems = append(b.Problems, g.opt.Announcer.Troubles()...)
		// Who may not read a name on the site is not told it in a chat either.
		site := g.views[0]
		text := func(of string) string {
			if of != "daily" {
				return g.usage(of, site.privacy)
			}
			return summary(b.Mask(site.privacy), log, g.opt.About.Zone)
		}
		if err := g.opt.Announcer.Accept(site.maskEvents(fresh), text, now); err != nil {
			b.Problems = append(b.Problems, snapshot.Problem{
				Code: "notify:unwritable", Message: snapshot.Text(err.Error(), snapshot.MaxTextBytes),
			})
			n.kept = true
			return &n
		}
	}
	return &news{Memory: next, Log: log}
}

// rememberNews writes down what the next board is compared with.
func (g *Generator) rememberNews(n *news) error {
	if n.kept {
		return nil
	}
	if err := writeState(filepath.Join(g.opt.State, newsFile), n); err != nil {
		return fmt.Errorf("remembering what happened: %w", err)
	}
	return nil
}

// announce carries out what was accepted. What fails now is added to the board
// of this report; the page says it from the next generation on.
func (g *Generator) announce(ctx context.Context, b *board.Board, now time.Time) {
	if g.opt.Announcer == nil || g.opt.Pretend {
		return
	}
	said := map[string]bool{}
	for _, p := range b.Problems {
		said[p.Code+"\x00"+p.File] = true
	}
	for _, p := range g.opt.Announcer.Deliver(ctx, now) {
		if !said[p.Code+"\x00"+p.File] {
			b.Problems = append(b.Problems, p)
		}
	}
}
