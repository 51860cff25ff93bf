package board

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Request is what somebody wants of the GPUs that they choose.
type Request struct {
	Memory  int64    // at least so many MiB
	MaxUsed *float64 // at most this percentage of the memory is in use; nil goes by the state
	Order   string   // of preference: index, memory or power
	Model   string   // a part of the name, in any case
	Hosts   []string // none for all
	MIG     bool     // slices, and not whole GPUs
	Booked  bool     // only what whoever asks has booked now
	// FreeUntil is until when what is free has to remain so by its bookings; zero if that does not matter.
	FreeUntil time.Time
}

// sliceName is what a model says that means slices: a profile such as 1g.5gb or CPX, or the word.
var sliceName = regexp.MustCompile(`(?i)\bmig\b|\dg\.\d+gb|\b[dtqc]px\b`)

// Slices reports whether slices are wanted, and not whole GPUs. Nobody gets one for the other.
func (r *Request) Slices() bool { return r.MIG || sliceName.MatchString(r.Model) }

// open reports whether somebody may use a GPU now, by its state or, with MaxUsed, by its memory.
func (r *Request) open(g *GPU, mine func(string) bool) bool {
	if r.Booked && !bookedBy(g, mine) || g.State == Free && !g.FreeUntil.IsZero() && g.FreeUntil.Before(r.FreeUntil) {
		return false
	}

	// the memory in use is the node's, or that of the slices
	if r.MaxUsed == nil || g.MemoryShared || len(g.MIGDevices) > 0 {
		return OpenTo(g, mine)
	}
	return sharedWith(g, mine) && r.LittleUsed(g)
}

// LittleUsed reports whether it is known that at most MaxUsed of the memory of a GPU is in use.
func (r *Request) LittleUsed(g *GPU) bool {
	return readable(g.MemoryUsed, g.MemoryTotal) && 100*float64(*g.MemoryUsed)/float64(*g.MemoryTotal) <= *r.MaxUsed
}

// A Unit is a GPU or a slice of one on a board, with its host.
type Unit struct {
	Host *Host
	GPU  *GPU
}

// String is what book takes for it.
func (o Unit) String() string {
	if o.GPU.Slice != nil && o.GPU.UUID != "" {
		return o.Host.Name + ":" + o.GPU.UUID
	}
	return o.Host.Name + ":" + o.GPU.Label()
}

// Fits reports whether a GPU is of the kind that is wanted.
func (r *Request) Fits(h *Host, g *GPU) bool {
	if r.Slices() != (g.Slice != nil) || len(r.Hosts) > 0 && !slices.Contains(r.Hosts, h.Name) {
		return false
	}
	return g.IsModel(r.Model) && (r.Memory <= 0 || g.MemoryTotal != nil && *g.MemoryTotal >= r.Memory)
}

// IsModel reports whether a GPU's name contains part, in any case.
func (g *GPU) IsModel(part string) bool {
	part = strings.ToLower(part)
	return part == "" || strings.Contains(strings.ToLower(g.Name), part) ||
		strings.Contains(strings.ToLower(g.ShortName), part)
}

// MayBeIn reports whether a board may have what is wanted, by its sums. It has to be asked only if it may.
func (r *Request) MayBeIn(s *Sums) bool {
	count := s.Totals.GPUs
	if r.Slices() {
		count = s.Totals.Slices
	}
	shared := r.MaxUsed != nil || count.ByState[Booked] > 0
	may := func(m Model) bool {
		return m.MIG == r.Slices() && (m.Free > 0 || shared) && m.maybe(r.Model) &&
			(r.Memory <= 0 || m.MemoryTotal != nil && *m.MemoryTotal+1024 >= r.Memory) // as exact as their names
	}
	return slices.ContainsFunc(s.Models, may)
}

// maybe is [GPU.IsModel] of GPUs of a model, whose full name need not be known.
func (m *Model) maybe(part string) bool {
	part = strings.ToLower(part)
	all := ""
	for _, maker := range makers {
		all += strings.ToLower(maker)
		part = strings.TrimPrefix(part, strings.ToLower(maker))
	}
	return strings.Contains(all, part) || strings.Contains(strings.ToLower(m.Name+"\n"+m.FullName), part)
}

// List returns the GPUs and slices of the kind that is wanted that are open.
func (r *Request) List(b *Board, open func(*Host, *GPU) bool) []Unit {
	var list []Unit
	for h, g := range b.Units() {
		if r.Fits(h, g) && open(h, g) {
			list = append(list, Unit{h, g})
		}
	}
	return list
}

