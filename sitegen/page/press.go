package page

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"strconv"
	"sync"
	tree "text/template/parse"
)

// A press executes templates that html/template has escaped. Most of the time
// of a generation went into finding, for each of a million values, the field by
// its name and the escaper by reflection, though both are the same for every
// page of a kind. The press settles them once for each template and type of
// data.
//
// What is escaped how is html/template's decision: the press reads it from the
// tree that html/template leaves, where every value ends in the escapers that
// it needs. A value that does not, a context that few pages have, a construct
// that none of the built-in templates uses: any of these, and the press leaves
// the whole template to html/template. So does every error, for the sake of its
// words. Both make the same bytes, which tests hold against each other.
type press struct {
	set   *template.Template
	funcs template.FuncMap

	mu     sync.Mutex
	sheets map[sheetKey]*sheet
}

type sheetKey struct {
	name string
	data reflect.Type
}

// A sheet is one template for one type of data; run is nil where html/template
// is to do it.
type sheet struct {
	run  step
	vars int
}

// A step makes one part of a page. It panics with what goes wrong.
type step func(p *printing, dot reflect.Value)

// printing is a page in the making.
type printing struct {
	out  []byte
	vars []reflect.Value
	base int // of the variables of this template among all
}

func newPress(set *template.Template, funcs template.FuncMap) *press {
	return &press{set: set, funcs: funcs, sheets: map[sheetKey]*sheet{}}
}

// execute appends the template's output for data to out.
func (p *press) execute(out *bytes.Buffer, name string, data any) error {
	s := p.sheet(name, reflect.TypeOf(data))
	if s.run != nil {
		made := printing{out: out.AvailableBuffer(), vars: make([]reflect.Value, s.vars, 32)}
		if made.all(s, reflect.ValueOf(data)) {
			out.Write(made.out)
			return nil
		}
	}
	return p.set.ExecuteTemplate(out, name, data)
}

// all reports whether the page could be made.
func (p *printing) all(s *sheet, data reflect.Value) (done bool) {
	defer func() {
		if fault := recover(); fault != nil {
			done = false // html/template says what it is
		}
	}()
	p.vars[0] = data
	s.run(p, data)
	return true
}

func (p *press) sheet(name string, data reflect.Type) *sheet {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sheets[sheetKey{name, data}]; s != nil {
		return s
	}
	// A template is escaped when it is first executed, and with nothing is enough.
	_ = p.set.ExecuteTemplate(io.Discard, name, nil)
	made := map[sheetKey]*sheet{} // those that it calls, too
	s, err := p.compile(made, name, data)
	if err != nil {
		s = &sheet{}
		p.sheets[sheetKey{name, data}] = s
		return s
	}
	for key, other := range made {
		p.sheets[key] = other
	}
	return s
}

// errNotPressed is a template that is left to html/template.
var errNotPressed = errors.New("left to html/template")

func (p *press) compile(made map[sheetKey]*sheet, name string, data reflect.Type) (*sheet, error) {
	key := sheetKey{name, data}
	if s := p.sheets[key]; s != nil {
		if s.run == nil {
			return nil, errNotPressed
		}
		return s, nil
	}
	if s := made[key]; s != nil {
		return s, nil // it is being made: a template may call itself
	}
	t := p.set.Lookup(name)
	if t == nil || t.Tree == nil || t.Tree.Root == nil || data == nil {
		return nil, fmt.Errorf("%w: template %q", errNotPressed, name)
	}
	s := &sheet{}
	made[key] = s
	c := &compiler{press: p, made: made, sheet: s, scope: []variable{{"$", 0, data}}}
	s.vars = 1
	run, err := c.list(t.Tree.Root, data)
	s.run = run
	return s, err
}

// A compiler makes one sheet.
type compiler struct {
	press *press
	made  map[sheetKey]*sheet
	sheet *sheet
	scope []variable
}

type variable struct {
	name string
	slot int
	typ  reflect.Type
}

// declare makes a place for a variable, which is in scope until the caller cuts
// the scope back.
func (c *compiler) declare(name string, typ reflect.Type) int {
	slot := c.sheet.vars
	c.sheet.vars++
	c.scope = append(c.scope, variable{name, slot, typ})
	return slot
}

