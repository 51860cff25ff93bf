package text_test

import (
	"strings"
	"testing"

	"gpuboard/sitegen/text"
)

func TestTableIsAsWideAsItsCells(t *testing.T) {
	table := text.Table{
		Width: 80, Gap: "  ", Columns: []text.Column{{Title: "who"}, {Title: "pid", Right: true}, {Title: "what"}},
	}
	rows := [][]string{{"日本", "7", "train.py"}, {"eva", "12345", ""}}
	if !table.Fit(rows) {
		t.Error("there is room for all of it, and something was made narrower")
	}
	got := []string{table.Titles(), table.Rule(), table.Line("", rows[0]...), table.Line("", rows[1]...)}
	want := []string{"who     pid  what", "----  -----  --------", "日本      7  train.py", "eva   12345"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTableTakesFromTheWidestColumnThatMayGive(t *testing.T) {
	table := text.Table{
		Width: 16, Gap: "  ", More: "~",
		Columns: []text.Column{{Title: "fixed"}, {Title: "gives", Least: 3}, {Title: "little", Least: 6}},
	}
	rows := [][]string{{"12345", "abcdefghij", "abcdef"}}
	if table.Fit(rows) {
		t.Error("there is no room for all of it, and nothing was made narrower")
	}
	if got, want := table.Line("", rows[0]...), "12345  ab~  abc~"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTableColoursOneCell(t *testing.T) {
	columns := []text.Column{{Width: 3}, {Width: 4, Painted: true}}
	for _, c := range []struct {
		table text.Table
		want  string
	}{
		{text.Table{Gap: "  "}, "eva  ok"},
		{text.Table{Gap: "  ", Color: true}, "eva  \x1b[32mok\x1b[0m"},
		{text.Table{Gap: "|", Edge: "|"}, "|eva|ok  |"},
		{text.Table{Gap: "|", Edge: "|", Color: true}, "|eva|\x1b[32mok  \x1b[0m|"},
	} {
		c.table.Columns, c.table.Width = columns, 80
		if got := c.table.Line("32", "eva", "ok"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
