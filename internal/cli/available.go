package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/source"
	"gpuboard/sitegen/text"
)

func (a *app) availableCommand() *cobra.Command {
	var w wanted
	var asJSON bool
	c := &cobra.Command{
		Use: "available [HOST…]", Short: "print the free GPUs of this node, for scripts", GroupID: groupUse,
		Long: "available prints the GPUs of this node that you may use now, separated by commas: free GPUs,\n" +
			"and GPUs that you have booked and nobody uses. With --mig it prints MIG slices instead, by\n" +
			"UUID. If there are fewer than you ask for, it prints none, names the users on stderr and exits\n" +
			"with 5.\n\n" +
			"With --format host:index, and on a machine without GPUs where sites: names other clusters, it\n" +
			"prints those of the board and then of these clusters, as book takes them: north/gpu01:0. HOST,\n" +
			"with * and ? if need be, NAME/HOST or NAME/ says where.\n" + exitStatus,
		Example: "  gpuboard available\n  CUDA_VISIBLE_DEVICES=$(gpuboard available -l 1 --format uuids) python train.py\n" +
			"  vars=$(gpuboard available -l 2 --min-memory 40G --format env) && env $vars python train.py\n" +
			"  gpuboard available --booked-only\n  gpuboard available -l 2 --model a100 --format host:index",
		ValidArgsFunction: a.completeHosts,
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			look := a.look(cfg)
			look.Color = false
			if err := w.check(c, "indices", "uuids", "env", "host:index"); err != nil {
				return err
			}
			if _, err := strconv.Atoi(strings.Join(args, "")); err == nil {
				return failure.Usage("did you mean gpuboard available --limit "+args[0], "%q is a number, and no host",
					args[0])
			}
			w.user = cmp.Or(w.user, a.bookingName(cfg))
			b, mine, open, err := a.open(c, cfg, &w, args)
			if err != nil {
				return err
			}
			enough := len(open) >= max(w.limit, 1)
			if len(open) > 0 {
				w.vendor = open[0].GPU.Maker()
			}
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
			slices := w.Request
			slices.MIG = true
			if n := len(slices.Choose(b, mine)); n > 0 && !w.MIG && (w.limit == 0 || !enough) {
				fmt.Fprintf(a.stderr, "gpuboard: %s can be had with --mig\n", board.Number(n, "MIG slice"))
			}
			if enough {
				a.warnOfBookings(open, mine, look)
				return partial(b)
			}
			for _, g := range others(b, open) {
				if w.Slices() == (g.Slice != nil) {
					fmt.Fprintf(a.stderr, "gpuboard: gpu %s: %s\n", g.Label(), w.why(b, &b.Hosts[0], g, look))
				}
			}
			what, hint := w.count(len(open)), ""
			if w.Booked {
				what += " booked by " + w.user
			}
			if len(cfg.Sites()) > 0 && len(b.Hosts) > 0 {
				hint = "other clusters may have some: " +
					shell.Join(append(commandLine(c, "format"), "--format", "host:index")...)
			}
			return failure.New(failure.ExitNoMatch,
				fmt.Errorf("%s can be used now; you want %d", what, max(w.limit, 1)), hint)
		}),
	}
	a.flags(c, hereKeys()...)
	w.flags(c)
	c.Flags().IntVarP(&w.limit, "limit", "l", 0, "print at most `NUMBER` GPUs (default: all)")
	c.Flags().BoolVar(&w.Booked, "booked-only", false,
		"only GPUs that you have booked now, for programs that start jobs")
	c.Flags().StringVar(&w.maxUsed, "max-used", "",
		"also GPUs of whose memory at most `20%` is used (default: free GPUs only)")
	c.Flags().StringVar(&w.shape, "format", "indices",
		"`FORMAT`: indices, uuids, env (the variables that CUDA, or AMD's ROCm, needs), or host:index of all hosts")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	completes(c, "format", "indices", "uuids", "env", "host:index")
	return c
}

