package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpuboard/internal/snapshot"
	"gpuboard/internal/testenv/jsonschema"
)

// A site's pages and what belongs to them are for people; all else is for
// programs, and docs/api.md has to name it.
var forPeople = regexp.MustCompile(`\.(html|gz|css|js)$|^(favicon.*\.(svg|png)|robots\.txt)$`)

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

// TestAPIExamples holds each file of a site to the schema that the site publishes for it, and so it does
// with the examples of the documentation.
func TestAPIExamples(t *testing.T) {
	s := newWebSite(t, withPast(t), withSites)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"board": "api/v1/board.json", "free": "api/v1/free.json", "hosts": "api/v1/hosts.json",
		"users":    "api/v1/users.json",
		"bookings": "api/v1/bookings.json", "summary": "api/v1/summary.json", "sites": "api/v1/sites.json",
		"host": "api/v1/hosts/atlas.json", "health": "health.json",
		"history-users": "api/v1/history/users.json", "history-hosts": "api/v1/history/hosts.json",
		"history-fleet": "api/v1/history/fleet.json", "history-host": "api/v1/hosts/atlas/history.json",
	}
	schemas, err := filepath.Glob(filepath.Join(s.dir, "api/v1/schema/*.json"))
	if err != nil || len(schemas) != len(files)+1 { // and that of a snapshot
		t.Fatalf("schemas %q (%v)", schemas, err)
	}
	for name, file := range files {
		if errs := jsonschema.Check([]byte(s.file("api/v1/schema/"+name+".json")),
			[]byte(s.file(file))); len(errs) > 0 {
			t.Errorf("%s does not fit its own schema: %q", file, errs)
		}
	}

	doc, examples := apiDoc(t), 0
	headings := docHeading.FindAllStringSubmatchIndex(doc, -1)
	for i, at := range headings {
		end := len(doc)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		file := doc[at[2]:at[3]]
		schema := []byte(s.file("api/v1/schema/" + path.Base(file)))
		for _, m := range docExample.FindAllStringSubmatch(doc[at[0]:end], -1) {
			examples++
			if errs := jsonschema.Check(schema, []byte(m[1])); len(errs) > 0 {
				t.Errorf("the example of %s does not fit its schema: %q", file, errs)
			}
		}
	}
	if examples < 2 {
		t.Errorf("docs/api.md has %d examples under the name of a file, want two and more", examples)
	}
}

// TestAPIFieldsAreDocumented looks for fields of the published schemas that neither have a description
// there, nor are named in docs/api.md, nor say by their name what they are; and for readings that
// docs/api.md does not describe as the program does.
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
		for _, field := range undescribed(schema) {
			if !known[field] && !slices.Contains(speaking, field) {
				t.Errorf("neither docs/api.md nor %s says what %q is", filepath.Base(file), field)
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

// speaking are the fields whose names say what they are.
var speaking = []string{
	"addrs", "by_host_state", "by_state", "comment", "compute_instance_id", "cores", "driver_version",
	"gpu_instance_id", "kernel",
	"load1", "load5", "load15", "memory_free_mib", "memory_total_mib", "memory_used_mib", "mount", "os", "path",
	"pci_bus_id",
	"pid", "short_name", "slices_by_state", "started_at", "total_mib", "uptime_seconds", "used_memory_mib", "used_mib",
	"utilization_percent", "uuid",
}

// undescribed are the names of all members of a schema without a description.
func undescribed(schema any) []string {
	var names []string
	switch s := schema.(type) {
	case map[string]any:
		if members, ok := s["properties"].(map[string]any); ok {
			for name, member := range members {
				if m, ok := member.(map[string]any); ok && m["description"] == nil {
					names = append(names, name)
				}
			}
		}
		for _, sub := range s {
			names = append(names, undescribed(sub)...)
		}
	case []any:
		for _, sub := range s {
			names = append(names, undescribed(sub)...)
		}
	}
	return names
}

// TestAPIFilesAreDocumented compares the tables of files, the second of which is for other systems, with
// a generated site, in both directions.
func TestAPIFilesAreDocumented(t *testing.T) {
	s := newWebSite(t, withPast(t), withSites)
	if err := s.generate(webStart); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(s.dir, name); err == nil && !d.IsDir() &&
			!forPeople.MatchString(filepath.ToSlash(rel)) {
			files = append(files, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	table, rest, _ := strings.Cut(apiDoc(t), "\n## ")
	_, others, _ := strings.Cut(rest, "\n## Files of other systems\n")
	table += others
	documented := map[string]bool{}
	cells := strings.Join(regexp.MustCompile("(?m)^\\| `[^|]+` \\|").FindAllString(table, -1), "\n")
	for _, code := range docCode.FindAllString(cells, -1) {
		name := strings.Trim(code, "`")
		one := regexp.MustCompile(
			"^" + regexp.MustCompile(`<[a-z]+>`).ReplaceAllString(regexp.QuoteMeta(name), `[^/]+`) + "$")
		there := false
		for _, file := range files {
			if one.MatchString(file) {
				documented[file], there = true, true
			}
		}
		if !there {
			t.Errorf("docs/api.md names %s, and a site has none", name)
		}
	}
	for _, file := range files {
		if !documented[file] {
			t.Errorf("docs/api.md does not name %s", file)
		}
	}
}
