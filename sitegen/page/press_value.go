package page

import (
	"fmt"
	"reflect"
	tree "text/template/parse"
)

// A value is an expression of a template, of a type that is known beforehand.
type value struct {
	typ  reflect.Type
	eval func(p *printing, dot reflect.Value) reflect.Value
	// text is the same where it is a string that is made on the way; nil else.
	text func(p *printing, dot reflect.Value) string
}

func textValue(text func(p *printing, dot reflect.Value) string) *value {
	return &value{reflect.TypeFor[string](), func(p *printing, dot reflect.Value) reflect.Value { return reflect.ValueOf(text(p, dot)) }, text}
}

func constant(v any) *value {
	x := reflect.ValueOf(v)
	return &value{typ: x.Type(), eval: func(*printing, reflect.Value) reflect.Value { return x }}
}

// pipe is a value that nothing is done with after.
func (c *compiler) pipe(pipe *tree.PipeNode, dot reflect.Type) (*value, error) {
	if len(pipe.Cmds) != 1 {
		return nil, fmt.Errorf("%w: %s", errNotPressed, pipe)
	}
	return c.command(pipe.Cmds[0], dot)
}

func (c *compiler) command(cmd *tree.CommandNode, dot reflect.Type) (*value, error) {
	if id, ok := cmd.Args[0].(*tree.IdentifierNode); ok {
		return c.function(id.Ident, cmd.Args[1:], dot)
	}
	if len(cmd.Args) != 1 {
		return nil, fmt.Errorf("%w: %s", errNotPressed, cmd)
	}
	return c.argument(cmd.Args[0], dot)
}

func (c *compiler) argument(n tree.Node, dot reflect.Type) (*value, error) {
	switch n := n.(type) {
	case *tree.DotNode:
		return &value{typ: dot, eval: func(_ *printing, dot reflect.Value) reflect.Value { return dot }}, nil
	case *tree.FieldNode:
		return fields(&value{typ: dot, eval: func(_ *printing, dot reflect.Value) reflect.Value { return dot }}, n.Ident)
	case *tree.VariableNode:
		for i := len(c.scope) - 1; i >= 0; i-- {
			if v := c.scope[i]; v.name == n.Ident[0] {
				return fields(&value{typ: v.typ, eval: func(p *printing, _ reflect.Value) reflect.Value { return p.vars[p.base+v.slot] }}, n.Ident[1:])
			}
		}
	case *tree.ChainNode:
		v, err := c.argument(n.Node, dot)
		if err != nil {
			return nil, err
		}
		return fields(v, n.Field)
	case *tree.PipeNode:
		if len(n.Decl) == 0 {
			return c.pipe(n, dot)
		}
	case *tree.StringNode:
		return constant(n.Text), nil
	case *tree.NumberNode:
		if n.IsInt {
			return constant(int(n.Int64)), nil
		}
	case *tree.BoolNode:
		return constant(n.True), nil
	}
	return nil, fmt.Errorf("%w: %s", errNotPressed, n)
}

// fields follows a chain of fields. A method of that name would come first; the
// views have none.
func fields(v *value, chain []string) (*value, error) {
	for _, name := range chain {
		typ, pointer := v.typ, v.typ.Kind() == reflect.Pointer
		if pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return nil, fmt.Errorf("%w: .%s of %s", errNotPressed, name, v.typ)
		}
		f, ok := typ.FieldByName(name)
		if _, method := reflect.PointerTo(typ).MethodByName(name); !ok || method || !f.IsExported() {
			return nil, fmt.Errorf("%w: .%s of %s", errNotPressed, name, v.typ)
		}
		for i, at := range f.Index[:len(f.Index)-1] {
			if typ.FieldByIndex(f.Index[:i+1]).Type.Kind() != reflect.Struct {
				return nil, fmt.Errorf("%w: .%s of %s, field %d", errNotPressed, name, v.typ, at)
			}
		}
		from, index, path := v.eval, f.Index[0], f.Index
		v = &value{typ: f.Type}
		v.eval = func(p *printing, dot reflect.Value) reflect.Value {
			x := from(p, dot)
			if pointer {
				x = x.Elem() // of nil, the next line panics
			}
			if len(path) > 1 {
				return x.FieldByIndex(path)
			}
			return x.Field(index)
		}
	}
	return v, nil
}

