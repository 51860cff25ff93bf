package snapshot

import (
	"math"
	"strconv"
	"sync"
)

// Readings are the readings of a GPU that are one number each; nil is unknown. None of them says
// anything about a person, so a masked site shows them all. [Descriptors] describes each.
type Readings struct {
	UtilizationGPU     *int     `json:"utilization_gpu_percent"`
	UtilizationMemory  *int     `json:"utilization_memory_percent"`
	UtilizationEncoder *int     `json:"utilization_encoder_percent"`
	Temperature        *int     `json:"temperature_celsius"`
	PowerDraw          *float64 `json:"power_draw_watts"`
	PowerLimit         *float64 `json:"power_limit_watts"`
	Fan                *int     `json:"fan_percent"`
	PCIeWidth          *int     `json:"pcie_width"`
	PCIeWidthMax       *int     `json:"pcie_width_max"`
	ClockSM            *int     `json:"clock_sm_mhz"`
	ClockMemory        *int     `json:"clock_memory_mhz"`
}

// A Descriptor is what is known of one of the [Readings].
type Descriptor struct {
	Name string // in JSON
	Help string // what it is, without a period
	Unit string // the word of its unit on pages is "sign." and this; "" for a count
	// Low and High are bounds that no real GPU leaves. A value outside them comes from a broken driver or
	// is forged, and becomes unknown.
	Low, High float64
	Decimals  bool // it is not a whole number
	// Elements are its paths below <gpu> in nvidia-smi's XML. The first that has a number counts.
	Elements []string
	// AMD are its paths in amd-smi's JSON, its keys in rocm-smi's, and its files in sysfs. The first that has a number
	// within the bounds counts.
	AMD      []string
	Constant bool   // it does not change while the node runs, so it is kept for a lost GPU
	Fact     string // its name on the host's page is the word "fact." and this; "" if it has no line of its own
	Metric   string // its metric, without the prefix and for a percentage in [0, 1]; "" for none
	field    interface {
		of(r *Readings) (value float64, known bool)
		set(r *Readings, value float64)
		clear(r *Readings)
	}
}

// Percent is the [Descriptor.Unit] of percentages.
const Percent = "percent"

// Bounds that samples have as well.
const (
	maxPercent     = 100
	minCelsius     = -60
	maxCelsius     = 250
	maxWatts       = 20_000
	maxLoadPercent = 10_000 // of a host: a hundred processes for each core
)

// Descriptors returns the descriptors of all [Readings], in the order of the lines on a host's page. The
// list must not be changed.
func Descriptors() []Descriptor { return descriptors() }

