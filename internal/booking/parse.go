package booking

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Options are optional facts for the reader of the file.
type Options struct {
	// Aliases map the written names to canonical ones.
	Aliases Aliases
	// Now, if not zero, leaves overlaps that are over by then out of the problems.
	Now time.Time
}

// Parse reads comments.json. The file's name goes into the problems; zone is that of
// times without one. What cannot be understood becomes a problem with line and column,
// and the rest counts. After an error of syntax [Calendar.Broken] is true, and the
// calendar has the bookings of the hosts before the mistake.
func Parse(name string, data []byte, zone *time.Location, opts Options) *Calendar {
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
	name string
	doc  *document // nil if the file is too large or no text
	cal  *Calendar
	zone *time.Location
	opts Options
	// offsets is that of [Zone].
	offsets bool
	// broken is the problem for which the calendar is broken.
	broken snapshot.Problem

	found []found
	hosts map[string]*hujson.Value // the value that counts for a host
	slots map[slot]*hujson.Value   // the value that counts for a target
	ids   map[string]int           // by ID: index in found
	full  bool                     // there are more bookings than are read
	more  bool                     // there are more problems than are reported
}

func read(name string, data []byte, zone *time.Location, opts Options) *reading {
	r := &reading{
		name: filepath.Base(name), zone: zone, opts: opts, cal: &Calendar{},
		hosts: map[string]*hujson.Value{}, slots: map[slot]*hujson.Value{}, ids: map[string]int{},
	}
	if r.zone == nil {
		r.zone = time.UTC
	}
	r.cal.File = r.name
	if len(data) > MaxFileBytes {
		r.fail("booking:toolarge", 0, fmt.Sprintf("the file has %d KiB, and %d KiB are read: move old bookings into another file", len(data)>>10, MaxFileBytes>>10))
		return r
	}
	doc, err := decode(data)
	if err != nil {
		r.fail("booking:encoding", 0, err.Error())
		return r
	}
	r.doc = doc
	var mistake *syntaxError
	if errors.As(doc.parse(), &mistake) {
		r.fail("booking:syntax", mistake.off, mistake.message)
	}
	if doc.root == nil {
		return r
	}
	r.document()
	r.finish()
	return r
}

// fail reports the problem for which the calendar is broken.
func (r *reading) fail(code string, off int, message string) {
	r.cal.Broken = true
	r.broken = *r.problem(code, off, message)
}

// problem adds a problem at an offset, up to the bound.
func (r *reading) problem(code string, off int, message string) *snapshot.Problem {
	if len(r.cal.Problems) >= MaxProblems {
		r.more = true
		return &snapshot.Problem{}
	}
	line, col := 1, 1
	if r.doc != nil {
		line, col = r.doc.position(off)
	}
	r.cal.Problems = append(r.cal.Problems, snapshot.Problem{Code: code, Message: message, File: r.name, Line: line, Col: col})
	return &r.cal.Problems[len(r.cal.Problems)-1]
}

// hostProblem is problem with the host, and with the GPU where one is booked by index.
func (r *reading) hostProblem(code string, v *hujson.Value, s slot, message string) {
	p := r.problem(code, v.StartOffset, message)
	p.Host = s.host
	if s.target.Index >= 0 && !s.target.All && s.target.UUID == "" {
		index := s.target.Index
		p.GPU = &index
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
		name := &object.Members[i].Name
		host, err := snapshot.ParseHost(strings.TrimSpace(text(name)))
		if err != nil {
			r.problem("booking:host", name.StartOffset, strings.TrimPrefix(err.Error(), snapshot.ErrHost.Error()+": ")+": this is no host name, and its bookings do not count")
			continue
		}
		keys[i] = host
	}
	r.lastOf(object, keys, "host", "other programs see only the last one, so put them together")
	for i := range object.Members {
		if keys[i] != "" {
			r.hosts[keys[i]] = &object.Members[i].Value
			r.host(keys[i], &object.Members[i].Value)
		}
	}
}

// text is what a string of the file stands for; "" for other values.
func text(v *hujson.Value) string {
	if literal, ok := v.Value.(hujson.Literal); ok && literal.Kind() == '"' {
		return literal.String()
	}
	return ""
}

