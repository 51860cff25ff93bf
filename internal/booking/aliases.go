package booking

import (
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"unicode"

	"gpuboard/internal/snapshot"
)

// What is read of aliases.csv.
const (
	MaxAliasBytes = 1 << 20
	maxAliases    = 50_000
)

// Aliases maps the names of a person, in small letters, to the canonical one, which is
// shown. The zero value has none.
type Aliases map[string]string

// Canonical returns the name to show for a login name or a written name. An unknown
// name is returned as it is. Case is ignored, and so is a "+" at the end, with which ps
// marks a name that it has cut.
func (a Aliases) Canonical(name string) string {
	if canonical, ok := a[foldName(name)]; ok {
		return canonical
	}
	return name
}

// Mine returns a function that reports whether a name means this person.
func (a Aliases) Mine(who string) func(name string) bool {
	who = a.Canonical(who)
	return func(name string) bool { return strings.EqualFold(a.Canonical(name), who) }
}

func foldName(name string) string {
	return strings.ToLower(strings.TrimRight(strings.TrimSpace(name), "+"))
}

// peopleLines returns the lines of aliases.csv without their comments.
func peopleLines(data []byte) ([]string, error) {
	if len(data) > MaxAliasBytes {
		return nil, fmt.Errorf("the file has %d KiB, and %d KiB are read", len(data)>>10, MaxAliasBytes>>10)
	}
	doc, err := decode(data)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(doc.text, "\n")
	for i := range lines {
		lines[i], _, _ = strings.Cut(lines[i], "#")
	}
	return lines, nil
}

// peopleProblems are the problems of aliases.csv.
type peopleProblems []snapshot.Problem

// add adds a problem, up to the bound.
func (p *peopleProblems) add(code string, line int, format string, args ...any) {
	if len(*p) < MaxProblems {
		message := fmt.Sprintf(format, args...)
		*p = append(*p, snapshot.Problem{Code: code, Message: message, File: "aliases.csv", Line: line, Col: 1})
	}
}

// trimName removes white space and quotes around a name.
func trimName(name string) string {
	return strings.TrimFunc(name, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
}

// namesIn splits a line at its commas.
func namesIn(line string) (names []string) {
	for _, name := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ';' }) {
		if name = trimName(name); name != "" {
			names = append(names, snapshot.Text(name, MaxNameBytes))
		}
	}
	return names
}

// ParseAliases reads aliases.csv: on each line the names of one person, separated by
// commas, with the canonical one last. "#" begins a comment, and a line that begins
// with "@" is a team (see [ParseTeams]). Problems carry the line.
func ParseAliases(data []byte) (Aliases, []snapshot.Problem) {
	aliases := Aliases{}
	var problems peopleProblems
	lines, err := peopleLines(data)
	if err != nil {
		problems.add("booking:alias", 1, "%v", err)
		return aliases, problems
	}
	where := map[string]int{} // the line of each name
	for i, line := range lines {
		names := namesIn(line)
		switch {
		case isTeam(line) || len(names) == 0:
			continue
		case len(names) == 1:
			problems.add("booking:alias", i+1, "%s is the only name here: a line is other-name,canonical-name",
				quote(names[0]))
			continue
		case len(aliases)+len(names) > maxAliases:
			problems.add("booking:alias", i+1, "more than %d names: those from here on do not count", maxAliases)
			return aliases, problems
		}
		canonical := strings.TrimRight(names[len(names)-1], "+")
		for _, name := range names {
			key := foldName(name)
			if key == "" {
				continue
			}
			if old, taken := aliases[key]; taken && old != canonical {
				problems.add("booking:alias", i+1, "%s was %s in line %d and is %s from here on: delete one of the lines",
					quote(name), quote(old), where[key], quote(canonical))
			}
			aliases[key], where[key] = canonical, i+1
		}
	}
	return aliases, problems
}

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
			problems.add("booking:team", i+1, "more than %d teams or %d members: those from here on do not count",
				maxTeams, maxAliases)
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

// A Contact is how a person is reached; "" where that is not known.
type Contact struct {
	Mail string // a bare address
	Chat string // their name or number in the chat, without an @
}

// Contacts are those of people, by canonical name in small letters.
type Contacts map[string]Contact

// Of returns the contact of a person by the canonical name.
func (c Contacts) Of(person string) Contact { return c[foldName(person)] }

// chatName is what no chat reads as more than a name; those of Matrix have a colon and a server.
var chatName = snapshot.Pattern(`^[A-Za-z0-9][A-Za-z0-9._=/+@:-]{0,126}$`)

// ParseContacts reads people.csv. Its first line names the columns, of which login is required, and mail or chat. Each
// further line is a person, whom login may call by any of their names. "#" begins a comment. A line that is wrong does
// not count; problems carry it.
func ParseContacts(data []byte, aliases Aliases) (Contacts, []snapshot.Problem) {
	contacts := Contacts{}
	var problems peopleProblems
	lines, err := peopleLines(data)
	if err != nil {
		problems.add("people:csv", 1, "%v", err)
	}
	var columns []string
	for i, line := range lines {
		fields := strings.Split(strings.ReplaceAll(line, ";", ","), ",")
		for j := range fields {
			fields[j] = trimName(fields[j])
		}
		if strings.Join(fields, "") == "" {
			continue
		}
		if columns == nil {
			columns = strings.Split(strings.ToLower(strings.Join(fields, ",")), ",")
			reached := slices.Contains(columns, "mail") || slices.Contains(columns, "chat")
			if !slices.Contains(columns, "login") || !reached {
				problems.add("people:csv", i+1, "the first line names the columns: login,mail,chat")
				break
			}
			continue
		}
		if len(contacts) == maxAliases {
			problems.add("people:csv", i+1, "more than %d people: those from here on do not count", maxAliases)
			break
		}
		login, contact, err := contactIn(columns, fields)
		key := foldName(aliases.Canonical(login))
		if _, twice := contacts[key]; err == nil && twice {
			err = fmt.Errorf("%s has a line already", quote(login))
		}
		if err != nil {
			problems.add("people:csv", i+1, "%v", err)
			continue
		}
		contacts[key] = contact
	}
	for i := range problems {
		problems[i].File = "people.csv"
	}
	return contacts, problems
}

// contactIn returns the person of a line.
func contactIn(columns, fields []string) (login string, c Contact, err error) {
	for i, value := range fields {
		column := ""
		if i < len(columns) {
			column = columns[i]
		}
		switch {
		case value == "":
		case column == "login":
			login = snapshot.Text(value, MaxNameBytes)
		case column == "mail":
			address, err := mail.ParseAddress(value)
			if err != nil || address.Address != value {
				return "", c, fmt.Errorf("%s is not a mail address", quote(value))
			}
			c.Mail = value
		case column == "chat":
			c.Chat = strings.TrimPrefix(value, "@")
			if !chatName().MatchString(c.Chat) ||
				slices.Contains([]string{"all", "channel", "everyone", "here", "room"}, c.Chat) {
				return "", c, fmt.Errorf("%s is not the name of one person in a chat", quote(value))
			}
		case column == "":
			return "", c, errors.New("this line has more columns than the first one")
		}
	}
	if login == "" {
		return "", c, errors.New("this line has no login")
	}
	return login, c, nil
}