// Only returns the board with those GPUs and slices alone, and with totals that count these. All hosts stay.
func (b *Board) Only(keep func(*Host, *GPU) bool) *Board {
	out := *b
	out.Hosts = slices.Clone(b.Hosts)
	for i := range out.Hosts {
		h := &out.Hosts[i]
		var gpus []GPU
		for _, g := range h.GPUs {
			whole := len(g.Slices) == 0
			g.Slices = slices.DeleteFunc(slices.Clone(g.Slices), func(s GPU) bool { return !keep(h, &s) })
			if len(g.Slices) > 0 || whole && keep(h, &g) {
				gpus = append(gpus, g)
			}
		}
		h.GPUs = gpus
	}
	out.Count()
	return &out
}

// Pick takes n GPUs of a list, all on one host if a host has so many; nil if there
// are too few. With fewest it takes the host with the fewest to spare, so that
// larger gaps stay for those who need them, and of several hosts those with most.
func Pick(list []Unit, n int, oneHost, fewest bool) []Unit {
	var hosts [][]Unit
	for _, o := range list {
		i := slices.IndexFunc(hosts, func(h []Unit) bool { return h[0].Host == o.Host })
		if i < 0 {
			i, hosts = len(hosts), append(hosts, nil)
		}
		hosts[i] = append(hosts[i], o)
	}
	if fewest {
		slices.SortStableFunc(hosts, func(a, b []Unit) int { return cmp.Compare(len(a), len(b)) })
	}
	for _, h := range hosts {
		if len(h) >= n {
			return h[:n]
		}
	}
	if oneHost || len(list) < n {
		return nil
	}
	if fewest {
		slices.SortStableFunc(hosts, func(a, b []Unit) int { return cmp.Compare(len(b), len(a)) })
		list = slices.Concat(hosts...)
	}
	return list[:n]
}

// Choose returns all GPUs, or all slices, that may be used now, the preferred ones first. A slice
// that its vendor's runtime has no name for is no use to anybody.
func (r *Request) Choose(b *Board, mine func(string) bool) []Unit {
	open := r.List(b, func(h *Host, g *GPU) bool {
		return r.open(g, mine) && (g.Slice == nil || h.Device(g) != "")
	})
	switch r.Order {
	case "memory":
		slices.SortStableFunc(open, func(x, y Unit) int { return cmp.Compare(unused(y.GPU), unused(x.GPU)) })
	case "power":
		slices.SortStableFunc(open,
			func(x, y Unit) int { return cmp.Compare(orZero(y.GPU.PowerLimit), orZero(x.GPU.PowerLimit)) })
	}
	return open
}

func unused(g *GPU) int64 {
	if g.MemoryTotal == nil {
		return 0
	}
	return *g.MemoryTotal - orZero(g.MemoryUsed)
}

// OpenTo reports whether somebody may use a GPU now: it is free, or booked by them alone and not in use.
func OpenTo(g *GPU, mine func(string) bool) bool {
	return g.State == Free || g.State == Booked && bookedBy(g, mine)
}

// sharedWith reports whether a GPU may be shared with those who use it: nobody else has booked it.
func sharedWith(g *GPU, mine func(string) bool) bool {
	return g.State == Busy || g.State == InUse && bookedBy(g, mine) || OpenTo(g, mine)
}

// bookedBy reports whether somebody, and nobody else, has booked a GPU.
func bookedBy(g *GPU, mine func(string) bool) bool {
	if g.Booking == nil || !g.Booking.ByPerson() || g.MoreOthers > 0 {
		return false
	}
	return mine(g.Booking.Name) && !slices.ContainsFunc(g.Others, func(b Booking) bool { return !mine(b.Name) })
}

// shellSafe reports whether a UUID is one that a shell takes for a word.
func shellSafe(id string) bool {
	return id != "" && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-/") == ""
}

// ParseMemory reads an amount of memory. G is a thousand millions, as on the
// box: a card that is sold with 80 GB reports a little less than 80 GiB.
func ParseMemory(s string) (int64, error) {
	units := []struct {
		name string
		mib  float64
	}{
		{"GIB", 1024}, {"GI", 1024}, {"GB", 1e9 / (1 << 20)}, {"G", 1e9 / (1 << 20)}, {"MIB", 1}, {"MI", 1},
		{"MB", 1e6 / (1 << 20)}, {"M", 1e6 / (1 << 20)},
	}
	for _, u := range units {
		number, ok := strings.CutSuffix(strings.ToUpper(strings.TrimSpace(s)), u.name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(number), 64); err == nil && n >= 0 && n < 1e6 {
			return int64(math.Floor(n * u.mib)), nil
		}
		break
	}
	return 0, fmt.Errorf("%q is no amount of memory; write it as 40G or 500M", s)
}
