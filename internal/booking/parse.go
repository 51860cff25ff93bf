package booking

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"gpuboard/internal/snapshot"
)

// The limits of comments.json.
const (
	MaxFileBytes    = 4 << 20
	MaxBookings     = 100_000
	MaxProblems     = 200 // then one more that says how many there were
	MaxNameBytes    = 128
	MaxCommentBytes = 2000
	MaxIDBytes      = 64
	MinYear         = 1970
	MaxYear         = 2199
)

// Unreadable is the name in a booking that cannot be read in full. It holds what it may mean, a
// GPU or its whole host, until somebody corrects it.
const Unreadable = "?"

// Options are optional facts for the reader of the file.
type Options struct {
	// Aliases map the written names to canonical ones.
	Aliases Aliases
	// Now, if not zero, leaves overlaps that are over by then out of the problems.
	Now time.Time
}

// Parse reads comments.json. The file's name goes into the problems; zone says how
// times are written. What cannot be understood becomes a problem with line and column,
// and the rest counts. After an error of syntax [Calendar.Broken] is true, and the
// calendar has the bookings of the hosts before the mistake.
func Parse(name string, data []byte, zone Zone, opts Options) *Calendar {
	return read(name, data, zone, opts).cal
}

// A slot is the place in the file that belongs to one target on one host.
type slot struct {
	host   string
	target Target
}

// A found booking is one together with the value that it was read from.
type found struct {
	Booking
	entry *hujson.Value
}

// A reading is the outcome of reading a file.
type reading struct {
	doc  *document // nil if the file is too large or no text
	cal  *Calendar
	zone Zone
	opts Options

	found []*found
	hosts map[string]*hujson.Value // the value that counts for a host
	slots map[slot]*hujson.Value   // the value that counts for a target
	ids   map[string]int           // by ID: index in found
	same  map[string]int           // by derived ID that is taken: how many bookings have asked for it since
	full  bool                     // there are more bookings than are read
	more  bool                     // there are more problems than are reported
}

func read(name string, data []byte, zone Zone, opts Options) *reading {
	zone.Location = cmp.Or(zone.Location, time.UTC)
	r := &reading{
		zone: zone, opts: opts, cal: &Calendar{File: filepath.Base(name)},
		hosts: map[string]*hujson.Value{}, slots: map[slot]*hujson.Value{},
	}
	if len(data) > MaxFileBytes {
		r.fail("booking:toolarge", 0, "the file has %d KiB, and %d KiB are read: move old bookings into another file",
			len(data)>>10, MaxFileBytes>>10)
		return r
	}
	doc, err := decode(data)
	if err != nil {
		r.fail("booking:encoding", 0, "%v", err)
		return r
	}
	r.doc = doc
	if off, mistake := doc.parse(); mistake != "" {
		r.fail("booking:syntax", off, "%s", mistake)
	}
	if doc.root == nil {
		return r
	}
	r.document()
	r.finish()
	return r
}

// blank reports whether the file has only white space and comments, or does not exist.
func (r *reading) blank() bool { return !r.cal.Broken && r.doc.root == nil }

// fail reports the problem for which the calendar is broken. It is the first.
func (r *reading) fail(code string, off int, format string, args ...any) {
	r.cal.Broken = true
	r.problem(code, off, format, args...)
}

// problem adds a problem at an offset, up to the bound.
func (r *reading) problem(code string, off int, format string, args ...any) *snapshot.Problem {
	if len(r.cal.Problems) >= MaxProblems {
		r.more = true
		return &snapshot.Problem{}
	}
	line, col := 1, 1
	if r.doc != nil {
		line, col = r.doc.position(off)
	}
	message := fmt.Sprintf(format, args...)
	r.cal.Problems = append(r.cal.Problems,
		snapshot.Problem{Code: code, Message: message, File: r.cal.File, Line: line, Col: col})
	return &r.cal.Problems[len(r.cal.Problems)-1]
}

