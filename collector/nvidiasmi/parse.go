// Package nvidiasmi parses the output of nvidia-smi: its XML, its list of MIG devices and
// its error texts. It is pure; package collector runs the program.
//
// Elements are found by their full path and not by the version of the DTD: drivers 352
// to 610 share DTD versions and differ in elements, and names such as `sm_clock`, `used`
// and `average_power_draw` occur in several places.
package nvidiasmi

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"

	"gpuboard/internal/snapshot"
)

// MaxOutputBytes limits the output that is parsed.
const MaxOutputBytes = 16 << 20

// Args are the arguments that make nvidia-smi write what [Parse] reads.
func Args() []string { return []string{"-q", "-x"} }

// A Reading is one output of `nvidia-smi -q -x`.
type Reading struct {
	Driver, CUDA string
	// GPUs is nil when the output says nothing about GPUs, and empty when it
	// says that there are none.
	GPUs []snapshot.GPU
	// Complete is true when GPUs are all GPUs of the driver: the output is well formed
	// and lists as many as it says are attached.
	Complete bool
	// Processes have what nvidia-smi knows: GPU, pid, type, memory, MIG instance, and in
	// Program the base name. It is nil when no GPU has a list of processes.
	Processes []snapshot.Process
	Problems  []snapshot.Problem
	// Notes is the text around the XML, for [Explain].
	Notes string
}

const rootTag = "nvidia_smi_log"

// Parse parses the standard output of `nvidia-smi -q -x`, also when it is truncated,
// malformed, or mixed with lines of text. stderr is its standard error, where some
// versions name lost GPUs. Parse never fails: it returns every GPU that is whole, and
// reports the rest in Problems.
//
// nvidia-smi does not escape the names of processes, and any user can choose one, so a
// name may contain any part of such an output. See processName and [parser.dropForged].
func Parse(out, stderr []byte) Reading {
	p := &parser{seen: map[string]int{}}
	if len(out) > MaxOutputBytes {
		out = out[:MaxOutputBytes]
		p.cut = true
		p.problem(nil, "smi:limit", "nvidia-smi wrote more than %d MiB; the rest is not read", MaxOutputBytes>>20)
	}
	before, body := choose(out)
	p.notes = lines(p.notes, before)
	p.notes = lines(p.notes, stderr)
	p.document(body)
	return p.result()
}

// choose returns the text before the document, and the document. <gpu> elements without
// a root are a document, too.
func choose(out []byte) (before, body []byte) {
	for _, start := range []*regexp.Regexp{rootStart(), gpuStart()} {
		if at := start.FindIndex(out); at != nil {
			return out[:at[0]], out[at[0]:]
		}
	}
	return out, nil
}

type frame struct {
	name    []byte
	content int // offset of its content
	parent  bool
	// before and after are the lengths of the path without it and with it.
	before, after int
}

type parser struct {
	in        []byte
	scan      scanner
	stack     []frame
	tooDeep   int // elements below maxDepth
	path      []byte
	cur       *gpuElement // the GPU that is being read
	base      int         // where it stands in the stack
	elements  []*gpuElement
	began     bool // a GPU has begun: from here on text may be part of a name
	rooted    bool // there is a root element
	closed    bool // it is closed
	multiLine bool // each element stands on a line of its own

	beyond      int  // GPUs past the limit
	beyondProcs int  // processes past their limit
	partial     int  // GPUs that were begun and not ended
	cut         bool // there is more than is looked at
	nameless    bool // no further end of a process name
	damage      int  // offset of the first damage, less one; 0 for none

	driver, cuda, attached string

	notes    []string // text around the XML
	inner    []string // text within and behind it, which a name may have forged
	problems []snapshot.Problem
	seen     map[string]int
	handles  []handle
}

func (p *parser) document(body []byte) {
	p.in = body
	p.scan = scanner{in: body}
	p.multiLine = onLines(body)
	for {
		t, ok := p.scan.next()
		if !ok {
			break
		}
		switch t.kind {
		case kindText:
			if p.cur == nil && len(p.stack) <= 1 {
				p.inner = lines(p.inner, t.text)
			} else if p.cur != nil && len(p.path) == 0 && !p.cur.listed {
				p.cur.noteStatus(unescape(t.text))
			}
		case kindOpen:
			p.open(t)
		case kindEmpty:
			p.open(t)
			p.close(token{name: t.name, at: p.scan.pos})
		case kindClose:
			p.close(t)
		}
	}
	if p.cur != nil {
		p.partial++
		p.cur = nil
	}
}

