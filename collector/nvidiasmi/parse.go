// Package nvidiasmi is what nvidia-smi says, read: its XML, its list of MIG
// devices, and its words when it fails. It is pure; package collector runs the
// program.
//
// Tags are found by their name and full path, never by the number of the DTD:
// drivers 352 to 610 share numbers and differ in tags, and `sm_clock`, `used`
// and `average_power_draw` each stand in several places.
package nvidiasmi

import (
	"bytes"
	"fmt"
	"strings"

	"gpuboard/snapshot"
)

// MaxOutputBytes is the most of nvidia-smi's output that is looked at.
const MaxOutputBytes = 16 << 20

// Args are the arguments that make nvidia-smi write what [Parse] reads.
func Args() []string { return []string{"-q", "-x"} }

// A Reading is one output of `nvidia-smi -q -x`.
type Reading struct {
	Driver, CUDA string
	// GPUs is nil when the output says nothing about GPUs, and empty when it
	// says that there are none.
	GPUs []snapshot.GPU
	// Complete is true when GPUs are all that the driver has: the output is whole
	// and undamaged, and it lists as many as it says are attached.
	Complete bool
	// Processes carry what nvidia-smi knows: GPU, pid, type, memory, MIG
	// instance, and in Program the base name that nvidia-smi gives. It is nil
	// when no GPU has a list of processes: nobody knows who uses them.
	Processes []snapshot.Process
	Problems  []snapshot.Problem
	// Notes is the text around the XML, for [Explain].
	Notes string
}

const rootTag = "nvidia_smi_log"

// Parse reads the standard output of `nvidia-smi -q -x`: whole, cut short,
// damaged, with lines of text before, between and after, or several documents
// in a row (the last whole one counts). beside is its standard error, where
// some versions name the GPUs that are lost. Parse never fails; what is wrong
// with the output stands in Problems, and every GPU that is there whole is returned.
func Parse(out, beside []byte) Reading {
	p := &parser{seen: map[string]int{}}
	if len(out) > MaxOutputBytes {
		out = out[:MaxOutputBytes]
		p.cut = true
		p.problem("smi:limit", fmt.Sprintf("nvidia-smi wrote more than %d MiB; the rest is not looked at", MaxOutputBytes>>20), nil)
	}
	doc := choose(out)
	p.in = doc.body
	p.note(doc.before)
	if doc.found {
		p.document()
	}
	p.note(doc.after)
	p.note(beside)
	return p.reading(doc)
}

// A document is the part of an output that counts.
type document struct {
	before, body, after []byte
	found               bool // there is XML at all
	whole               bool // the root element is closed
	cut                 bool // another document, later, is cut short
}

// choose finds the last document that is whole; failing that, the last one;
// failing that, bare <gpu> elements.
func choose(out []byte) document {
	roots := starts(out, rootTag)
	if len(roots) == 0 {
		if gpus := starts(out, "gpu"); len(gpus) > 0 {
			end := len(out)
			if n := bytes.LastIndex(out, []byte("</gpu>")); n >= 0 {
				end = n + len("</gpu>")
			}
			if last := gpus[len(gpus)-1]; last >= end {
				end = len(out)
			}
			return document{before: out[:gpus[0]], body: out[gpus[0]:end], after: out[end:], found: true,
				whole: true}
		}
		return document{before: out}
	}
	var best document
	for i, start := range roots {
		end := len(out)
		if i+1 < len(roots) {
			end = roots[i+1]
		}
		section := out[start:end]
		if n := bytes.Index(section, []byte("</"+rootTag+">")); n >= 0 {
			n += len("</" + rootTag + ">")
			best = document{before: out[:roots[0]], body: section[:n], after: section[n:], found: true, whole: true}
		} else if best.whole {
			best.cut = true
		} else {
			best = document{before: out[:roots[0]], body: section, found: true}
		}
	}
	return best
}

// starts returns where tags of this name open, outside of any DTD.
func starts(out []byte, name string) []int {
	var at []int
	open := []byte("<" + name)
	for pos := 0; ; {
		n := bytes.Index(out[pos:], open)
		if n < 0 {
			return at
		}
		pos += n
		if after := pos + len(open); after >= len(out) || space(out[after]) || out[after] == '>' {
			at = append(at, pos)
		}
		pos += len(open)
	}
}

type frame struct {
	name    []byte
	content int // where its content begins
	parent  bool
	path    int // length of the path before it
}

type parser struct {
	in          []byte
	scan        scanner
	stack       []frame
	deeper      int // elements below maxDepth
	path        []byte
	cur         *block // the GPU that is being read
	base        int    // where it stands in the stack
	blocks      []*block
	beyond      int  // GPUs past the limit
	beyondProcs int  // processes past their limit
	partial     int  // GPUs that were begun and not ended
	cut         bool // there is more than is looked at
	endless     bool // no further </supported_clocks>, so nobody looks for one again
	damage      int  // offset of the first damage, less one; 0 for none
	driver      string
	kmd         string
	cuda        string
	attached    string
	notes       []string
	problems    []snapshot.Problem
	seen        map[string]int
	handles     []handle
}