// hostProblem is problem with the host, and with the GPU where one is booked by index.
func (r *reading) hostProblem(code string, v *hujson.Value, s slot, format string, args ...any) {
	p := r.problem(code, v.StartOffset, format, args...)
	p.Host = s.host
	if s.target.Index >= 0 && !s.target.All && s.target.UUID == "" {
		p.GPU = new(s.target.Index)
	}
}

// document reads the outermost object: hosts.
func (r *reading) document() {
	root := r.doc.root
	if list, ok := root.Value.(*hujson.Array); ok && len(list.Elements) == 0 && !r.cal.Broken {
		return // what PHP writes for an object with nothing in it
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		if !r.cal.Broken {
			r.fail("booking:type", root.StartOffset, `the bookings are an object: { "host": [ … ] }`)
		}
		return
	}
	keys := make([]string, len(object.Members))
	for i := range object.Members {
		keys[i], _ = snapshot.ParseHost(strings.TrimSpace(text(&object.Members[i].Name)))
	}
	r.twice(object, keys, "host", "other programs see only the last one, so put them together")
	for i := range object.Members {
		if keys[i] != "" {
			r.hosts[keys[i]] = &object.Members[i].Value
			r.host(keys[i], &object.Members[i].Value)
		}
	}
	for i := range object.Members { // last, so that they cannot use up the bound of bookings
		if keys[i] == "" {
			r.oddHost(&object.Members[i].Name, &object.Members[i].Value)
		}
	}
}

// text is what a string of the file stands for; "" for other values.
func text(v *hujson.Value) string {
	if v == nil {
		return ""
	}
	literal, ok := v.Value.(hujson.Literal)
	if !ok || literal.Kind() != '"' {
		return ""
	}

	plain := literal[1 : len(literal)-1]
	for _, field := range fields() {
		if string(plain) == field { // most of the texts of a large file, without a copy of each
			return field
		}
	}
	if utf8.Valid(plain) && bytes.IndexByte(plain, '\\') < 0 { // there is nothing to decode
		return string(plain)
	}
	return literal.String()
}

// twice reports the members whose key comes again: for other JSON readers the last one
// counts. Of a host or GPU that is there twice all entries count.
func (r *reading) twice(object *hujson.Object, keys []string, what, hint string) {
	last := map[string]int{}
	for i, key := range keys {
		if key == "" {
			continue
		}
		if first, again := last[key]; again {
			line, _ := r.doc.position(object.Members[i].Name.StartOffset)
			r.problem("booking:duplicate", object.Members[first].Name.StartOffset,
				"the %s %s is here and again in line %d: %s", what, quote(key), line, hint)
		}
		last[key] = i
	}
}

// host reads the value of a host.
func (r *reading) host(host string, v *hujson.Value) {
	whole := slot{host, Target{All: true, Index: -1}}
	switch value := v.Value.(type) {
	case *hujson.Array:
		for i := range value.Elements {
			if i >= snapshot.MaxGPUs {
				r.hostProblem("booking:gpu", &value.Elements[i], whole,
					"a host has at most %d GPUs: this element and those after it do not count", snapshot.MaxGPUs)
				return
			}
			one := slot{host, Target{Index: i}}
			r.slots[one] = &value.Elements[i]
			r.slot(one, &value.Elements[i])
		}
	case *hujson.Object:
		if booksHost(v) {
			r.entry(whole, v)
		} else {
			r.dictionary(whole, value)
		}
	default:
		if value.Kind() != 'n' {
			r.unreadable(v, whole,
				fmt.Sprintf(`the value of the host %s has to be a list [ … ] or a dictionary { "0": … }`, quote(host)))
		}
	}
}

// booksHost reports whether the value of a host is an entry, which is for the whole host.
func booksHost(v *hujson.Value) bool {
	object, ok := v.Value.(*hujson.Object)
	return ok && isEntry(v) && !slices.ContainsFunc(object.Members, func(m hujson.ObjectMember) bool {
		_, err := parseTargets(text(&m.Name))
		return err == nil
	})
}

