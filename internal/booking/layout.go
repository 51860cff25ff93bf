package booking

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"
)

// A style is how the people who keep the file write: the program's entries look
// like those around them.
type style struct {
	newline string
	unit    string // one step of indentation
	inline  bool   // entries on one line
}

func (r *reading) style(near ...*node) style {
	st := style{newline: "\n", unit: "  "}
	text := r.src.text
	if i := strings.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		st.newline = "\r\n"
	}
	if len(r.root.items) > 0 {
		if in, first := r.indent(int(r.root.items[0].key.start)); first && in != "" {
			st.unit = in
		}
	}
	near = append(near, r.root)
	for _, n := range near {
		if e := firstEntry(n, n == r.root); e != nil {
			st.inline = !strings.Contains(text[e.start:e.end], "\n")
			break
		}
	}
	return st
}

// firstEntry finds an entry with something in it below a node.
func firstEntry(n *node, outermost bool) *node {
	if n.kind == '{' && !outermost {
		for _, it := range n.items {
			if entryField(it.key.str) != "" {
				return n
			}
		}
	}
	for _, it := range n.items {
		if e := firstEntry(it.val, false); e != nil {
			return e
		}
	}
	return nil
}

// indent returns the white space at the beginning of the line of an offset, and
// whether there is nothing else before it.
func (r *reading) indent(off int) (indent string, first bool) {
	line := r.src.text[r.lineStart(off):off]
	trimmed := strings.TrimLeft(line, " \t")
	return line[:len(line)-len(trimmed)], trimmed == ""
}

