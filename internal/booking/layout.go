package booking

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// A style is how the people who keep the file write: the program's entries look
// like those around them.
type style struct {
	newline string
	unit    string // one step of indentation
	inline  bool   // entries on one line
}

// style looks for entries in near first, then in the whole file.
func (r *reading) style(near *hujson.Value) style {
	st := style{newline: "\n", unit: "  "}
	text := r.doc.text
	if i := strings.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		st.newline = "\r\n"
	}
	if root, ok := r.doc.root.Value.(*hujson.Object); ok && len(root.Members) > 0 {
		if in, first := r.indent(root.Members[0].Name.StartOffset); first && in != "" {
			st.unit = in
		}
	}
	for _, v := range []*hujson.Value{near, r.doc.root} {
		for below := range v.All() {
			if isEntry(below) && below != r.doc.root {
				st.inline = !strings.Contains(text[below.StartOffset:below.EndOffset], "\n")
				return st
			}
		}
	}
	return st
}

// place gives the lines of a new value, which end in "\n", their indentation.
func (st style) place(value, indent string) hujson.Literal {
	return hujson.Literal(strings.ReplaceAll(value, "\n", st.newline+indent))
}

// isEntry reports whether a value is an entry with something in it.
func isEntry(v *hujson.Value) bool {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return false
	}
	for i := range object.Members {
		if entryField(text(&object.Members[i].Name)) != "" {
			return true
		}
	}
	return false
}

// indent returns the white space at the beginning of the line of an offset, and
// whether there is nothing else before it.
func (r *reading) indent(off int) (indent string, first bool) {
	before := r.doc.text[:off]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	trimmed := strings.TrimLeft(line, " \t")
	return line[:len(line)-len(trimmed)], trimmed == ""
}

func jsonText(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// stamp writes a time so that it reads back as the same one: in the zone of the file,
// and with its offset where that is not known to everybody, or where clocks show the
// time twice.
func (r *reading) stamp(t time.Time, end bool) string {
	t = t.In(r.zone)
	layout := "2006-01-02 15:04"
	if t.Second() != 0 {
		layout += ":05"
	}
	_, offset := t.Zone()
	if r.offsets && offset%60 == 0 {
		return t.Format(layout + " -07:00")
	}
	s := t.Format(layout)
	if back, _, err := parseAbsolute(s, r.zone, end); err == nil && back.Equal(t) && !r.offsets {
		return s
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// entryText writes an entry, for [style.place].
func (r *reading) entryText(b Booking, st style) string {
	var fields []string
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, jsonText(key)+": "+jsonText(value))
		}
	}
	fields = append(fields, `"name": `+jsonText(b.Name))
	if !b.From.IsZero() {
		add("from", r.stamp(b.From, false))
	}
	if !b.Until.IsZero() {
		add("date", r.stamp(b.Until, true))
	}
	add("comment", b.Comment)
	if b.Kind == Maintenance {
		add("kind", string(b.Kind))
	}
	add("by", b.By)
	add("id", b.ID)
	if b.Forced {
		fields = append(fields, `"forced": true`)
	}
	if st.inline {
		return "{ " + strings.Join(fields, ", ") + " }"
	}
	return "{\n" + st.unit + strings.Join(fields, ",\n"+st.unit) + "\n}"
}

// objectText is an object with one member, for [style.place].
func objectText(st style, key, value string) string {
	return "{\n" + st.unit + jsonText(key) + ": " + strings.ReplaceAll(value, "\n", "\n"+st.unit) + "\n}"
}

// add puts a booking into the tree.
func (r *reading) add(b Booking) error {
	key := b.Target.String()
	host := r.hosts[b.Host]
	if host == nil {
		st := r.style(r.doc.root)
		value := objectText(st, key, r.entryText(b, st))
		if r.doc.root.Value.Kind() == '[' { // PHP's empty object
			r.doc.root.Value = st.place(objectText(st, b.Host, value), "")
			return nil
		}
		r.insert(r.doc.root, st, b.Host, value)
		return nil
	}
	st := r.style(host)
	entry := r.entryText(b, st)
	if v := r.slots[slot{b.Host, b.Target}]; v != nil {
		return r.addToSlot(v, st, b.Target, entry)
	}
	switch value := host.Value.(type) {
	case *hujson.Object:
		r.insert(host, st, key, entry)
		return nil
	case *hujson.Array:
		if b.Target.All || b.Target.UUID != "" {
			// A list has no place for "*" or a UUID.
			host.Value = keyed(value)
			r.insert(host, st, key, entry)
			return nil
		}
		missing := slices.Repeat([]string{"{}"}, b.Target.Index-len(value.Elements))
		r.insert(host, st, "", append(missing, entry)...)
		return nil
	}
	if host.Value.Kind() == 'n' {
		indent, _ := r.indent(host.StartOffset)
		host.Value = st.place(objectText(st, key, entry), indent)
		return nil
	}
	line, col := r.doc.position(host.StartOffset)
	return fmt.Errorf("%w: comments.json:%d:%d: the value of %s is neither a list nor a dictionary", ErrBroken, line, col, quote(b.Host))
}

