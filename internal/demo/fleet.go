// Package demo simulates a fleet of hosts, people, jobs and faults, with known ground
// truth. `gpuboard demo` shows it, and tests of history and of scale compare with it.
//
// Everything is a function of the seed, the start and the time asked for, so that times
// may be asked for in any order, before the start as well as after it.
package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/inventory"
)

// Interval is how often a node of the fleet collects.
const Interval = 20 * time.Second

// A Fleet is safe for concurrent use. It has no state.
type Fleet struct {
	seed     uint64
	start    time.Time
	machines []*machine
}

type machine struct {
	inventory.Entry
	seed    uint64
	cores   int
	memory  int64 // MiB
	driver  string
	address string
	cuda    string
	silence span // it sends nothing
	stopped span // its driver does not answer; a reboot ends it
	gpus    []*device
	pulled  bool // the web host reads it over SSH
}

// A device is one GPU, with a slot for each job that may run at the same time.
type device struct {
	card
	index   int
	uuid    string
	bus     string
	lost    span // the driver does not have it
	fault   *fault
	mig     []instance
	slots   []*slot
	desktop bool // a display server runs on it
	hidden  bool // the driver's part for computing does not list it
}

// A card is a model, as nvidia-smi reports it.
type card struct {
	name     string
	memory   int64   // MiB
	watts    float64 // limit
	idle     float64 // W
	cool     int     // °C when idle
	hot      int     // °C at full load
	sm, mem  int     // MHz at full load
	ecc, mig bool
	fan      bool
	shared   bool // its memory is the node's
}

func (c *card) amd() bool { return strings.HasPrefix(c.name, "AMD ") }

// A fault is an XID in the kernel's log, with the uncorrectable memory errors that came
// with it. A reboot clears it.
type fault struct {
	at     time.Time
	xid    int
	errors int64
}

// model is the card of a name.
func model(name string) card {
	return map[string]card{
		"h100":    {"NVIDIA H100 80GB HBM3", 81559, 700, 72, 31, 66, 1980, 2619, true, true, false, false},
		"a100":    {"NVIDIA A100-SXM4-40GB", 40960, 400, 54, 32, 68, 1410, 1215, true, true, false, false},
		"a6000":   {"NVIDIA RTX A6000", 49140, 300, 22, 34, 79, 1800, 7600, true, false, true, false},
		"rtx4090": {"NVIDIA GeForce RTX 4090", 24564, 450, 19, 33, 71, 2520, 10251, false, false, true, false},
		"rtx3090": {"NVIDIA GeForce RTX 3090", 24576, 350, 24, 35, 76, 1695, 9501, false, false, true, false},
		"l40s":    {"NVIDIA L40S", 46068, 350, 34, 33, 70, 2520, 9001, true, false, false, false},
		"mi300x":  {"AMD Instinct MI300X", 196592, 750, 131, 38, 69, 2100, 1300, false, false, false, false},
		"gb10":    {"NVIDIA GB10", 122502, 100, 4.6, 37, 74, 2418, 0, false, false, false, true},
	}[name]
}

// An instance is one MIG slice of a card.
type instance struct {
	profile string
	gi, ci  int
	memory  int64
	uuid    string
}

// A span is a period from its start to before its end. A zero end means no end.
type span struct{ from, until time.Time }

func (s span) has(t time.Time) bool {
	return !s.from.IsZero() && !t.Before(s.from) && (s.until.IsZero() || t.Before(s.until))
}

func (s span) overlaps(o span) bool {
	return (s.until.IsZero() || o.from.Before(s.until)) && (o.until.IsZero() || s.from.Before(o.until))
}

// New returns the fleet of the demonstration: nine hosts of a small lab. start is when
// somebody opens the page. From then on there is at least one GPU in every state of a
// board, together with [Fleet.Files]. Before start there are weeks of history.
func New(seed int64, start time.Time) *Fleet {
	f := &Fleet{seed: uint64(seed), start: start.UTC().Truncate(time.Minute)}
	f.add("atlas", "Room 1", "vision", "GPUs 0-3 are for deadlines", 8, model("h100"), 128, "580.82.07", "13.0")
	f.add("boreas", "Room 1", "vision", "", 4, model("a100"), 64, "570.172.08", "12.8")
	f.add("ceres", "Room 1", "language", "GPU 2 is cut into MIG instances", 4, model("a100"), 64, "570.172.08", "12.8")
	f.add("dione", "Room 2", "language", "", 8, model("mi300x"), 96, "6.12.12", "")
	f.add("europa", "Room 2", "robotics", "", 4, model("a100"), 64, "570.172.08", "12.8")
	f.add("fornax", "Room 2", "robotics", "", 4, model("rtx4090"), 32, "580.82.07", "13.0")
	f.add("gaia", "Room 2", "", "the old one below the window", 2, model("rtx3090"), 24, "550.163.01", "12.4")
	f.add("helios", "Room 2", "robotics", "the GPU works in the node's own memory", 1, model("gb10"), 20, "580.95.05",
		"13.0")
	f.add("iris", "Room 2", "language", "", 2, model("l40s"), 64, "580.82.07", "13.0")
	f.addScenario()
	return f
}