func (r *reading) lineStart(off int) int {
	return strings.LastIndexByte(r.src.text[:off], '\n') + 1
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

// stamp writes a moment so that it reads back as the same one: in the zone of
// the file, and with its offset where that is not known to everybody, or where
// the clocks show it twice.
func (r *reading) stamp(t time.Time, end bool) string {
	t = t.In(r.zone)
	layout := "2006-01-02 15:04"
	if t.Second() != 0 {
		layout += ":05"
	}
	if _, offset := t.Zone(); r.offsets && offset%60 == 0 {
		return t.Format(layout + " -07:00")
	} else if r.offsets {
		return t.UTC().Format("2006-01-02T15:04:05Z")
	}
	s := t.Format(layout)
	if back, _, err := parseAbsolute(s, r.zone, end); err == nil && back.Equal(t) {
		return s
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// entryText writes an entry whose first line is indented already.
func (r *reading) entryText(b Booking, st style, indent string) string {
	var fields []string
	add := func(key, value string) { fields = append(fields, jsonText(key)+": "+value) }
	add("name", jsonText(b.Name))
	if !b.From.IsZero() {
		add("from", jsonText(r.stamp(b.From, false)))
	}
	if !b.Until.IsZero() {
		add("date", jsonText(r.stamp(b.Until, true)))
	}
	if b.Comment != "" {
		add("comment", jsonText(b.Comment))
	}
	if b.Kind == Maintenance {
		add("kind", jsonText(string(b.Kind)))
	}
	if b.By != "" {
		add("by", jsonText(b.By))
	}
	if b.ID != "" {
		add("id", jsonText(b.ID))
	}
	if b.Forced {
		add("forced", "true")
	}
	if st.inline {
		return "{ " + strings.Join(fields, ", ") + " }"
	}
	inner := st.newline + indent + st.unit
	return "{" + inner + strings.Join(fields, ","+inner) + st.newline + indent + "}"
}

// add finds the place for a booking, and says what to write there.
func (r *reading) add(b Booking) ([]splice, error) {
	host := r.hosts[b.Host]
	if host == nil {
		st := r.style()
		if r.root.kind == '[' { // PHP's empty object
			return []splice{{int(r.root.start), int(r.root.end), "{" + st.newline + st.unit + r.hostText(b, st, st.unit) + st.newline + "}"}}, nil
		}
		return r.insert(r.root, st, func(indent string) string { return r.hostText(b, st, indent) }), nil
	}
	st := r.style(host)
	if value := r.slots[slot{b.Host, b.Target}]; value != nil {
		return r.addToSlot(value, b, st)
	}
	entry := func(indent string) string { return r.entryText(b, st, indent) }
	keyed := func(indent string) string { return jsonText(b.Target.String()) + ": " + entry(indent) }
	switch {
	case host.kind == 'n':
		indent, _ := r.indent(int(host.start))
		return []splice{{int(host.start), int(host.end), r.wrapped(st, indent, keyed)}}, nil
	case host.kind == '{':
		return r.insert(host, st, keyed), nil
	case host.kind == '[' && !b.Target.All && b.Target.UUID == "":
		missing := b.Target.Index - len(host.items)
		return r.insert(host, st, func(indent string) string {
			pad := "{}," + st.newline + indent
			if st.inline {
				pad = "{}, "
			}
			return strings.Repeat(pad, missing) + entry(indent)
		}), nil
	case host.kind == '[':
		// A list has no place for "*" or a UUID: give its elements their keys.
		splices := []splice{{int(host.start), int(host.start) + 1, "{"}}
		for i, it := range host.items {
			splices = append(splices, splice{int(it.val.start), int(it.val.start), jsonText(itoa(i)) + ": "})
		}
		splices = append(splices, r.insert(host, st, keyed)...)
		splices = append(splices, splice{int(host.end) - 1, int(host.end), "}"})
		return joined(splices), nil
	}
	line, col := r.src.position(int(host.start))
	return nil, fmt.Errorf("%w: comments.json:%d:%d: what stands behind %s is neither a list nor a dictionary", ErrBroken, line, col, quote(b.Host))
}

// joined puts splices in order and makes one of those at the same place.
func joined(splices []splice) []splice {
	if len(splices) == 0 {
		return nil
	}
	sort.SliceStable(splices, func(i, j int) bool { return splices[i].start < splices[j].start })
	out := splices[:1]
	for _, s := range splices[1:] {
		if last := &out[len(out)-1]; s.start == last.end && (last.start == last.end || s.start == s.end) {
			last.end, last.text = s.end, last.text+s.text
			continue
		}
		out = append(out, s)
	}
	return out
}

func (r *reading) hostText(b Booking, st style, indent string) string {
	return jsonText(b.Host) + ": " + r.wrapped(st, indent, func(inner string) string {
		return jsonText(b.Target.String()) + ": " + r.entryText(b, st, inner)
	})
}

// wrapped is an object with one member on lines of its own.
func (r *reading) wrapped(st style, indent string, member func(indent string) string) string {
	return "{" + st.newline + indent + st.unit + member(indent+st.unit) + st.newline + indent + "}"
}

// addToSlot adds a booking where the GPU has a place already.
func (r *reading) addToSlot(value *node, b Booking, st style) ([]splice, error) {
	entry := func(indent string) string { return r.entryText(b, st, indent) }
	text := r.src.text[value.start:value.end]
	switch {
	case value.kind == 'n', value.kind == '{' && strings.TrimSpace(text[1:len(text)-1]) == "":
		indent, _ := r.indent(int(value.start))
		return []splice{{int(value.start), int(value.end), entry(indent)}}, nil
	case value.kind == '[':
		return r.insert(value, st, entry), nil
	case value.kind == '{':
		indent, _ := r.indent(int(value.start))
		return []splice{
			{int(value.start), int(value.start), "["},
			{int(value.end), int(value.end), ", " + entry(indent) + "]"},
		}, nil
	}
	line, col := r.src.position(int(value.start))
	return nil, fmt.Errorf("%w: comments.json:%d:%d: what stands at GPU %s is no entry", ErrBroken, line, col, b.Target)
}

// insert puts a new item behind the last one of a list or object. Comments that
// end the last item's line stay with it.
func (r *reading) insert(n *node, st style, item func(indent string) string) []splice {
	text := r.src.text
	start, end := int(n.start), int(n.end)-1 // end is where the closing bracket stands
	outer, _ := r.indent(start)
	multiline := strings.Contains(text[start:end], "\n")
	if len(n.items) == 0 {
		inner := outer + st.unit
		if closing, first := r.indent(end); multiline && first {
			// Behind whatever comments there are, on a line of its own.
			at := end - len(closing)
			return []splice{{at, at, inner + item(inner) + st.newline}}
		}
		if strings.TrimSpace(text[start+1:end]) != "" { // a comment in one line
			return []splice{{end, end, " " + item(outer)}}
		}
		if st.inline && n != r.root {
			return []splice{{start + 1, end, item(outer)}}
		}
		return []splice{{start + 1, end, st.newline + inner + item(inner) + st.newline + outer}}
	}
	last := n.items[len(n.items)-1]
	at, comma := int(last.val.end), last.comma >= 0
	if comma {
		at = int(last.comma) + 1
	}
	begin := int(last.val.start)
	if last.key != nil {
		begin = int(last.key.start)
	}
	inner, own := r.indent(begin)
	eol, alone := r.restOfLine(at, end)
	if !own && len(n.items) == 1 && multiline {
		inner = outer + st.unit
	}
	if !alone || !multiline {
		trail := ""
		if comma {
			trail = ","
		}
		if comma {
			return []splice{{at, at, " " + item(inner) + trail}}
		}
		return []splice{{at, at, ", " + item(outerOr(inner, own, outer))}}
	}
	if comma {
		return []splice{{eol, eol, st.newline + inner + item(inner) + ","}}
	}
	return joined([]splice{{at, at, ","}, {eol, eol, st.newline + inner + item(inner)}})
}

func outerOr(inner string, own bool, outer string) string {
	if own {
		return inner
	}
	return outer
}

// restOfLine returns where the line of an offset ends, and whether nothing but
// white space and comments stand before that. A block comment that spans lines
// is passed whole.
func (r *reading) restOfLine(off, limit int) (eol int, alone bool) {
	text := r.src.text
	for i := off; i < limit; {
		switch {
		case text[i] == '\n':
			if i > off && text[i-1] == '\r' {
				return i - 1, true
			}
			return i, true
		case strings.HasPrefix(text[i:], "//"):
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				return off, false
			}
			i += n
		case strings.HasPrefix(text[i:], "/*"):
			n := strings.Index(text[i+2:], "*/")
			if n < 0 {
				return off, false
			}
			i += n + 4
		case text[i] == ' ' || text[i] == '\t' || text[i] == '\r':
			i++
		default:
			return off, false
		}
	}
	return off, false
}