// onLines reports whether a document has each element on its own line, as nvidia-smi
// writes it. The text before the first process cannot be forged.
func onLines(body []byte) bool {
	end := bytes.IndexByte(body, '>')
	if end < 0 {
		return false
	}
	rest := body[end+1:]
	return bytes.IndexByte(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))], '\n') >= 0
}

// damaged records malformed XML at an offset. It counts for the GPU that is being read,
// or between two GPUs for the previous one.
func (p *parser) damaged(at int) {
	if p.damage == 0 {
		p.damage = at + 1
	}
	if p.cur != nil {
		p.cur.damaged = true
	} else if n := len(p.elements); n > 0 {
		p.elements[n-1].damaged = true
	}
}

func (p *parser) open(t token) {
	switch name := string(t.name); {
	case name == "gpu":
		p.openGPU(t)
		return
	case name == rootTag && p.rooted:
		p.damaged(t.at) // a second document; nobody asks for one
		return
	case name == rootTag:
		p.rooted = true
	case p.closed && p.cur == nil:
		p.damaged(t.at)
	}
	if p.cur != nil && len(p.path) == 0 {
		p.cur.child(t.name)
	}
	if p.cur != nil && string(t.name) == "process_name" && t.kind == kindOpen {
		p.processName(t)
		return
	}
	if len(p.stack) >= maxDepth {
		p.tooDeep++
		p.damaged(t.at)
		return
	}
	if n := len(p.stack); n > 0 {
		p.stack[n-1].parent = true
	}
	before := len(p.path)
	if p.cur != nil {
		if before > 0 {
			p.path = append(p.path, '/')
		}
		p.path = append(p.path, t.name...)
		p.cur.begin(p.path)
	}
	p.stack = append(p.stack, frame{name: t.name, content: p.scan.pos, before: before, after: len(p.path)})
}

func (p *parser) openGPU(t token) {
	p.began = true
	if p.closed {
		p.damaged(t.at)
	}
	if p.cur != nil { // the previous one was not closed
		p.damaged(t.at)
		if p.cur.listed {
			p.endGPU() // its readings are complete
		} else {
			p.partial++
		}
	}
	p.stack = p.stack[:min(len(p.stack), 1)]
	p.path, p.tooDeep = p.path[:0], 0
	p.cur = &gpuElement{leaves: make(map[string]string, leavesOfGPU)}
	if id := idAttribute().FindSubmatch(t.attr); id != nil {
		p.cur.id = unescape(id[1])
	}
	p.base = len(p.stack)
	p.stack = append(p.stack, frame{name: t.name, content: p.scan.pos})
}

// processName reads the name of a process, which may contain anything: it ends where the
// rest of a process_info follows, as nvidia-smi writes it. A name that contains an end
// tag is an attempt to forge output, and makes the GPU's processes unknown.
func (p *parser) processName(t token) {
	if n := len(p.stack); n > 0 {
		p.stack[n-1].parent = true
	}
	end := []byte("</process_name>")
	ending := processEndFlat()
	if p.multiLine {
		ending = processEndOnLines()
	}
	rest := p.in[p.scan.pos:]
	first, at := bytes.Index(rest, end), -1
	for n := first; n >= 0 && at < 0 && !p.nameless; {
		if ending.Match(rest[n+len(end):]) {
			at = n
			break
		}
		more := bytes.Index(rest[n+1:], end)
		if more < 0 {
			break
		}
		n += 1 + more
	}
	switch {
	case first < 0:
		p.damaged(t.at)
		p.scan.pos = len(p.in)
		return
	case at < 0:
		p.nameless = true
		p.damaged(t.at)
		at = first
	case at != first:
		p.cur.forged = true
	}
	name := p.path
	if len(name) > 0 {
		name = append(name, '/')
	}
	p.cur.leaf(append(name, t.name...), rest[:at])
	p.scan.pos += at + len(end)
}

