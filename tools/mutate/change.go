package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
)

// A change replaces the bytes of a file from one offset to another.
type change struct {
	file     string
	line     int
	from, to int
	text     string
	what     string
}

// opposite is what an operator is changed to.
var opposite = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

// amount is the number from which a number is a size, a limit or a duration: one more
// is no other behaviour, so it is changed to 0.
const amount = 8

// find lists the changes of a package that this machine builds, in the order of its
// files. Some of them do not compile.
func find(dir string) ([]change, error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var list []change
	for _, name := range pkg.GoFiles {
		files := token.NewFileSet()
		path := filepath.Join(dir, name)
		parsed, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return nil, err
		}
		add := func(from, to token.Pos, text, what string) {
			at := files.Position(from)
			list = append(list,
				change{file: path, line: at.Line, from: at.Offset, to: files.Position(to).Offset, text: text,
					what: what})
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			inspect(n, add)
			return true
		})
	}
	return list, nil
}

func inspect(n ast.Node, add func(from, to token.Pos, text, what string)) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if other, ok := opposite[n.Op]; ok {
			add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String(),
				fmt.Sprintf("%s instead of %s", other, n.Op))
		}
	case *ast.IfStmt:
		add(n.Cond.Pos(), n.Cond.Pos(), "true || ", "the condition is always true")
		add(n.Cond.Pos(), n.Cond.Pos(), "false && ", "the first part of the condition is always false")
	case *ast.ReturnStmt:
		for _, value := range n.Results {
			if name, ok := value.(*ast.Ident); ok && name.Name == "err" {
				add(name.Pos(), name.End(), "nil", "returns nil instead of err")
			}
			if name, ok := value.(*ast.Ident); ok && (name.Name == "true" || name.Name == "false") {
				add(name.Pos(), name.End(), strconv.FormatBool(name.Name == "false"),
					"returns the opposite of "+name.Name)
			}
		}
	case *ast.BranchStmt:
		if n.Label == nil && n.Tok == token.CONTINUE {
			add(n.Pos(), n.End(), "break", "break instead of continue")
		}
	case *ast.ExprStmt:
		add(n.Pos(), n.End(), "", "the call is left out")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			add(n.Pos(), n.End(), "", "the assignment is left out")
		}
	case *ast.BasicLit:
		if number, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
			other := number + 1
			if number >= amount {
				other = 0
			}
			add(n.Pos(), n.End(), strconv.Itoa(other), fmt.Sprintf("%d instead of %d", other, number))
		}
	}
}
