package text

import (
	"strings"

	"gpuboard/sitegen/render"
)

// A Table lays out text in columns for a terminal: it pads and cuts cells, and colours one of them. It does not
// escape anything: cells have to be safe. No line ends with a blank.
type Table struct {
	Columns []Column
	Width   int    // of the terminal; lines are cut there
	Gap     string // between two cells, in ASCII
	Edge    string // at both ends of a line; with an edge, a colour fills its cell
	Color   bool   // whether there are ANSI colours
	More    string // marks that text was cut; one column wide
	cut     *bool  // set where text is cut; nil where nobody asks
}

// A Column is one column of a [Table].
type Column struct {
	Title   string
	Width   int  // of its cells; [Table.Fit] sets it
	Least   int  // the least width to which Fit may shrink it; 0 if it must not shrink
	Right   bool // aligned to the right
	Painted bool // shown in the colour of its line
}

// Fit sets the widths of columns from their titles and cells. While the table is wider than the terminal, the widest
// column that may shrink loses one. Fit reports whether none had to shrink.
func (t *Table) Fit(rows [][]string) bool {
	total := len(t.Gap) * (len(t.Columns) - 1)
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Width = render.TextWidth(c.Title)
		for _, row := range rows {
			c.Width = max(c.Width, render.TextWidth(row[i]))
		}
		total += c.Width
	}
	fits := total <= t.Width

	for ; total > t.Width; total-- {
		var widest *Column
		for i := range t.Columns {
			c := &t.Columns[i]
			if c.Least > 0 && c.Width > c.Least && (widest == nil || c.Width > widest.Width) {
				widest = c
			}
		}
		if widest == nil {
			break
		}
		widest.Width--
	}
	return fits
}

// Titles is the line of titles. With an edge, all of them are aligned to the left.
func (t *Table) Titles() string {
	var titles []string
	for _, c := range t.Columns {
		if t.Edge != "" {
			c.Title = textPad(c.Title, c.Width, t.More)
		}
		titles = append(titles, c.Title)
	}
	return t.Line("", titles...)
}

// Rule is the line below the titles.
func (t *Table) Rule() string {
	var dashes []string
	for _, c := range t.Columns {
		dashes = append(dashes, strings.Repeat("-", c.Width))
	}
	return strings.ReplaceAll(t.Line("", dashes...), "|", "+")
}

// Line sets cells side by side, the painted one in the colour of the line.
func (t *Table) Line(color string, cells ...string) string {
	room, filled := t.Width, make([]string, 0, 16)
	for i, cell := range cells {
		c := t.Columns[i]
		c.Width = min(c.Width, max(room, 0))
		room -= c.Width + len(t.Gap)

		fill := textPad
		if c.Right {
			fill = textRight
		}
		if t.cut != nil && render.TextWidth(cell) > c.Width {
			*t.cut = true
		}
		cell = fill(cell, c.Width, t.More)
		if words := cell; t.Color && c.Painted {
			if t.Edge == "" {
				words = strings.TrimRight(cell, " ")
			}
			cell = paint(color, words) + cell[len(words):]
		}
		filled = append(filled, cell)
	}
	return strings.TrimRight(t.Edge+strings.Join(filled, t.Gap)+t.Edge, " ")
}