var (
	rootStart   = snapshot.Pattern(`<` + rootTag + `(?:[\s>]|$)`)
	gpuStart    = snapshot.Pattern(`<gpu(?:[\s>]|$)`)
	idAttribute = snapshot.Pattern(`(?:^|\s)id\s*=\s*["']([^"']*)["']`)
	// What follows a name: leaves, the end of its process_info, and then another
	// process_info or the end of the list; in the first form each on a new line.
	processEndOnLines = processEnd(`\s*\n\s*`)
	processEndFlat    = processEnd(`\s*`)
)

func processEnd(space string) func() *regexp.Regexp {
	return snapshot.Pattern(
		`^(?:` + space + `<\w+>[^<]*</\w+>){0,16}` + space + `</process_info>` + space + `(?:</|<process_info>)`)
}

func (p *parser) close(t token) {
	if p.tooDeep > 0 {
		p.tooDeep--
		return
	}
	top := len(p.stack) - 1
	for top >= 0 && !bytes.Equal(p.stack[top].name, t.name) {
		top--
	}
	if top < 0 {
		p.damaged(t.at)
		return
	}
	if top != len(p.stack)-1 {
		p.damaged(t.at)
	}
	f := p.stack[top]
	p.stack = p.stack[:top]
	if p.cur != nil && top < p.base { // its parent has ended before the GPU
		p.partial++
		p.cur, p.path = nil, p.path[:0]
	}
	switch {
	case p.cur == nil && string(f.name) == rootTag:
		p.closed = true
	case p.cur == nil:
		if !f.parent && !p.began {
			p.head(string(f.name), p.text(f, t))
		}
	case string(f.name) == "gpu":
		p.endGPU()
	default:
		p.path = p.path[:f.after]
		if !f.parent {
			p.cur.leaf(p.path, p.text(f, t))
		}
		p.path = p.path[:f.before]
	}
}

func (p *parser) text(f frame, t token) []byte {
	if f.content > t.at {
		return nil
	}
	text := bytes.TrimSpace(p.in[f.content:t.at])
	if bytes.HasPrefix(text, []byte("<![CDATA[")) {
		text = bytes.TrimSuffix(text[len("<![CDATA["):], []byte("]]>"))
	}
	// "13.3 [Deprecated; will be removed in CUDA 14.0. Use CUDA UMD Version instead]"
	text, _, _ = bytes.Cut(text, []byte("[Deprecated"))
	return bytes.TrimSpace(text)
}

func (p *parser) head(name string, text []byte) {
	value := snapshot.Text(unescape(text), snapshot.MaxNameBytes)
	switch name {
	case "driver_version", "kmd_version": // the second since 610
		p.driver = cmp.Or(p.driver, snapshot.Shaped("version", value))
	case "cuda_version", "cuda_umd_version":
		p.cuda = cmp.Or(p.cuda, snapshot.Shaped("version", value))
	case "attached_gpus":
		p.attached = value
	case "error_string": // old drivers
		p.notes = lines(p.notes, text)
	}
}

func (p *parser) endGPU() {
	b := p.cur
	p.cur, p.path = nil, p.path[:0]
	if len(p.elements) >= snapshot.MaxGPUs {
		p.beyond++
		return
	}
	p.elements = append(p.elements, b)
}

// lines appends the lines of text outside the XML.
func lines(list []string, text []byte) []string {
	s := scanner{in: text}
	for t, ok := s.next(); ok; t, ok = s.next() {
		if t.kind != kindText {
			continue
		}
		for line := range strings.Lines(string(t.text)) {
			line = strings.TrimSpace(line)
			if line != "" && len(list) < snapshot.MaxErrors {
				list = append(list, line)
			}
		}
	}
	return list
}

func (p *parser) problem(gpu *int, code, format string, args ...any) {
	if len(p.problems) < snapshot.MaxErrors {
		found := snapshot.NewProblem(code, format, args...)
		found.GPU = gpu
		p.problems = append(p.problems, found)
	}
}

// problemOnce reports the same problem of several GPUs once.
func (p *parser) problemOnce(gpu int, key, code, format string, args ...any) {
	if p.seen[key]++; p.seen[key] == 1 {
		p.problem(&gpu, code, format, args...)
	}
}
