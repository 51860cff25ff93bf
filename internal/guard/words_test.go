package guard

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"gpuboard/templates"
)

// TestCodesHaveWords holds the sentences of words/en.json to the problems that the
// rooms behind a board can tell of, both ways.
func TestCodesHaveWords(t *testing.T) {
	data, err := fs.ReadFile(templates.Files(), "words/en.json")
	if err != nil {
		t.Fatal(err)
	}
	var words map[string]string
	if err := json.Unmarshal(data, &words); err != nil {
		t.Fatal(err)
	}
	// register tells the node that registers, and no board.
	code, area := regexp.MustCompile(
		`"([a-z]+:[a-z-]+)"`),
		regexp.MustCompile(
			`^(aliases|amd|bad|booking|clock|cluster|consul|discovery|drop|gpu|history|host|legacy|note|notify|people|ps|pull|root|smi|state|store):|^site:unpublished$`)
	found := map[string]string{
		// Made of a prefix and what follows.
		"consul:critical": "board", "consul:warning": "board", "consul:maintenance": "board",
	}
	for _, s := range sources(t) {
		room, _, _ := strings.Cut(strings.TrimPrefix(s.path, "internal/"), "/")
		// The errors of the loop are none of a board.
		if s.test || s.path == "internal/watch/watch.go" ||
			!strings.Contains(" board booking collector history inventory legacy pull snapshot spool sitegen watch ",
				" "+room+" ") {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(s.text, -1) {
			if area.MatchString(m[1]) {
				found[m[1]] = s.path
			}
		}
		if strings.HasPrefix(s.path, "internal/inventory/keeper") {
			for _, m := range regexp.MustCompile(`complain\("([a-z-]+)"`).FindAllStringSubmatch(s.text, -1) {
				found["discovery:"+m[1]] = s.path
			}
		}
	}
	if len(found) < 90 {
		t.Fatalf("only %d codes were found", len(found))
	}
	for code, path := range found {
		if words["code."+code] == "" {
			t.Errorf("words/en.json has no sentence for %s, which %s tells of", code, path)
		}
	}
	for key := range words {
		if code, ok := strings.CutPrefix(key, "code."); ok && found[code] == "" {
			t.Errorf("words/en.json has a sentence for %s, which nothing tells of", code)
		}
	}
}