// dictionary reads the GPUs of a host. The bookings of a key that names no GPU hold what it may mean.
func (r *reading) dictionary(whole slot, object *hujson.Object) {
	keys := make([]string, len(object.Members))
	stray := false // whether a message says that fields of an entry stand where GPUs have to
	for i := range object.Members {
		name, v := &object.Members[i].Name, &object.Members[i].Value
		key := text(name)
		meant := plain(key)
		targets, err := parseTargets(meant)
		s := slot{whole.host, mayMean(meant)}
		if err == nil && meant != key {
			if len(targets) == 1 {
				s.target = targets[0]
			}
			err = fmt.Errorf("write %s, without spaces and in plain characters", quote(meant))
		}
		first := len(r.found)
		if err == nil {
			keys[i] = strings.Join(strings.Fields(strings.Trim(fmt.Sprint(targets), "[]")), ",")
			r.targets(whole.host, targets, v)
			continue
		}
		switch {
		case v.Value.Kind() == '[' || isEntry(v):
			r.slot(s, v)
		case !blankEntry(v):
			r.hold(s, v)
		}
		for _, f := range r.found[first:] {
			f.Disown()
		}
		field := entryField(key) != ""
		if r.more || field && stray {
			continue // its message would not be kept, or one says it for all fields
		}
		message := err.Error()
		if field {
			stray = true
			message = fmt.Sprintf(`the GPU is missing: write { "0": { %s: … } } for GPU 0, or "*" for the whole host`,
				quote(key))
		}
		if slices.ContainsFunc(r.found[first:], func(f *found) bool { return !f.OverAt(r.opts.Now) }) {
			message += held(s)
		}
		r.hostProblem("booking:gpu", name, s, "%s", message)
	}
	r.twice(object, keys, "GPU", "other programs see only the last one, so make them one list [ … ] of entries")
}

// targets reads the value of a key, which is for one or more GPUs.
func (r *reading) targets(host string, targets []Target, v *hujson.Value) {
	if len(targets) == 1 {
		r.slots[slot{host, targets[0]}] = v
	}
	first := len(r.found)
	r.slot(slot{host, targets[0]}, v)
	for _, f := range r.found[first:] {
		for _, target := range targets[1:] {
			b := f.Booking
			b.Target = target
			r.append(b, f.entry)
		}
	}
}

// slot reads one entry, or a list of them.
func (r *reading) slot(s slot, v *hujson.Value) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		r.entry(s, v)
	case *hujson.Array:
		for i := range value.Elements {
			switch element := &value.Elements[i]; element.Value.Kind() {
			case '{':
				r.entry(s, element)
			case 'n':
			default:
				r.unreadable(element, s, `a calendar is a list of entries: { "name": …, "date": … }`)
			}
		}
	default:
		if value.Kind() != 'n' {
			r.unreadable(v, s,
				`here has to be an entry { "name": …, "date": …, "comment": … }, a list of them, or {} for none`)
		}
	}
}

// unreadable reports a value that is no entry, and holds what it may mean.
func (r *reading) unreadable(v *hujson.Value, s slot, message string) {
	r.hold(s, v)
	if !r.more {
		r.hostProblem("booking:type", v, s, "%s%s", message, held(s))
	}
}

// hold books for [Unreadable], once for any number of mistakes after each other.
func (r *reading) hold(s slot, v *hujson.Value) {
	b := Booking{Host: s.host, Target: s.target, Kind: Reserved, Name: Unreadable, Written: Unreadable}
	if n := len(r.found); n == 0 || r.found[n-1].content() != b.content() {
		r.append(b, v)
	}
}

// Disown leaves open who has booked. The person who is named may still release it.
func (b *Booking) Disown() {
	if b.By == "" && b.Written != Unreadable {
		b.By = b.Written
	}
	b.Name, b.Written = Unreadable, Unreadable
}

