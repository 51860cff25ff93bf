package data

import (
	"bytes"
	"encoding/csv"
	"math"
	"strconv"
	"strings"

	"gpuboard/sitegen/render"
)

// csvText makes a foreign text safe in a table: a spreadsheet takes what begins
// with one of these for a formula, and would run it (OWASP, "CSV injection"). A
// quotation mark before it makes it a text.
func csvText(s string) string {
	s = strings.TrimSpace(render.Clean(s))
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

func csvNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000+0, 'f', -1, 64)
}

func csvPtr(v *float64) string {
	if v == nil {
		return ""
	}
	return csvNumber(*v)
}

// A csvFile is lines with CRLF at their ends (RFC 4180).
type csvFile struct {
	buf bytes.Buffer
	w   *csv.Writer
}

func newCSV(heads ...string) *csvFile {
	f := &csvFile{}
	f.w = csv.NewWriter(&f.buf)
	f.w.UseCRLF = true
	f.line(heads...)
	return f
}

// line adds a line; a buffer in memory cannot fail.
func (f *csvFile) line(cells ...string) { _ = f.w.Write(cells) }

func (f *csvFile) end() []byte {
	f.w.Flush()
	return f.buf.Bytes()
}

func csvWindow(name string, w *render.Window) []string {
	const layout = "2006-01-02T15:04:05Z"
	return []string{name, w.From.UTC().Format(layout), w.To.UTC().Format(layout)}
}

func csvUse(in render.Input, u render.Use) []string {
	cost, co2 := in.Site.Energy.Of(u.EnergyKWh)
	return []string{csvNumber(u.GPUHours), csvPtr(u.Utilization), csvNumber(u.IdleHours), csvNumber(u.EnergyKWh), csvPtr(cost), csvPtr(co2)}
}

// csvUsers is api/v1/history/users.csv: a line for each person and team in
// each window.
func csvUsers(in render.Input, f *render.FleetPast) []byte {
	out := newCSV("window", "from", "until", "coverage", "kind", "name", "gpu_hours", "utilization_percent", "idle_hours", "energy_kwh", "cost", "co2_kg")
	for i := range f.Windows {
		w := &f.Windows[i]
		for _, list := range []struct {
			kind string
			of   []render.UserPast
		}{{"user", w.Users}, {"team", w.Teams}} {
			for _, u := range list.of {
				line := append(csvWindow(render.WindowNames()[i], w), csvNumber(w.Coverage), list.kind, csvText(u.Name))
				out.line(append(line, csvUse(in, u.Use)...)...)
			}
		}
	}
	return out.end()
}

// csvHosts is api/v1/history/hosts.csv.
func csvHosts(in render.Input, f *render.FleetPast) []byte {
	out := newCSV("window", "from", "until", "coverage", "name", "gpu_hours", "utilization_percent", "idle_hours", "energy_kwh", "cost", "co2_kg", "free_hours", "known_gpu_hours")
	for i := range f.Windows {
		w := &f.Windows[i]
		for _, h := range w.Hosts {
			line := append(csvWindow(render.WindowNames()[i], w), csvNumber(h.Coverage), csvText(h.Name))
			out.line(append(append(line, csvUse(in, h.Use)...), csvNumber(h.FreeHours), csvNumber(h.KnownHours))...)
		}
	}
	return out.end()
}
