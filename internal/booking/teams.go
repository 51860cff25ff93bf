package booking

import (
	"fmt"
	"slices"
	"strings"

	"gpuboard/internal/snapshot"
)

// maxTeams bounds what is read of the teams in aliases.csv.
const maxTeams = 1000

func isTeam(line string) bool { return strings.HasPrefix(trimName(line), "@") }

// ParseTeams reads the teams of aliases.csv: the line "@vision: mira, tomas" lists the
// members of the team vision. Several lines of one team add up, a person may be in
// several teams, and a member may be given by any of their names: the result has the
// canonical names, by team, in the order of the file. Problems carry the line; those
// of [ParseAliases] are not repeated.
func ParseTeams(data []byte) (map[string][]string, []snapshot.Problem) {
	lines, _ := peopleLines(data) // ParseAliases reports the error
	aliases, _ := ParseAliases(data)
	teams := map[string][]string{}
	var problems peopleProblems
	members := 0
	for i, line := range lines {
		if !isTeam(line) {
			continue
		}
		_, line, _ = strings.Cut(line, "@")
		name, rest, colon := strings.Cut(line, ":")
		if !colon {
			name, rest, _ = strings.Cut(line, ",")
		}
		name = snapshot.Text(trimName(name), MaxNameBytes)
		list := namesIn(rest)
		members += len(list)
		switch {
		case name == "" || len(list) == 0:
			problems.add("booking:team", i+1, "a team is @name: member, member")
			continue
		case teams[name] == nil && len(teams) == maxTeams || members > maxAliases:
			problems.add("booking:team", i+1, fmt.Sprintf("more than %d teams or %d members: those from here on do not count", maxTeams, maxAliases))
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
