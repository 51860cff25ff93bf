package guard

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	wholeCode = regexp.MustCompile(`^[a-z]+:[a-z][a-z-]*$`)
	// codesNotSaid look like codes, or are put together and replaced before they are said.
	codesNotSaid = map[string]string{
		"host:index":           "a form in which available writes",
		"root:missing":         "doctor says root:unreachable for it",
		"root:unreadable":      "likewise",
		"root:not-a-directory": "likewise",
	}
)

// A saidCode is one reason code of the program.
type saidCode struct {
	where []string
	names []string // constants
}

// codesOf finds every reason code that the program can say: string literals
// that are one, but for those that something is only compared with, and those
// that doctor puts together.
func codesOf(t *testing.T) map[string]*saidCode {
	t.Helper()
	all := map[string]*saidCode{}
	add := func(code, where string) *saidCode {
		c := all[code]
		if c == nil {
			c = &saidCode{}
			all[code] = c
		}
		c.where = append(c.where, where)
		return c
	}
	literal := func(e ast.Expr) string {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, _ := strconv.Unquote(lit.Value)
			return s
		}
		return ""
	}
	made := map[string][]string{} // function of doctor's → what it puts behind an area
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || s.room != "internal/doctor" {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if b, ok := n.(*ast.BinaryExpr); ok && b.Op == token.ADD {
					if x, ok := b.X.(*ast.Ident); ok && x.Name == "code" && strings.HasPrefix(literal(b.Y), ":") {
						made[f.Name.Name] = append(made[f.Name.Name], literal(b.Y))
					}
				}
				return true
			})
		}
	}
	if len(made["directory"]) < 4 || len(made["probe"]) < 1 {
		t.Fatalf("doctor puts codes together in another way: %v", made)
	}
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		compared := map[ast.Expr]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					compared[n.X], compared[n.Y] = true, true
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					compared[e] = true
				}
			case *ast.ValueSpec:
				for i, e := range n.Values {
					if code := literal(e); wholeCode.MatchString(code) && i < len(n.Names) {
						c := add(code, s.path)
						c.names = append(c.names, n.Names[i].Name)
						compared[e] = true // counted
					}
				}
			case *ast.CallExpr:
				name := ""
				switch f := n.Fun.(type) {
				case *ast.SelectorExpr:
					name = f.Sel.Name
				case *ast.Ident:
					name = f.Name
				}
				if len(n.Args) == 0 {
					break
				}
				first := literal(n.Args[0])
				switch {
				case s.room == "internal/doctor" && (name == "directory" || name == "probe") && first != "":
					for _, suffix := range made[name] {
						add(first+suffix, s.path)
					}
					if own, ok := n.Args[len(n.Args)-1].(*ast.Ident); name == "directory" && ok && own.Name == "true" {
						for _, suffix := range made["probe"] {
							add(first+suffix, s.path)
						}
					}
				}
			case *ast.BasicLit:
				if code := literal(n); !compared[n] && wholeCode.MatchString(code) {
					add(code, s.path)
				}
			}
			return true
		})
	}
	for code := range codesNotSaid {
		delete(all, code)
	}
	for code := range all {
		if strings.HasSuffix(code, ":ok") {
			delete(all, code) // nothing to explain
		}
	}
	if len(all) < 200 {
		t.Fatalf("only %d codes were found", len(all))
	}
	return all
}

// TestEveryCodeHasItsRow: each reason code that the program can say has exactly
// one row in docs/troubleshooting.md, alone or with others of one cause, which says that
// cause and what to do; and no row is of a code that nothing says.
func TestEveryCodeHasItsRow(t *testing.T) {
	said := codesOf(t)
	page := readFile(t, "docs/troubleshooting.md")
	inline := regexp.MustCompile("`([a-z]+:[a-z][a-z-]*)`")
	rows := map[string][]string{}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for _, m := range inline.FindAllStringSubmatch(cells[0], -1) {
			rows[m[1]] = append(rows[m[1]], line)
			if len(cells) != 2 || len(strings.Fields(cells[1])) < 4 {
				t.Errorf("the row of %s does not say cause and remedy: %s", m[1], line)
			}
		}
	}
	// What is no fault has a sentence together.
	_, notes, _ := strings.Cut(page, "\n## Notes of doctor\n")
	notes, _, _ = strings.Cut(notes, "\n## ")
	for _, m := range inline.FindAllStringSubmatch(notes, -1) {
		rows[m[1]] = append(rows[m[1]], "the notes")
	}
	for code, c := range said {
		switch n := len(rows[code]); {
		case n == 0:
			t.Errorf("%s, which %s says, has no row in docs/troubleshooting.md", code, c.where[0])
		case n > 1:
			t.Errorf("%s has %d rows:\n%s", code, n, strings.Join(rows[code], ""))
		}
	}
	for code := range rows {
		if said[code] == nil {
			t.Errorf("docs/troubleshooting.md explains %s, which nothing says", code)
		}
	}
}

// TestEveryCodeIsProvoked: each code is expected by name in at least one test,
// so that none can vanish, or change its name, unnoticed.
func TestEveryCodeIsProvoked(t *testing.T) {
	expected := map[string]bool{}
	for _, s := range sources(t) {
		if s.test && s.path != "internal/guard/codes_test.go" {
			namesIn(s.text, expected)
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(path); strings.Contains(path, "/testdata/") && (ext == ".txtar" || ext == ".json") {
			namesIn(readFile(t, path), expected)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for code, c := range codesOf(t) {
		found := expected[code]
		for _, name := range c.names {
			found = found || expected[name]
		}
		if !found {
			t.Errorf("no test provokes %s, which %s says", code, c.where[0])
		}
	}
}

var identifier = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// namesIn adds every identifier and every whole reason code of a text.
func namesIn(text string, names map[string]bool) {
	for _, name := range identifier.FindAllString(text, -1) {
		names[name] = true
	}
	letter := func(b byte) bool { return 'a' <= b && b <= 'z' }
	for at := range len(text) {
		if text[at] != ':' {
			continue
		}
		from, to := at, at+1
		for from > 0 && letter(text[from-1]) {
			from--
		}
		for to < len(text) && (letter(text[to]) || text[to] == '-') {
			to++
		}
		names[text[from:to]] = true
	}
}