// open returns what can be used, and the board of this node; an empty one where all boards are asked, or those that
// places are of.
func (a *app) open(c *cobra.Command, cfg *config.Config, w *wanted, places []string) (
	b *board.Board, mine func(string) bool, open []board.Unit, err error,
) {
	everywhere := len(places) > 0 || w.shape == "host:index"
	if !everywhere {
		node, aliases, err := source.ThisNode(c.Context(), a.source(cfg), a.node(cfg))
		if err != nil {
			return nil, nil, nil, err
		}
		missing := a.gpusMissing(cfg, node)
		if everywhere = missing != nil && noDriver(node) && len(cfg.Sites()) > 0 &&
			!c.Flags().Changed("format"); !everywhere {
			mine = aliases.Mine(w.user)
			return node, mine, board.OneVendor(w.Choose(node, mine), w.limit), a.withProblems(node, missing)
		}
	}
	if c.Flags().Changed("format") && w.shape != "host:index" {
		return nil, nil, nil, failure.Usage("without --format it prints HOST:INDEX, as book takes it",
			"--format %s is for this node alone", w.shape)
	}
	w.shape = "host:index"
	mine = a.asking(cfg, w.user).Aliases.Mine(w.user)
	open, err = a.openEverywhere(c.Context(), cfg, w, places, mine)
	return &board.Board{}, mine, open, err
}

type wanted struct {
	board.Request
	limit     int // how many; 0 for all there are
	maxUsed   string
	minMemory string
	shape     string
	vendor    snapshot.Vendor // of what was chosen
	user      string
}

// count is so many of what is wanted, in words.
func (w *wanted) count(n int) string {
	if w.Slices() {
		return board.Number(n, "MIG slice")
	}
	return board.Number(n, "GPU")
}

// flags declares what available and wait have in common.
func (w *wanted) flags(c *cobra.Command) {
	c.Flags().BoolVar(&w.MIG, "mig", false, "MIG slices, and not whole GPUs")
	c.Flags().StringVar(&w.Model, "model", "", "only GPUs whose name contains this `TEXT`")
	c.Flags().StringVar(&w.minMemory, "min-memory", "",
		"only GPUs with at least this `MEMORY`, such as 40G (as vendors count) or 40Gi")
	c.Flags().StringVar(&w.Order, "order", "index",
		"prefer by `ORDER`: index, memory or power (most free memory or highest limit first)")
	c.Flags().StringVar(&w.user, "user", "", "the `NAME` you book under (default: booking.name, else your login name)")
	completes(c, "order", "index", "memory", "power")
}

// hint is where else there may be something, if there are too few GPUs.
func (w *wanted) hint() string {
	if w.Slices() {
		return ""
	}
	return "gpuboard status shows what there is; MIG slices count with --mig"
}

// readMemory reads --min-memory.
func (w *wanted) readMemory() (err error) {
	if w.minMemory == "" {
		return nil
	}
	if w.Memory, err = board.ParseMemory(w.minMemory); err != nil {
		return failure.Usage("for instance --min-memory 40G", "--min-memory: %w", err)
	}
	return nil
}

func (w *wanted) check(c *cobra.Command, shapes ...string) error {
	if !slices.Contains(shapes, w.shape) {
		return failure.Usage("", "--format: %q is none of %s", w.shape, strings.Join(shapes, ", "))
	}
	if !slices.Contains([]string{"index", "memory", "power"}, w.Order) {
		return failure.Usage("", "--order: %q is none of index, memory, power", w.Order)
	}
	if f := c.Flags().Lookup("limit"); f != nil && f.Changed && w.limit < 1 {
		return failure.Usage("", "--limit: at least 1, not %d", w.limit)
	}
	if err := w.readMemory(); err != nil {
		return err
	}
	if w.maxUsed != "" {
		percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(w.maxUsed, "%")), 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return failure.Usage("for instance --max-used 20%",
				"--max-used: %q is no share of the memory from 0%% to 100%%", w.maxUsed)
		}
		w.MaxUsed = &percent
	}
	return nil
}

