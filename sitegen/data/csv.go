package data

import (
	"bytes"
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
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

// csvFile is lines with CRLF at their ends (RFC 4180).
func csvFile(lines [][]string) []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	w.UseCRLF = true
	_ = w.WriteAll(lines) // a buffer in memory cannot fail
	return buf.Bytes()
}

func csvWindow(name string, w *render.Window) []string {
	return []string{name, csvTime(w.From), csvTime(w.To)}
}

func csvUse(in render.Input, u render.Use) []string {
	cost, co2 := in.Site.Energy.Of(u.EnergyKWh)
	return []string{csvNumber(u.GPUHours), csvPtr(u.Utilization), csvNumber(u.IdleHours), csvNumber(u.EnergyKWh),
		csvPtr(cost), csvPtr(co2)}
}

// csvUsers is api/v1/history/users.csv: a line for each person and team in
// each window.
func csvUsers(in render.Input, f *render.FleetPast) []byte {
	lines := [][]string{{"window", "from", "until", "coverage", "kind", "name", "gpu_hours", "utilization_percent",
		"idle_hours", "energy_kwh", "cost", "co2_kg"}}
	for i := range f.Windows {
		w := &f.Windows[i]
		for _, list := range []struct {
			kind string
			of   []render.UserPast
		}{{"user", w.Users}, {"team", w.Teams}} {
			for _, u := range list.of {
				line := append(csvWindow(render.WindowNames()[i], w), csvNumber(w.Coverage), list.kind, csvText(u.Name))
				lines = append(lines, append(line, csvUse(in, u.Use)...))
			}
		}
	}
	return csvFile(lines)
}

// csvHosts is api/v1/history/hosts.csv.
func csvHosts(in render.Input, f *render.FleetPast) []byte {
	lines := [][]string{{
		"window", "from", "until", "coverage", "name", "gpu_hours", "utilization_percent", "idle_hours",
		"energy_kwh", "cost", "co2_kg", "free_hours", "known_gpu_hours", "unknown_hours",
	}}
	for i := range f.Windows {
		w := &f.Windows[i]
		for _, h := range w.Hosts {
			line := append(csvWindow(render.WindowNames()[i], w), csvNumber(h.Coverage), csvText(h.Name))
			line = append(line, csvUse(in, h.Use)...)
			line = append(line, csvNumber(h.FreeHours), csvNumber(h.KnownHours), csvNumber(h.UnknownHours()))
			lines = append(lines, line)
		}
	}
	return csvFile(lines)
}

// WriteCSV writes one line for each GPU, or for each of its slices where it is
// partitioned, and one for each host without any.
// Unknown is an empty cell.
func WriteCSV(w io.Writer, b *board.Board) error {
	lines := [][]string{{"host", "group", "host_state", "snapshot_at", "gpu", "uuid", "model", "state",
		"utilization_gpu_percent", "memory_used_mib", "memory_total_mib", "temperature_celsius", "power_draw_watts",
		"users",
		"programs", "since", "idle_for_seconds", "booked_by", "booked_until", "free_from", "free_until",
		"unknown_users",
		"left", "vendor"}}
	for i := range b.Hosts {
		h := &b.Hosts[i]
		head := []string{csvText(h.Name), csvText(h.Group), string(h.State), csvTime(h.SnapshotAt)}
		if len(h.GPUs) == 0 {
			lines = append(lines, append(head, make([]string, 20)...))
		}
		for g := range h.Units() {
			lines = append(lines, append(slices.Clone(head), csvGPU(g, b.GeneratedAt)...))
		}
	}
	return csv.NewWriter(w).WriteAll(lines)
}

func csvGPU(g *board.GPU, now time.Time) []string {
	idle, bookedBy, bookedUntil, watts := "", "", "", ""
	if d := g.IdleFor(now); d > 0 {
		idle = strconv.FormatInt(int64(d/time.Second), 10)
	}
	if g.Booking != nil {
		bookedBy, bookedUntil = csvText(g.Booking.Name), csvTime(g.Booking.Until)
	}
	if g.PowerDraw != nil {
		watts = strconv.FormatFloat(*g.PowerDraw, 'f', 1, 64)
	}
	people := g.Users()
	for _, likely := range g.Likely() {
		people = append(people, snapshot.Owner{Likely: likely}.Name())
	}
	return []string{g.Label(), csvText(g.UUID), csvText(g.Name), string(g.State), csvWhole(g.UtilizationGPU),
		csvWhole(g.MemoryUsed), csvWhole(g.MemoryTotal), csvWhole(g.Temperature), watts,
		csvText(strings.Join(people, " ")), csvText(strings.Join(g.Programs(), " ")),
		csvTime(g.Since), idle, bookedBy, bookedUntil, csvTime(g.FreeFrom), csvTime(g.FreeUntil),
		csvText(strings.Join(namesOf(g.Unknown()), "; ")), csvText(strings.Join(namesOf(g.Left()), "; ")),
		string(g.Maker())}
}

func csvWhole[T int | int64](v *T) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

func csvTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