func (p *parser) document() {
	p.scan = scanner{in: p.in}
	for {
		t, ok := p.scan.next()
		if !ok {
			break
		}
		switch t.kind {
		case kindText:
			if p.cur == nil && len(p.stack) <= 1 {
				p.note(t.text)
			} else if p.cur != nil && len(p.path) == 0 {
				p.cur.word(unescape(t.text))
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

// damaged notes damage at an offset. It belongs to the GPU that is being read;
// between two GPUs to the one before, whose end is what is not as it should be.
func (p *parser) damaged(at int) {
	if p.damage == 0 {
		p.damage = at + 1
	}
	if p.cur != nil {
		p.cur.damaged = true
	} else if n := len(p.blocks); n > 0 {
		p.blocks[n-1].damaged = true
	}
}

func (p *parser) open(t token) {
	if string(t.name) == "gpu" {
		if p.cur != nil { // the one before was never closed
			p.partial++
			p.damaged(t.at)
		}
		p.stack = p.stack[:min(len(p.stack), 1)]
		p.path, p.deeper = p.path[:0], 0
		p.cur = &block{id: attribute(t.attr, "id"), leaves: make(map[string]string, leavesOfGPU)}
		p.base = len(p.stack)
		p.stack = append(p.stack, frame{name: t.name, content: p.scan.pos})
		return
	}
	if p.cur != nil && string(t.name) == "supported_clocks" && t.kind == kindOpen && !p.endless {
		// Two thirds of the document, and nothing that anybody wants to know.
		end := []byte("</supported_clocks>")
		rest := p.in[p.scan.pos:]
		if n := bytes.Index(rest, end); n >= 0 && !bytes.Contains(rest[:n], []byte("<gpu")) {
			p.scan.pos += n + len(end)
			return
		} else {
			p.endless = n < 0
		}
	}
	if len(p.stack) >= maxDepth {
		p.deeper++
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
	p.stack = append(p.stack, frame{name: t.name, content: p.scan.pos, path: before})
}

func (p *parser) close(t token) {
	if p.deeper > 0 {
		p.deeper--
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
	if p.cur != nil && top < p.base { // what the GPU stands in has ended before it
		p.partial++
		p.cur, p.path = nil, p.path[:0]
	}
	switch {
	case p.cur == nil:
		if !f.parent {
			p.head(string(f.name), p.text(f, t))
		}
	case string(f.name) == "gpu":
		p.endGPU()
	default:
		p.path = p.path[:pathEnd(f, len(f.name))]
		if !f.parent {
			p.cur.leaf(p.path, p.text(f, t))
		}
		p.cur.end(p.path)
		p.path = p.path[:f.path]
	}
}

// pathEnd is how long the path is up to and including an element.
func pathEnd(f frame, name int) int {
	if f.path == 0 {
		return name
	}
	return f.path + 1 + name
}

func (p *parser) text(f frame, t token) []byte {
	if f.content > t.at {
		return nil
	}
	text := bytes.TrimSpace(p.in[f.content:t.at])
	if bytes.HasPrefix(text, []byte("<![CDATA[")) {
		text = bytes.TrimSuffix(text[len("<![CDATA["):], []byte("]]>"))
	}
	return text
}

func (p *parser) head(name string, text []byte) {
	value := snapshot.Text(unescape(text), snapshot.MaxNameBytes)
	switch name {
	case "driver_version":
		p.driver = value
	case "kmd_version": // what 610 calls the driver
		p.kmd = value
	case "cuda_version", "cuda_umd_version":
		p.cuda = value
	case "attached_gpus":
		p.attached = value
	case "error_string": // old drivers
		p.note(text)
	}
}

func (p *parser) endGPU() {
	b := p.cur
	p.cur, p.path = nil, p.path[:0]
	if len(p.blocks) >= snapshot.MaxGPUs {
		p.beyond++
		return
	}
	p.blocks = append(p.blocks, b)
}

// note keeps the lines of text that stand outside the XML.
func (p *parser) note(text []byte) {
	s := scanner{in: text}
	for t, ok := s.next(); ok; t, ok = s.next() {
		if t.kind != kindText {
			continue
		}
		for line := range strings.Lines(string(t.text)) {
			line = strings.TrimSpace(line)
			if line != "" && len(p.notes) < snapshot.MaxErrors {
				p.notes = append(p.notes, line)
			}
		}
	}
}

func (p *parser) problem(code, message string, gpu *int) {
	if len(p.problems) < snapshot.MaxErrors {
		p.problems = append(p.problems, snapshot.Problem{
			Code: code, Message: snapshot.Text(message, snapshot.MaxTextBytes), GPU: gpu,
		})
	}
}

// once reports the same thing of several GPUs a single time.
func (p *parser) once(key, code, message string, gpu int) {
	if p.seen[key]++; p.seen[key] == 1 {
		p.problem(code, message, &gpu)
	}
}