// held says what is booked until a mistake is corrected.
func held(s slot) string {
	return "; until it is corrected, " + thing(s.host, s.target) + " counts as booked by \"" + Unreadable + "\""
}

// append adds a booking and its entry, up to the bound.
func (r *reading) append(b Booking, entry *hujson.Value) {
	if len(r.found) < MaxBookings {
		b.Line, b.Col = r.doc.position(entry.StartOffset)
		r.found = append(r.found, &found{b, entry})
		return
	}
	if !r.full {
		r.full = true
		r.hostProblem("booking:toomany", entry, slot{b.Host, b.Target}, "the file holds more than %d bookings, "+
			"and those from here on do not count: move old ones into another file", MaxBookings)
	}
}

// finish sorts the bookings, derives missing IDs, and looks for overlaps.
func (r *reading) finish() {
	slices.SortStableFunc(r.found, func(a, b *found) int {
		return inOrder(&a.Booking, &b.Booking)
	})
	r.ids, r.same = make(map[string]int, len(r.found)), map[string]int{}
	for i, f := range r.found {
		first, taken := r.ids[f.ID]
		switch other := r.found[first]; {
		case f.ID == "":
		case !taken:
			r.ids[f.ID] = i
		default:
			if f.entry != other.entry {
				r.hostProblem("booking:id", f.entry, slot{f.Host, f.Target},
					"the id %s is also that of the entry in line %d: delete one of the two ids", quote(f.ID),
					other.Line)
			}
			f.shared, other.shared = f.ID, f.ID
		}
	}
	for _, f := range r.found {
		if f.shared != "" {
			delete(r.ids, f.shared)
			f.ID = ""
		}
	}
	for i, f := range r.found {
		if f.ID == "" {
			f.ID = r.newID(f.Booking)
			r.ids[f.ID] = i
		}
	}
	r.cal.Bookings = make([]Booking, len(r.found))
	for i, f := range r.found {
		r.cal.Bookings[i] = f.Booking
	}
	r.overlaps()
	if r.cal.Broken {
		r.cal.Problems = r.cal.Problems[:1] // others may be its consequences
		return
	}
	slices.SortStableFunc(r.cal.Problems, func(a, b snapshot.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if r.more {
		r.cal.Problems = append(r.cal.Problems,
			snapshot.Problem{Code: "booking:toomany", File: r.cal.File,
				Message: "more problems are not listed: mend these first"})
	}
}

// inOrder is the order of [Calendar.Bookings].
func inOrder(a, b *Booking) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), compareTargets(a.Target, b.Target), a.From.Compare(b.From))
}

// newID is the derived ID of a booking. Those of equal entries are numbered.
func (r *reading) newID(b Booking) string {
	derived := derivedID(b)
	id := derived
	for {
		if _, taken := r.ids[id]; !taken {
			return id
		}
		r.same[derived]++
		id = derived + "-" + strconv.Itoa(r.same[derived]+1)
	}
}

// Named returns the bookings that an ID means: one, all of an entry for several GPUs, or several
// that have the same id in the file. An ID that was printed before the entry got another one counts.
func (c *Calendar) Named(id string) []Booking {
	named := selected(c.Bookings, func(b Booking) bool { return b.ID == id })
	if len(named) == 0 && id != "" {
		named = selected(c.Bookings, func(b Booking) bool { return b.shared == id || derivedID(b) == id })
	}
	return named
}

// derivedID makes an ID of the content of an entry, wherever it moves in the file.
func derivedID(b Booking) string {
	content := make([]byte, 0, 128)
	for _, part := range []string{b.Host, b.Target.String(), b.Written} {
		content = append(append(content, part...), 0)
	}
	if !b.From.IsZero() {
		content = b.From.UTC().AppendFormat(content, time.RFC3339)
	}
	content = append(content, 0)
	if !b.Until.IsZero() {
		content = b.Until.UTC().AppendFormat(content, time.RFC3339)
	}

	sum := sha256.Sum256(content)
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
