package booking

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

// What is read of comments.json.
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

// Options are what the reader may know besides the file. The zero value is fine.
type Options struct {
	// Aliases turn the name that was written into the canonical one.
	Aliases Aliases
	// Now keeps overlaps that are over by then out of the problems. Zero reports all.
	Now time.Time
}

// Parse reads comments.json. The file's name goes into the problems; zone is
// the one that times without a zone are in. It never fails: what cannot be
// understood becomes a problem with line and column, and the rest counts.
//
// A file that is not well-formed makes [Calendar.Broken] true. Entries around
// the damage are read where the brackets leave no doubt.
func Parse(name string, data []byte, zone *time.Location, opts Options) *Calendar {
	return read(name, data, zone, opts).cal
}

// A slot is the place in the file that belongs to one target on one host.
type slot struct {
	host   string
	target Target
}

// A found booking is one together with the nodes that it was read from.
type found struct {
	Booking
	entry *node
}

// A reading is the outcome of reading a file, and what is known about how much
// of it was understood.
type reading struct {
	name string
	src  *source
	root *node
	cal  *Calendar
	zone *time.Location
	opts Options
	// offsets is that of [Zone].
	offsets bool

	found []found
	hosts map[string]*node // the value that counts for a host
	slots map[slot]*node   // the value that counts for a target
	ids   map[string]int   // by id: index in found

	syntax     int // how many syntax errors there are
	unreported int
}

func read(name string, data []byte, zone *time.Location, opts Options) *reading {
	r := &reading{
		name: filepath.Base(name), zone: zone, opts: opts, cal: &Calendar{Encoding: UTF8},
		hosts: map[string]*node{}, slots: map[slot]*node{}, ids: map[string]int{},
	}
	if r.zone == nil {
		r.zone = time.UTC
	}
	r.cal.File = r.name
	if len(data) > MaxFileBytes {
		r.broken("booking:toolarge", fmt.Sprintf("the file is %d KiB long, and %d KiB are read: move old bookings into another file", len(data)>>10, MaxFileBytes>>10))
		return r
	}
	src, err := decode(data)
	if err != nil {
		r.broken("booking:encoding", err.Error())
		return r
	}
	r.src, r.cal.Encoding = src, src.encoding
	if i := strings.IndexRune(src.text, '\ufffd'); i >= 0 && src.skipped > 0 {
		r.problem("booking:encoding", i, "this character is not valid UTF-8, though the file begins with the mark of UTF-8: save the file as UTF-8 again")
	}
	scan := &scanner{src: src, s: src.text, report: func(off int, message string) {
		r.problem("booking:syntax", off, message)
	}}
	r.root = scan.document()
	r.syntax = scan.errors
	r.cal.Broken = scan.errors > 0
	if r.root == nil {
		return r // nothing but white space and comments
	}
	r.document()
	r.finish()
	return r
}

func (r *reading) broken(code, message string) {
	r.cal.Broken = true
	r.cal.Problems = append(r.cal.Problems, snapshot.Problem{Code: code, Message: message, File: r.name, Line: 1, Col: 1})
}

// problem adds a problem at an offset, up to the bound.
func (r *reading) problem(code string, off int, message string) *snapshot.Problem {
	if len(r.cal.Problems) >= MaxProblems {
		r.unreported++
		return &snapshot.Problem{}
	}
	line, col := r.src.position(off)
	r.cal.Problems = append(r.cal.Problems, snapshot.Problem{Code: code, Message: message, File: r.name, Line: line, Col: col})
	return &r.cal.Problems[len(r.cal.Problems)-1]
}

// hostProblem is problem with the host, and with the GPU where one is booked by index.
func (r *reading) hostProblem(code string, n *node, s slot, message string) {
	p := r.problem(code, int(n.start), message)
	p.Host = s.host
	if s.target.Index >= 0 && !s.target.All && s.target.UUID == "" {
		index := s.target.Index
		p.GPU = &index
	}
}

