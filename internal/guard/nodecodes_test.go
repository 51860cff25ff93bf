package guard

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCodesOfNodes: the codes that a snapshot may carry are those that the packages say that make
// one, no more and no fewer. Any other is shown as host:unknown-code.
func TestCodesOfNodes(t *testing.T) {
	said, accepted := map[string]bool{}, map[string]bool{}
	constants := map[string]string{} // of snapshot
	for code, c := range codesOf(t) {
		for _, path := range c.where {
			if strings.HasPrefix(path, "collector/") {
				said[code] = true
			}
			if strings.HasPrefix(path, "internal/snapshot/") {
				for _, name := range c.names {
					constants[name] = code
				}
			}
		}
	}
	said["loop:slow"] = true // the loop, which internal/node adds
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			// Validate, which runs on the node as well.
			if call, ok := n.(*ast.CallExpr); ok && s.path == "internal/snapshot/validate.go" || ok &&
				s.path == "internal/snapshot/shapes.go" {
				for _, arg := range call.Args {
					if name, ok := arg.(*ast.Ident); ok && constants[name.Name] != "" {
						said[constants[name.Name]] = true
					}
				}
			}
			if name, ok := n.(*ast.Ident); ok && strings.HasPrefix(s.path, "collector/") && constants[name.Name] != "" {
				said[constants[name.Name]] = true
			}
			f, ok := n.(*ast.FuncDecl)
			if !ok || s.path != "internal/snapshot/errors.go" || f.Name.Name != "collected" {
				return true
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if n.Kind == token.STRING {
						code, _ := strconv.Unquote(n.Value)
						accepted[code] = true
					}
				case *ast.Ident:
					if code := constants[n.Name]; code != "" {
						accepted[code] = true
					}
				}
				return true
			})
			return false
		})
	}
	if got, want := slices.Sorted(maps.Keys(accepted)), slices.Sorted(maps.Keys(said)); !slices.Equal(got, want) {
		t.Errorf("a snapshot may carry\n%v, and collectors say\n%v", got, want)
	}
}
