package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuboard/internal/notify"
)

// TestTheManualHasEveryWordOfHooks reads docs/notify.md.
func TestTheManualHasEveryWordOfHooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/notify.md")
	if err != nil {
		t.Fatal(err)
	}
	words := append(texts(notify.Kinds()), texts(notify.Formats())...)
	for name := range (&file{}).hookFields(&Hook{}) {
		words = append(words, name)
	}
	for _, word := range words {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("the page does not tell of %s", word)
		}
	}
}

func TestContacts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"GPUBOARD_DATA": dir, "GPUBOARD_PEOPLE_DOMAIN": "lab.example"}
	c, err := Load(Sources{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	write("aliases.csv", "alovelace,ada\n")
	write("people.csv", "login,mail,chat\nalovelace,ada@else.example,ada.l\nkai,,kai\n,,nobody\n")
	of, problems := c.Contacts()
	for who, want := range map[string]notify.Contact{
		"ada": {Mail: "ada@else.example", Chat: "ada.l"}, "kai": {Mail: "kai@lab.example", Chat: "kai"},
		"mia": {Mail: "mia@lab.example"}, "vision team": {}, "a@b": {}, "": {},
	} {
		if got := of(who); got != want {
			t.Errorf("%q is reached at %+v, want %+v", who, got, want)
		}
	}
	if len(problems) != 1 || problems[0].Code != "people:csv" || problems[0].Line != 4 {
		t.Errorf("problems %+v", problems)
	}
	if err := os.Remove(filepath.Join(dir, "people.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "people.csv"), 0o700); err != nil {
		t.Fatal(err)
	}
	if of, problems := c.Contacts(); of != nil || len(problems) != 1 {
		t.Errorf("a file that cannot be read has contacts, or no problem: %+v", problems)
	}
}