func (c *compiler) list(l *tree.ListNode, dot reflect.Type) (step, error) {
	if l == nil {
		return func(*printing, reflect.Value) {}, nil
	}
	defer func(n int) { c.scope = c.scope[:n] }(len(c.scope))
	steps := make([]step, 0, len(l.Nodes))
	for _, n := range l.Nodes {
		s, err := c.node(n, dot)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	if len(steps) == 1 {
		return steps[0], nil
	}
	return func(p *printing, dot reflect.Value) {
		for _, s := range steps {
			s(p, dot)
		}
	}, nil
}

func (c *compiler) node(n tree.Node, dot reflect.Type) (step, error) {
	switch n := n.(type) {
	case *tree.TextNode:
		text := n.Text
		return func(p *printing, _ reflect.Value) { p.out = append(p.out, text...) }, nil
	case *tree.ActionNode:
		return c.action(n.Pipe, dot)
	case *tree.IfNode:
		return c.ifNode(n, dot)
	case *tree.WithNode:
		return c.with(n, dot)
	case *tree.RangeNode:
		return c.rangeNode(n, dot)
	case *tree.TemplateNode:
		return c.call(n, dot)
	}
	return nil, fmt.Errorf("%w: %s", errNotPressed, n)
}

// action is a value that is printed, or a variable that is declared.
func (c *compiler) action(pipe *tree.PipeNode, dot reflect.Type) (step, error) {
	if len(pipe.Decl) > 0 {
		if len(pipe.Decl) > 1 || pipe.IsAssign {
			return nil, fmt.Errorf("%w: %s", errNotPressed, pipe)
		}
		v, err := c.pipe(pipe, dot)
		if err != nil {
			return nil, err
		}
		slot := c.declare(pipe.Decl[0].Ident[0], v.typ)
		return func(p *printing, dot reflect.Value) { p.vars[p.base+slot] = v.eval(p, dot) }, nil
	}
	var names []string
	cmds := pipe.Cmds
	for len(cmds) > 1 {
		last := cmds[len(cmds)-1]
		id, ok := last.Args[0].(*tree.IdentifierNode)
		if !ok || len(last.Args) != 1 {
			return nil, fmt.Errorf("%w: %s", errNotPressed, pipe)
		}
		names = append([]string{id.Ident}, names...)
		cmds = cmds[:len(cmds)-1]
	}
	// Nothing is printed that html/template did not escape.
	escape, ok := escaperOf(names)
	if !ok || len(cmds) != 1 {
		return nil, fmt.Errorf("%w: %s", errNotPressed, pipe)
	}
	v, err := c.command(cmds[0], dot)
	if err != nil {
		return nil, err
	}
	return printed(v, names, escape, pipe)
}

// printed prints a value as html/template's stringify would say it.
func printed(v *value, names []string, escape func([]byte, string) []byte, pipe *tree.PipeNode) (step, error) {
	if v.text != nil {
		return func(p *printing, dot reflect.Value) { p.out = escape(p.out, v.text(p, dot)) }, nil
	}
	switch k := v.typ.Kind(); {
	case v.typ == reflect.TypeFor[safeHTML]() && len(names) == 1 && names[0] == htmlEscaper:
		return func(p *printing, dot reflect.Value) { p.out = append(p.out, v.eval(p, dot).String()...) }, nil
	case v.typ.PkgPath() == "html/template", v.typ.NumMethod() > 0, reflect.PointerTo(v.typ).NumMethod() > 0:
	case k == reflect.String:
		return func(p *printing, dot reflect.Value) { p.out = escape(p.out, v.eval(p, dot).String()) }, nil
	case v.typ.PkgPath() == "" && k >= reflect.Int && k <= reflect.Int64:
		// No escaper has anything to say about digits.
		return func(p *printing, dot reflect.Value) { p.out = strconv.AppendInt(p.out, v.eval(p, dot).Int(), 10) }, nil
	}
	return nil, fmt.Errorf("%w: %s of type %s", errNotPressed, pipe, v.typ)
}

func (c *compiler) ifNode(n *tree.IfNode, dot reflect.Type) (step, error) {
	if len(n.Pipe.Decl) > 0 {
		return nil, fmt.Errorf("%w: %s", errNotPressed, n)
	}
	when, err := c.condition(n.Pipe, dot)
	if err != nil {
		return nil, err
	}
	then, err1 := c.list(n.List, dot)
	other, err2 := c.list(n.ElseList, dot)
	return func(p *printing, dot reflect.Value) {
		if when(p, dot) {
			then(p, dot)
		} else {
			other(p, dot)
		}
	}, errors.Join(err1, err2)
}

func (c *compiler) with(n *tree.WithNode, dot reflect.Type) (step, error) {
	v, err := c.pipe(n.Pipe, dot)
	if err != nil {
		return nil, err
	}
	truth, err := truthOf(v.typ)
	if err != nil {
		return nil, err
	}
	defer func(n int) { c.scope = c.scope[:n] }(len(c.scope))
	slot := -1
	switch {
	case len(n.Pipe.Decl) == 1 && !n.Pipe.IsAssign:
		slot = c.declare(n.Pipe.Decl[0].Ident[0], v.typ)
	case len(n.Pipe.Decl) > 0:
		return nil, fmt.Errorf("%w: %s", errNotPressed, n)
	}
	then, err1 := c.list(n.List, v.typ)
	other, err2 := c.list(n.ElseList, dot)
	return func(p *printing, dot reflect.Value) {
		x := v.eval(p, dot)
		if slot >= 0 {
			p.vars[p.base+slot] = x
		}
		if truth(x) {
			then(p, x)
		} else {
			other(p, dot)
		}
	}, errors.Join(err1, err2)
}

func (c *compiler) rangeNode(n *tree.RangeNode, dot reflect.Type) (step, error) {
	v, err := c.pipe(n.Pipe, dot)
	if err != nil {
		return nil, err
	}
	if k := v.typ.Kind(); k != reflect.Slice && k != reflect.Array || n.Pipe.IsAssign || len(n.Pipe.Decl) > 2 {
		return nil, fmt.Errorf("%w: %s", errNotPressed, n)
	}
	defer func(n int) { c.scope = c.scope[:n] }(len(c.scope))
	index, elem := -1, -1
	switch d := n.Pipe.Decl; len(d) {
	case 1:
		elem = c.declare(d[0].Ident[0], v.typ.Elem())
	case 2:
		index = c.declare(d[0].Ident[0], reflect.TypeFor[int]())
		elem = c.declare(d[1].Ident[0], v.typ.Elem())
	}
	each, err1 := c.list(n.List, v.typ.Elem())
	other, err2 := c.list(n.ElseList, dot)
	return func(p *printing, dot reflect.Value) {
		all := v.eval(p, dot)
		count := all.Len()
		for i := range count {
			x := all.Index(i)
			if index >= 0 {
				p.vars[p.base+index] = reflect.ValueOf(i)
			}
			if elem >= 0 {
				p.vars[p.base+elem] = x
			}
			each(p, x)
		}
		if count == 0 {
			other(p, dot)
		}
	}, errors.Join(err1, err2)
}

// call runs another template.
func (c *compiler) call(n *tree.TemplateNode, dot reflect.Type) (step, error) {
	v := &value{typ: reflect.TypeFor[struct{}](), eval: func(*printing, reflect.Value) reflect.Value { return reflect.ValueOf(struct{}{}) }}
	if n.Pipe != nil {
		var err error
		if v, err = c.pipe(n.Pipe, dot); err != nil {
			return nil, err
		}
	}
	s, err := c.press.compile(c.made, n.Name, v.typ)
	if err != nil {
		return nil, err
	}
	caller := c.sheet
	return func(p *printing, dot reflect.Value) {
		x := v.eval(p, dot)
		before := p.base
		p.base += caller.vars
		for len(p.vars) < p.base+s.vars {
			p.vars = append(p.vars, reflect.Value{})
		}
		p.vars[p.base] = x
		s.run(p, x)
		p.base = before
	}, nil
}