var descriptors = sync.OnceValue(func() []Descriptor {
	const maxLanes, maxMHz = 64, 20_000 // twice the lanes of PCIe

	// From driver 535 the element is gpu_power_readings. From 570 there is an average and
	// an instant value, and either may be N/A.
	powerDraw := []string{
		"gpu_power_readings/power_draw", "power_readings/power_draw",
		"gpu_power_readings/average_power_draw", "gpu_power_readings/instant_power_draw",
		"power_readings/average_power_draw", "power_readings/instant_power_draw",
	}
	powerLimit := []string{
		"gpu_power_readings/current_power_limit", "gpu_power_readings/power_limit",
		"power_readings/power_limit", "power_readings/current_power_limit",
		"power_readings/enforced_power_limit", "gpu_power_readings/enforced_power_limit",
	}
	lanes := "pci/pci_gpu_link_info/link_widths/"

	amdPower := []string{"power/socket_power", "power/current_power", "power/average_socket_power",
		"Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)",
		"hwmon/power1_average", "hwmon/power1_input"}
	amdLimit := []string{"limit/socket_power", "limit/current_power", "limit/ppt0/socket_power_limit",
		"power/power_limit",
		"Max Graphics Package Power (W)", "hwmon/power1_cap"}
	amdHeat := []string{"temperature/edge", "temperature/hotspot", "Temperature (Sensor edge) (C)",
		"Temperature (Sensor junction) (C)", "hwmon/temp edge", "hwmon/temp junction"}
	// rocm-smi says "use" of memory and means the activity of its interface.
	amdMemory := []string{"usage/umc_activity", "usage/mem_usage", "GPU memory use (%)",
		"GPU Memory Read/Write Activity (%)",
		"mem_busy_percent"}

	return []Descriptor{
		{Name: "power_draw_watts", Help: "Power drawn now", Unit: "watt", High: maxWatts, Decimals: true,
			Elements: powerDraw, AMD: amdPower, Metric: "power_draw_watts",
			field: field[float64](func(r *Readings) **float64 { return &r.PowerDraw })},
		{Name: "power_limit_watts", Help: "Power that it may draw", Unit: "watt", High: maxWatts, Decimals: true,
			Elements: powerLimit, AMD: amdLimit, Metric: "power_limit_watts", Constant: true, Fact: "power",
			field: field[float64](func(r *Readings) **float64 { return &r.PowerLimit })},
		{Name: "utilization_gpu_percent", Help: "Utilization", Unit: Percent, High: maxPercent,
			Elements: []string{"utilization/gpu_util"},
			AMD:      []string{"usage/gfx_activity", "usage/gfx_usage", "GPU use (%)", "gpu_busy_percent"},
			Metric:   "utilization_ratio",
			field:    field[int](func(r *Readings) **int { return &r.UtilizationGPU })},
		{Name: "utilization_memory_percent", Help: "Utilization of the memory interface", Unit: Percent,
			High:     maxPercent,
			Elements: []string{"utilization/memory_util"}, AMD: amdMemory, Fact: "memory-load",
			field: field[int](func(r *Readings) **int { return &r.UtilizationMemory })},
		{Name: "utilization_encoder_percent", Help: "Utilization of the video encoder", Unit: Percent, High: maxPercent,
			Elements: []string{"utilization/encoder_util"}, Fact: "encoder", Metric: "encoder_utilization_ratio",
			field: field[int](func(r *Readings) **int { return &r.UtilizationEncoder })},
		{Name: "temperature_celsius", Help: "Temperature of the chip", Unit: "celsius", Low: minCelsius,
			High:     maxCelsius,
			Elements: []string{"temperature/gpu_temp"}, AMD: amdHeat, Metric: "temperature_celsius",
			field: field[int](func(r *Readings) **int { return &r.Temperature })},
		{Name: "fan_percent", Help: "Speed of the fan; above 100 it is driven beyond its rating", Unit: Percent,
			High:     250,
			Elements: []string{"fan_speed"}, AMD: []string{"fan/usage", "Fan speed (%)", "hwmon/pwm1"},
			Fact: "fan", field: field[int](func(r *Readings) **int { return &r.Fan })},
		{Name: "pcie_width", Help: "Lanes of the PCIe link now", High: maxLanes,
			Elements: []string{lanes + "current_link_width"},
			AMD:      []string{"pcie/width", "pcie/current_lanes", "current_link_width"}, Metric: "pcie_lanes",
			field: field[int](func(r *Readings) **int { return &r.PCIeWidth })},
		{Name: "pcie_width_max", Help: "Lanes that the GPU can have where it is", High: maxLanes, Constant: true,
			Elements: []string{lanes + "max_link_width"},
			AMD:      []string{"bus/max_pcie_width", "max_link_width"}, Metric: "pcie_lanes_max",
			field: field[int](func(r *Readings) **int { return &r.PCIeWidthMax })},
		{Name: "clock_sm_mhz", Help: "Clock of the multiprocessors", Unit: "megahertz", High: maxMHz,
			Elements: []string{"clocks/sm_clock"},
			AMD:      []string{"clock/gfx_0/clk", "clock/gfx/cur_clk", "sclk clock speed:", "pp_dpm_sclk"},
			field:    field[int](func(r *Readings) **int { return &r.ClockSM })},
		{Name: "clock_memory_mhz", Help: "Clock of the memory", Unit: "megahertz", High: maxMHz,
			Elements: []string{"clocks/mem_clock"},
			AMD:      []string{"clock/mem_0/clk", "clock/mem/cur_clk", "mclk clock speed:", "pp_dpm_mclk"},
			field:    field[int](func(r *Readings) **int { return &r.ClockMemory })},
	}
})

// A field finds a reading among the others.
type field[T int | float64] func(*Readings) **T

func (f field[T]) of(r *Readings) (value float64, known bool) {
	if p := *f(r); p != nil {
		return float64(*p), true
	}
	return 0, false
}

func (f field[T]) set(r *Readings, value float64) { *f(r) = new(T(value)) }
func (f field[T]) clear(r *Readings)              { *f(r) = nil }

// Of returns the reading, and whether it is known.
func (d *Descriptor) Of(r *Readings) (value float64, known bool) { return d.field.of(r) }

// Set makes the reading known, rounded to a whole number where it has no decimals.
func (d *Descriptor) Set(r *Readings, value float64) {
	if !d.Decimals {
		value = math.Round(value)
	}
	d.field.set(r, value)
}

// ClearLive makes those readings unknown that change while the node runs.
func (r *Readings) ClearLive() {
	for _, d := range descriptors() {
		if !d.Constant {
			d.field.clear(r)
		}
	}
}

// readings makes every reading unknown that is not within its bounds.
func (v *validator) readings(r *Readings) {
	for _, d := range descriptors() {
		value, known := d.Of(r)
		within := value >= d.Low && value <= d.High // false for NaN
		if known && !within {
			v.add(BadRange, "%s is %s", d.Name, strconv.FormatFloat(value, 'f', -1, 64))
			d.field.clear(r)
		}
	}
}
