package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/failure"
	"gpuboard/sitegen/text"
)

func (a *app) availableCommand() *cobra.Command {
	var w wanted
	var asJSON bool
	c := &cobra.Command{
		Use: "available", Short: "print the free GPUs of this node, for CUDA_VISIBLE_DEVICES", GroupID: groupUse, Args: cobra.NoArgs,
		Long: "available prints the GPUs of this node that you may use now, separated by commas: those that\n" +
			"are free on the board, and those that you have booked and nobody uses. Of a GPU that is\n" +
			"partitioned (MIG) it prints the slices, by UUID in every format. When there are fewer than\n" +
			"asked for it prints none, says on stderr who holds them, and exits with 5.\n" + exitStatus,
		Example: "  CUDA_VISIBLE_DEVICES=$(gpuboard available -l 1 --format uuids) python train.py\n" +
			"  vars=$(gpuboard available -l 2 --min-memory 40G --format env) && env $vars python train.py",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load(c)
			if err != nil {
				return err
			}
			look, err := a.look(cfg)
			if err != nil {
				return err
			}
			look.Color = false
			if err := w.check(c, "indices", "uuids", "env"); err != nil {
				return err
			}
			b, aliases, err := a.thisNode(c.Context(), cfg, cfg.Board())
			if err != nil {
				return err
			}
			if err := a.told(b, unread(b)); err != nil {
				return err
			}
			if w.user == "" {
				w.user = a.bookingName(cfg)
			}
			open := w.choose(b, mine(w.user, aliases))
			enough := len(open) >= max(w.limit, 1)
			if w.limit > 0 && len(open) > w.limit {
				open = open[:w.limit]
			}
			if asJSON {
				err = a.availableJSON(&w, b, open, look)
			} else if enough {
				_, err = fmt.Fprintln(a.stdout, w.format(open))
			}
			if err != nil {
				return fmt.Errorf("writing the answer: %w", err)
			}
			if enough {
				a.warnOfBookings(open, mine(w.user, aliases), look)
				return partial(b)
			}
			for _, line := range w.refusals(b, open, look) {
				fmt.Fprintln(a.stderr, "gpuboard: "+line)
			}
			return failure.New(failure.ExitNoMatch, fmt.Errorf("%s of %d wanted can be used now", counted(len(open), "GPU"), max(w.limit, 1)), "")
		},
	}
	a.flags(c, hereKeys()...)
	w.flags(c)
	c.Flags().IntVarP(&w.limit, "limit", "l", 0, "print so `MANY` and no more (default: all)")
	c.Flags().StringVar(&w.maxUsed, "max-used", "", "give each GPU of which at most this share of memory is used, whoever uses it, such as `20%` (default: those that are free)")
	c.Flags().StringVar(&w.shape, "format", "indices", "`FORMAT`: indices, uuids, or env (both variables that CUDA needs)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON: what is available, and why the rest is not")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"indices", "uuids", "env"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// A wanted is what somebody wants of a GPU.
type wanted struct {
	limit     int // how many; 0 for all there are
	maxUsed   string
	minMemory string
	order     string
	shape     string
	user      string
	model     string
	hosts     []string

	memory int64    // MiB, of minMemory
	share  *float64 // of maxUsed, in percent
}

