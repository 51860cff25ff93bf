package booking

import (
	"bytes"
	"strings"

	"github.com/tailscale/hujson"
)

// A tail is the end of a list or an object.
type tail struct {
	after  *hujson.Extra // white space and comments before the closing bracket
	last   *hujson.Value // nil if there is no item
	start  int           // the offset of the last item
	single bool          // there is one item
}

func tailOf(v *hujson.Value) (t tail) {
	switch container := v.Value.(type) {
	case *hujson.Array:
		t.after = &container.AfterExtra
		if n := len(container.Elements); n > 0 {
			last := &container.Elements[n-1]
			t.last, t.start, t.single = last, last.StartOffset, n == 1
		}
	case *hujson.Object:
		t.after = &container.AfterExtra
		if n := len(container.Members); n > 0 {
			last := &container.Members[n-1]
			t.last, t.start, t.single = &last.Value, last.Name.StartOffset, n == 1
		}
	}
	return t
}

// insert puts items behind the last one. A comment that ends the line of that one stays with it.
func (r *reading) insert(v *hujson.Value, st style, key string, items ...string) {
	outer, _ := r.indent(v.StartOffset)
	end := tailOf(v)
	var before, inner string
	var trailing hujson.Extra // not nil if a comma follows the last item
	if end.last == nil {
		before, inner = st.first(end.after, outer, v == r.doc.root)
	} else {
		if end.last.AfterExtra != nil {
			trailing = hujson.Extra{}
		}
		indent, alone := r.indent(end.start)
		before, inner = " ", indent
		if line, rest, ok := cutLine(string(*end.after)); ok {
			if !alone && end.single {
				inner = outer + st.unit
			}
			before, *end.after = line+st.newline+inner, hujson.Extra(rest)
		}
	}
	for i, item := range items {
		value := hujson.Value{BeforeExtra: hujson.Extra(before), Value: st.place(item, inner)}
		if i == len(items)-1 {
			value.AfterExtra = trailing
		}
		if before = " "; !st.inline {
			before = st.newline + inner
		}
		switch container := v.Value.(type) {
		case *hujson.Array:
			container.Elements = append(container.Elements, value)
		case *hujson.Object:
			name := hujson.Value{BeforeExtra: value.BeforeExtra, Value: hujson.String(key)}
			value.BeforeExtra = hujson.Extra(" ")
			container.Members = append(container.Members, hujson.ObjectMember{Name: name, Value: value})
		}
	}
}

// first places the first item: it returns the text before it and the indentation of its further lines.
func (st style) first(after *hujson.Extra, outer string, outermost bool) (before, inner string) {
	between := string(*after)
	inner = outer + st.unit
	line := strings.LastIndexByte(between, '\n') + 1
	switch {
	case line > 0 && strings.TrimLeft(between[line:], " \t") == "":
		// Behind the comments there, on a line of its own.
		*after = hujson.Extra(st.newline + between[line:])
		return between[:line] + inner, inner
	case strings.TrimSpace(between) != "": // a comment
		*after = nil
		return between + " ", outer
	case st.inline && !outermost:
		*after = nil
		return "", outer
	}
	*after = hujson.Extra(st.newline + outer)
	return st.newline + inner, inner
}

// cutLine cuts white space and comments at the first end of a line that is not within a comment.
func cutLine(extra string) (line, rest string, ok bool) {
	for i := 0; i < len(extra); i++ {
		switch {
		case extra[i] == '\n':
			if i > 0 && extra[i-1] == '\r' {
				i--
			}
			return extra[:i], extra[i:], true
		case strings.HasPrefix(extra[i:], "//"):
			i += strings.IndexByte(extra[i:], '\n') - 1
		case strings.HasPrefix(extra[i:], "/*"):
			i += 2 + strings.Index(extra[i+2:], "*/") + 1
		}
	}
	return "", "", false
}

// set gives a field of an entry another value.
func (r *reading) set(entry *hujson.Value, field, value string) {
	literal := hujson.String(value)
	members := entry.Value.(*hujson.Object).Members
	for i := len(members) - 1; i >= 0; i-- {
		if entryField(text(&members[i].Name)) == field {
			members[i].Value.Value = literal
			return
		}
	}
	r.insert(entry, r.style(entry), field, string(literal))
}

// remove takes entries out of the file. An entry that is a GPU's only one leaves an
// empty entry in its place, so that no other GPU gets its index; from a list of
// entries it goes whole.
func (r *reading) remove(gone map[*hujson.Value]bool) {
	visit := func(v *hujson.Value) {
		if gone[v] {
			v.Value = &hujson.Object{}
		} else if list, ok := v.Value.(*hujson.Array); ok {
			removeElements(list, gone)
		}
	}
	hosts := r.doc.root.Value.(*hujson.Object).Members
	for i := range hosts {
		if gone[&hosts[i].Value] {
			hosts[i].Value.Value = &hujson.Object{}
		}
		switch host := hosts[i].Value.Value.(type) {
		case *hujson.Array:
			for i := range host.Elements {
				visit(&host.Elements[i])
			}
		case *hujson.Object:
			for i := range host.Members {
				visit(&host.Members[i].Value)
			}
		}
	}
}

// removeElements takes elements out with their commas and the lines left empty. Comments stay.
func removeElements(list *hujson.Array, gone map[*hujson.Value]bool) {
	var kept []hujson.Value
	var left hujson.Extra // the white space and comments of removed elements
	comma := false        // whether one follows the last element
	for i := range list.Elements {
		v := &list.Elements[i]
		comma = v.AfterExtra != nil && i == len(list.Elements)-1
		if gone[v] {
			left = join(left, append(bytes.Clone(v.BeforeExtra), v.AfterExtra...))
			continue
		}
		v.BeforeExtra, left = join(left, v.BeforeExtra), nil
		kept = append(kept, *v)
	}
	list.Elements = kept
	list.AfterExtra = join(left, list.AfterExtra)
	if len(kept) == 0 {
		return
	}
	last := &kept[len(kept)-1]
	switch {
	case comma && last.AfterExtra == nil:
		last.AfterExtra = hujson.Extra{}
	case !comma:
		list.AfterExtra, last.AfterExtra = append(bytes.Clone(last.AfterExtra), list.AfterExtra...), nil
	}
}

// join makes white space and comments of those before and behind a removed element.
func join(before, behind hujson.Extra) hujson.Extra {
	blank := func(extra hujson.Extra) bool { return len(bytes.TrimSpace(extra)) == 0 }
	switch {
	case blank(before) && blank(behind):
		return behind
	case blank(before) && len(before) > 0:
		behind = bytes.TrimLeft(behind, " \t")
	case blank(behind) && bytes.Contains(behind, []byte("\n")):
		before = bytes.TrimRight(before, " \t\r\n")
	}
	return append(bytes.Clone(before), behind...)
}