// lastOf returns which member is the last for each key, the one that counts for every
// JSON reader, and reports the earlier ones. Of a host or GPU that is there twice all
// entries count.
func (r *reading) lastOf(object *hujson.Object, keys []string, what, hint string) map[string]int {
	last := map[string]int{}
	for i, key := range keys {
		if key == "" {
			continue
		}
		if first, twice := last[key]; twice {
			line, _ := r.doc.position(object.Members[i].Name.StartOffset)
			r.problem("booking:duplicate", object.Members[first].Name.StartOffset,
				fmt.Sprintf("the %s %s is here and again in line %d: %s", what, quote(key), line, hint))
		}
		last[key] = i
	}
	return last
}

// host reads the value of a host.
func (r *reading) host(host string, v *hujson.Value) {
	none := slot{host, Target{Index: -1}}
	switch value := v.Value.(type) {
	case *hujson.Array:
		for i := range value.Elements {
			if i >= snapshot.MaxGPUs {
				r.hostProblem("booking:gpu", &value.Elements[i], none, fmt.Sprintf("a host has at most %d GPUs: this element and those after it do not count", snapshot.MaxGPUs))
				return
			}
			r.slot(slot{host, Target{Index: i}}, &value.Elements[i])
		}
	case *hujson.Object:
		r.dictionary(host, value)
	default:
		if value.Kind() != 'n' {
			r.hostProblem("booking:type", v, none, fmt.Sprintf(`the value of the host %s has to be a list [ … ] or a dictionary { "0": … }`, quote(host)))
		}
	}
}

func (r *reading) dictionary(host string, object *hujson.Object) {
	keys := make([]string, len(object.Members))
	targets := make([]Target, len(object.Members))
	for i := range object.Members {
		name := &object.Members[i].Name
		target, hint := ParseTarget(text(name))
		if hint != "" {
			if entryField(text(name)) != "" {
				hint = fmt.Sprintf(`the GPU is missing: write { "0": { %s: … } } for GPU 0, or "*" for the whole host`, quote(text(name)))
			}
			r.hostProblem("booking:gpu", name, slot{host, Target{Index: -1}}, hint)
			continue
		}
		targets[i], keys[i] = target, target.String()
	}
	r.lastOf(object, keys, "GPU", "other programs see only the last one, so make them one list [ … ] of entries")
	for i := range object.Members {
		if keys[i] != "" {
			r.slot(slot{host, targets[i]}, &object.Members[i].Value)
		}
	}
}

// slot reads one entry, or a list of them.
func (r *reading) slot(s slot, v *hujson.Value) {
	r.slots[s] = v
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
				r.hostProblem("booking:type", element, s, `a calendar is a list of entries: { "name": …, "date": … }`)
			}
		}
	default:
		if value.Kind() != 'n' {
			r.hostProblem("booking:type", v, s, `here has to be an entry { "name": …, "date": …, "comment": … }, a list of them, or {} for none`)
		}
	}
}

// finish sorts the bookings, derives missing IDs, and looks for overlaps.
func (r *reading) finish() {
	slices.SortStableFunc(r.found, func(a, b found) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), compareTargets(a.Target, b.Target), a.From.Compare(b.From))
	})
	for i := range r.found {
		b := &r.found[i].Booking
		if b.ID == "" {
			continue
		}
		if first, taken := r.ids[b.ID]; taken {
			other := r.found[first].Booking
			r.hostProblem("booking:id", r.found[i].entry, slot{b.Host, b.Target},
				fmt.Sprintf("the id %s is also that of the entry in line %d: delete one of the two ids", quote(b.ID), other.Line))
			b.ID = ""
			continue
		}
		r.ids[b.ID] = i
	}
	same := map[string]int{} // the number of equal entries so far
	for i := range r.found {
		b := &r.found[i].Booking
		if b.ID != "" {
			continue
		}
		derived := derivedID(*b)
		b.ID = derived
		for taken := true; taken; {
			if same[derived]++; same[derived] > 1 {
				b.ID = derived + "-" + strconv.Itoa(same[derived])
			}
			_, taken = r.ids[b.ID]
		}
		r.ids[b.ID] = i
	}
	r.cal.Bookings = make([]Booking, len(r.found))
	for i, f := range r.found {
		r.cal.Bookings[i] = f.Booking
	}
	r.overlaps()
	slices.SortStableFunc(r.cal.Problems, func(a, b snapshot.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if r.more {
		r.cal.Problems = append(r.cal.Problems, snapshot.Problem{Code: "booking:toomany", File: r.name, Message: "more problems are not listed: mend these first"})
	}
}

// derivedID makes an ID of the content of an entry, wherever it moves in the file.
func derivedID(b Booking) string {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{b.Host, b.Target.String(), b.Written, stamp(b.From), stamp(b.Until)}, "\x00")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
