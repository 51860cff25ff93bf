package booking

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gpuboard/internal/snapshot"
)

// maxTeams bounds what is read of the teams in aliases.csv.
const maxTeams = 1000

func isTeam(line string) bool {
	return strings.HasPrefix(strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }), "@")
}

// ParseTeams reads the teams of aliases.csv: a line "@vision: mira, tomas" says
// who is in the team vision. Several lines of one team add up, a person may be
// in several teams, and members are known by any of their names: the result has
// the canonical ones, by team, in the order in which they were written. Problems
// carry the line; what is wrong with aliases is not among them.
func ParseTeams(data []byte) (map[string][]string, []snapshot.Problem) {
	aliases, _ := ParseAliases(data)
	if len(data) > MaxAliasBytes {
		return nil, nil
	}
	doc, err := decode(data)
	if err != nil {
		return nil, nil // said by ParseAliases
	}
	teams := map[string][]string{}
	var problems []snapshot.Problem
	problem := func(line int, message string) {
		if len(problems) < MaxProblems {
			problems = append(problems, snapshot.Problem{Code: "booking:team", Message: message, File: "aliases.csv", Line: line, Col: 1})
		}
	}
	members := 0
	for i, line := range strings.Split(doc.text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if !isTeam(line) {
			continue
		}
		_, line, _ = strings.Cut(line, "@")
		name, rest, colon := strings.Cut(line, ":")
		if !colon {
			name, rest, _ = strings.Cut(line, ",")
		}
		name = snapshot.Text(strings.TrimFunc(name, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }), MaxNameBytes)
		list := namesIn(rest)
		members += len(list)
		switch {
		case name == "" || len(list) == 0:
			problem(i+1, "a team is @name: member, member")
			continue
		case teams[name] == nil && len(teams) == maxTeams || members > maxAliases:
			problem(i+1, fmt.Sprintf("more than %d teams or %d members: those from here on do not count", maxTeams, maxAliases))
			return teams, problems
		}
		for _, member := range list {
			if member = aliases.Canonical(member); !slices.Contains(teams[name], member) {
				teams[name] = append(teams[name], member)
			}
		}
	}
	return teams, problems
}
