package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/jsonschema"
)

// A site's pages and what belongs to them are for people; all else is for
// programs, and docs/api.md has to name it.
var forPeople = regexp.MustCompile(`\.(html|gz|css|js)$|^(favicon.*\.svg|robots\.txt)$`)

var (
	docHeading = regexp.MustCompile(`(?m)^## (\S+\.json)$`)
	docExample = regexp.MustCompile("(?s)```json\n(.*?)```")
	docCode    = regexp.MustCompile("`[^`\n]+`")
	docName    = regexp.MustCompile(`[a-z][a-z0-9_-]*`)
)

func apiDoc(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestAPIExamples holds each example of the documentation to the schema that
// the site publishes for that file, and so does it with the file itself.
func TestAPIExamples(t *testing.T) {
	s := newWebSite(t, withPast(t))
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	doc := strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(apiDoc(t))
	examples := 0
	headings := docHeading.FindAllStringSubmatchIndex(doc, -1)
	for i, at := range headings {
		end := len(doc)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		file := doc[at[2]:at[3]]
		name := strings.TrimSuffix(path.Base(file), ".json")
		switch {
		case name == "<host>":
			name = "host"
		case name == "history":
			name = "history-host"
		case strings.Contains(file, "/history/"):
			name = "history-" + name
		}
		schema := []byte(s.file("api/v1/schema/" + name + ".json"))
		real := s.file(strings.ReplaceAll(file, "<host>", "atlas"))
		if errs := jsonschema.Check(schema, []byte(real)); len(errs) > 0 {
			t.Errorf("%s does not fit its own schema: %q", file, errs)
		}
		for _, m := range docExample.FindAllStringSubmatch(doc[at[0]:end], -1) {
			examples++
			if errs := jsonschema.Check(schema, []byte(m[1])); len(errs) > 0 {
				t.Errorf("the example of %s does not fit its schema: %q", file, errs)
			}
		}
	}
	if examples < 8 {
		t.Errorf("docs/api.md has %d examples under the name of a file, want eight and more", examples)
	}
}

// TestAPIFieldsAreDocumented looks for fields of the published schemas that docs/api.md
// does not speak of, and for readings that it does not describe as the program does.
func TestAPIFieldsAreDocumented(t *testing.T) {
	known := map[string]bool{}
	for _, code := range docCode.FindAllString(apiDoc(t), -1) {
		for _, name := range docName.FindAllString(code, -1) {
			known[name] = true
		}
	}
	s := newWebSite(t)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "api/v1/schema/*.json"))
	if err != nil || len(files) < 12 {
		t.Fatalf("schemas %q (%v)", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) == "snapshot.json" {
			continue // is not a file of the API
		}
		for _, field := range properties(schema) {
			if !known[field] {
				t.Errorf("docs/api.md says nothing of %q in %s", field, filepath.Base(file))
			}
		}
	}

	var rows []string
	for _, d := range snapshot.Descriptors() {
		rows = append(rows, "| `"+d.Name+"` | "+d.Help+" |")
	}
	if want := strings.Join(rows, "\n"); !strings.Contains(apiDoc(t), want) {
		t.Errorf("docs/api.md does not have these rows in the table of a GPU's fields:\n%s", want)
	}
}

// properties are the names of all members that a schema describes.
func properties(schema any) []string {
	var names []string
	switch s := schema.(type) {
	case map[string]any:
		if described, ok := s["properties"].(map[string]any); ok {
			for name := range described {
				names = append(names, name)
			}
		}
		for _, sub := range s {
			names = append(names, properties(sub)...)
		}
	case []any:
		for _, sub := range s {
			names = append(names, properties(sub)...)
		}
	}
	return names
}

// TestAPIFilesAreDocumented compares the table of files with a generated site,
// in both directions.
func TestAPIFilesAreDocumented(t *testing.T) {
	s := newWebSite(t, withPast(t))
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(s.dir, name); err == nil && !d.IsDir() && !forPeople.MatchString(filepath.ToSlash(rel)) {
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(apiDoc(t), "\n## ")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		one := regexp.MustCompile("^" + regexp.MustCompile(`<[a-z]+>`).ReplaceAllString(regexp.QuoteMeta(row[1]), `[^/]+`) + "$")
		there := false
		for _, file := range files {
			if one.MatchString(file) {
				documented[file], there = true, true
			}
		}
		if !there {
			t.Errorf("docs/api.md names %s, and a site has none", row[1])
		}
	}
	for _, file := range files {
		if !documented[file] {
			t.Errorf("docs/api.md does not name %s", file)
		}
	}
}
