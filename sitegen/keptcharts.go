package sitegen

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/sitegen/render"
)

// The charts of a host are kept in a format of their own: a process of one
// generation reads those of all hosts, and what describes itself took three
// times as long to read.
//
//	version      1
//	GPUs         how many, and the key of history of each
//	done         of each of the four charts: seconds since 1970, nanoseconds
//	5 charts     the four and the last hour: from (seconds, nanoseconds), step (ns),
//	             coverage (8 bytes), steps, GPUs, and for each: which, five lists of
//	             2 bytes a step
//
// Numbers without a size are varints of encoding/binary, and the others are
// little-endian.
const chartsVersion = 1

// Bounds of what is read back.
const (
	maxChartGPUs  = 4096
	maxChartSteps = 4096
)

func chartFile(host string) string { return pastDir + "/host-" + host + ".charts" }

func spansOf(p *render.HostPast) [5]*render.PastSpan {
	return [5]*render.PastSpan{&p.Spans[0], &p.Spans[1], &p.Spans[2], &p.Spans[3], &p.Fives}
}

// encode is the charts as a file; equal charts are equal files.
func (c *hostCharts) encode() []byte {
	spans := spansOf(c.Past)
	number := map[string]uint64{}
	var keys []string
	size := 256
	for _, s := range spans {
		for key := range s.GPUs {
			if _, known := number[key]; !known {
				number[key] = 0
				keys = append(keys, key)
			}
		}
		size += len(s.GPUs) * (4 + 2*render.PastMetrics*s.Len())
	}
	slices.Sort(keys)
	b := append(make([]byte, 0, size+64*len(keys)), chartsVersion)
	b = binary.AppendUvarint(b, uint64(len(keys)))
	for i, key := range keys {
		number[key] = uint64(i)
		b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
	}
	moment := func(t time.Time) {
		b = binary.AppendVarint(b, t.Unix())
		b = binary.AppendUvarint(b, uint64(t.Nanosecond()))
	}
	for _, t := range c.Done {
		moment(t)
	}
	for _, s := range spans {
		moment(s.From)
		b = binary.AppendUvarint(b, uint64(s.Step))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.Coverage))
		b = binary.AppendUvarint(b, uint64(s.Len()))
		b = binary.AppendUvarint(b, uint64(len(s.GPUs)))
		for _, key := range keys {
			gpu, known := s.GPUs[key]
			if !known {
				continue
			}
			b = binary.AppendUvarint(b, number[key])
			for _, list := range gpu {
				for _, v := range list {
					b = binary.LittleEndian.AppendUint16(b, uint16(v))
				}
			}
		}
	}
	return b
}

// decodeCharts reads what encode wrote, and believes none of it: all lists of a
// chart are of one length, as drawing them needs. It is nil for anything else.
func decodeCharts(data []byte) *hostCharts {
	r := &chartReader{b: data}
	if version := r.take(1); version == nil || version[0] != chartsVersion {
		return nil
	}
	keys := make([]string, r.count(maxChartGPUs))
	for i := range keys {
		keys[i] = string(r.take(r.count(len(r.b))))
	}
	c := &hostCharts{Past: &render.HostPast{}}
	for i := range c.Done {
		c.Done[i] = r.moment()
	}
	for _, s := range spansOf(c.Past) {
		s.From = r.moment()
		s.Step = time.Duration(r.count(math.MaxInt))
		if bits := r.take(8); bits != nil {
			s.Coverage = math.Float64frombits(binary.LittleEndian.Uint64(bits))
		}
		n, gpus := r.count(maxChartSteps), r.count(len(keys))
		if r.bad || s.Step <= 0 || !(s.Coverage >= 0 && s.Coverage <= 1) || gpus*n*render.PastMetrics*2 > len(r.b) {
			return nil
		}
		s.GPUs = make(map[string]render.PastGPU, gpus)
		lists := make([]int16, gpus*n*render.PastMetrics)
		for range gpus {
			which := r.count(len(keys) - 1)
			values := r.take(2 * n * render.PastMetrics)
			if r.bad {
				return nil
			}
			var gpu render.PastGPU
			for m := range gpu {
				gpu[m], lists = lists[:n:n], lists[n:]
				for i := range gpu[m] {
					gpu[m][i] = int16(binary.LittleEndian.Uint16(values[2*i:]))
				}
				values = values[2*n:]
			}
			s.GPUs[keys[which]] = gpu
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil
	}
	return c
}

// A chartReader reads numbers from bytes, until there is none.
type chartReader struct {
	b   []byte
	bad bool
}

// take returns so many bytes, nil if there are fewer.
func (r *chartReader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// count returns a number from 0 to most.
func (r *chartReader) count(most int) int {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || most < 0 || v > uint64(most) {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *chartReader) moment() time.Time {
	seconds, n := binary.Varint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return time.Time{}
	}
	r.b = r.b[n:]
	return time.Unix(seconds, int64(r.count(999_999_999))).UTC()
}

// loadCharts reads what an earlier process kept; what cannot be read is made anew.
func (g *Generator) loadCharts(host string) *hostCharts {
	data, err := atomicfile.Read(filepath.Join(g.opt.State, chartFile(host)), maxPastBytes)
	if err == nil {
		if c := decodeCharts(data); c != nil {
			return c
		}
	}
	return &hostCharts{}
}
