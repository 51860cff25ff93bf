package booking

import (
	"strings"
	"time"
)

// setDate gives an entry another end. It keeps the place of the old one.
func (r *reading) setDate(entry *node, until time.Time) []splice {
	text := ""
	if !until.IsZero() {
		text = r.stamp(until, true)
	}
	for i := len(entry.items) - 1; i >= 0; i-- {
		if it := entry.items[i]; entryField(it.key.str) == "date" {
			return []splice{{int(it.val.start), int(it.val.end), jsonText(text)}}
		}
	}
	return r.insert(entry, r.style(entry), func(string) string { return `"date": ` + jsonText(text) })
}

// remove takes entries out of the file. An entry that is a GPU's only one
// leaves an empty entry in its place, so that no other GPU moves; from a list
// of entries it goes whole.
func (r *reading) remove(gone map[*node]bool) []splice {
	var splices []splice
	var within func(n *node, depth int)
	within = func(n *node, depth int) {
		if depth == 3 && n.kind == '[' {
			splices = append(splices, r.removeItems(n, gone)...)
			return
		}
		for _, it := range n.items {
			if gone[it.val] {
				splices = append(splices, splice{int(it.val.start), int(it.val.end), "{}"})
			} else if depth < 3 {
				within(it.val, depth+1)
			}
		}
	}
	within(r.root, 1)
	return joined(splices)
}

// removeItems takes elements out of a list together with their commas, and the
// lines that would be left empty.
func (r *reading) removeItems(n *node, gone map[*node]bool) []splice {
	if len(n.items) == 0 {
		return nil
	}
	var splices []splice
	kept := -1
	for i, it := range n.items {
		if !gone[it.val] {
			kept = i
			continue
		}
		start, end := int(it.val.start), int(it.val.end)
		switch {
		case it.comma < 0:
			splices = append(splices, r.wholeLines(start, end))
		case strings.TrimSpace(r.src.text[end:it.comma]) == "":
			splices = append(splices, r.wholeLines(start, int(it.comma)+1))
		default: // a comment stands between: keep it
			splices = append(splices, splice{start, end, ""}, splice{int(it.comma), int(it.comma) + 1, ""})
		}
	}
	last := n.items[len(n.items)-1]
	if gone[last.val] && last.comma < 0 && kept >= 0 {
		// The last one had no comma behind it, so the new last one has none.
		comma := int(n.items[kept].comma)
		splices = append(splices, splice{comma, comma + 1, ""})
	}
	return splices
}

// wholeLines extends a stretch that is to be deleted to the lines that hold
// nothing else, or to one blank beside it.
func (r *reading) wholeLines(start, end int) splice {
	text := r.src.text
	indent, first := r.indent(start)
	rest := text[end:]
	blank := len(rest) - len(strings.TrimLeft(rest, " \t\r"))
	if first && strings.HasPrefix(rest[blank:], "\n") {
		return splice{start - len(indent), end + blank + 1, ""}
	}
	if strings.HasPrefix(rest, " ") {
		end++
	}
	return splice{start, end, ""}
}
