package legacy

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/snapshot"
)

// stampLayout is the time format of nvidia-smi, in the node's zone.
const stampLayout = "2006/01/02 15:04:05"

// fields splits a line of nvidia-smi's CSV into the first and the last fields, and one
// field for the rest between them: a name may contain commas.
func fields(line string, first, last int) []string {
	all := strings.Split(line, ",")
	if len(all) < first+1+last {
		return nil
	}
	end := len(all) - last
	out := slices.Concat(all[:first], []string{strings.Join(all[first:end], ",")}, all[end:])
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// gpus reads HOST_gpus.csv: index, uuid, name, memory used and total (MiB),
// utilization of GPU and memory (%), temperature (°C), moment. The newest line
// of each GPU counts, for the GPUs that were listed last. all reports whether these are
// all GPUs of the driver: the file is complete, with as many lines as the scripts keep,
// and has room for more GPUs.
func (r *reader) gpus(data []byte) (gpus []snapshot.GPU, all bool, last time.Time) {
	type seen struct {
		gpu snapshot.GPU
		at  time.Time
	}
	newest := map[int]seen{}
	usable := 0
	complete := r.table(gpusFile, data, 2, 6, func(f []string) bool {
		if f == nil {
			return false
		}
		index, err := strconv.Atoi(f[0])
		at, ok := r.local(stampLayout, f[8])
		if err != nil || index < 0 || index > 1<<16 || !ok || grouped(f[2]) {
			return false
		}
		usable++
		if old, known := newest[index]; known && old.at.After(at) {
			return true
		}
		g := snapshot.GPU{Index: index, UUID: text(f[1]), Name: text(f[2]),
			MemoryUsed: reading[int64](f[3]), MemoryTotal: reading[int64](f[4])}
		g.UtilizationGPU, g.UtilizationMemory, g.Temperature = reading[int](
			f[5]), reading[int](f[6]), reading[int](f[7])
		if g.MemoryUsed != nil && g.MemoryTotal != nil && *g.MemoryTotal >= *g.MemoryUsed {
			g.MemoryFree = new(*g.MemoryTotal - *g.MemoryUsed)
		}
		g.Health, g.HealthReason = health(f[1:8], g)
		if g.Health == snapshot.HealthLost {
			g.ProcessesUnknown = g.HealthReason // its processes are not listed
		}
		newest[index] = seen{g, at}
		if at.After(last) {
			last = at
		}
		return true
	})
	gpus = []snapshot.GPU{}
	for _, s := range newest {
		if last.Sub(s.at) <= together {
			gpus = append(gpus, s.gpu)
		}
	}
	slices.SortFunc(gpus, func(a, b snapshot.GPU) int { return cmp.Compare(a.Index, b.Index) })
	full := len(newest) == tailGPUs
	if usable == tailGPUs && full {
		r.problem("legacy:cut", gpusFile, 0,
			"the older scripts keep 20 lines, and all are of different GPUs: there may be more GPUs than these")
	}
	return gpus, usable == tailGPUs && complete && !full, last
}

// grouped reports whether a name has a number after a comma. Then numbers are written like
// 20,000, and the fields cannot be told apart.
func grouped(name string) bool {
	parts := strings.Split(name, ",")
	return slices.ContainsFunc(parts[1:], func(s string) bool { return number(s) != nil })
}

// health returns the health of a GPU according to its line.
func health(f []string, g snapshot.GPU) (snapshot.Health, string) {
	for _, token := range f {
		low := strings.ToLower(token)
		switch {
		case strings.Contains(low, "gpu is lost"):
			return snapshot.HealthLost, token
		case strings.Contains(low, "requires reset") || token == "ERR!":
			return snapshot.HealthError, token
		}
	}
	if g.MemoryTotal == nil && g.MemoryUsed == nil && g.UtilizationGPU == nil && g.Temperature == nil {
		return snapshot.HealthUnknown, ""
	}
	return snapshot.HealthOK, ""
}

// text returns a field, "" for nvidia-smi's words for no value.
func text(s string) string {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") || s == "N/A" || s == "-" {
		return ""
	}
	return s
}

// number parses a reading; nil for no value.
func number(s string) *float64 {
	s, _, _ = strings.Cut(strings.TrimSpace(s), " ") // a unit, where nounits was left out
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || math.IsNaN(n) || math.Abs(n) > 1e12 {
		return nil
	}
	return &n
}

// reading parses a reading without its decimals.
func reading[T int | int64](s string) *T {
	if n := number(s); n != nil {
		return new(T(*n))
	}
	return nil
}