func (w *wanted) format(open []board.Unit) string {
	if w.shape == "env" {
		return board.Environment(open)
	}
	var list []string
	for _, o := range open {
		switch w.shape {
		case "uuids":
			list = append(list, o.Host.Device(o.GPU))
		case "host:index":
			list = append(list, o.String())
		case "indices":
			if o.GPU.Slice == nil {
				list = append(list, strconv.Itoa(o.GPU.Index))
			} else { // what the variable of the runtime takes
				list = append(list, o.Host.Device(o.GPU))
			}
		}
	}
	return strings.Join(list, ",")
}

// warnOfBookings says until when chosen GPUs are free, where somebody else has booked them within a day.
func (a *app) warnOfBookings(open []board.Unit, mine func(string) bool, look text.Options) {
	for _, o := range open {
		if next := o.GPU.Next; next != nil && !mine(next.Name) && next.From.Sub(a.now()) <= 24*time.Hour {
			fmt.Fprintf(a.stderr, "gpuboard: %s is booked by %s from %s\n", o, failure.Printable(next.Name),
				next.From.In(look.Zone).Format("Mon 15:04"))
		}
	}
}

// why is the reason why a GPU was not chosen.
func (w *wanted) why(b *board.Board, h *board.Host, g *board.GPU, look text.Options) string {
	why := text.Why(b, g, look)
	switch {
	case w.Slices() && g.Slice == nil:
		return "a whole GPU, and slices are wanted"
	case !w.Slices() && g.Slice != nil:
		return "a MIG slice, which --mig prints"
	case !g.IsModel(w.Model):
		return "is no " + w.Model
	case !w.Fits(h, g):
		return "has not the memory wanted"
	case why == "" && w.Booked:
		return "not booked by " + w.user
	case why == "" && w.vendor != "" && g.Maker() != w.vendor:
		return "of another vendor than those chosen"
	case w.MaxUsed != nil && g.State != board.Unknown && g.State != board.Lost && !w.LittleUsed(g):
		return strings.TrimPrefix(
			why+"; more than "+strconv.FormatFloat(*w.MaxUsed, 'g', -1, 64)+" % of its memory is in use", "; ")
	case why == "" && g.Slice != nil:
		return "its UUID is not known, and CUDA knows a slice by nothing else: is `nvidia-smi -L` well?"
	}
	return why
}

// others are the GPUs of this node that were not chosen.
func others(b *board.Board, open []board.Unit) (list []*board.GPU) {
	for _, g := range b.Units() {
		if !slices.ContainsFunc(open, func(o board.Unit) bool { return o.GPU == g }) {
			list = append(list, g)
		}
	}
	return list
}

// availableJSON prints the answer for programs: what was chosen and, of this node, all others. Without a node each has
// its site and host.
func (a *app) availableJSON(w *wanted, b *board.Board, open []board.Unit, look text.Options) error {
	type one struct {
		Site        string      `json:"site,omitempty"`
		Host        string      `json:"host,omitempty"`
		Index       int         `json:"index"`
		Slice       *int        `json:"mig_device"`
		Vendor      string      `json:"vendor"`
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
		Host      string `json:"host,omitempty"`
		Available []one  `json:"available"`
		Others    []one  `json:"others"`
	}{Schema: 1, Available: []one{}, Others: []one{}}
	row := func(g *board.GPU) one {
		o := one{Index: g.Index, Slice: g.SliceIndex(), Vendor: string(g.Maker()), UUID: g.UUID, Name: g.Name,
			State: g.State, MemoryTotal: g.MemoryTotal, MemoryUsed: g.MemoryUsed}
		if !g.FreeUntil.IsZero() {
			o.FreeUntil = &g.FreeUntil
		}
		return o
	}
	if len(b.Hosts) > 0 {
		doc.Host = b.Hosts[0].Name
	}
	for _, o := range open {
		unit := row(o.GPU)
		if doc.Host == "" {
			unit.Site, unit.Host = siteOf(o)
		}
		doc.Available = append(doc.Available, unit)
	}
	for _, g := range others(b, open) {
		o := row(g)
		o.Why = w.why(b, &b.Hosts[0], g, look)
		doc.Others = append(doc.Others, o)
	}
	return writeJSON(a.stdout, doc)
}
