package booking

import (
	"reflect"
	"strings"
	"testing"
)

func TestTeams(t *testing.T) {
	file := []byte("\xef\xbb\xbf# people\r\nmsmith,Mira\r\n@vision: msmith, tomas # since May\r\n@nobody:\r\n\"@robots\", eva, MIRA\r\n@vision: tomas, kai\r\n@: x\r\n  @two words: kai\r\n")
	teams, found := ParseTeams(file)
	want := map[string][]string{"vision": {"Mira", "tomas", "kai"}, "robots": {"eva", "Mira"}, "two words": {"kai"}}
	if !reflect.DeepEqual(teams, want) {
		t.Errorf("teams are %q", teams)
	}
	if len(found) != 2 || found[0].Line != 4 || found[1].Line != 7 || found[0].Code != "booking:team" {
		t.Errorf("problems:\n%s", problems(found))
	}
	aliases, found := ParseAliases(file)
	if len(found) != 0 || len(aliases) != 2 {
		t.Errorf("teams are taken for aliases: %q\n%s", aliases, problems(found))
	}
	if teams, _ := ParseTeams([]byte(strings.Repeat("x", MaxAliasBytes+1))); len(teams) != 0 {
		t.Errorf("a file that is too long has teams %q", teams)
	}
}

func TestTeamsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range maxTeams + 5 {
		b.WriteString("@t" + strings.Repeat("x", i/100) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + ": a\n")
	}
	if teams, found := ParseTeams([]byte(b.String())); len(teams) > maxTeams || len(teams) < maxTeams/2 && len(found) == 0 {
		t.Errorf("%d teams, problems:\n%s", len(teams), problems(found))
	}
}

func FuzzTeams(f *testing.F) {
	f.Add([]byte("@a: b, c\nb,Bea"))
	f.Fuzz(func(t *testing.T, data []byte) {
		teams, _ := ParseTeams(data)
		for name, members := range teams {
			if name == "" || len(name) > MaxNameBytes || len(members) == 0 {
				t.Errorf("team %q has %q", name, members)
			}
		}
	})
}
