// Package render is the pure half of the site: a Board becomes the bytes of
// every file. It reads no clock and no disk.
package render

import (
	"bytes"
	"time"

	"gpuboard/internal/board"
)

// An Input is everything that one generation shows.
type Input struct {
	Board *board.Board
	Site  Site
	// Generation is the board's [Generation], "" to make it.
	Generation string
	// Notice is the Markdown of notice.md, "" for none.
	Notice string
	// HostNotes is the Markdown of hosts/<h>.md by host name.
	HostNotes map[string]string
	// FreeMean2h, FreeMean24h and FreeMean1w are the mean numbers of GPUs that
	// nobody used, as history knows them; nil where it does not.
	FreeMean2h, FreeMean24h, FreeMean1w *float64
	// History is the past in charts and sums; nil when none is kept.
	History *History
	// Help puts the documentation into the site, below help/.
	Help bool
	// Emit takes each file as soon as it is rendered, in the same order every time,
	// so that a site need not be in memory; [Pages] and [Data] return none then. An
	// error of Emit is returned.
	Emit func(File) error
}

// Site is what the configuration says about the site itself.
type Site struct {
	Title    string // of every page, default "GPU board"
	Lab      string // beside it, "" for none
	Lang     string // of the templates' words, default "en"
	Zone     *time.Location
	Version  string // of the generator
	BaseURL  string // where the site is published, "" when not said; only feeds need it
	Interval time.Duration
	// CommentsPath is where people edit the bookings, as they would type it.
	CommentsPath string
	// BookCommand is how they book on the command line, "" for plain gpuboard.
	BookCommand string
	// Energy says what a kilowatt-hour costs.
	Energy Energy
}

// A File is one file of the site.
type File struct {
	Path string // slash-separated, relative to the site
	// Parts are the content, one after the other. Files share parts, so nobody may
	// change them.
	Parts [][]byte
}

func newFile(path string, parts ...[]byte) File { return File{Path: path, Parts: parts} }

// Bytes is the content in one.
func (f File) Bytes() []byte {
	if len(f.Parts) == 1 {
		return f.Parts[0]
	}
	return bytes.Join(f.Parts, nil)
}

// A sink is where files go.
type sink struct {
	emit  func(File) error
	files []File // without emit
}

func (s *sink) put(files ...File) error {
	if s.emit == nil {
		s.files = append(s.files, files...)
		return nil
	}
	for _, f := range files {
		if err := s.emit(f); err != nil {
			return err
		}
	}
	return nil
}
