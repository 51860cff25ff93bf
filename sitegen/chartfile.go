package sitegen

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/sitegen/render"
)

// The charts of a host are kept in a file, because processes of one generation
// would read all of history for them: a line of JSON, and then the values of each
// span and GPU that it names, as 16-bit numbers, little-endian. As JSON, the values
// took three times as long to read.
type chartFile struct {
	Done  [4]time.Time     `json:"done"`
	Spans [5]chartFileSpan `json:"spans"` // as spansOf lists them
}

type chartFileSpan struct {
	From     time.Time     `json:"from"`
	Step     time.Duration `json:"step"`
	Coverage float64       `json:"coverage"`
	Steps    int           `json:"steps"`
	GPUs     []string      `json:"gpus"` // keys of history
}

// Bounds of what is read back.
const (
	maxChartGPUs  = 4096
	maxChartSteps = 4096
)

func chartFileName(host string) string { return pastDir + "/host-" + host + ".charts" }

func spansOf(p *render.HostPast) [5]*render.PastSpan {
	return [5]*render.PastSpan{&p.Spans[0], &p.Spans[1], &p.Spans[2], &p.Spans[3], &p.Fives}
}

// encode is the charts as a file; equal charts are equal files.
func (c *hostCharts) encode() ([]byte, error) {
	file := chartFile{Done: c.Done}
	var values []byte
	for i, s := range spansOf(c.Past) {
		keys := slices.Sorted(maps.Keys(s.GPUs))
		file.Spans[i] = chartFileSpan{From: s.From, Step: s.Step, Coverage: s.Coverage, Steps: s.Len(), GPUs: keys}
		for _, key := range keys {
			for _, list := range s.GPUs[key] {
				for _, v := range list {
					values = binary.LittleEndian.AppendUint16(values, uint16(v))
				}
			}
		}
	}
	line, err := json.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("keeping charts: %w", err)
	}
	return slices.Concat(line, []byte("\n"), values), nil
}

// decodeCharts reads what encode wrote, and checks that all lists of a chart have
// one length, as drawing them needs. It is nil for anything else.
func decodeCharts(data []byte) *hostCharts {
	var file chartFile
	line, values, _ := bytes.Cut(data, []byte("\n"))
	if json.Unmarshal(line, &file) != nil {
		return nil
	}
	c := &hostCharts{Past: &render.HostPast{}, Done: file.Done}
	for i, s := range spansOf(c.Past) {
		f := &file.Spans[i]
		if f.Step <= 0 || f.Coverage < 0 || f.Coverage > 1 || f.Steps < 0 || f.Steps > maxChartSteps || len(f.GPUs) > maxChartGPUs {
			return nil
		}
		numbers := len(f.GPUs) * render.PastMetrics * f.Steps
		if 2*numbers > len(values) {
			return nil
		}
		lists := make([]int16, numbers)
		for n := range lists {
			lists[n] = int16(binary.LittleEndian.Uint16(values[2*n:]))
		}
		values = values[2*numbers:]
		*s = render.PastSpan{From: f.From, Step: f.Step, Coverage: f.Coverage, GPUs: make(map[string]render.PastGPU, len(f.GPUs))}
		for _, key := range f.GPUs {
			var gpu render.PastGPU
			for m := range gpu {
				gpu[m], lists = lists[:f.Steps:f.Steps], lists[f.Steps:]
			}
			s.GPUs[key] = gpu
		}
	}
	if len(values) > 0 {
		return nil
	}
	return c
}

// loadCharts reads what an earlier process kept; what cannot be read is made anew.
func (g *Generator) loadCharts(host string) *hostCharts {
	data, err := atomicfile.Read(filepath.Join(g.opt.State, chartFileName(host)), maxPastBytes)
	if err == nil {
		if c := decodeCharts(data); c != nil {
			return c
		}
	}
	return &hostCharts{}
}