// truthOf tells what if and with take for true.
func truthOf(typ reflect.Type) (func(reflect.Value) bool, error) {
	switch k := typ.Kind(); {
	case k == reflect.Bool:
		return reflect.Value.Bool, nil
	case k == reflect.Pointer:
		return func(v reflect.Value) bool { return !v.IsNil() }, nil
	case k == reflect.String || k == reflect.Slice || k == reflect.Array || k == reflect.Map:
		return func(v reflect.Value) bool { return v.Len() > 0 }, nil
	case k >= reflect.Int && k <= reflect.Int64:
		return func(v reflect.Value) bool { return v.Int() != 0 }, nil
	case k == reflect.Struct:
		return func(reflect.Value) bool { return true }, nil
	}
	return nil, fmt.Errorf("%w: the truth of a %s", errNotPressed, typ)
}

// condition is a pipeline of which only the truth matters.
func (c *compiler) condition(pipe *tree.PipeNode, dot reflect.Type) (func(p *printing, dot reflect.Value) bool, error) {
	if len(pipe.Cmds) != 1 || len(pipe.Decl) > 0 {
		return nil, fmt.Errorf("%w: %s", errNotPressed, pipe)
	}
	cmd := pipe.Cmds[0]
	if id, ok := cmd.Args[0].(*tree.IdentifierNode); ok && (id.Ident == "and" || id.Ident == "or" || id.Ident == "not") {
		return c.logic(id.Ident, cmd.Args[1:], dot)
	}
	v, err := c.command(cmd, dot)
	if err != nil {
		return nil, err
	}
	truth, err := truthOf(v.typ)
	return func(p *printing, dot reflect.Value) bool { return truth(v.eval(p, dot)) }, err
}

func (c *compiler) logic(name string, args []tree.Node, dot reflect.Type) (func(p *printing, dot reflect.Value) bool, error) {
	parts := make([]func(p *printing, dot reflect.Value) bool, len(args))
	for i, arg := range args {
		pipe, ok := arg.(*tree.PipeNode)
		if !ok {
			pipe = &tree.PipeNode{NodeType: tree.NodePipe, Cmds: []*tree.CommandNode{{NodeType: tree.NodeCommand, Args: []tree.Node{arg}}}}
		}
		var err error
		if parts[i], err = c.condition(pipe, dot); err != nil {
			return nil, err
		}
	}
	if len(parts) == 0 || name == "not" && len(parts) != 1 {
		return nil, fmt.Errorf("%w: %s", errNotPressed, name)
	}
	if name == "not" {
		return func(p *printing, dot reflect.Value) bool { return !parts[0](p, dot) }, nil
	}
	all := name == "and"
	return func(p *printing, dot reflect.Value) bool {
		for _, part := range parts {
			if part(p, dot) != all {
				return !all
			}
		}
		return all
	}, nil
}

// function is a call of one of the functions that the templates use.
func (c *compiler) function(name string, nodes []tree.Node, dot reflect.Type) (*value, error) {
	args := make([]*value, len(nodes))
	for i, n := range nodes {
		var err error
		if args[i], err = c.argument(n, dot); err != nil {
			return nil, err
		}
	}
	switch f := c.press.funcs[name].(type) {
	case nil:
	case func(any, ...any) (string, error): // t: mostly one key
		if len(args) == 0 {
			break
		}
		return textValue(func(p *printing, dot reflect.Value) string {
			rest := make([]any, len(args))
			for i, a := range args {
				rest[i] = a.eval(p, dot).Interface()
			}
			s, err := f(rest[0], rest[1:]...)
			if err != nil {
				panic(err)
			}
			return s
		}), nil
	case func(int, string) (string, error): // n
		if len(args) == 2 && args[0].typ == reflect.TypeFor[int]() && args[1].typ == reflect.TypeFor[string]() {
			return textValue(func(p *printing, dot reflect.Value) string {
				s, err := f(int(args[0].eval(p, dot).Int()), args[1].eval(p, dot).String())
				if err != nil {
					panic(err)
				}
				return s
			}), nil
		}
	}
	if _, own := c.press.funcs[name]; own {
		return nil, fmt.Errorf("%w: the function %s", errNotPressed, name)
	}
	return builtin(name, args)
}

