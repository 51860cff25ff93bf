package render

import (
	"cmp"
	"math"
	"path"
	"slices"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/history"
	"gpuboard/internal/snapshot"
)

// A History is what pages and data files show of the past. It is
// renewed less often than the board, and equal values give equal bytes.
type History struct {
	// Hosts are the charts by name of host; one that is missing, and not Kept, has
	// none yet.
	Hosts map[string]*HostPast
	// Kept are the hosts whose charts are not due: their files stay in the site as
	// they are. What Hosts has of them is the last day and week.
	Kept map[string]bool
	// Fleet is nil until it has been added up for the first time.
	Fleet *FleetPast
}

// Spans is how many lengths the charts of a host have.
const Spans = 4

// PastLengths are how far back the four charts reach, PastSteps how many equal
// steps each has.
func PastLengths() [Spans]time.Duration {
	const day = 24 * time.Hour
	return [Spans]time.Duration{day, 7 * day, 30 * day, 365 * day}
}

// PastSteps is the number of steps of each chart of a host.
func PastSteps() [Spans]int { return [Spans]int{96, 84, 60, 73} }

// SpanNames are the names of the four in addresses and data files.
func SpanNames() [Spans]string { return [Spans]string{"24h", "7d", "30d", "1y"} }

// ChartsPath is the page with the charts of a host in a language, whose pages lie in dir.
func ChartsPath(dir, host string) string {
	return path.Join(dir, "hosts", host, "history", "index.html")
}

// FullHistoryHosts is the number of hosts up to which the charts of the last day
// stand on a host's own page, and each step of its past in the data files.
const FullHistoryHosts = 60

// The metrics of a [PastGPU], in its order.
const (
	PastUtilization = iota // %
	PastMemory             // units of PastMemoryUnit MiB
	PastTemperature        // °C
	PastPower              // W
	PastHeld               // % of the time in which somebody held memory
	PastMetrics
)

// PastMemoryUnit is one unit of memory in a [PastGPU], in MiB, and PastHostMemoryUnit one in a [HostLoad].
const (
	PastMemoryUnit     = 16
	PastHostMemoryUnit = history.HostMemoryUnit
)

// PastUnknown stands where nothing is known.
const PastUnknown = math.MinInt16

// A HostPast is the past of one host; it is never changed once it is made.
type HostPast struct {
	Spans [4]PastSpan
}

// A PastSpan is one chart: from From on, as many steps as its lists are long.
type PastSpan struct {
	From     time.Time
	Seconds  int64   // of a step
	Coverage float64 // 0 to 1: of the samples that should have come
	Host     HostLoad
	GPUs     map[string]PastGPU // by key of history
}

// A HostLoad is what a host itself did, a mean for each step; both lists are empty where nothing is known.
type HostLoad struct {
	Load   []int16 // % of its cores
	Memory []int16 // units of PastHostMemoryUnit MiB
}

// Values returns both in their units (%, GiB), in n steps; NaN is not known.
func (h HostLoad) Values(n int) (load, memory []float64) {
	return values(h.Load, n, 1), values(h.Memory, n, PastHostMemoryUnit/1024.0)
}

// Step is the length of a step.
func (s *PastSpan) Step() time.Duration { return time.Duration(s.Seconds) * time.Second }

// A PastGPU is a mean for each step, by metric.
type PastGPU [PastMetrics][]int16

// Len is the number of steps.
func (s *PastSpan) Len() int {
	for _, g := range s.GPUs {
		return len(g[PastUtilization])
	}
	return 0
}

// To is the end of the last step.
func (s *PastSpan) To() time.Time { return s.From.Add(time.Duration(s.Len()) * s.Step()) }

// Values returns one metric in its unit (%, GiB, °C, W, %); NaN is not known.
func (g PastGPU) Values(metric int) []float64 {
	unit := 1.0
	if metric == PastMemory {
		unit = PastMemoryUnit / 1024.0
	}
	return values(g[metric], len(g[metric]), unit)
}

// values are those of a list in n steps.
func values(list []int16, n int, unit float64) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, n)
	for i, v := range list[:min(n, len(list))] {
		if v != PastUnknown {
			out[i] = float64(v) * unit
		}
	}
	return out
}

// HasPast reports whether history can keep anything of a GPU. A slice is kept by
// its UUID alone.
func HasPast(g *board.GPU) bool { return g.Slice == nil || snapshot.IsSlice(g.UUID) }

// A FleetPast is the past of the fleet.
type FleetPast struct {
	AsOf time.Time
	// Since is the beginning of the first day that is known.
	Since   time.Time
	Spans   [4]FleetSpan
	Windows [4]Window // today, and the days up to today: 7, 30, 365
	// Heat is how busy each hour of the week was in the last 30 days, by the
	// site's clock, [time.Weekday][hour].
	Heat [7][24]HeatHour
}