// flags declares what available and wait have in common.
func (w *wanted) flags(c *cobra.Command) {
	c.Flags().StringVar(&w.minMemory, "min-memory", "", "only GPUs with at least this `MEMORY`, such as 40G as vendors count, or 40Gi")
	c.Flags().StringVar(&w.order, "order", "index", "`ORDER` of preference: index, memory (most free first) or power (highest limit first)")
	c.Flags().StringVar(&w.user, "user", "", "the `NAME` you book under (default: booking.name, else your login name)")
	_ = c.RegisterFlagCompletionFunc("order", cobra.FixedCompletions([]string{"index", "memory", "power"}, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses what makes no sense.
func (w *wanted) check(c *cobra.Command, shapes ...string) (err error) {
	if !slices.Contains(shapes, w.shape) {
		return failure.Usage("", "--format: %q is none of %s", w.shape, strings.Join(shapes, ", "))
	}
	if !slices.Contains([]string{"index", "memory", "power"}, w.order) {
		return failure.Usage("", "--order: %q is none of index, memory, power", w.order)
	}
	if f := c.Flags().Lookup("limit"); f != nil && f.Changed && w.limit < 1 {
		return failure.Usage("", "--limit: at least 1, not %d", w.limit)
	}
	if w.minMemory != "" {
		if w.memory, err = mebibytes(w.minMemory); err != nil {
			return failure.Usage("for instance --min-memory 40G", "--min-memory: %w", err)
		}
	}
	if w.maxUsed != "" {
		percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(w.maxUsed, "%")), 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return failure.Usage("for instance --max-used 20%", "--max-used: %q is no share of the memory from 0%% to 100%%", w.maxUsed)
		}
		w.share = &percent
	}
	return nil
}

// mebibytes reads an amount of memory. G is a thousand millions, as on the
// box: a card that is sold with 80 GB reports a little less than 80 GiB.
func mebibytes(s string) (int64, error) {
	units := []struct {
		name string
		mib  float64
	}{{"GIB", 1024}, {"GI", 1024}, {"GB", 1e9 / (1 << 20)}, {"G", 1e9 / (1 << 20)}, {"MIB", 1}, {"MI", 1}, {"MB", 1e6 / (1 << 20)}, {"M", 1e6 / (1 << 20)}}
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

// open reports whether somebody may use a GPU now, by the states of the board
// or, where --max-used is given, by the share of its memory that is in use.
func (w *wanted) open(g *board.GPU, mine func(string) bool) bool {
	if w.share == nil || g.MemoryShared || len(g.MIGDevices) > 0 { // the memory in use is the node's, or that of the slices
		return openTo(g, mine)
	}
	return sharedWith(g, mine) && littleUsed(g, *w.share)
}

// littleUsed reports whether it is known that at most a share of the memory of
// a GPU, in percent, is in use.
func littleUsed(g *board.GPU, percent float64) bool {
	used, total := g.MemoryUsed, g.MemoryTotal
	return used != nil && total != nil && *used >= 0 && *used <= *total && *total > 0 && 100*float64(*used)/float64(*total) <= percent
}

// An openGPU is one that may be used now.
type openGPU struct {
	host *board.Host
	gpu  *board.GPU
}

// String is what book takes for it.
func (o openGPU) String() string {
	if o.gpu.Slice != nil {
		return o.host.Name + ":" + o.gpu.UUID
	}
	return o.host.Name + ":" + strconv.Itoa(o.gpu.Index)
}

// fits reports whether a GPU is of the kind that is wanted.
func (w *wanted) fits(h *board.Host, g *board.GPU) bool {
	if len(w.hosts) > 0 && !slices.Contains(w.hosts, h.Name) {
		return false
	}
	if w.model != "" && !strings.Contains(strings.ToLower(g.Name), strings.ToLower(w.model)) && !strings.Contains(strings.ToLower(g.ShortName), strings.ToLower(w.model)) {
		return false
	}
	return w.memory <= 0 || g.MemoryTotal != nil && *g.MemoryTotal >= w.memory
}

// list returns the GPUs and slices of the kind that is wanted that are open.
func (w *wanted) list(b *board.Board, open func(*board.Host, *board.GPU) bool) []openGPU {
	var list []openGPU
	for i := range b.Hosts {
		h := &b.Hosts[i]
		for g := range h.Units() {
			if w.fits(h, g) && open(h, g) {
				list = append(list, openGPU{h, g})
			}
		}
	}
	return list
}

// pick takes n GPUs of a list, all on one host if a host has so many; nil if there
// are too few. With fewest it takes the host with the fewest to spare, so that
// larger gaps stay for those who need them, and of several hosts those with most.
func pick(list []openGPU, n int, oneHost, fewest bool) []openGPU {
	var hosts [][]openGPU
	for _, o := range list {
		i := slices.IndexFunc(hosts, func(h []openGPU) bool { return h[0].host == o.host })
		if i < 0 {
			i, hosts = len(hosts), append(hosts, nil)
		}
		hosts[i] = append(hosts[i], o)
	}
	if fewest {
		slices.SortStableFunc(hosts, func(a, b []openGPU) int { return cmp.Compare(len(a), len(b)) })
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
		slices.SortStableFunc(hosts, func(a, b []openGPU) int { return cmp.Compare(len(b), len(a)) })
		list = slices.Concat(hosts...)
	}
	return list[:n]
}

// choose returns all GPUs and slices that may be used now, the preferred ones
// first. CUDA does not mix the two, so that GPUs come before slices. A slice is
// named by its UUID alone, so one without is no use to anybody.
func (w *wanted) choose(b *board.Board, mine func(string) bool) []openGPU {
	open := w.list(b, func(_ *board.Host, g *board.GPU) bool {
		return w.open(g, mine) && (g.Slice == nil || shellSafe(g.UUID))
	})
	switch w.order {
	case "index":
		slices.SortStableFunc(open, func(x, y openGPU) int {
			switch {
			case x.host != y.host || (x.gpu.Slice == nil) == (y.gpu.Slice == nil):
				return 0
			case x.gpu.Slice == nil:
				return -1
			}
			return 1
		})
	case "memory":
		slices.SortStableFunc(open, func(x, y openGPU) int { return cmp.Compare(unused(y.gpu), unused(x.gpu)) })
	case "power":
		limit := func(g *board.GPU) float64 {
			if g.PowerLimit == nil {
				return 0
			}
			return *g.PowerLimit
		}
		slices.SortStableFunc(open, func(x, y openGPU) int { return cmp.Compare(limit(y.gpu), limit(x.gpu)) })
	}
	return open
}

func unused(g *board.GPU) int64 {
	switch {
	case g.MemoryTotal == nil:
		return 0
	case g.MemoryUsed == nil:
		return *g.MemoryTotal
	default:
		return *g.MemoryTotal - *g.MemoryUsed
	}
}

// format writes the answer as it was asked for.
func (w *wanted) format(open []openGPU) string {
	var list []string
	for _, o := range open {
		switch w.shape {
		case "uuids":
			list = append(list, deviceID(o.gpu))
		case "host:index":
			list = append(list, o.String())
		case "indices", "env":
			if o.gpu.Slice == nil {
				list = append(list, strconv.Itoa(o.gpu.Index))
			} else { // what CUDA_VISIBLE_DEVICES takes
				list = append(list, o.gpu.UUID)
			}
		}
	}
	s := strings.Join(list, ",")
	if w.shape == "env" {
		// CUDA counts by speed unless it is told to count as nvidia-smi does.
		return "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=" + s
	}
	return s
}

// deviceID is what CUDA knows a device by whatever its order: the UUID. Shells see
// it, so what is not of that shape is left out in favour of the index.
func deviceID(g *board.GPU) string {
	if !shellSafe(g.UUID) {
		return strconv.Itoa(g.Index)
	}
	return g.UUID
}

// shellSafe reports whether a UUID is one that a shell takes for a word.
func shellSafe(id string) bool {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '/'
	}
	return id != "" && strings.IndexFunc(id, func(r rune) bool { return !plain(r) }) < 0
}

// warnOfBookings says until when the chosen GPUs are free, where somebody else
// is to have them within a day.
func (a *app) warnOfBookings(open []openGPU, mine func(string) bool, look text.Options) {
	for _, o := range open {
		if next := o.gpu.Next; next != nil && !mine(next.Name) && next.From.Sub(a.now()) <= 24*time.Hour {
			fmt.Fprintf(a.stderr, "gpuboard: %s is booked by %s from %s\n", o, failure.Printable(next.Name), next.From.In(look.Zone).Format("Mon 15:04"))
		}
	}
}

// refusals are the reasons why the other GPUs cannot be used, one a line.
func (w *wanted) refusals(b *board.Board, open []openGPU, look text.Options) []string {
	var lines []string
	for i := range b.Hosts {
		h := &b.Hosts[i]
		for g := range h.Units() {
			if slices.ContainsFunc(open, func(o openGPU) bool { return o.gpu == g }) {
				continue
			}
			why := w.why(b, g, look)
			switch {
			case !w.fits(h, g):
				why = "has not the memory wanted"
			case why == "" && g.Slice != nil:
				why = "its UUID is not known, and CUDA knows a slice by nothing else: is `nvidia-smi -L` well?"
			}
			lines = append(lines, "gpu "+g.Label()+": "+why)
		}
	}
	return lines
}

// why is the reason why a GPU was not chosen.
func (w *wanted) why(b *board.Board, g *board.GPU, look text.Options) string {
	if w.share != nil && g.State != board.Unknown && g.State != board.Lost && !littleUsed(g, *w.share) {
		return strings.TrimPrefix(text.Why(b, g, look)+"; more than "+strconv.FormatFloat(*w.share, 'g', -1, 64)+" % of its memory is in use", "; ")
	}
	return text.Why(b, g, look)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// availableJSON is the answer for programs: what was chosen and all others,
// whatever the outcome.
func (a *app) availableJSON(w *wanted, b *board.Board, open []openGPU, look text.Options) error {
	type one struct {
		Index       int         `json:"index"`
		Slice       *int        `json:"mig_device"`
		UUID        string      `json:"uuid"`
		Name        string      `json:"name"`
		State       board.State `json:"state"`
		MemoryTotal *int64      `json:"memory_total_mib"`
		MemoryUsed  *int64      `json:"memory_used_mib"`
		FreeUntil   *time.Time  `json:"free_until"`
		Why         string      `json:"why,omitempty"`
	}
	doc := struct {
		Schema    int    `json:"schema_version"`
		Host      string `json:"host"`
		Available []one  `json:"available"`
		Others    []one  `json:"others"`
	}{Schema: 1, Host: b.Hosts[0].Name, Available: []one{}, Others: []one{}}
	row := func(g *board.GPU) one {
		o := one{Index: g.Index, Slice: g.SliceIndex(), UUID: g.UUID, Name: g.Name, State: g.State, MemoryTotal: g.MemoryTotal, MemoryUsed: g.MemoryUsed}
		if !g.FreeUntil.IsZero() {
			o.FreeUntil = &g.FreeUntil
		}
		return o
	}
	taken := map[*board.GPU]bool{}
	for _, o := range open {
		doc.Available = append(doc.Available, row(o.gpu))
		taken[o.gpu] = true
	}
	for g := range b.Hosts[0].Units() {
		if !taken[g] {
			o := row(g)
			o.Why = w.why(b, g, look)
			doc.Others = append(doc.Others, o)
		}
	}
	return writeJSON(a.stdout, doc)
}