func builtin(name string, args []*value) (*value, error) {
	refused := fmt.Errorf("%w: the function %s", errNotPressed, name)
	switch name {
	case "print":
		for _, a := range args {
			if a.typ.Kind() != reflect.String || a.typ.NumMethod() > 0 {
				return nil, refused // numbers get spaces between them
			}
		}
		return textValue(func(p *printing, dot reflect.Value) (s string) {
			for _, a := range args {
				s += a.eval(p, dot).String()
			}
			return s
		}), nil
	case "len":
		if len(args) == 1 {
			switch args[0].typ.Kind() {
			case reflect.Slice, reflect.Array, reflect.String, reflect.Map:
				return &value{typ: reflect.TypeFor[int](), eval: func(p *printing, dot reflect.Value) reflect.Value { return reflect.ValueOf(args[0].eval(p, dot).Len()) }}, nil
			}
		}
	case "index":
		if len(args) == 2 && args[0].typ.Kind() == reflect.Slice && args[1].typ == reflect.TypeFor[int]() {
			return &value{typ: args[0].typ.Elem(), eval: func(p *printing, dot reflect.Value) reflect.Value {
				return args[0].eval(p, dot).Index(int(args[1].eval(p, dot).Int()))
			}}, nil
		}
	case "eq", "ne", "lt", "le", "gt", "ge":
		compare, err := comparison(name, args)
		if err != nil {
			return nil, err
		}
		yes, no := reflect.ValueOf(true), reflect.ValueOf(false)
		return &value{typ: reflect.TypeFor[bool](), eval: func(p *printing, dot reflect.Value) reflect.Value {
			if compare(p, dot) {
				return yes
			}
			return no
		}}, nil
	}
	return nil, refused
}

// comparison is of strings or of whole numbers; eq may have several to compare with.
func comparison(name string, args []*value) (func(p *printing, dot reflect.Value) bool, error) {
	refused := fmt.Errorf("%w: the function %s", errNotPressed, name)
	if len(args) < 2 || len(args) > 2 && name != "eq" {
		return nil, refused
	}
	strings, ints := true, true
	for _, a := range args {
		k := a.typ.Kind()
		strings, ints = strings && k == reflect.String, ints && k >= reflect.Int && k <= reflect.Int64
	}
	switch {
	case strings && name == "eq":
		return func(p *printing, dot reflect.Value) bool {
			x := args[0].eval(p, dot).String()
			for _, a := range args[1:] {
				if x == a.eval(p, dot).String() {
					return true
				}
			}
			return false
		}, nil
	case strings && name == "ne":
		return func(p *printing, dot reflect.Value) bool {
			return args[0].eval(p, dot).String() != args[1].eval(p, dot).String()
		}, nil
	case ints:
		holds := map[string]func(x, y int64) bool{
			"eq": func(x, y int64) bool { return x == y }, "ne": func(x, y int64) bool { return x != y },
			"lt": func(x, y int64) bool { return x < y }, "le": func(x, y int64) bool { return x <= y },
			"gt": func(x, y int64) bool { return x > y }, "ge": func(x, y int64) bool { return x >= y },
		}[name]
		return func(p *printing, dot reflect.Value) bool {
			x := args[0].eval(p, dot).Int()
			for _, a := range args[1:] {
				if holds(x, a.eval(p, dot).Int()) {
					return true
				}
			}
			return false
		}, nil
	}
	return nil, refused
}