// A FleetSpan is the fleet between instants, a step each.
type FleetSpan struct {
	At       []time.Time // one more than steps
	Steps    []FleetStep
	Coverage float64
	// Free are the GPUs that nobody used, Held those that somebody used, by model.
	Free, Held map[string][]*float64
	// People are those who used most of them, most first.
	People []PersonSteps
}

// PersonSteps is how many GPUs one person used in each step.
type PersonSteps struct {
	Name string
	Held []float64
}

// A FleetStep is the fleet in one step.
type FleetStep = history.FleetStep

// A HeatHour is one hour of the week.
type HeatHour struct {
	Held        *float64 `json:"held"`        // % of the GPUs of which that is known
	Utilization *float64 `json:"utilization"` // %
	KnownHours  float64  `json:"known_hours"` // GPU-hours behind it
}

// A Window is who used how much in some whole days up to now.
type Window struct {
	From, To time.Time
	Users    []UserPast // most GPU-hours first
	Teams    []UserPast // by name; a person may be in several
	Hosts    []PastHost // by name
	// Coverage is 0 to 1: of the samples that should have come from all hosts.
	Coverage float64
}

// Use is what was used.
type Use = history.Use

// A UserPast is what one person used; "" stands for processes of nobody known.
type UserPast = history.UserTotal

// A PastHost is how much a host was used. EnergyKWh is that of all its GPUs.
type PastHost struct {
	Name string
	Use
	FreeHours, KnownHours float64
	Coverage              float64
}

// UnknownHours are those of KnownHours of which it is not known whether anybody held the GPU: its processes
// could not be read.
func (h *PastHost) UnknownHours() float64 { return max(0, h.KnownHours-h.GPUHours-h.FreeHours) }

// KnownHours are the GPU-hours of which something is known.
func (w *Window) KnownHours() (hours float64) {
	for i := range w.Hosts {
		hours += w.Hosts[i].KnownHours
	}
	return hours
}

// WindowNames are the windows in addresses and data files.
func WindowNames() [Spans]string { return [Spans]string{"today", "7d", "30d", "1y"} }

// Energy is what a kilowatt-hour stands for; zero is not told.
type Energy struct {
	Price    float64 // per kWh
	Currency string
	CO2Grams float64 // per kWh
}

// Of is what an amount of energy costs, and its CO2 in kg; nil where the factor
// is not told.
func (x Energy) Of(kwh float64) (cost, co2 *float64) {
	if x.Price > 0 {
		cost = new(kwh * x.Price)
	}
	if x.CO2Grams > 0 {
		co2 = new(kwh * x.CO2Grams / 1000)
	}
	return cost, co2
}

// Mask returns the same past with other names of people. Those who come to have
// one name become one; teams and uses over time, from which people could be told, are left out.
func (h *History) Mask(name func(string) string) *History {
	if h == nil || h.Fleet == nil {
		return h
	}
	fleet := *h.Fleet
	for i := range fleet.Spans {
		fleet.Spans[i].People = nil
	}
	for i := range fleet.Windows {
		w := &fleet.Windows[i]
		w.Teams = nil
		sums := map[string]Use{}
		for _, u := range w.Users {
			if u.Name != "" {
				u.Name = name(u.Name)
			}
			sums[u.Name] = sums[u.Name].Add(u.Use)
		}
		w.Users = UsersOf(sums)
	}
	return &History{Hosts: h.Hosts, Kept: h.Kept, Fleet: &fleet}
}

// UsersOf lists people by what they used, most GPU-hours first.
func UsersOf(sums map[string]Use) []UserPast {
	users := make([]UserPast, 0, len(sums))
	for name, u := range sums {
		users = append(users, UserPast{Name: name, Use: u})
	}
	slices.SortFunc(users, func(x, y UserPast) int {
		return cmp.Or(cmp.Compare(y.GPUHours, x.GPUHours), cmp.Compare(x.Name, y.Name))
	})
	return users
}

// Sound reports whether all lists of a span have one length, as drawing them
// needs; what was kept in a file may have been changed.
func (p *FleetPast) Sound() bool {
	for _, s := range p.Spans {
		if len(s.Steps) > 0 && len(s.At) != len(s.Steps)+1 {
			return false
		}
		for name, free := range s.Free {
			if len(free) != len(s.Steps) || len(s.Held[name]) != len(s.Steps) {
				return false
			}
		}
		for _, person := range s.People {
			if len(person.Held) != len(s.Steps) {
				return false
			}
		}
	}
	return true
}
