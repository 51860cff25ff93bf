package guard

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesNameTheirTests: every test that docs/reliability.md names exists,
// in the package that it names, and every promise has one.
func TestPromisesNameTheirTests(t *testing.T) {
	have := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		pkg := strings.TrimSuffix(s.file.Name.Name, "_test")
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				have[pkg+"."+f.Name.Name] = true
			}
		}
	}
	data, err := os.ReadFile("docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z]+\\.(?:Test|Fuzz)[A-Za-z0-9]+)`")
	promises := 0
	for line := range strings.Lines(string(data)) {
		if !regexp.MustCompile(`^\| P\d+ \|`).MatchString(line) {
			continue
		}
		promises++
		found := named.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("a promise without proof: %s", line)
		}
		for _, m := range found {
			if !have[m[1]] {
				t.Errorf("docs/reliability.md names %s, and there is no such test", m[1])
			}
		}
	}
	if promises != 19 {
		t.Errorf("%d promises, want 19", promises)
	}
}
