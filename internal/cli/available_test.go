package cli

import (
	"strings"
	"testing"
)

func TestWhatStdoutIs(t *testing.T) {
	for _, c := range []struct {
		env             string
		colors, unicode bool
		width           int
	}{
		{"", false, true, 80},
		{"CLICOLOR_FORCE=1", true, true, 80},
		{"CLICOLOR_FORCE=0", false, true, 80},
		{"CLICOLOR_FORCE=1 NO_COLOR=1", false, true, 80},
		{"CLICOLOR_FORCE=1 TERM=dumb", true, true, 80},
		{"COLUMNS=132 LANG=C", false, false, 132},
		{"COLUMNS=-1 LANG=de_DE.UTF-8", false, true, 80},
		{"COLUMNS=999999 LC_ALL=C LANG=de_DE.UTF-8", false, false, 1000},
		{"LC_CTYPE=en_US.utf8 LANG=C", false, true, 80},
	} {
		a := &app{stdout: &strings.Builder{}, getenv: func(name string) string {
			for pair := range strings.FieldsSeq(c.env) {
				if k, v, _ := strings.Cut(pair, "="); k == name {
					return v
				}
			}
			return ""
		}}
		if a.colors() != c.colors || a.unicode() != c.unicode || a.width(80) != c.width {
			t.Errorf("%s: colours %v, unicode %v, %d columns", c.env, a.colors(), a.unicode(), a.width(80))
		}
	}
}
