package amdsmi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuboard/internal/snapshot"
)

const (
	maxDepth    = 16
	maxAttempts = 64 // beginnings that are tried; a text may have a bracket
	maxFields   = 4096
)

// documents returns the JSON documents in a text. The tools write warnings before, between and after them, and from
// ROCm 6.4.2 on several arrays one after the other.
func documents(out []byte) (list []any) {
	for range maxAttempts {
		at := bytes.IndexAny(out, "[{")
		if at < 0 {
			return list
		}
		out = out[at:]
		d := json.NewDecoder(bytes.NewReader(out))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			out = out[1:]
			continue
		}
		list = append(list, v)
		out = out[d.InputOffset():]
	}
	return list
}

// objects calls visit for each object that has a key. What is within such an object is its own.
func objects(v any, key string, depth int, visit func(map[string]any)) {
	inner, _ := v.([]any)
	if object, ok := v.(map[string]any); ok {
		if _, ok := object[key]; ok {
			visit(object)
			return
		}
		inner = slices.Collect(maps.Values(object))
	}
	for _, x := range inner {
		if depth < maxDepth {
			objects(x, key, depth+1, visit)
		}
	}
}

// fields are the texts of a GPU by their paths in amd-smi's JSON, by the keys of rocm-smi's, or by their files.
type fields map[string]string

// flatten adds the leaves of an object. A value with a unit becomes a text with one. Lists are left out: none of
// them is a reading of the whole GPU.
func (f fields) flatten(path string, v any, depth int) {
	switch v := v.(type) {
	case map[string]any:
		if value, ok := v["value"]; ok {
			unit, _ := v["unit"].(string)
			f.add(path, strings.TrimSpace(text(value)+" "+unit))
			return
		}
		for name, x := range v {
			if depth < maxDepth {
				f.flatten(strings.TrimPrefix(path+"/"+name, "/"), x, depth+1)
			}
		}
	default:
		f.add(path, text(v))
	}
}

// add adds a text unless it is a word for none, or there is one.
func (f fields) add(path, s string) {
	word, _, _ := strings.Cut(strings.ToLower(s), " ")
	switch word {
	case "", "n/a", "na", "-", "none", "null", "unknown", "unsupported":
		return
	}
	if _, twice := f[path]; !twice && len(f) < maxFields {
		f[path] = s
	}
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		return v.String()
	}
	return ""
}

var quantity = snapshot.Pattern(`^\(?(-?[0-9]{1,20}(?:\.[0-9]{1,9})?) ?([A-Za-z°%]*)\)?$`)

// number reads "45.0", "305 W", "(1725Mhz)" or "54000000 uW", in the unit of snapshots: W, °C, MHz, MiB, %.
// amd-smi writes MB and GB and means binary units.
func number(s string) (float64, bool) {
	m := quantity().FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	per, known := perUnit()[strings.ToLower(m[2])]
	if err != nil || !known {
		return 0, false
	}
	return v / per, true
}

// perUnit is by what amounts in other units are divided.
var perUnit = sync.OnceValue(func() map[string]float64 {
	return map[string]float64{
		"": 1, "w": 1, "c": 1, "°c": 1, "%": 1, "mhz": 1, "mb": 1, "mib": 1, "uw": 1e6, "hz": 1e6, "mw": 1e3,
		"mc": 1e3, "ghz": 1e-3, "b": 1 << 20, "bytes": 1 << 20, "kb": 1 << 10, "kib": 1 << 10, "gb": 1.0 / (1 << 10),
		"gib": 1.0 / (1 << 10),
	}
})

// number returns the first that is a number within bounds. Sensors that are absent read 0.
func (f fields) number(low, high float64, zero bool, paths ...string) *float64 {
	for _, path := range paths {
		if v, ok := number(f[path]); ok && v >= low && v <= high && (v != 0 || zero) {
			return &v
		}
	}
	return nil
}

// first returns the first text that there is.
func (f fields) first(paths ...string) string {
	for _, path := range paths {
		if s := f[path]; s != "" {
			return s
		}
	}
	return ""
}