// keyed is a list of GPUs as a dictionary.
func keyed(list *hujson.Array) *hujson.Object {
	object := &hujson.Object{AfterExtra: list.AfterExtra}
	for i, v := range list.Elements {
		name := hujson.Value{BeforeExtra: v.BeforeExtra, Value: hujson.Literal(jsonText(strconv.Itoa(i))), StartOffset: v.StartOffset}
		v.BeforeExtra = hujson.Extra(" ")
		object.Members = append(object.Members, hujson.ObjectMember{Name: name, Value: v})
	}
	return object
}

// addToSlot adds an entry where the GPU has a place already.
func (r *reading) addToSlot(v *hujson.Value, st style, target Target, entry string) error {
	indent, _ := r.indent(v.StartOffset)
	placed := st.place(entry, indent)
	switch value := v.Value.(type) {
	case *hujson.Array:
		r.insert(v, st, "", entry)
		return nil
	case *hujson.Object:
		v.Value = placed
		if len(value.Members) > 0 || strings.TrimSpace(string(value.AfterExtra)) != "" {
			v.Value = &hujson.Array{Elements: []hujson.Value{{Value: value}, {BeforeExtra: hujson.Extra(" "), Value: placed}}}
		}
		return nil
	}
	if v.Value.Kind() == 'n' {
		v.Value = placed
		return nil
	}
	line, col := r.doc.position(v.StartOffset)
	return fmt.Errorf("%w: comments.json:%d:%d: the value of GPU %s is no entry", ErrBroken, line, col, target)
}

// A tail is the end of a list or an object.
type tail struct {
	after  *hujson.Extra // white space and comments before the closing bracket
	last   *hujson.Value // nil if there is no item
	start  int           // the offset of the last item
	single bool          // there is one item
}

func tailOf(v *hujson.Value) tail {
	switch container := v.Value.(type) {
	case *hujson.Array:
		if n := len(container.Elements); n > 0 {
			last := &container.Elements[n-1]
			return tail{&container.AfterExtra, last, last.StartOffset, n == 1}
		}
		return tail{after: &container.AfterExtra}
	case *hujson.Object:
		if n := len(container.Members); n > 0 {
			last := &container.Members[n-1]
			return tail{&container.AfterExtra, &last.Value, last.Name.StartOffset, n == 1}
		}
		return tail{after: &container.AfterExtra}
	}
	return tail{after: new(hujson.Extra)}
}

// insert puts new items behind the last one of a list or an object; a key is for
// objects. A comment that ends the line of the last item stays with it.
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
			name := hujson.Value{BeforeExtra: value.BeforeExtra, Value: hujson.Literal(jsonText(key))}
			value.BeforeExtra = hujson.Extra(" ")
			container.Members = append(container.Members, hujson.ObjectMember{Name: name, Value: value})
		}
	}
}

// first places the first item between two brackets: it returns what stands before
// the item, and the indentation of its further lines.
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

// cutLine cuts white space and comments at the first end of a line that is not
// within a comment.
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

// setDate gives an entry another end.
func (r *reading) setDate(entry *hujson.Value, until time.Time) {
	date := `""`
	if !until.IsZero() {
		date = jsonText(r.stamp(until, true))
	}
	members := entry.Value.(*hujson.Object).Members
	for i := len(members) - 1; i >= 0; i-- {
		if entryField(text(&members[i].Name)) == "date" {
			members[i].Value.Value = hujson.Literal(date)
			return
		}
	}
	r.insert(entry, r.style(entry), "date", date)
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

// removeElements takes elements out of a list together with their commas, and the
// lines that would be left empty. Comments stay.
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
