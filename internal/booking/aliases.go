package booking

import (
	"fmt"
	"strings"
	"unicode"

	"gpuboard/internal/snapshot"
)

// What is read of aliases.csv.
const (
	MaxAliasBytes = 1 << 20
	maxAliases    = 50_000
)

// Aliases maps the names that somebody is known by, in small letters, to the
// one that is shown. The zero value knows none.
type Aliases map[string]string

// Canonical returns the name to show for one that was written or is a login
// name; a name that is not known is returned as it is. Case does not matter,
// and neither does a "+" at the end, with which ps marks a name that it cut.
func (a Aliases) Canonical(name string) string {
	if len(a) == 0 {
		return name
	}
	if canonical, ok := a[foldName(name)]; ok {
		return canonical
	}
	return name
}

func foldName(name string) string {
	return strings.ToLower(strings.TrimRight(strings.TrimSpace(name), "+"))
}

// namesIn splits a line at its commas.
func namesIn(line string) (names []string) {
	for _, name := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ';' }) {
		name = strings.TrimFunc(name, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
		if name != "" {
			names = append(names, snapshot.Text(name, MaxNameBytes))
		}
	}
	return names
}

// ParseAliases reads aliases.csv: on each line the names that one person goes
// by, separated by commas, the last of them the canonical one. "#" begins a
// comment, and a line that begins with "@" is a team (see [ParseTeams]).
// Problems carry the line.
func ParseAliases(data []byte) (Aliases, []snapshot.Problem) {
	const file = "aliases.csv"
	var problems []snapshot.Problem
	problem := func(line, col int, message string) {
		if len(problems) < MaxProblems {
			problems = append(problems, snapshot.Problem{Code: "booking:alias", Message: message, File: file, Line: line, Col: col})
		}
	}
	aliases := Aliases{}
	if len(data) > MaxAliasBytes {
		problem(1, 1, fmt.Sprintf("the file is %d KiB long, and %d KiB are read", len(data)>>10, MaxAliasBytes>>10))
		return aliases, problems
	}
	doc, err := decode(data)
	if err != nil {
		problem(1, 1, err.Error())
		return aliases, problems
	}
	where := map[string]int{}
	for i, line := range strings.Split(doc.text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if isTeam(line) {
			continue
		}
		names := namesIn(line)
		switch {
		case len(names) == 0:
			continue
		case len(names) == 1:
			problem(i+1, 1, fmt.Sprintf("%s stands alone: a line is other-name,canonical-name", quote(names[0])))
			continue
		case len(aliases)+len(names) > maxAliases:
			problem(i+1, 1, fmt.Sprintf("more than %d names: those from here on do not count", maxAliases))
			return aliases, problems
		}
		canonical := strings.TrimRight(names[len(names)-1], "+")
		for _, name := range names {
			key := foldName(name)
			if key == "" {
				continue
			}
			if old, taken := aliases[key]; taken && old != canonical {
				problem(i+1, 1, fmt.Sprintf("%s was %s in line %d and is %s from here on: delete one of the lines", quote(name), quote(old), where[key], quote(canonical)))
			}
			aliases[key], where[key] = canonical, i+1
		}
	}
	return aliases, problems
}