// document reads the outermost object: hosts.
func (r *reading) document() {
	if r.root.kind == '[' && len(r.root.items) == 0 {
		return // what PHP writes for an object with nothing in it
	}
	if r.root.kind != '{' {
		r.problem("booking:type", int(r.root.start), `the bookings are an object: { "host": [ … ] }`)
		r.cal.Broken = true
		return
	}
	keys := make([]string, len(r.root.items))
	for i, it := range r.root.items {
		host, err := snapshot.ParseHost(strings.TrimSpace(it.key.str))
		if err != nil {
			r.problem("booking:host", int(it.key.start), strings.TrimPrefix(err.Error(), snapshot.ErrHost.Error()+": ")+": this is no host name, and its bookings do not count")
			continue
		}
		keys[i] = host
	}
	r.lastOf(r.root, keys, "host", "other programs see only the last one, so put them together")
	for i, it := range r.root.items {
		if keys[i] != "" {
			r.hosts[keys[i]] = it.val
			r.host(keys[i], it.val)
		}
	}
}

// lastOf says which item is the last for each key, the one that counts for every
// JSON reader, and reports the earlier ones. Here the entries of a host or GPU
// that is there twice all count: what one person wrote is not to vanish because
// another one did not see it.
func (r *reading) lastOf(n *node, keys []string, what, hint string) map[string]int {
	last := make(map[string]int, len(keys))
	for i, key := range keys {
		if key == "" {
			continue
		}
		if first, twice := last[key]; twice {
			line, _ := r.src.position(int(n.items[i].key.start))
			r.problem("booking:duplicate", int(n.items[first].key.start),
				fmt.Sprintf("the %s %s is here and again in line %d: %s", what, quote(key), line, hint))
		}
		last[key] = i
	}
	return last
}

// host reads what stands behind a host name.
func (r *reading) host(host string, n *node) {
	switch n.kind {
	case '[':
		for i, it := range n.items {
			s := slot{host, Target{Index: i}}
			if i >= snapshot.MaxGPUs {
				r.hostProblem("booking:gpu", it.val, slot{host, Target{Index: -1}}, fmt.Sprintf("a host has at most %d GPUs: this element and those after it do not count", snapshot.MaxGPUs))
				return
			}
			r.slot(s, it.val)
		}
	case '{':
		r.dictionary(host, n)
	case 'n':
	default:
		r.hostProblem("booking:type", n, slot{host, Target{Index: -1}},
			fmt.Sprintf(`behind the host %s there has to be a list [ … ] or a dictionary { "0": … }`, quote(host)))
	}
}

func (r *reading) dictionary(host string, n *node) {
	keys := make([]string, len(n.items))
	targets := make([]Target, len(n.items))
	for i, it := range n.items {
		target, hint := ParseTarget(it.key.str)
		if hint != "" {
			if entryField(it.key.str) != "" {
				hint = fmt.Sprintf(`the GPU is missing: write { "0": { %s: … } } for GPU 0, or "*" for the whole host`, quote(it.key.str))
			}
			r.hostProblem("booking:gpu", it.key, slot{host, Target{Index: -1}}, hint)
			continue
		}
		targets[i], keys[i] = target, target.String()
	}
	r.lastOf(n, keys, "GPU", "other programs see only the last one, so make them one list [ … ] of entries")
	for i, it := range n.items {
		if keys[i] != "" {
			r.slot(slot{host, targets[i]}, it.val)
		}
	}
}

func compareBookings(a, b Booking) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), compareTargets(a.Target, b.Target), a.From.Compare(b.From))
}

// slot reads one entry, or a list of them.
func (r *reading) slot(s slot, n *node) {
	r.slots[s] = n
	switch n.kind {
	case '{':
		r.entry(s, n)
	case '[':
		for _, it := range n.items {
			switch it.val.kind {
			case '{':
				r.entry(s, it.val)
			case 'n':
			default:
				r.hostProblem("booking:type", it.val, s, `a calendar is a list of entries: { "name": …, "date": … }`)
			}
		}
	case 'n':
	default:
		r.hostProblem("booking:type", n, s, `here has to be an entry { "name": …, "date": …, "comment": … }, a list of them, or {} for none`)
	}
}

// finish orders the bookings, names those without an id, and looks for overlaps.
func (r *reading) finish() {
	slices.SortStableFunc(r.found, func(a, b found) int { return compareBookings(a.Booking, b.Booking) })
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
	same := map[string]int{} // how many equal entries there were so far
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
	if r.unreported > 0 {
		r.cal.Problems = append(r.cal.Problems, snapshot.Problem{
			Code: "booking:toomany", File: r.name,
			Message: fmt.Sprintf("%d more problems are not listed: mend these first", r.unreported),
		})
	}
}

// derivedID names an entry by what it says, so that the same entry has the same
// id at every reading, wherever it moves in the file.
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
