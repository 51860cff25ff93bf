package booking

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// A style is the layout of the entries around a new one.
type style struct {
	newline string
	unit    string // one step of indentation
	inline  bool   // entries on one line
}

// style looks for entries in near first, then in the whole file.
func (r *reading) style(near *hujson.Value) style {
	st := style{newline: "\n", unit: "  "}
	text := r.doc.text
	if line, _, _ := strings.Cut(text, "\n"); strings.HasSuffix(line, "\r") {
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
	return ok &&
		slices.ContainsFunc(object.Members, func(m hujson.ObjectMember) bool { return entryField(text(&m.Name)) != "" })
}

// indent returns the white space that begins the line of an offset, and whether nothing else precedes it.
func (r *reading) indent(off int) (indent string, first bool) {
	before := r.doc.text[:off]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	trimmed := strings.TrimLeft(line, " \t")
	return line[:len(line)-len(trimmed)], trimmed == ""
}

// jsonText is a text in quotes, as it stands in the file. (The literal's own String method returns it without them.)
func jsonText(s string) string { return string(hujson.String(s)) }

// stamp writes a time so that it reads back as the same one: in the zone of the file,
// and with its offset where that is not known to everybody, or where clocks show the
// time twice. It is "" for the zero time.
func (r *reading) stamp(t time.Time, end bool) string {
	if t.IsZero() {
		return ""
	}
	t = t.In(r.zone.Location)
	layout := "2006-01-02 15:04"
	if t.Second() != 0 {
		layout += ":05"
	}
	_, offset := t.Zone()
	if r.zone.Offsets && offset%60 == 0 {
		return t.Format(layout + " -07:00")
	}
	s := t.Format(layout)
	if back, _, err := parseAbsolute(s, r.zone.Location, end); err == nil && back.Equal(t) && !r.zone.Offsets {
		return s
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// entryText writes an entry, for [style.place].
func (r *reading) entryText(b Booking, st style) string {
	fields := []string{`"name": ` + jsonText(b.Name)}
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, jsonText(key)+": "+jsonText(value))
		}
	}
	add("from", r.stamp(b.From, false))
	add("date", r.stamp(b.Until, true))
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
	if booksHost(host) {
		all := Target{All: true, Index: -1}
		name := hujson.Value{Value: hujson.String(all.String())}
		object := &hujson.Object{Members: []hujson.ObjectMember{{Name: name,
			Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: host.Value}}}}
		object.Members[0].Name.StartOffset, object.Members[0].Value.StartOffset = host.StartOffset, host.StartOffset
		host.Value = object
		r.slots[slot{b.Host, all}] = &object.Members[0].Value
	}
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
	return fmt.Errorf("%w: comments.json:%d:%d: the value of %s is neither a list nor a dictionary", ErrBroken, line,
		col, quote(b.Host))
}

// keyed is a list of GPUs as a dictionary.
func keyed(list *hujson.Array) *hujson.Object {
	object := &hujson.Object{AfterExtra: list.AfterExtra}
	for i, v := range list.Elements {
		name := hujson.Value{BeforeExtra: v.BeforeExtra, Value: hujson.String(strconv.Itoa(i)),
			StartOffset: v.StartOffset}
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
			v.Value = &hujson.Array{Elements: []hujson.Value{{Value: value},
				{BeforeExtra: hujson.Extra(" "), Value: placed}}}
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