// NewLarge returns a fleet of hosts with 8 GPUs each and without faults, for benchmarks.
func NewLarge(seed int64, start time.Time, hosts int) *Fleet {
	f := &Fleet{seed: uint64(seed), start: start.UTC().Truncate(time.Minute)}
	cards := []card{model("h100"), model("a100"), model("a6000"), model("rtx4090")}
	for i := range hosts {
		f.add(fmt.Sprintf("gpu%04d", i), fmt.Sprintf("Rack %d", i/20+1), "", "", 8, cards[i%len(cards)], 128,
			"580.82.07", "13.0")
	}
	return f
}

func (f *Fleet) add(name, group, owner, note string, gpus int, c card, cores int, driver, cuda string) {
	n := len(f.machines)
	m := &machine{
		Entry: inventory.Entry{Name: name, Group: group, Owner: owner, Note: note, GPUs: gpus},
		seed:  mix(f.seed, uint64(n)+1), cores: cores, memory: int64(cores) * 8192, driver: driver, cuda: cuda,
		address: fmt.Sprintf("10.20.%d.%d", n/200, 11+n%200),
	}
	room := c.memory * 92 / 100
	if c.shared {
		m.memory, room = c.memory, c.memory*60/100 // the node needs some of it
	}
	for i := range gpus {
		seed := mix(m.seed, uint64(i)+100)
		d := &device{card: c, index: i, uuid: uuid("GPU", seed), bus: fmt.Sprintf("00000000:%02X:00.0", 0x07+0x0b*i)}
		switch {
		case c.shared:
			d.bus = "0000000F:01:00.0"
		case c.amd():
			d.uuid, d.bus = fmt.Sprintf("GPU-%016x", mix(seed, 13)), strings.ToLower(d.bus)
		}
		d.slots = []*slot{{seed: mix(seed, 1), capacity: room}}
		m.gpus = append(m.gpus, d)
	}
	f.machines = append(f.machines, m)
}

// Hosts returns the hosts in order of their names.
func (f *Fleet) Hosts() []inventory.Entry {
	list := make([]inventory.Entry, len(f.machines))
	for i, m := range f.machines {
		list[i] = m.Entry
	}
	return list
}

func (f *Fleet) machine(host string) *machine {
	i, ok := slices.BinarySearchFunc(f.machines, host,
		func(m *machine, name string) int { return strings.Compare(m.Name, name) })
	if !ok {
		return nil
	}
	return f.machines[i]
}

// Silent reports whether a host sends nothing at this time. fornax is silent from three
// hours before the start.
func (f *Fleet) Silent(host string, now time.Time) bool {
	m := f.machine(host)
	return m != nil && m.silence.has(tick(m, now))
}

// tick returns the last time until t at which a node collected. Each has its own offset.
func tick(m *machine, t time.Time) time.Time {
	phase := time.Duration(m.seed%20000) * time.Millisecond
	return t.UTC().Add(-phase).Truncate(Interval).Add(phase)
}

// lastNews returns when the newest snapshot that the host has sent was collected.
func lastNews(m *machine, now time.Time) time.Time {
	if at := tick(m, now); !m.silence.has(at) {
		return at
	}
	return tick(m, m.silence.from.Add(-time.Millisecond))
}

// mix hashes two numbers (splitmix64).
func mix(a, b uint64) uint64 {
	z := a + 0x9e3779b97f4a7c15*(b+1)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit returns mix as a fraction in [0, 1).
func unit(a, b uint64) float64 { return float64(mix(a, b)>>11) / (1 << 53) }

func uuid(prefix string, seed uint64) string {
	a, b := mix(seed, 11), mix(seed, 12)
	return fmt.Sprintf("%s-%08x-%04x-4%03x-%04x-%012x", prefix, uint32(a), uint16(a>>32), uint16(a>>48)&0xfff,
		uint16(b>>48)&0x3fff|0x8000, b&0xffffffffffff)
}
